//! The driver of a link's sender, run by the loop.
//!
//! *The idea.* Over iroh each driver is a task, woken across threads. Here the loop itself polls it
//! after it has taken an acknowledgement, and sends what the sender hands over in the same turn. A
//! driver that outlives its connection in the loop goes on as a task, to report what was lost.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

use tokio::runtime::Handle;

/// A driver: it ends some time after its connection.
pub(super) type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The place of a connection's driver.
#[derive(Default)]
pub(super) struct DriverSeat(Mutex<Seat>);

#[derive(Default)]
enum Seat {
    /// There is none yet, or it has ended, or it is being polled.
    #[default]
    Empty,
    Taken(Driver, Waker),
    /// The loop polls no more.
    Closed,
}

impl DriverSeat {
    /// Gives the driver to the loop; starts a task for it if the loop polls no more.
    pub(super) fn take(&self, driver: Driver, waker: Waker) {
        let mut seat = self.lock();
        if let Seat::Closed = *seat {
            drop(seat);
            tokio::spawn(driver);
        } else {
            *seat = Seat::Taken(driver, waker);
        }
    }

    /// Polls the driver once, from the loop.
    pub(super) fn poll(&self) {
        // Taken out: what it does may ask for this lock.
        let Seat::Taken(mut driver, waker) = std::mem::take(&mut *self.lock()) else {
            return;
        };
        let mut context = Context::from_waker(&waker);
        if driver.as_mut().poll(&mut context).is_pending() {
            *self.lock() = Seat::Taken(driver, waker);
        }
    }

    /// Ends the loop's part: a driver that has not ended becomes a task.
    pub(super) fn close(&self, runtime: Option<&Handle>) {
        let seat = std::mem::replace(&mut *self.lock(), Seat::Closed);
        if let (Seat::Taken(driver, _), Some(runtime)) = (seat, runtime) {
            runtime.spawn(driver);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Seat> {
        // No code that can panic runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes a driver in the loop.
pub(super) struct DriverWaker<T>(pub(super) std::sync::Weak<T>);

/// What a driver's waker wakes.
pub(super) trait Driven: Send + Sync {
    /// Has the loop poll the driver.
    fn handle_woken(&self);
}

impl<T: Driven> std::task::Wake for DriverWaker<T> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Some(driven) = self.0.upgrade() {
            driven.handle_woken();
        }
    }
}
