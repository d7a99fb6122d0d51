//! What the paths to peers carried, over the connections with them.
//!
//! *The idea.* A link that was out for long is made anew, by whichever end dials first, and QUIC begins it as if nobody had ever
//! sent there. So an endpoint has one [`Memory`] for each peer: each look at a link's path keeps what it carries, and a path that is
//! new to a link is told what was kept. Whether it is the same path its controller finds out.
//!
//! *What it does not do.* It outlives no node. TCP has the kernel's.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_core::congestion::{Carried, Memory};
use thalweg_core::id::NodeId;
use thalweg_core::limits::LINKS_MAX;
use thalweg_core::time::Instant;

/// What the paths to all peers of an endpoint carried.
#[derive(Debug, Default)]
pub(crate) struct Memories(Mutex<HashMap<NodeId, Memory>>);

/// What the paths to one of them carried.
#[derive(Clone, Debug)]
pub(crate) struct PeerMemory {
    peer: NodeId,
    memories: Arc<Memories>,
}

impl PeerMemory {
    /// Keeps what the path in use carries now. Where there is no room, nothing that still counts is forgotten for it.
    pub(super) fn keep(&self, now: Instant, carried: Carried) {
        let mut memories = self.memories.lock();
        if memories.len() >= LINKS_MAX && !memories.contains_key(&self.peer) {
            memories.retain(|_, memory| memory.recall(now).is_some());
            if memories.len() >= LINKS_MAX {
                return;
            }
        }
        memories.entry(self.peer).or_default().keep(now, carried);
    }

    /// Returns what the path that was last in use carried, if that is not too long ago.
    pub(super) fn recall(&self, now: Instant) -> Option<Carried> {
        self.memories.lock().get(&self.peer)?.recall(now)
    }
}

impl Memories {
    /// Returns the one of a peer.
    pub(super) fn of(self: &Arc<Self>, peer: NodeId) -> PeerMemory {
        PeerMemory {
            peer,
            memories: self.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<NodeId, Memory>> {
        // No code that can panic runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use thalweg_core::time::Duration;
    use thalweg_core::units::DataSize;

    use super::*;

    #[test]
    fn as_many_peers_as_links_are_remembered_and_old_ones_make_room() {
        let memories = Arc::<Memories>::default();
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let of = |number: usize| {
            let key = [number.to_be_bytes(); 4].concat();
            memories.of(NodeId(key.try_into().expect("32 bytes")))
        };
        let carried = Carried {
            window: DataSize::from_kib(100),
            rtt: Duration::from_millis(50),
        };
        for number in 0..LINKS_MAX {
            of(number).keep(at(number as u64), carried);
        }
        let late = LINKS_MAX as u64;
        assert_eq!(of(LINKS_MAX - 1).recall(at(late)), Some(carried));
        assert_eq!(of(0).recall(at(late)), None, "that is too long ago");
        of(LINKS_MAX).keep(at(late), carried);
        assert_eq!(of(LINKS_MAX).recall(at(late)), Some(carried));
        for number in 0..LINKS_MAX {
            of(number).keep(at(late), carried);
        }
        let one_more = of(LINKS_MAX + 1);
        one_more.keep(at(late), carried);
        let known = (0..=LINKS_MAX + 1).filter(|number| of(*number).recall(at(late)).is_some());
        assert_eq!(known.count(), LINKS_MAX);
        assert_eq!(one_more.recall(at(late)), None);
    }
}
