//! Proves that every ADU is in one sum, and that each thing that should never happen is reported.

use thalweg_base::event::DropCause;
use thalweg_base::needs::{Needs, Order};
use thalweg_base::time::Duration;
use thalweg_base::units::Bitrate;
use thalweg_planner::model::{Layer, Stream, Traffic};

use super::{Note, Score, score};

const MS: u64 = 1_000_000;

fn stream() -> Stream {
    Stream {
        name: "s".parse().expect("a valid name"),
        from: "a".parse().expect("a valid name"),
        to: vec!["b".parse().expect("a valid name")],
        layers: vec![Layer {
            rate: Bitrate::from_kbps(100),
            utility: 1.0,
        }],
        needs: Needs {
            deadline: Duration::from_millis(100),
            order: Order::Sequence,
            ..Needs::default()
        },
        importance: Stream::IMPORTANCE_DEFAULT,
        pack_ratio: None,
        seal_overhead: None,
        traffic: Traffic::default(),
    }
}

/// Returns the n-th ADU, given 1 ms late.
fn given(n: u64) -> Note {
    Note {
        at: 40 * n * MS + MS,
        due: 40 * n * MS,
        media_us: 40_000 * n,
        layer: 0,
        importance: 200,
        bytes: 10,
        fingerprint: n,
    }
}

fn received(n: u64, latency_ms: u64) -> Note {
    Note {
        at: (40 * n + latency_ms) * MS,
        due: 0,
        ..given(n)
    }
}

fn of(sent: u64, received: &[Note], drops: &[(&str, DropCause, u64)]) -> Score {
    let given: Vec<Note> = (0..sent).map(given).collect();
    let drops: Vec<_> = drops
        .iter()
        .map(|(node, cause, count)| ((*node).to_owned(), *cause, *count))
        .collect();
    score(&stream(), "b", &given, received, &drops, None).expect("there are no pictures")
}

#[test]
fn every_adu_is_in_one_sum() {
    let drops = [("a", DropCause::Expired, 1), ("b", DropCause::PathLost, 9)];
    let score = of(
        5,
        &[received(0, 20), received(1, 101), received(3, 102)],
        &drops,
    );
    assert_eq!(score.violations, [""; 0]);
    let stream = score.stream;
    assert_eq!((stream.sent, stream.delivered, stream.in_time), (5, 3, 2));
    assert_eq!(
        (stream.cancelled, stream.lost, stream.unaccounted),
        (1, 1, 0)
    );
    assert_eq!(stream.by_hop["a"]["expired"], 1);
    assert_eq!(
        (stream.latency_ms.p50, stream.latency_ms.max),
        (Some(101.0), Some(102.0))
    );
    let score = of(5, &[received(0, 20)], &[]);
    assert_eq!(score.stream.unaccounted, 4);
}

#[test]
fn violations_are_reported() {
    for (what, notes) in [
        ("not published", vec![received(7, 1)]),
        (
            "different payload",
            vec![Note {
                fingerprint: 99,
                ..received(0, 1)
            }],
        ),
        ("more than once", vec![received(0, 1), received(0, 2)]),
        ("after later ones", vec![received(1, 1), received(0, 60)]),
    ] {
        let violations = of(2, &notes, &[]).violations;
        assert!(
            violations.len() == 1 && violations[0].contains(what),
            "{what}: {violations:?}"
        );
    }
}
