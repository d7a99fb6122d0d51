//! Proves the promises of docs/concepts/congestion.md on the node's own QUIC in virtual time: alone, the
//! queue
//! stays short and the line is used; among flows that fill the queue, the share is fair; changing,
//! lossy or lightly used lines do not mislead the controller. The bounds are the promised ones;
//! measured values are better.

use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize, Ratio};
use thalweg_link::congestion::{Algorithm, Mode};
use thalweg_netem::Impairment;
use thalweg_sim::dumbbell::{Dumbbell, Flow, Load, Tally};
use thalweg_sim::play::{Options, play};
use thalweg_world::Format;

use super::worlds::run_by_law;

/// Size of a packet on the line.
const PACKET: DataSize = DataSize::from_bytes(1_480);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Returns a line of this rate with a queue of `bdps` bandwidth-delay products.
fn line(mbps: u64, rtt: Duration, bdps: u64) -> Impairment {
    let rate = Bitrate::from_kbps(mbps * 1_000);
    let bdp = (rate * rtt).as_bytes();
    Impairment {
        rate,
        queue: DataSize::from_bytes(bdp * bdps),
        ..Impairment::default()
    }
}

fn used(tally: &Tally, rate: Bitrate, time: Duration) -> f64 {
    tally.total().as_bytes() as f64 / (rate * time).as_bytes() as f64
}

fn shares(tally: &Tally) -> Vec<f64> {
    let fair = tally.total().as_bytes() as f64 / tally.carried.len() as f64;
    let of = |size: &DataSize| size.as_bytes() as f64 / fair;
    tally.carried.iter().map(of).collect()
}

#[test]
fn lone_flow_fills_line_with_short_queue() {
    for (mbps, rtt, bdps) in [(1, 50, 1), (5, 20, 5), (5, 100, 1), (10, 50, 5)] {
        let rtt = ms(rtt);
        let line = line(mbps, rtt, bdps);
        let mut dumbbell = Dumbbell::new(line, &[Flow::bulk(Algorithm::Thalweg, rtt)], 1);
        dumbbell.run_for(secs(4));
        let tally = dumbbell.run_for(secs(10));
        let used = used(&tally, line.rate, secs(10));
        assert!(used >= 0.95, "{mbps} Mbit/s, {rtt}, {bdps} BDP: {used}");
        let eighth = Duration::from_nanos(rtt.as_nanos() / 8);
        let few = line
            .rate
            .time_for(DataSize::from_bytes(3 * PACKET.as_bytes()));
        let wait = tally.wait(0.95);
        assert!(
            wait <= eighth + ms(3) + few,
            "{mbps} Mbit/s, {rtt}, {bdps} BDP: {wait}"
        );
    }
}

/// Averaged over three seeds: for single ones, the share was 0.74 to 1.15 of the fair one over eight seeds.
#[test]
fn share_beside_cubic_is_fair() {
    for bdps in [1, 5] {
        let rtt = ms(20);
        let flows = [Algorithm::Thalweg, Algorithm::Cubic].map(|each| Flow::bulk(each, rtt));
        let share_of = |seed| {
            let mut dumbbell = Dumbbell::new(line(10, rtt, bdps), &flows, seed);
            dumbbell.run_for(secs(10));
            shares(&dumbbell.run_for(secs(40)))[0]
        };
        let share = (1..=3).map(share_of).sum::<f64>() / 3.0;
        assert!((0.8..=1.25).contains(&share), "{bdps} BDP: {share}");
    }
}

/// A single `NewReno` halves its window and so drains a queue of 1 BDP at each loss, so the queue looks
/// uncontested. The fair share would be 1; docs/concepts/congestion.md lists this as a shortcoming.
#[test]
fn none_of_many_starves_beside_cubic() {
    let rtt = ms(20);
    let ours = [Algorithm::Thalweg; 4].into_iter();
    let flows: Vec<_> = ours
        .chain([Algorithm::Cubic])
        .map(|each| Flow::bulk(each, rtt))
        .collect();
    let mut dumbbell = Dumbbell::new(line(10, rtt, 5), &flows, 1);
    dumbbell.run_for(secs(10));
    let shares = shares(&dumbbell.run_for(secs(20)));
    // Three of them once had 0.1 each: at two packets per round trip they took the others' queue for
    // their own slow line.
    assert!(shares.iter().all(|share| *share >= 0.6), "{shares:?}");
}

