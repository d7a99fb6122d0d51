//! The rate memory of peers, kept across their connections.
//!
//! *The idea.* A link that was down for long gets a new connection, which QUIC starts from its
//! initial window. So an endpoint keeps one [`Memory`] per peer: each sample records what the path
//! in use carries, and a new path starts with the record. The path's congestion controller finds
//! out whether it still holds.
//!
//! *What it does not do.* It does not survive the node. For TCP, the kernel has its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_base::id::NodeId;
use thalweg_base::limits::LINKS_MAX;
use thalweg_base::time::Instant;
use thalweg_link::congestion::{Carried, Memory};

/// The memories of all peers of an endpoint.
#[derive(Debug, Default)]
pub(crate) struct Memories(Mutex<HashMap<NodeId, Memory>>);

/// The memory of one peer.
#[derive(Clone, Debug)]
pub(crate) struct PeerMemory {
    peer: NodeId,
    memories: Arc<Memories>,
}

impl PeerMemory {
    /// Records what the path in use carries. A full table drops stale entries only; if there are
    /// none, nothing is recorded.
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

    /// Returns what the last path in use carried, unless that is too old.
    pub(super) fn recall(&self, now: Instant) -> Option<Carried> {
        self.memories.lock().get(&self.peer)?.recall(now)
    }
}

impl Memories {
    /// Returns the memory of a peer.
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
    use thalweg_base::time::Duration;
    use thalweg_base::units::DataSize;

    use super::*;

    #[test]
    fn full_memory_drops_stale_peers() {
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
