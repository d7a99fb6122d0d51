//! What is known of a made-up network without playing it: how far its nodes are apart, and what a plain flood over it takes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use thalweg_core::time::Duration;
use thalweg_core::units::Bitrate;
use thalweg_sim::flood::Shape;

/// What the wires of all networks here carry: twenty times the slowest link that is spoken of, so that nodes which start at
/// the same moment, as none do in the field, are through with that in seconds.
pub(super) const RATE: Bitrate = Bitrate::from_kbps(3_000);

/// The slowest link that is spoken of.
pub(super) const SLOW: Bitrate = Bitrate::from_kbps(150);

/// Returns how long light alone takes from a node to each, over the wires that are not left out; none where no way leads.
///
/// Cost    O(wires · log nodes), and O(wires) once for the lists of neighbours
pub(super) fn distances(
    shape: &Shape,
    from: usize,
    without: Option<usize>,
) -> Vec<Option<Duration>> {
    let mut lists = vec![Vec::new(); shape.nodes];
    let wires = shape.wires.iter().enumerate();
    for (_, wire) in wires.filter(|(at, _)| Some(*at) != without) {
        let [a, b] = wire.ends;
        lists[a].push((b, wire.delay));
        lists[b].push((a, wire.delay));
    }
    let mut known = vec![None; shape.nodes];
    let mut queue = BinaryHeap::from([Reverse((Duration::ZERO, from))]);
    while let Some(Reverse((far, at))) = queue.pop() {
        if known[at].is_some() {
            continue;
        }
        known[at] = Some(far);
        queue.extend(
            lists[at]
                .iter()
                .map(|(to, delay)| Reverse((far + *delay, *to))),
        );
    }
    known
}

/// Returns how many frames a plain flood of one record takes: its node sends one to each neighbour, and each other node to all
/// but the one from which it had it first.
pub(super) fn frames_of_flood(shape: &Shape) -> u64 {
    let degrees = 2 * shape.wires.len() as u64;
    degrees - (shape.nodes as u64 - 1)
}
