//! The times of reports, which an account and its hop share.

use thalweg_base::adu::Mark;
use thalweg_base::time::{Duration, Instant};

/// How long after the first ADU of a new mark, ADUs of the previous mark may still arrive.
pub const SETTLE: Duration = Duration::from_millis(80);

/// Minimum interval of reports while no mark ends; a little longer than the interval when one does.
pub const EVERY: Duration = Duration::from_millis(730);

/// How long a relay waits for downstream reports before it has measured their lag.
pub const SLACK: Duration = Duration::from_millis(150);

/// How long no marked ADU arrives before a node reports a pause: above the spacing at five ADUs a second.
pub const QUIET: Duration = Duration::from_millis(250);

/// Grid of the checks for arrivals and losses, common to all accounts: a node wakes once for all.
pub const GRID: Duration = Duration::from_millis(125);

/// Shortest interval from the last report to one that says only that a pause has begun or ended.
pub(super) const STATUS_EVERY: Duration = Duration::from_millis(500);

const _: () = assert!(
    EVERY.as_nanos() > Mark::PERIOD.as_nanos() + SETTLE.as_nanos(),
    "a report without marks is later than one at the end of a mark"
);

/// Returns the next instant on the [`GRID`].
pub(super) const fn next_tick(now: Instant) -> Instant {
    let step = GRID.as_nanos();
    Instant::from_nanos((now.as_nanos() / step + 1).saturating_mul(step))
}
