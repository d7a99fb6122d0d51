//! Proves that each world breaks the path that the plan takes and leaves another, and that notes and
//! logs are parsed.

use thalweg_planner::model::NodeName;
use thalweg_planner::planner::{Policy, plan};
use thalweg_testbed::role::note::Note;
use thalweg_world::{Format, load_str};

use super::cut::{Cut, NodeLog};
use super::worlds::{BREAK, INTERVAL, Manner, NAMES, START, text};

#[test]
fn plan_takes_upper_path() {
    for manner in Manner::ALL {
        for is_kept in [true, false] {
            let world = text(manner, is_kept);
            let world = load_str(&world, Format::Toml, manner.name()).expect("a sound world");
            let names: Vec<&str> = world.nodes.keys().map(NodeName::as_str).collect();
            assert_eq!(names, NAMES);
            let snapshot = world.snapshot(&world.streams[0].name).expect("it is there");
            let (plan, _) = plan(&snapshot, &Policy::default());
            let way: Vec<&str> = plan.path.iter().map(NodeName::as_str).collect();
            assert_eq!(way, ["cam", "upper", "desk"], "{manner:?}");
        }
    }
}

/// Returns the note of a picture that arrived, in a stream with its first picture due at `first_ms`.
pub(in crate::benches) fn note_of(first_ms: u64, number: u64, at_ms: u64) -> Note {
    Note {
        at: at_ms * 1_000_000,
        due: (first_ms + number * INTERVAL.as_millis()) * 1_000_000,
        media_us: number * INTERVAL.as_millis() * 1_000,
        layer: 0,
        importance: 255,
        bytes: 1,
        fingerprint: 0,
    }
}

fn note(number: u64, at_ms: u64) -> Note {
    note_of(100_000 + START.as_millis(), number, at_ms)
}

#[test]
fn notes_and_logs_give_figures() {
    let given: Vec<Note> = (0..200).map(|number| note(number, 0)).collect();
    let broken = 100_000 + BREAK.as_millis();
    let back = broken + 250;
    let come = |number: u64| {
        let due = note(number, 0).due / 1_000_000;
        let usual = due + 12;
        let is_hit = usual > broken && usual < back;
        note(number, if is_hit { back } else { usual })
    };
    // One is lost and one comes twice.
    let mut received: Vec<Note> = (1..200).map(come).collect();
    received.push(come(7));
    // The machine's clock was zero 40 s before midnight, and the break is 107 s later.
    let source = "2026-11-23T00:00:50.000000Z  INFO plan in force sink=desk epoch=1\n\
                  2026-11-23T00:01:07.239000Z  INFO plan in force sink=desk epoch=2\n";
    let relay = "2026-11-23T00:01:07.179000Z  INFO neighbour does not answer peer=desk\n";
    let unix_at_zero = 86_400.0 * 3.0 - 40.0;
    let logs = [source, relay].map(|log| NodeLog::read(log, unix_at_zero));
    let cut = Cut::new(&given, &received, &logs).expect("all is there");
    // Of the seven that came together the last is less than an interval late.
    assert_eq!((cut.lost, cut.twice, cut.delayed), (1.0, 1.0, 6.0));
    assert!((cut.detection_ms - 170.0).abs() < 0.01, "{cut:?}");
    assert!((cut.repath_ms - 60.0).abs() < 0.01, "{cut:?}");
    assert!(cut.gap_ms > 249.0 && cut.gap_ms < 290.0, "{cut:?}");
}
