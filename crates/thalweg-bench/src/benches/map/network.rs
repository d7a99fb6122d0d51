//! Properties of a generated network computed without running it: distances, and the frames of a plain flood.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use thalweg_base::time::Duration;
use thalweg_base::units::Bitrate;
use thalweg_sim::flood::Shape;

/// Rate of the wires in all networks here: twenty times the reference link's, so that nodes that all
/// start at the same moment, unlike in the field, come up within seconds.
pub(super) const RATE: Bitrate = Bitrate::from_kbps(3_000);

/// Rate of the slow reference link.
pub(super) const SLOW: Bitrate = Bitrate::from_kbps(150);

/// Returns the propagation delay from a node to each node, without the wire left out; `None` if unreachable.
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

/// Returns the frames of a plain flood of one record: its node sends one to each neighbour, and every
/// other node to all but the one from which it got the record first.
pub(super) fn frames_of_flood(shape: &Shape) -> u64 {
    let degrees = 2 * shape.wires.len() as u64;
    degrees - (shape.nodes as u64 - 1)
}
