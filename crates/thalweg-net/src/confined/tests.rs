//! Proves the wrapping of addresses, the rate limit of strangers, and the choice of the source
//! address.

use std::net::SocketAddr;

use iroh_base::CustomAddr;
use thalweg_base::time::{Duration, Instant};

use super::{KIND, Known, STRANGER_EVERY, STRANGERS_MAX, unwrapped, wrapped};

#[test]
fn unwrapping_inverts_wrapping() {
    for text in ["192.0.2.7:7400", "[2001:db8::1]:9", "[fe80::1%3]:65535"] {
        let address: SocketAddr = text.parse().expect("an address");
        assert_eq!(unwrapped(&wrapped(address)), Some(address));
    }
    for bytes in [&[][..], &[1; 5], &[1; 7], &[1; 18], &[1; 23]] {
        assert_eq!(unwrapped(&CustomAddr::from_parts(KIND, bytes)), None);
    }
    assert_eq!(unwrapped(&CustomAddr::from_parts(1, &[1; 6])), None);
}

#[test]
fn rate_limit_admits_strangers() {
    let start = Instant::ZERO + Duration::from_secs(100);
    let mut known = Known::new(Instant::ZERO);
    let address = |number: u32| SocketAddr::from((number.to_be_bytes(), 1));
    for number in 0..STRANGERS_MAX {
        assert!(known.admits(address(number), start));
    }
    let late = start + STRANGER_EVERY - Duration::from_nanos(1);
    assert!(!known.admits(address(STRANGERS_MAX), late));
    assert!(known.admits(address(0), late));
    let later = start + STRANGER_EVERY;
    assert!(known.admits(address(STRANGERS_MAX), later));
    assert!(!known.admits(address(STRANGERS_MAX + 1), later));
}

#[test]
fn only_replies_keep_their_source() {
    let [dialled, heard] = [1, 2].map(|number| SocketAddr::from(([192, 0, 2, number], 7400)));
    let mut known = Known::new(Instant::ZERO);
    assert!(known.admits(heard, Instant::ZERO));
    known.handle_sent(dialled, &[0xc0, 0, 0, 0, 1]);
    // Its local address is gone, so iroh omits the source.
    known.handle_sent(heard, &[0x40; 30]);
    assert!(!known.replies_from_own(dialled));
    assert!(known.replies_from_own(heard));
    known.handle_sent(dialled, &[0x40; 30]);
    assert!(!known.replies_from_own(dialled));
}
