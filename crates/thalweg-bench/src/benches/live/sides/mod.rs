//! Who carries ADUs from one end of the line to the other.
//!
//! *The idea.* A [`Side`] is a transport and how it is set; it has a receiving and a sending end, each run in a process
//! of its own. All eight videos go over one connection, whoever carries, so that one queue decides about all of them.
//!
//! | name | file | what it is | an ADU that is too old |
//! |---|---|---|---|
//! | `thalweg`, `thalweg_cubic` | `thalweg` | a link of `thalweg-net`, importance as priority | as the link does it |
//! | `pace_k`, `pace_a` | `thalweg` | the same link over TCP, paced by the kernel or by what the peer acknowledges | as the link does it |
//! | `tcp_fifo_cubic`, `tcp_fifo_bbr` | `tcp` | one socket with the system's own buffers, in the order of coming | not begun |
//! | `tcp_priority_cubic`, `tcp_priority_bbr` | `tcp` | the same, the most important of what waits above it first | not begun |
//! | `srt` | `srt` | `srt-live-transmit`, its own 120 ms | dropped by SRT |
//! | `quic_streams` | `quic` | quinn, a stream for each ADU, importance as its priority | sent all the same |
//!
//! *To add one*, write its file and put it into [`ALL`]; nothing else knows the sides by name but the baseline
//! [`TCP`].

mod quic;
mod srt;
mod tcp;
#[cfg(test)]
mod tests;
mod thalweg;

use std::any::Any;

use anyhow::{Context as _, bail};
use thalweg_core::congestion::Algorithm;
use thalweg_core::pace::Pacing;

use super::end::{Inlet, Outlet};
use tcp::{Order, Tcp};
use thalweg::Thalweg;

/// A transport and how it is set.
pub(super) trait Side: Sync {
    /// Returns its name in metrics.
    fn name(&self) -> &'static str;

    /// Returns what it needs and has not got, as a sentence.
    fn missing(&self) -> Option<String> {
        None
    }

    /// Returns whether it goes on over the second line when the first fails.
    fn has_failover(&self) -> bool {
        false
    }

    /// Begins to take what comes, says that it is ready and where, and returns what is to live as long as it is to.
    fn receive(&self, inlet: &Inlet) -> anyhow::Result<Box<dyn Any>>;

    /// Connects, carries what is due when it is due, and returns when nothing of it is on its way any more, or when its
    /// patience has ended.
    fn send(&self, outlet: &Outlet) -> anyhow::Result<()>;

    /// Connects as often as there are flows, and sends as much as fits for as long as the budget says.
    fn pour(&self, outlet: &Outlet) -> anyhow::Result<()> {
        let _ = outlet;
        bail!("{} carries no bulk here", self.name())
    }
}

/// Ours, which all others stand beside.
pub(super) const OURS: &dyn Side = &Thalweg::Quic(Algorithm::Thalweg);

/// Ours with CUBIC in the place of our controller.
pub(super) const OURS_CUBIC: &dyn Side = &Thalweg::Quic(Algorithm::Cubic);

/// Ours where UDP is blocked.
pub(super) const PACE_K: &dyn Side = &Thalweg::Tcp(Pacing::Kernel);

/// TCP as a program uses it that knows what matters: the baseline.
pub(super) const TCP: &dyn Side = &Tcp::new("tcp_priority_cubic", Order::Importance, "cubic");

/// Plain TCP.
pub(super) const TCP_CUBIC: &dyn Side = &Tcp::new("tcp_fifo_cubic", Order::Coming, "cubic");

/// Plain TCP, with BBR.
pub(super) const TCP_BBR: &dyn Side = &Tcp::new("tcp_fifo_bbr", Order::Coming, "bbr");

/// Every side, in the order of the output.
pub(super) const ALL: [&dyn Side; 10] = [
    OURS,
    OURS_CUBIC,
    PACE_K,
    &Thalweg::Tcp(Pacing::Acked),
    TCP_CUBIC,
    TCP_BBR,
    TCP,
    &Tcp::new("tcp_priority_bbr", Order::Importance, "bbr"),
    &srt::Srt,
    &quic::Streams,
];

/// Returns the side of this name.
pub(super) fn named(name: &str) -> anyhow::Result<&'static dyn Side> {
    let mut all = ALL.into_iter();
    let side = all.find(|side| side.name() == name);
    side.with_context(|| format!("no side is called `{name}`"))
}
