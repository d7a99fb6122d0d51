//! The addresses of this node, as they come and go.
//!
//! *The idea.* A path of iroh's is bound to the address of this node that it began from. When that is gone, iroh opens another
//! and leaves this one: at once where there is a default route, after five seconds where there is none. What is lost on the
//! one is sent again on the other only when that has been closed for three probe timeouts, and for some seconds packets go by
//! a third path, from the address that is gone. A new connection has none of this. So a kept peer is dialled again beside its
//! link, which the new one replaces.
//!
//! *What it does not do.* It follows no link that came to its path after it was up, and none over TCP or a relay. It polls nothing:
//! the kernel says when something has changed.
//!
//! *Sources.* iroh 1.4 `socket.rs`, `handle_network_change`; noq-proto 1.4 `connection/mod.rs`, `handle_network_change` and
//! `discard_path`.

#[cfg(test)]
mod tests;

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use n0_watcher::{Direct, Watcher as _};
use netwatch::netmon::{Monitor, State};

/// Who says that this node's network has changed; nobody, where the system does not.
#[derive(Debug)]
pub(super) struct Network(Option<Monitor>);

/// Waits for changes.
pub(super) struct Changes(Option<Direct<State>>);

impl Network {
    pub(super) async fn watch() -> Self {
        let monitor = Monitor::new().await;
        if let Err(error) = &monitor {
            tracing::debug!(%error, "not told of changes of the network");
        }
        Self(monitor.ok())
    }

    pub(super) fn changes(&self) -> Changes {
        Changes(self.0.as_ref().map(Monitor::interface_state))
    }
}

impl Changes {
    /// Waits until nothing can be sent from an address any more, and something to one of these from another; for ever where there is no
    /// such address.
    pub(super) async fn moved(&mut self, from: Option<IpAddr>, to: &[SocketAddr]) {
        while !(from.is_some_and(is_gone) && to.iter().any(|to| has_route(*to))) {
            self.next().await;
        }
    }

    async fn next(&mut self) {
        let is_told = match &mut self.0 {
            Some(state) => state.updated().await.is_ok(),
            None => false,
        };
        if !is_told {
            std::future::pending::<()>().await;
        }
    }
}

/// Returns whether an address is not this machine's.
fn is_gone(address: IpAddr) -> bool {
    let bound = UdpSocket::bind((address, 0));
    bound.is_err_and(|error| error.kind() == ErrorKind::AddrNotAvailable)
}

/// Returns whether the kernel knows a way to an address, and from where; nothing is sent there.
fn has_route(to: SocketAddr) -> bool {
    let any: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    UdpSocket::bind((any, 0)).is_ok_and(|socket| socket.connect(to).is_ok())
}
