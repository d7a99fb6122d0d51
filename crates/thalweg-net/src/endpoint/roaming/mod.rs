//! Detects that this node's address has changed, so that a link can move.
//!
//! *The idea.* iroh binds a path to the local address it began from. When that address disappears,
//! iroh opens another path and abandons the old one: at once if there is a default route, otherwise
//! after five seconds. Lost packets are retransmitted on the new path only once the old path has
//! been closed for three probe timeouts, and for some seconds packets use a third path, from the
//! address that is gone. A new connection avoids all of this. So a kept peer is redialled beside
//! its link, and the new connection replaces the link.
//!
//! *What it does not do.* It ignores links that migrated to their path after they came up, and
//! links over TCP or a relay. It does not poll: the kernel reports changes.
//!
//! *Sources.* iroh 1.4 `socket.rs`, `handle_network_change`; noq-proto 1.4 `connection/mod.rs`,
//! `handle_network_change` and `discard_path`.

#[cfg(test)]
mod tests;

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use n0_watcher::{Direct, Watcher as _};
use netwatch::netmon::{Monitor, State};

/// The monitor of the machine's interfaces; `None` where the system offers none.
#[derive(Debug)]
pub(super) struct Network(Option<Monitor>);

/// Waits for changes of the interfaces.
pub(super) struct Changes(Option<Direct<State>>);

impl Network {
    pub(super) async fn watch() -> Self {
        let monitor = Monitor::new().await;
        if let Err(error) = &monitor {
            tracing::debug!(%error, "cannot watch the network for changes");
        }
        Self(monitor.ok())
    }

    pub(super) fn changes(&self) -> Changes {
        Changes(self.0.as_ref().map(Monitor::interface_state))
    }
}

impl Changes {
    /// Waits until `from` has disappeared from this machine and one of `to` can be reached from
    /// another address; for ever if `from` is `None`.
    pub(super) async fn moved(&mut self, from: Option<IpAddr>, to: &[SocketAddr]) {
        while !(from.is_some_and(is_gone) && to.iter().any(|to| has_route(*to))) {
            self.next().await;
        }
    }

    async fn next(&mut self) {
        let is_watched = match &mut self.0 {
            Some(state) => state.updated().await.is_ok(),
            None => false,
        };
        if !is_watched {
            std::future::pending::<()>().await;
        }
    }
}

/// Returns whether no interface of this machine has the address.
fn is_gone(address: IpAddr) -> bool {
    let bound = UdpSocket::bind((address, 0));
    bound.is_err_and(|error| error.kind() == ErrorKind::AddrNotAvailable)
}

/// Returns whether the kernel has a route to the address; sends nothing.
fn has_route(to: SocketAddr) -> bool {
    let any: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    UdpSocket::bind((any, 0)).is_ok_and(|socket| socket.connect(to).is_ok())
}
