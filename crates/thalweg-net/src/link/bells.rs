//! Wakers that tell a link's driver which streams have ended.
//!
//! *The idea.* Each stream slot has its own waker, made once and reused by every later stream in
//! the slot. When it is woken, it records the slot and wakes the driver, which then polls only the
//! recorded slots. So thousands of ADUs that wait for an acknowledgement cost nothing, and polling
//! one more stream wakes no task.
//!
//! *What it does not do.* It does not know why a slot was woken: if another stream has the slot by
//! now, the poll is in vain.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

/// The wakers of all slots, and the driver they wake.
pub(super) struct StreamWakers {
    woken: Arc<Woken>,
    /// By slot.
    wakers: Vec<Waker>,
}

/// The slots that were woken since the driver last looked.
struct Woken(Mutex<WokenSlots>);

struct WokenSlots {
    slots: Vec<u32>,
    driver: Waker,
}

struct StreamWaker {
    woken: Arc<Woken>,
    slot: u32,
}

impl StreamWakers {
    pub(super) fn new() -> Self {
        let woken = WokenSlots {
            slots: Vec::new(),
            driver: Waker::noop().clone(),
        };
        Self {
            woken: Arc::new(Woken(Mutex::new(woken))),
            wakers: Vec::new(),
        }
    }

    /// Returns the waker of a slot.
    pub(super) fn waker(&mut self, slot: u32) -> &Waker {
        while self.wakers.len() <= slot as usize {
            let waker = StreamWaker {
                woken: Arc::clone(&self.woken),
                slot: self.wakers.len() as u32,
            };
            self.wakers.push(Waker::from(Arc::new(waker)));
        }
        &self.wakers[slot as usize]
    }

    /// Sets the waker of the driver; slots woken before are found by [`StreamWakers::take`].
    pub(super) fn set_driver(&mut self, driver: &Waker) {
        self.woken.lock().driver.clone_from(driver);
    }

    /// Swaps the woken slots, in order, into an empty list.
    pub(super) fn take(&mut self, slots: &mut Vec<u32>) {
        std::mem::swap(&mut self.woken.lock().slots, slots);
    }
}

impl Woken {
    fn lock(&self) -> MutexGuard<'_, WokenSlots> {
        // No code that can panic runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for StreamWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut woken = self.woken.lock();
        woken.slots.push(self.slot);
        // The first slot of a batch wakes the driver; later ones find it woken already.
        let driver = (woken.slots.len() == 1).then(|| woken.driver.clone());
        drop(woken);
        if let Some(driver) = driver {
            driver.wake();
        }
    }
}
