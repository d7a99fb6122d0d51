//! Checks that a link carries one copy of each ADU, however many sinks are behind it.
//!
//! Plans of one stream with the same prefix share it. While one plan takes over from another both carry
//! ADUs, so the caller names those times. Only for worlds in which plans share their prefixes: streams of
//! full reliability, or with sinks that want different layers, do not.

use std::ops::Range;

use thalweg_base::time::Instant;
use thalweg_planner::model::World;

/// An ADU of which more than one copy crossed a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubled {
    /// The stream's index in the world.
    pub stream: usize,
    /// The nodes' indices, sender first.
    pub link: [usize; 2],
    /// When the ADU was due.
    pub due: Instant,
    /// How many copies crossed the link.
    pub copies: usize,
}

/// Returns a sentence for each ADU that crossed a link more than once, except ADUs due during `changes`.
pub fn doubled(world: &World, doubled: &[Doubled], changes: &[Range<Instant>]) -> Vec<String> {
    let is_open = |due: Instant| changes.iter().any(|change| change.contains(&due));
    let names: Vec<_> = world.nodes.keys().collect();
    let doubled = doubled.iter().filter(|one| !is_open(one.due));
    let sentence = |one: &Doubled| {
        let [from, to] = one.link.map(|place| names[place]);
        let (stream, copies) = (&world.streams[one.stream].name, one.copies);
        let due = one.due.as_nanos() as f64 / 1e9;
        format!("`{stream}`: {copies} copies of the ADU of {due:.3} s from {from} to {to}")
    };
    doubled.map(sentence).collect()
}
