//! Virtual time as the QUIC library wants it.
//!
//! *The idea.* noq counts in `std::time::Instant`, of which there is no constant. So one is read when the first port of
//! the process is made, a day is added so that nothing can reach below the start of the machine, and virtual time is
//! counted from there. Only differences are ever looked at: no decision depends on which instant it was.
//!
//! *What it does not do.* It tells nobody the time.

use std::sync::OnceLock;

use thalweg_core::time::{Duration, Instant};

/// What noq calls an instant.
pub(super) type Moment = std::time::Instant;

/// Far more than any timer of QUIC reaches back.
const HEAD_START: core::time::Duration = core::time::Duration::from_hours(24);

fn base() -> Moment {
    static BASE: OnceLock<Moment> = OnceLock::new();
    #[expect(
        clippy::disallowed_methods,
        reason = "the one base that virtual time is counted from; what it is changes nothing"
    )]
    *BASE.get_or_init(|| Moment::now() + HEAD_START)
}

/// Returns a virtual time as noq's.
pub(super) fn moment(now: Instant) -> Moment {
    base() + core::time::Duration::from_nanos(now.as_nanos())
}

/// Returns one of noq's times as a virtual one.
pub(super) fn instant(moment: Moment) -> Instant {
    Instant::ZERO + Duration::from(moment.saturating_duration_since(base()))
}
