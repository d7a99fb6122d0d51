//! Where a peer can be dialled, and how that is written.
//!
//! *The idea.* An address is one of UDP, on which QUIC is spoken; with `tcp:` before it, one of TCP.
//!
//! *What it does not do.* It looks up no name.

use std::net::SocketAddr;

/// What stands before an address of TCP.
pub const TCP_PREFIX: &str = "tcp:";

/// Where a peer can be dialled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Over QUIC.
    pub udp: Vec<SocketAddr>,
    /// Over TCP, where UDP is blocked: each connection of a session goes to the next.
    pub tcp: Vec<SocketAddr>,
}

impl Addresses {
    /// Returns addresses of TCP alone.
    pub fn tcp(addresses: &[SocketAddr]) -> Self {
        Self {
            udp: Vec::new(),
            tcp: addresses.to_vec(),
        }
    }
}

impl From<&[SocketAddr]> for Addresses {
    fn from(udp: &[SocketAddr]) -> Self {
        Self {
            udp: udp.to_vec(),
            tcp: Vec::new(),
        }
    }
}

impl<const N: usize> From<&[SocketAddr; N]> for Addresses {
    fn from(udp: &[SocketAddr; N]) -> Self {
        Self::from(udp.as_slice())
    }
}

impl From<&Vec<SocketAddr>> for Addresses {
    fn from(udp: &Vec<SocketAddr>) -> Self {
        Self::from(udp.as_slice())
    }
}
