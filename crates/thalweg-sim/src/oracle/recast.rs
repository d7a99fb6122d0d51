//! Whether links bear one copy of each ADU, however many sinks are behind them.
//!
//! *The idea.* Plans of one stream whose beginnings are the same share it. While one takes over from another both are sent,
//! so of such times a caller says when they are. A world says by being asked that its plans share their beginnings: one whose
//! sinks want different layers, or whose stream is of full reliability, does not.

use std::ops::Range;

use thalweg_core::model::World;
use thalweg_core::time::Instant;

use crate::play::Played;

/// Says which ADUs went over a link more than once, those aside that were due in a time of change.
pub fn doubled(world: &World, played: &Played, changes: &[Range<Instant>]) -> Vec<String> {
    let is_open = |due: Instant| changes.iter().any(|change| change.contains(&due));
    let names: Vec<_> = world.nodes.keys().collect();
    let doubled = played.doubled.iter().filter(|one| !is_open(one.due));
    let sentence = |one: &crate::fate::Doubled| {
        let [from, to] = one.link.map(|place| names[place]);
        let (stream, copies) = (&world.streams[one.stream].name, one.copies);
        let due = one.due.as_nanos() as f64 / 1e9;
        format!("`{stream}`: {copies} copies of the ADU of {due:.3} s from {from} to {to}")
    };
    doubled.map(sentence).collect()
}
