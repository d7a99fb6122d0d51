//! The sides: transports that carry ADUs from one end of the line to the other.
//!
//! A [`Side`] is a transport with its settings; its receiving and its sending end each run in their own
//! process. All eight videos share one connection on every side, so that one queue decides about all of
//! them.
//!
//! | name | file | transport | an expired ADU |
//! |---|---|---|---|
//! | `thalweg`, `thalweg_cubic` | `thalweg` | a `thalweg-net` link, importance is priority | by the link |
//! | `pace_k`, `pace_a` | `thalweg` | over TCP, paced by kernel or acknowledgements | by the link |
//! | `tcp_fifo_cubic`, `tcp_fifo_bbr` | `tcp` | one socket, default buffers, in order of arrival | dropped |
//! | `tcp_priority_cubic`, `tcp_priority_bbr` | `tcp` | the same, most important first | dropped |
//! | `srt` | `srt` | `srt-live-transmit`, latency 120 ms | dropped by SRT |
//! | `quic_streams` | `quic` | quinn, a stream per ADU, importance as its priority | sent anyway |
//!
//! *To add one*, write its file and put it into [`ALL`]; no other code knows sides by name except the
//! baseline [`TCP`].

mod quic;
mod srt;
mod tcp;
#[cfg(test)]
mod tests;
mod thalweg;

use std::any::Any;

use anyhow::{Context as _, bail};
use thalweg_link::congestion::Algorithm;
use thalweg_link::tcp_mux::Pacing;

use super::end::{Inlet, Outlet};
use tcp::{Order, Tcp};
use thalweg::Thalweg;

/// A transport with its settings.
pub(super) trait Side: Sync {
    /// Returns its name in metrics.
    fn name(&self) -> &'static str;

    /// Returns what it lacks on this machine, as a sentence.
    fn missing(&self) -> Option<String> {
        None
    }

    /// Returns whether it fails over to the second line when the first fails.
    fn has_failover(&self) -> bool {
        false
    }

    /// Starts to receive, prints that it is ready and where, and returns a guard that keeps it running.
    fn receive(&self, inlet: &Inlet) -> anyhow::Result<Box<dyn Any>>;

    /// Connects, sends each ADU when it is due, and returns when nothing is in flight any more or its
    /// patience has ended.
    fn send(&self, outlet: &Outlet) -> anyhow::Result<()>;

    /// Opens `flows` connections, and sends as much as fits for the time of the budget.
    fn send_bulk(&self, outlet: &Outlet) -> anyhow::Result<()> {
        let _ = outlet;
        bail!("{} does not send bulk here", self.name())
    }
}

/// Our side, the subject of all comparisons.
pub(super) const OURS: &dyn Side = &Thalweg::Quic(Algorithm::Thalweg);

/// Ours with CUBIC instead of our controller.
pub(super) const OURS_CUBIC: &dyn Side = &Thalweg::Quic(Algorithm::Cubic);

/// Ours where UDP is blocked.
pub(super) const PACE_K: &dyn Side = &Thalweg::Tcp(Pacing::Kernel);

/// TCP with an application-level priority queue: the baseline.
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
    side.with_context(|| format!("there is no side `{name}`"))
}
