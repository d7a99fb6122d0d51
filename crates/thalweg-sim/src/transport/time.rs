//! Conversion between virtual time and the time of the QUIC library.
//!
//! noq uses `std::time::Instant`, which has no constant values. So one instant is read when the first
//! port of the process is created; a day is added so that no subtraction reaches below the machine's
//! start; and virtual time counts from there. Only differences matter, so no decision depends on the
//! value of that instant.

use std::sync::OnceLock;

use thalweg_base::time::{Duration, Instant};

/// noq's instant.
pub(super) type Moment = std::time::Instant;

/// Far more than any of QUIC's timers reaches back.
const HEAD_START: core::time::Duration = core::time::Duration::from_hours(24);

fn base() -> Moment {
    static BASE: OnceLock<Moment> = OnceLock::new();
    #[expect(
        clippy::disallowed_methods,
        reason = "the base of virtual time; only differences to it matter"
    )]
    *BASE.get_or_init(|| Moment::now() + HEAD_START)
}

/// Converts a virtual time to noq's.
pub(super) fn moment(now: Instant) -> Moment {
    base() + core::time::Duration::from_nanos(now.as_nanos())
}

/// Converts noq's time to a virtual one.
pub(super) fn instant(moment: Moment) -> Instant {
    Instant::ZERO + Duration::from(moment.saturating_duration_since(base()))
}
