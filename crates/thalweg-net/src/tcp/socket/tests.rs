//! Proves on a real connection that the kernel's fields are read at the right offsets, and bytes as
//! they arrive.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use super::*;

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback can be listened on");
    let address = listener.local_addr().expect("it is bound");
    let dialled = TcpStream::connect(address).expect("a listener");
    (dialled, listener.accept().expect("a dialler").0)
}

#[test]
fn kernel_reports_unsent_bytes() {
    let (mut a, mut b) = pair();
    set_options(&a, Some("cubic")).expect("every kernel has it");
    let idle = path(&a).expect("Linux says it");
    assert!(idle.window > DataSize::ZERO);
    assert_eq!(
        (idle.in_flight, idle.unsent),
        (DataSize::ZERO, DataSize::ZERO)
    );
    a.set_nonblocking(true).expect("a flag");
    // The peer does not read, so what exceeds its buffer stays here.
    while a.write(&[0; 16_384]).is_ok() {}
    let full = path(&a).expect("Linux says it");
    assert!(full.unsent > DataSize::ZERO, "{full:?}");
    b.read_exact(&mut [0; 16_384]).expect("it was sent");
    assert!(path(&a).expect("Linux says it").rtt > thalweg_base::time::Duration::ZERO);
}

#[test]
fn full_socket_has_no_room() {
    let (mut a, _b) = pair();
    set_unsent_max(&a, DataSize::from_bytes(4_000)).expect("Linux has the mark");
    assert!(has_room(&a));
    a.set_nonblocking(true).expect("a flag");
    while a.write(&[0; 16_384]).is_ok() {}
    assert!(!has_room(&a));
}

#[test]
fn unknown_congestion_control_fails() {
    let (a, _b) = pair();
    set_options(&a, Some("no-such-thing")).expect_err("no kernel has it");
}

#[test]
fn short_read_clears_readiness() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .expect("a run-time can be had");
    runtime.block_on(async {
        let (mut a, b) = pair();
        b.set_nonblocking(true).expect("a flag");
        let b = tokio::net::TcpStream::from_std(b).expect("a run-time runs");
        let mut place = [0; 16];
        // Two short reads in a row, then one that fills the buffer with more behind it.
        for sent in [&b"one"[..], b"another", &[7; 20]] {
            a.write_all(sent).expect("it is open");
            let mut received = Vec::new();
            while received.len() < sent.len() {
                b.readable().await.expect("it is open");
                match read(&b, &mut place) {
                    Ok(count) => received.extend_from_slice(&place[..count]),
                    Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                }
            }
            assert_eq!(received, sent);
        }
        // The end arrives with the last bytes, which do not fill the buffer.
        a.write_all(b"last").expect("it is open");
        drop(a);
        let mut counts = Vec::new();
        while counts.last() != Some(&0) {
            b.readable().await.expect("it says so by a reading");
            counts.extend(read(&b, &mut place).ok());
        }
        assert_eq!(counts.iter().sum::<usize>(), 4);
    });
}

#[tokio::test]
async fn both_families_listen_on_one_port() {
    let Ok(six) = listen(([0_u16; 8], 0).into()) else {
        // A machine without IPv6 has nothing to prove.
        return;
    };
    let port = six.local_addr().expect("it is bound").port();
    let four = listen(([0_u8; 4], port).into()).expect("the other family is free");
    let dialled = TcpStream::connect(("127.0.0.1", port)).expect("a listener");
    drop(six);
    let (_, from) = four.accept().await.expect("a dialler");
    assert_eq!(dialled.local_addr().ok(), Some(from));
}

#[tokio::test]
async fn small_segments_bind_both_ends() {
    let listener = listen((Ipv4Addr::LOCALHOST, 0).into()).expect("a free port");
    let address = listener.local_addr().expect("bound");
    for (segments, is_small) in [(Segments::Path, false), (Segments::Small, true)] {
        let socket = open(address, segments).expect("a socket");
        let (near, far) = tokio::join!(socket.connect(address), listener.accept());
        let (near, (far, _)) = (near.expect("it listens"), far.expect("it was dialled"));
        for end in [&near, &far] {
            let bytes = SockRef::from(end).tcp_mss().expect("a TCP socket");
            assert_eq!(
                bytes <= SMALL_SEGMENT_BYTES,
                is_small,
                "{segments:?}: {bytes}"
            );
        }
    }
}
