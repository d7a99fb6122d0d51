//! Proves what is said of addresses that this machine has, and of one that is for documents alone (RFC 5737).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::task::{Context, Waker};

use super::{Changes, has_route, is_gone};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const GONE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

#[test]
fn address_is_gone_where_no_interface_has_it() {
    assert!(!is_gone(HERE));
    assert!(is_gone(GONE));
}

#[test]
fn link_has_moved_when_its_address_is_gone_and_there_is_a_way_from_another() {
    let near = SocketAddr::new(HERE, 7400);
    // The kernel sends nothing there, wherever the machine has its default route.
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
