//! Proves on a real connection that the kernel's words are read from their places.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use super::*;

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback can be listened on");
    let address = listener.local_addr().expect("it is bound");
    let dialled = TcpStream::connect(address).expect("somebody listens");
    (dialled, listener.accept().expect("somebody dials").0)
}

#[test]
fn the_kernel_says_what_was_sent_and_what_was_not() {
    let (mut a, mut b) = pair();
    set_options(&a, Some("cubic")).expect("every kernel has it");
    let idle = path(&a).expect("Linux says it");
    assert!(idle.window > DataSize::ZERO);
    assert_eq!(
        (idle.in_flight, idle.unsent),
        (DataSize::ZERO, DataSize::ZERO)
    );
    a.set_nonblocking(true).expect("a flag");
    // Nobody reads, so what does not fit the peer's buffer stays here.
    while a.write(&[0; 16_384]).is_ok() {}
    let full = path(&a).expect("Linux says it");
    assert!(full.unsent > DataSize::ZERO, "{full:?}");
    b.read_exact(&mut [0; 16_384]).expect("it was sent");
    assert!(path(&a).expect("Linux says it").rtt > thalweg_core::time::Duration::ZERO);
}

#[test]
fn above_the_mark_there_is_no_room_and_below_there_is() {
    let (mut a, _b) = pair();
    set_unsent_max(&a, DataSize::from_bytes(4_000)).expect("Linux has the mark");
    assert!(has_room(&a));
    a.set_nonblocking(true).expect("a flag");
    while a.write(&[0; 16_384]).is_ok() {}
    assert!(!has_room(&a));
}

#[test]
fn an_unknown_congestion_control_is_an_error() {
    let (a, _b) = pair();
    set_options(&a, Some("no-such-thing")).expect_err("no kernel has it");
}
