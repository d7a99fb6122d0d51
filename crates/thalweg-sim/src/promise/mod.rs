//! What a plan promised of each of its links, and what was carried under it.
//!
//! A plan says for each link which layers cross it, whether packed, whether sealed, and at which rate.
//! The first three are checked for every ADU handed to a link. The rate *R* counts the bytes that the
//! link layer is handed, each ADU with the headers of the packets that it would take alone
//! ([`wire_bytes`]): producers size their ADUs by it, and layers have their rates by it. A line counts
//! slightly otherwise: ADUs of one moment share packets, and control frames and acknowledgements add to
//! them. Bytes are not judged here, because losses and deadlines reduce what is carried.
//!
//! *Sources.* docs/concepts/planner.md §2 (*R*), §14.

use std::collections::BTreeMap;

use thalweg_base::adu::{Flags, Header};
use thalweg_base::id::{Epoch, StreamId};
use thalweg_planner::model::NodeName;
use thalweg_planner::planner::report::Hop;

use crate::traffic::wire_bytes;

#[cfg(test)]
mod tests;

/// One link of a plan, and what has been carried over it.
#[derive(Clone, Debug, PartialEq)]
pub struct Carried {
    /// The promise.
    pub hop: Hop,
    /// ADUs that were handed to the link.
    pub adus: u64,
    /// Their bytes, headers included.
    pub bytes: u64,
}

/// A plan that was in force, and what was sent under it.
#[derive(Clone, Debug, PartialEq)]
pub struct Promise {
    /// The stream's index in the world.
    pub stream: usize,
    /// The sink's index among the stream's.
    pub sink: usize,
    /// ADUs that the producer gave while it was in force.
    pub given: u64,
    /// Its links, in path order.
    pub links: Vec<Carried>,
}

/// The promises of all plans of a run.
#[derive(Clone, Debug, Default)]
pub struct Promises {
    by_plan: BTreeMap<(StreamId, Epoch), Promise>,
}

impl Promises {
    /// Records that a plan is in force for this sink of this stream of the world.
    pub fn handle_plan(
        &mut self,
        plan: (StreamId, Epoch),
        (stream, sink): (usize, usize),
        hops: &[Hop],
    ) {
        let carried = |hop: &Hop| Carried {
            hop: hop.clone(),
            adus: 0,
            bytes: 0,
        };
        self.by_plan.entry(plan).or_insert_with(|| Promise {
            stream,
            sink,
            given: 0,
            links: hops.iter().map(carried).collect(),
        });
    }

    /// Records that a producer gives an ADU under a plan.
    pub fn handle_given(&mut self, header: &Header) {
        if let Some(promise) = self.find(header) {
            promise.given += 1;
        }
    }

    /// Records that an ADU is handed to a link. Fails if its plan says otherwise.
    pub fn handle_handed(
        &mut self,
        header: &Header,
        [from, to]: [&NodeName; 2],
        payload_bytes: usize,
    ) -> Result<(), String> {
        let Some(promise) = self.find(header) else {
            return Ok(());
        };
        let mut links = promise.links.iter_mut();
        let link = links
            .find(|link| link.hop.from == *from && link.hop.to == *to)
            .ok_or_else(|| format!("it was sent to {to}, which is not on its plan's path"))?;
        link.adus += 1;
        link.bytes += wire_bytes(payload_bytes) as u64;
        let hop = &link.hop;
        let is = |flag| header.flags.contains(flag);
        if header.layer >= hop.layers {
            let (layer, layers) = (header.layer, hop.layers);
            return Err(format!(
                "its layer is {layer}, but its plan sends {layers} layers to {to}"
            ));
        }
        for (word, is_so, promised) in [
            ("packed", is(Flags::PACKED), hop.packed),
            ("sealed", is(Flags::SEALED), hop.sealed),
        ] {
            if is_so != promised {
                let (is_so, promised) = (not(is_so), not(promised));
                return Err(format!(
                    "it goes to {to} {is_so}{word}, but its plan says {promised}{word}"
                ));
            }
        }
        Ok(())
    }

    fn find(&mut self, header: &Header) -> Option<&mut Promise> {
        // The end of a stream crosses every link as it is.
        let is_end = header.flags.contains(Flags::END);
        let plan = (header.stream, header.epoch);
        self.by_plan.get_mut(&plan).filter(|_| !is_end)
    }

    /// Returns all promises, by stream and then by epoch.
    pub fn into_all(self) -> Vec<Promise> {
        self.by_plan.into_values().collect()
    }
}

const fn not(is_so: bool) -> &'static str {
    if is_so { "" } else { "not " }
}