#[test]
fn new_reno_takes_more_on_short_queue() {
    let rtt = ms(20);
    let flows = [Algorithm::Thalweg, Algorithm::NewReno].map(|each| Flow::bulk(each, rtt));
    let mut dumbbell = Dumbbell::new(line(10, rtt, 1), &flows, 1);
    dumbbell.run_for(secs(10));
    let share = shares(&dumbbell.run_for(secs(40)))[0];
    assert!((0.3..0.8).contains(&share), "{share}");
}

#[test]
fn queue_shortens_after_rivals_leave() {
    let rtt = ms(20);
    let rival = Flow {
        ends: Instant::ZERO + secs(10),
        ..Flow::bulk(Algorithm::Cubic, rtt)
    };
    let flows = [Flow::bulk(Algorithm::Thalweg, rtt), rival];
    let mut dumbbell = Dumbbell::new(line(10, rtt, 5), &flows, 1);
    dumbbell.run_for(secs(10));
    let mode = |dumbbell: &mut Dumbbell| dumbbell.sender(0).congestion().map(|own| own.mode());
    assert_eq!(mode(&mut dumbbell), Some(Mode::Compete));
    // Time for the rival's queue to drain, one probe, and a second one if that came too early.
    dumbbell.run_for(secs(35));
    assert_eq!(mode(&mut dumbbell), Some(Mode::Quiet));
    let wait = dumbbell.run_for(secs(5)).wait(0.95);
    assert!(wait < ms(15), "{wait}");
}

#[test]
fn own_flows_share_short_queue() {
    let flows = [50; 2].map(|rtt| Flow::bulk(Algorithm::Thalweg, ms(rtt)));
    let mut dumbbell = Dumbbell::new(line(10, ms(50), 1), &flows, 1);
    dumbbell.run_for(secs(10));
    let tally = dumbbell.run_for(secs(20));
    let share = shares(&tally)[0];
    assert!((0.8..=1.25).contains(&share), "{share}");
    assert!(tally.wait(0.95) < ms(20), "{}", tally.wait(0.95));
    assert!(used(&tally, Bitrate::from_kbps(10_000), secs(20)) > 0.95);
}

/// With round-trip times this different the flows may take each other for queue-filling ones and fill
/// the queue themselves: the share stays fair, the short queue does not. docs/concepts/congestion.md names
/// this
/// weakness. Averaged over three seeds: for single ones, the share was 0.70 to 1.38 of the fair one
/// over eight seeds.
#[test]
fn unequal_rtts_keep_share() {
    let flows = [20, 100].map(|rtt| Flow::bulk(Algorithm::Thalweg, ms(rtt)));
    let share_of = |seed| {
        let mut dumbbell = Dumbbell::new(line(10, ms(50), 1), &flows, seed);
        dumbbell.run_for(secs(15));
        shares(&dumbbell.run_for(secs(40)))[0]
    };
    let share = (1..=3).map(share_of).sum::<f64>() / 3.0;
    assert!((0.65..=1.35).contains(&share), "{share}");
}

#[test]
fn rate_step_is_followed() {
    let rtt = ms(50);
    let fast = line(10, rtt, 5);
    let slow = Impairment {
        rate: Bitrate::from_kbps(2_000),
        ..fast
    };
    let mut dumbbell = Dumbbell::new(fast, &[Flow::bulk(Algorithm::Thalweg, rtt)], 1);
    dumbbell.run_for(secs(5));
    dumbbell.change(slow);
    dumbbell.run_for(secs(2));
    let tally = dumbbell.run_for(secs(5));
    assert!(used(&tally, slow.rate, secs(5)) > 0.95);
    assert!(tally.wait(0.95) < ms(30), "{}", tally.wait(0.95));
    dumbbell.change(fast);
    dumbbell.run_for(secs(2));
    let tally = dumbbell.run_for(secs(5));
    assert!(used(&tally, fast.rate, secs(5)) > 0.95);
    let sendable = dumbbell.sender(0).congestion().map(|own| own.sendable());
    let sendable = sendable.unwrap_or_default().as_mbps_f64();
    assert!((8.5..10.5).contains(&sendable), "{sendable}");
}

#[test]
fn random_loss_is_not_congestion() {
    let rtt = ms(100);
    let line = Impairment {
        loss: Ratio::new(0.01).expect("a share"),
        ..line(10, rtt, 1)
    };
    let used_by = |algorithm| {
        let mut dumbbell = Dumbbell::new(line, &[Flow::bulk(algorithm, rtt)], 1);
        dumbbell.run_for(secs(4));
        used(&dumbbell.run_for(secs(10)), line.rate, secs(10))
    };
    let (ours, cubic) = (used_by(Algorithm::Thalweg), used_by(Algorithm::Cubic));
    assert!(ours > 0.85, "{ours}");
    assert!(ours > 3.0 * cubic, "{ours} {cubic}");
}

