//! Proves the rules with this machine's addresses and one reserved for documentation (RFC 5737).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::task::{Context, Waker};

use super::{Changes, has_route, is_gone};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const GONE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

#[test]
fn address_without_interface_is_gone() {
    assert!(!is_gone(HERE));
    assert!(is_gone(GONE));
}

#[test]
fn moved_needs_gone_source_and_route() {
    let near = SocketAddr::new(HERE, 7400);
    // The kernel refuses to connect to the broadcast address, whatever the default route.
    let nowhere = SocketAddr::from(([255, 255, 255, 255], 7400));
    assert!(has_route(near));
    assert!(!has_route(nowhere));
    for (from, to, is_moved) in [
        (Some(GONE), &[nowhere, near][..], true),
        (Some(GONE), &[nowhere], false),
        (Some(GONE), &[], false),
        (Some(HERE), &[near], false),
        (None, &[near], false),
    ] {
        let mut changes = Changes(None);
        let moved = std::pin::pin!(changes.moved(from, to));
        let moved = moved.poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(moved.is_ready(), is_moved, "{from:?} {to:?}");
    }
}
