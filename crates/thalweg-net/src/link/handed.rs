//! What was handed over to a link, and goes before anything that is sent later (`lots`).

use std::sync::{Mutex, MutexGuard, PoisonError};

use thalweg_base::adu::Header;
use thalweg_base::time::Instant;
use thalweg_link::hop::sender::Arrived;

use super::news::Reply;
use super::outcome::SendOptions;

/// An ADU that was handed over, and is not sent yet.
pub(super) struct HandedAdu {
    pub(super) at: Instant,
    pub(super) header: Header,
    pub(super) payload: Arrived,
    pub(super) options: SendOptions,
    pub(super) reply: Reply,
}

/// What was handed over to one link, in order.
#[derive(Default)]
pub(super) struct Handed(Mutex<Vec<HandedAdu>>);

impl Handed {
    pub(super) fn push(&self, adu: HandedAdu) {
        let mut adus = self.lock();
        // Mostly one waits, and thousands of links have such a queue.
        adus.reserve_exact(1);
        adus.push(adu);
    }

    pub(super) fn take(&self) -> Vec<HandedAdu> {
        std::mem::take(&mut *self.lock())
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<HandedAdu>> {
        // No code that can panic runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
