//! Which addresses a link has: the two of a /30 of its own in 10.77.0.0/16.
//!
//! The addresses exist inside the run's namespaces only, so that they may be the same in every run, and whatever the
//! machine itself uses.

use std::net::Ipv4Addr;

/// Links that 10.77.0.0/16 has room for.
pub const LINKS_MAX: usize = 1 << 14;

/// The addresses of a link's two ends, in the order of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkAddresses {
    /// One an end.
    pub ends: [Ipv4Addr; 2],
}

/// Returns the addresses of a link by its place in the world.
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
