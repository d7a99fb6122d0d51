//! The links of a generated world: from a LAN's to a bad radio's.

use thalweg_base::random::SplitMix;
use thalweg_base::time::Duration;
use thalweg_base::units::{Bitrate, DataSize, Ratio};
use thalweg_planner::model::{Link, NodeName};

/// Returns a link of one of five kinds, each spread by its dice; one in four is insecure.
pub(super) fn link(ends: [NodeName; 2], dice: &mut SplitMix) -> Link {
    let kind = dice.next_below(5);
    let spread = 50 + dice.next_below(100);
    // Rate, delay, jitter, loss, burst: what is usual for a LAN, Wi-Fi, a mobile line, a congested
    // one, a bad radio.
    let (kbps, delay_ms, jitter_ms, loss_permille, burst) = match kind {
        0 => (100_000, 1, 0, 0, 1),
        1 => (20_000, 4, 3, 5, 1),
        2 => (4_000, 30, 10, 10, 3),
        3 => (800, 60, 20, 30, 4),
        _ => (300, 120, 30, 60, 1),
    };
    Link {
        delay: Duration::from_micros(delay_ms * 10 * spread),
        jitter: Duration::from_micros(jitter_ms * 10 * spread),
        reorder: share(if dice.next_below(4) == 0 { 10 } else { 0 }),
        loss: share(loss_permille * dice.next_below(3) / 2),
        burst: f64::from(burst),
        secure: dice.next_below(4) > 0,
        queue: DataSize::from_kib(8 << dice.next_below(5)),
        ..Link::new(ends, Bitrate::from_bps(kbps * 10 * spread))
    }
}

fn share(permille: u64) -> Ratio {
    Ratio::new(permille as f64 / 1_000.0).expect("a few thousandths are below one")
}
