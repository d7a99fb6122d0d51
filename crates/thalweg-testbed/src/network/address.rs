//! The addresses of links: two of a /30 of its own in 10.77.0.0/16 per link.
//!
//! The addresses exist only inside a run's namespaces, so they may be the same in every run, and may be
//! in use on the machine itself.

use std::net::Ipv4Addr;

/// Number of links that fit into 10.77.0.0/16.
pub const LINKS_MAX: usize = 1 << 14;

/// The addresses of a link's two ends, in the order of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkAddresses {
    /// One per end.
    pub ends: [Ipv4Addr; 2],
}

/// Returns the addresses of a link by its index in the world.
pub fn addresses_of(link: usize) -> LinkAddresses {
    assert!(link < LINKS_MAX, "a world's links are bounded far below");
    let base = (link as u16) << 2;
    let address = |end: u16| {
        let [high, low] = (base | end).to_be_bytes();
        Ipv4Addr::new(10, 77, high, low)
    };
    LinkAddresses {
        ends: [address(1), address(2)],
    }
}
