//! Bells: how the end of a stream finds the driver of its link.
//!
//! *The idea.* Each place for a stream has a waker of its own, made once and used by every stream that has the place
//! later. When it is rung it notes the place and wakes the driver, which then asks there and nowhere else: thousands of
//! ADUs that wait for their acknowledgement cost nothing, and to wait for one more wakes nobody.
//!
//! *What it does not do.* It does not know why it was rung: a place that has another tenant by now is asked in vain.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

/// The bells of all places, and whom they wake.
pub(super) struct Bells {
    rung: Arc<Rung>,
    /// By place.
    bells: Vec<Waker>,
}

/// Which bells were rung since the driver last looked.
struct Rung(Mutex<Due>);

struct Due {
    places: Vec<u32>,
    driver: Waker,
}

struct Bell {
    rung: Arc<Rung>,
    place: u32,
}

impl Bells {
    pub(super) fn new() -> Self {
        let due = Due {
            places: Vec::new(),
            driver: Waker::noop().clone(),
        };
        Self {
            rung: Arc::new(Rung(Mutex::new(due))),
            bells: Vec::new(),
        }
    }

    /// Returns the bell of a place.
    pub(super) fn bell(&mut self, place: u32) -> &Waker {
        while self.bells.len() <= place as usize {
            let bell = Bell {
                rung: Arc::clone(&self.rung),
                place: self.bells.len() as u32,
            };
            self.bells.push(Waker::from(Arc::new(bell)));
        }
        &self.bells[place as usize]
    }

    /// Takes who is to be woken from now on; what was rung before is found by [`Bells::take`].
    pub(super) fn set_driver(&mut self, driver: &Waker) {
        self.rung.lock().driver.clone_from(driver);
    }

    /// Puts the places that were rung into an empty list, in order.
    pub(super) fn take(&mut self, places: &mut Vec<u32>) {
        std::mem::swap(&mut self.rung.lock().places, places);
    }
}

impl Rung {
    fn lock(&self) -> MutexGuard<'_, Due> {
        // No code that can panic runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut due = self.rung.lock();
        due.places.push(self.place);
        // Whoever rang first has woken the driver, and it has not looked since.
        let driver = (due.places.len() == 1).then(|| due.driver.clone());
        drop(due);
        if let Some(driver) = driver {
            driver.wake();
        }
    }
}
