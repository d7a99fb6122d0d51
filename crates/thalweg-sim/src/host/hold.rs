//! Streams that are held for sinks to which there is no way, as the node's driver does it.
//!
//! *The idea.* What is given goes into the store; it leaves it one by one, while no more is under way than a producer that
//! waits for its stream may have. What is dropped there is told where it is given up: at the source, under no plan.
//!
//! *Sources.* docs/continuity.md §5; `thalweg_core::session::Hold`, which decides; `thalweg-node`, `continuity/hold.rs`.

use thalweg_core::adu::Adu;
use thalweg_core::id::{Epoch, StreamId};
use thalweg_core::session::{Dropped, Sinkward};

use super::Host;
use crate::fate::Copy;
use crate::watch::Watch;

impl Host {
    /// Takes in who the sinks of a stream are, and which plans are in force for them.
    pub(super) fn hold_for(&mut self, stream: StreamId, sinks: &[Sinkward], watch: &mut Watch<'_>) {
        let now = self.now(watch);
        let mut publishers = self.publishers.iter();
        let Some(at) = publishers.position(|publisher| publisher.stream() == stream) else {
            return;
        };
        if let Some(hold) = &mut self.publishers[at].hold {
            hold.handle_sinks(sinks, now);
        }
        self.drop_held(at, watch);
    }

    /// Holds an ADU of a producer until it can be sent.
    pub(super) fn hold(&mut self, at: usize, adu: Adu, watch: &mut Watch<'_>) {
        let now = self.now(watch);
        if let Some(hold) = &mut self.publishers[at].hold {
            hold.handle_adu(adu, now);
        }
        self.drop_held(at, watch);
    }

    /// Sends the next of what is held, if it can be and there is room; returns whether it was.
    pub(super) fn send_held(&mut self, at: usize, watch: &mut Watch<'_>) -> bool {
        let now = self.now(watch);
        let publisher = &mut self.publishers[at];
        let Some(hold) = &mut publisher.hold else {
            return false;
        };
        let bytes = hold.next_bytes().filter(|bytes| publisher.has_room(*bytes));
        let due = bytes.and_then(|_| publisher.hold.as_mut()?.poll_due(now));
        self.drop_held(at, watch);
        let Some(due) = due else {
            return false;
        };
        let part = self.parts.get(&(due.adu.header.stream, due.plan));
        let goes_on = part.map(|part| part.route.installation().next.is_some());
        let reaches = due.adu.header.layer < due.layers;
        if let Some(hold) = &mut self.publishers[at].hold {
            match goes_on {
                None => {
                    hold.handle_astray(&due);
                    return true;
                }
                Some(true) if reaches => {}
                Some(_) => hold.forget(due.sink, due.adu.header.sequence.0),
            }
        }
        let mut adu = due.adu;
        self.count_again(at, due.sink, &adu.header, now);
        adu.header.epoch = due.plan;
        self.carry_under(at, adu, &[due.plan], watch);
        true
    }

    /// Says what of a stream was given up that was held.
    fn drop_held(&mut self, at: usize, watch: &mut Watch<'_>) {
        let now = self.now(watch);
        let publisher = &mut self.publishers[at];
        let place = publisher.at();
        let Some(hold) = &mut publisher.hold else {
            return;
        };
        hold.expire(now);
        let dropped: Vec<Dropped> = std::iter::from_fn(|| hold.poll_dropped()).collect();
        for Dropped {
            header,
            cause,
            sink,
        } in dropped
        {
            self.count_refused(&header, cause, now);
            let Some(adu) = watch.fates.place(&header) else {
                continue;
            };
            let name = sink.and_then(|sink| Some(&watch.names[*watch.places.get(&sink)?]));
            let sinks = watch.world.streams[place].to.iter().enumerate();
            // What was held for whoever comes all of them miss.
            let missed = sinks.filter(|(_, to)| name.is_none_or(|name| name == *to));
            let missed: Vec<usize> = missed.map(|(sink, _)| sink).collect();
            for sink in missed {
                let copy = Copy {
                    stream: place,
                    sink,
                    adu,
                    epoch: Epoch(0),
                };
                watch.dropped(self.place, Some(copy), cause);
            }
        }
    }
}
