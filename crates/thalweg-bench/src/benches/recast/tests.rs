//! Proves that plans take the middle node and that there is another path; checks the evaluation by hand.

use thalweg_planner::model::NodeName;
use thalweg_planner::planner::{Policy, plan};
use thalweg_testbed::role::note::Note;
use thalweg_world::{Format, load_str};

use super::copies;
use super::left::Left;
use super::worlds::{BREAK, INTERVAL, Leaving, START, Wanted, interval, leaving};
use crate::benches::continuity::tests::note_of;
use crate::peers::tree::Record;

#[test]
fn plans_take_middle_node() {
    let intervals = Wanted::ALL.map(interval);
    for world in intervals.iter().cloned().chain(Leaving::ALL.map(leaving)) {
        let mut world = load_str(&world, Format::Toml, "recast").expect("a sound world");
        assert_eq!(world.streams[0].to[0].as_str(), "desk");
        // A path is planned for one sink.
        world.streams[0].to.truncate(1);
        let snapshot = world.snapshot(&world.streams[0].name).expect("it is there");
        let (plan, _) = plan(&snapshot, &Policy::default());
        let way: Vec<&str> = plan.path.iter().map(NodeName::as_str).collect();
        assert_eq!(way, ["cam", "hub", "desk"]);
    }
}

#[test]
fn copies_exclude_idle_traffic() {
    assert!((copies([1e5, 1.1e6, 2.1e6]) - 2.0).abs() < 1e-9);
    assert!((copies([1e5, 1.1e6, 1.1e6]) - 1.0).abs() < 1e-9);
}

fn note(number: u64, at_ms: u64) -> Note {
    note_of(50_000, number, at_ms)
}

#[test]
fn silence_begins_before_break() {
    let given: Vec<Note> = (0..150).map(|number| note(number, 0)).collect();
    let broken = 50_000 + BREAK.saturating_sub(START).as_millis();
    let back = broken + 300;
    // Early pictures are late too, which is not the break's silence.
    let come = |number: u64| {
        let usual = note(number, 0).due / 1_000_000 + 12 + 500 * u64::from(number < 3);
        note(
            number,
            if usual > broken && usual < back {
                back
            } else {
                usual
            },
        )
    };
    let mut received: Vec<Note> = (0..149).map(come).collect();
    received.push(come(9));
    let left = Left::of_notes(&given, &received).expect("all is there");
    assert_eq!((left.lost, left.twice), (1.0, 1.0));
    // The last picture due before the break, 9 ms before it, came 12 ms later; so the last arrival is
    // the one before.
    let last = (0..150).map(|number| come(number).at / 1_000_000);
    let last = last.filter(|at| *at < broken).max().expect("some came");
    assert!(
        (left.silence_ms - (back - last) as f64).abs() < 1e-9,
        "{left:?}"
    );
    let interval = INTERVAL.as_millis() as f64;
    assert!((left.before_ms - interval).abs() < 1e-9, "{left:?}");
    assert!(left.longer_ms.abs() < 1e-3, "{left:?}");
}

#[test]
fn longer_path_is_not_silence() {
    let given: Vec<Note> = (0..150).map(|number| note(number, 0)).collect();
    let broken = 50_000 + BREAK.saturating_sub(START).as_millis();
    let received: Vec<Note> = (0..150)
        .map(|number| {
            let usual = note(number, 0).due / 1_000_000 + 12;
            note(number, usual + 7 * u64::from(usual >= broken))
        })
        .collect();
    let left = Left::of_notes(&given, &received).expect("all is there");
    let interval = INTERVAL.as_millis() as f64;
    assert!((left.silence_ms - interval - 7.0).abs() < 1e-9, "{left:?}");
    assert!((left.longer_ms - 7.0).abs() < 1e-3, "{left:?}");
}

#[test]
fn peer_counts_only_due_adus() {
    let record = |number: u32, came_ms: u64| Record {
        sink: 0,
        number,
        due_nanos: 0,
        came_nanos: came_ms * 1_000_000,
    };
    let records = [
        record(4, 90),
        record(5, 100),
        record(7, 400),
        record(8, 440),
        record(30, 900),
    ];
    let left = Left::of_records(&records, 5..9, 110_000_000).expect("it goes on");
    assert!((left.silence_ms - 300.0).abs() < 1e-9);
    assert_eq!((left.lost, left.twice), (1.0, 0.0));
    let ended = Left::of_records(&records[..2], 4..9, 110_000_000);
    assert!(ended.is_err());
}