#[test]
fn app_limited_flow_keeps_window() {
    let rtt = ms(50);
    let line = line(10, rtt, 5);
    let frames = Flow {
        load: Load::Frames(Bitrate::from_kbps(1_000)),
        ..Flow::bulk(Algorithm::Thalweg, rtt)
    };
    let mut dumbbell = Dumbbell::new(line, &[frames], 1);
    dumbbell.run_for(secs(2));
    let window = dumbbell.sender(0).stats().congestion_window;
    dumbbell.run_for(secs(20));
    assert_eq!(dumbbell.sender(0).stats().congestion_window, window);
    dumbbell.load(0, Load::Bulk);
    let tally = dumbbell.run_for(secs(2));
    assert!(used(&tally, line.rate, secs(2)) > 0.8);
    assert!(tally.wait(0.95) < rtt, "{}", tally.wait(0.95));
}

/// Wide jitter and loss bursts on a line with six times the needed capacity are not a queue. Over
/// sixteen seeds 72 % of the camera's ADUs were delivered where CUBIC delivers all; now 98 % are
/// (docs/concepts/congestion.md explains the rest).
#[test]
fn jitter_and_bursts_are_not_a_queue() {
    let text = include_str!("../../../../worlds/ladder/congested-wifi.toml");
    let world = thalweg_world::load_str(text, Format::Toml, "congested-wifi")
        .expect("a world of the repository");
    let delivered_by = |congestion| {
        let mut delivered = vec![0; world.streams.len()];
        for seed in 1..=8 {
            let options = Options {
                seed,
                congestion,
                ..Options::default()
            };
            let films = vec![None; world.streams.len()];
            let played = play(&world, "congested-wifi", &films, options)
                .expect("without video there is no picture to compare");
            for (sum, stream) in delivered.iter_mut().zip(&played.report.streams) {
                *sum += stream.delivered;
            }
        }
        delivered
    };
    let ours = delivered_by(Algorithm::Thalweg);
    let cubic = delivered_by(Algorithm::Cubic);
    for (ours, cubic) in ours.into_iter().zip(cubic) {
        assert!(ours as f64 >= 0.97 * cubic as f64, "{ours} of {cubic}");
    }
}

/// Over 32 seeds, 5 % of the ADUs were late or missing, 18 % in the worst; with CUBIC none. With an
/// additional 5 % of packets lost it was 40 % (CUBIC: 13 %).
#[test]
fn reordering_is_not_a_queue() {
    let text = include_str!("../../../../worlds/unordered.toml");
    let mut world = thalweg_world::load_str(text, Format::Toml, "unordered")
        .expect("a world of the repository");
    for (loss, least) in [(0.0, 1.0), (0.05, 0.97)] {
        world.links[0].loss = Ratio::new(loss).expect("a share");
        let (mut sent, mut in_time) = (0, 0);
        for seed in 1..=8 {
            for stream in run_by_law(&world, seed).report.streams {
                sent += stream.sent;
                in_time += stream.in_time;
            }
        }
        let share = in_time as f64 / sent as f64;
        assert!(share >= least, "{share} with {loss} lost");
    }
}

/// Over four seeds, 8.4 % of the ADUs were late or missing: jitter that reorders by more than three
/// packets was counted as a queue. Packets that the transport declared lost and that arrived after all
/// show how wide the jitter is.
#[test]
fn wide_jitter_is_not_a_queue() {
    let text = include_str!("../../../../worlds/scattered.toml");
    let world = thalweg_world::load_str(text, Format::Toml, "scattered")
        .expect("a world of the repository");
    let (mut sent, mut in_time) = (0, 0);
    for seed in 1..=4 {
        for stream in run_by_law(&world, seed).report.streams {
            sent += stream.sent;
            in_time += stream.in_time;
        }
    }
    let share = in_time as f64 / sent as f64;
    assert!(share >= 0.985, "{share}");
}

#[test]
fn same_seed_gives_same_shares() {
    let flows = [Algorithm::Thalweg, Algorithm::Cubic].map(|each| Flow::bulk(each, ms(20)));
    let play = || Dumbbell::new(line(5, ms(20), 1), &flows, 7).run_for(secs(5));
    assert_eq!(play(), play());
}
