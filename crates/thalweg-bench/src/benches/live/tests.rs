//! Proves, without a network, the evaluation of recordings.

use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::Ratio;

use super::condition::Condition;
use super::fairness::{goodput_bps, jain, share_vs_fair};
use super::importance::tenth;
use super::recording::{Arrival, Recording};
use super::schedule::{Due, Schedule, number_of, payload};
use super::sides::ALL;
use super::stall::{Case, turns};
use super::videos::{Videos, WARM_UP};

/// Returns half a second of the videos, without the warm-up.
fn videos() -> Videos {
    Videos::new(Duration::from_millis(500)).expect("room for eight layers")
}

/// Returns a recording with these latencies of the videos' ADUs; `None` did not arrive.
fn record(videos: &Videos, latency: impl Fn(&Due) -> Option<Duration>) -> Recording {
    let begin = Instant::ZERO + Duration::from_secs(7);
    let dues = videos.schedule().dues();
    let arrivals = (0..).zip(dues).filter_map(|(number, due)| {
        Some(Arrival {
            number,
            at: begin + due.at + latency(due)?,
            bytes: due.bytes,
        })
    });
    Recording::new(videos.schedule(), begin, &arrivals.collect::<Vec<_>>())
}

#[test]
fn videos_have_32_mbps_and_top_bases() {
    let videos = videos();
    let bytes: usize = videos.judged().map(|(_, due)| due.bytes).sum();
    let mbps = bytes as f64 * 8.0 / 1e6 / 0.5;
    // Headers take 6 % of the small layers, and the codec leaves a little of its budgets.
    assert!((28.0..=32.0).contains(&mbps), "{mbps}");
    for (_, due) in videos.judged() {
        assert_eq!(tenth(due.importance) == 9, due.layer == 0, "{due:?}");
    }
    assert!(videos.judged().all(|(_, due)| due.at >= WARM_UP));
}

#[test]
fn frame_needs_base_in_time() {
    let videos = videos();
    let millis = Duration::from_millis;
    let early = millis(30);
    let look = |recording: &Recording, threshold| {
        let look = videos.look(recording, threshold);
        look.expect("one size of pictures")
    };
    let whole = record(&videos, |_| Some(early));
    assert!(look(&whole, millis(30)).fps > 29.0);
    assert!(look(&whole, millis(29)).fps < 0.1);
    let bases = record(&videos, |due| (due.layer == 0).then_some(early));
    let gap = record(&videos, |due| (due.layer != 1).then_some(early));
    let late = record(&videos, |due| match due.layer {
        0 => Some(early),
        _ => Some(millis(500)),
    });
    let seen = look(&bases, millis(100));
    // Layers above a missing one are useless, and late ones are not there yet.
    assert_eq!(look(&gap, millis(100)), seen);
    assert_eq!(look(&late, millis(100)), seen);
    assert_eq!(look(&late, millis(500)), look(&whole, millis(100)));
    assert!(look(&whole, millis(100)).psnr_y_db > seen.psnr_y_db + 10.0);
    // Every second frame: the previous one on the screen is worse than a coarse one of its own.
    let halves = record(&videos, |due| {
        (due.layer == 0 && due.frame % 2 == 0).then_some(early)
    });
    let half = look(&halves, millis(100));
    assert!((14.0..=16.5).contains(&half.fps), "{half:?}");
    assert!(half.psnr_y_db < seen.psnr_y_db, "{half:?} {seen:?}");
}

#[test]
fn recording_takes_first_whole_arrival() {
    let due = Due {
        at: Duration::from_millis(10),
        stream: 0,
        frame: 0,
        layer: 0,
        layers: 1,
        importance: 255,
        bytes: 100,
    };
    let schedule = Schedule::new(vec![due, Due { frame: 1, ..due }]);
    let came = |number, millis, bytes| Arrival {
        number,
        at: Instant::ZERO + Duration::from_millis(millis),
        bytes,
    };
    let arrivals = [
        came(0, 15, 100),
        came(0, 40, 100),
        came(1, 20, 99),
        came(7, 20, 100),
    ];
    let recording = Recording::new(&schedule, Instant::ZERO, &arrivals);
    assert_eq!(recording.latency(0), Some(Duration::from_millis(5)));
    assert_eq!((recording.latency(1), recording.latency(7)), (None, None));
}

#[test]
fn schedule_round_trips() {
    let videos = videos();
    let text = videos.schedule().text();
    assert_eq!(Schedule::of_text(&text).as_ref(), Some(videos.schedule()));
    assert_eq!(Schedule::of_text("1 2 3"), None);
    assert_eq!(number_of(&payload(70_000, 100)), Some(70_000));
    assert_eq!(number_of(&payload(7, 0)), Some(7));
    assert_eq!(number_of(&[0; 3]), None);
}

#[test]
fn queue_and_idle_latency_add_up() {
    let condition = Condition::new(100, 5);
    assert_eq!(condition.name(), "rtt100_bdp5");
    // 10 Mbit/s for 100 ms are 125,000 bytes.
    assert_eq!(condition.queue().as_bytes(), 625_000);
    assert_eq!(condition.idle(1_250), Duration::from_millis(51));
}

#[test]
fn shares_exclude_start() {
    let second = Duration::from_secs(1);
    let since = Instant::ZERO + second;
    let came = |number, millis| Arrival {
        number,
        at: Instant::ZERO + Duration::from_millis(millis),
        bytes: 125,
    };
    // Before, within, within, of no flow, after.
    let arrivals = [
        came(0, 999),
        came(0, 1_000),
        came(1, 1_999),
        came(2, 1_500),
        came(0, 2_000),
    ];
    assert_eq!(goodput_bps(2, &arrivals, since, second), [1_000.0, 1_000.0]);
    let is = |value: f64, wanted: f64| assert!((value - wanted).abs() < 1e-12, "{value}");
    is(share_vs_fair(&[vec![3.0, 3.0], vec![1.0, 1.0]]), 1.5);
    is(jain(&[2.0, 2.0, 2.0]), 1.0);
    is(jain(&[4.0, 0.0, 0.0, 0.0]), 0.25);
}

#[test]
fn failover_sides_get_second_line() {
    let turns = turns(&ALL);
    let with: Vec<_> = turns
        .iter()
        .filter(|turn| !turn.is_alone)
        .map(|turn| (turn.side.name(), turn.metrics()[0]))
        .collect();
    let metric = "max_ms_with_failover";
    assert_eq!(with, [("pace_k", metric), ("pace_a", metric)]);
    assert_eq!(turns.len(), ALL.len() + 2);
}

#[test]
fn every_event_is_undone() {
    for case in Case::ALL {
        let events = case.events();
        let (bad, good) = events.split_at(events.len() / 2);
        assert!(
            bad.iter()
                .all(|event| !event.impairment.up || event.impairment.loss > Ratio::ZERO)
        );
        for (bad, good) in bad.iter().zip(good) {
            assert!(bad.at < good.at && bad.line == good.line);
            assert!(good.impairment.up && good.impairment.loss == Ratio::ZERO);
        }
    }
}
