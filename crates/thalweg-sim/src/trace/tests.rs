//! Proves that the hash identifies the course of a run, whether or not the text is kept.

use thalweg_base::time::{Duration, Instant};
use thalweg_planner::model::NodeName;

use super::{Happening, Kind, Trace};

fn names() -> Vec<NodeName> {
    ["a", "b"]
        .map(|name| name.parse().expect("a letter"))
        .to_vec()
}

fn run(is_text_wanted: bool, order: [u64; 2]) -> Trace {
    let mut trace = Trace::new(is_text_wanted);
    for sequence in order {
        let happening = Happening::at(Kind::Handed, 0)
            .with(1)
            .of(0)
            .numbers(sequence, 1);
        trace.note(
            Instant::ZERO + Duration::from_millis(1_500),
            happening,
            &names(),
        );
    }
    trace
}

#[test]
fn hash_ignores_kept_text() {
    assert_eq!(run(false, [1, 2]).hash(), run(true, [1, 2]).hash());
    assert_ne!(run(false, [1, 2]).hash(), run(false, [2, 1]).hash());
    assert_eq!(run(false, [1, 2]).happenings(), 2);
}

#[test]
fn line_has_time_place_and_kind() {
    let text = run(true, [1, 2]).take_text().expect("it was wanted");
    let first = text.lines().next().expect("two lines");
    assert_eq!(
        first,
        "  1.500000000 a        handed    peer=b stream=0 sequence=1 epoch=1"
    );
}

#[test]
fn hash_is_machine_independent() {
    assert_eq!(
        format!("{:016x}", run(false, [1, 2]).hash()),
        "3ad835b541c57a31"
    );
}
