//! ADUs for many links, handed over to the loops that drive them.
//!
//! *The idea.* Some links are driven by one loop for all of them, in its own thread (the engine's).
//! A task with an ADU for many of these does not lock and write to each: it puts the ADU into each
//! link's queue of what was *handed over*, and gives their loop one lot, a list of these links. The
//! loop visits one link after the other. What sends on a link, the loop at its visit or a task, sends
//! first what was handed over before: so each link keeps its order, whichever is faster.
//!
//! ```text
//! task ── add ──► queue of link 1 ◄── visit ── loop
//!      ── add ──► queue of link 2 ◄── visit ──  │
//!      ── hand over: one lot ───────────────────┘
//! ```
//!
//! What a loop does not take, because too much waits or it has ended, the task does by the same
//! visits. A link that is lost ends what was handed over, with everything else.
//!
//! *What it does not do.* It does not bound what waits: [`LotQueue`](crate::lot::LotQueue) does.
//!
//! *Sources.* docs/decisions/0040.

use std::sync::Arc;

use thalweg_link::hop::sender::Arrived;

use super::Link;
use super::handed::HandedAdu;
use super::sender::{carry_handed, hand};
use crate::lot::{Lot, LotSize, TakesLots};

/// ADUs that are handed over together; dropping it hands them over.
#[derive(Default)]
pub struct Lots(Vec<Begun>);

/// The lot of one loop.
struct Begun {
    to: Arc<dyn TakesLots>,
    visits: Visits,
}

/// Links to visit, in order.
#[derive(Default)]
struct Visits {
    links: Vec<Link>,
    next: usize,
    bytes: usize,
    /// The payload that was added last.
    last: usize,
}

impl Lots {
    /// Adds an ADU for a link; gives it back if no loop takes lots for that link.
    pub(super) fn add(&mut self, link: &Link, adu: HandedAdu) -> Option<HandedAdu> {
        let Some(to) = link.0.connection.takes_lots() else {
            return Some(adu);
        };
        let is_same = |begun: &Begun| std::ptr::addr_eq(Arc::as_ptr(&begun.to), Arc::as_ptr(to));
        let place = self.0.iter().position(is_same).unwrap_or_else(|| {
            self.0.push(Begun {
                to: to.clone(),
                visits: Visits::default(),
            });
            self.0.len() - 1
        });
        self.0[place].visits.add(link, &adu.payload);
        hand(link, adu);
        None
    }

    /// Hands over what was added.
    pub fn hand_over(&mut self) {
        for Begun { to, visits } in self.0.drain(..) {
            // One link alone gains nothing in another thread. What comes back is done when it is
            // dropped.
            if visits.links.len() > 1 {
                drop(to.take(Box::new(visits)));
            }
        }
    }
}

impl Drop for Lots {
    fn drop(&mut self) {
        self.hand_over();
    }
}

impl Visits {
    fn add(&mut self, link: &Link, payload: &Arrived) {
        self.links.push(link.clone());
        let first = payload.chunks.first().as_ptr().addr();
        if std::mem::replace(&mut self.last, first) != first {
            self.bytes += payload.payload_bytes;
        }
    }
}

impl Lot for Visits {
    fn size(&self) -> LotSize {
        LotSize {
            adus: self.links.len(),
            bytes: self.bytes,
        }
    }

    fn step(&mut self) -> bool {
        if let Some(link) = self.links.get(self.next) {
            self.next += 1;
            carry_handed(link);
        }
        self.next < self.links.len()
    }
}

impl Drop for Visits {
    fn drop(&mut self) {
        while self.step() {}
    }
}
