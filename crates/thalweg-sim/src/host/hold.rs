//! Holds a stream's ADUs for sinks without a path, as the node's driver does.
//!
//! Given ADUs enter the store and leave it one by one, while no more is in flight than a waiting
//! producer may have. A drop from the store is accounted at the source, under no plan.
//!
//! *Sources.* docs/concepts/continuity.md §5; `thalweg_control::session::Hold`, which decides;
//! `thalweg-node`,
//! `continuity/outlet/hold.rs`.

use thalweg_base::adu::Adu;
use thalweg_base::id::{Epoch, StreamId};
use thalweg_control::session::{Dropped, Sinkward};

use super::Host;
use crate::fate::Copy;
use crate::watch::Watch;

impl Host {
    /// Sets the sinks of a stream and the plans in force for them.
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

    /// Sends the next held ADU if possible; returns whether the store changed.
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
        self.count_resent(at, due.sink, &adu.header, now);
        adu.header.epoch = due.plan;
        self.send_under(at, adu, &[due.plan], watch);
        true
    }

    /// Accounts for held ADUs of a publisher that were dropped.
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
            // An ADU held for no particular sink is lost for all of them.
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
