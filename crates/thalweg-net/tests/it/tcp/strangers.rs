//! Proves that unwanted peers and garbage are refused, and wrong addresses reported.

use std::io::ErrorKind;

use thalweg_net::Unreachable;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use super::*;

#[tokio::test]
async fn wrong_key_is_refused() {
    let (dialler, target) = (options(Pacing::Kernel), options(Pacing::Kernel));
    let listener = listen(&target, Admission::of([dialler.identity.id()])).await;
    let expected_key = Identity::ephemeral().id();
    let refused = bounded(dial(&dialler, expected_key, &[listener.addresses()[0]])).await;
    let expected = Unreachable::WrongKey {
        addresses: listener.addresses()[0].to_string(),
        peer: expected_key,
    };
    assert_eq!(refused.map(|_| ()), Err(expected));
}

#[tokio::test]
async fn stranger_receives_reason() {
    let (dialler, target) = (options(Pacing::Kernel), options(Pacing::Kernel));
    let admission = Admission::nobody();
    let listener = listen(&target, admission.clone()).await;
    let peer = target.identity.id();
    let refused = bounded(dial(&dialler, peer, &[listener.addresses()[0]])).await;
    let stranger = dialler.identity.id();
    let reason = format!(
        "node {} does not admit the key {}",
        peer.short(),
        stranger.short()
    );
    let expected = Unreachable::NotAdmitted { peer, reason };
    assert_eq!(refused.map(|_| ()), Err(expected));
    assert_eq!(admission.refusals(), 1);
}

#[tokio::test]
async fn dead_address_is_reported() {
    let dialler = options(Pacing::Kernel);
    let own = dialler.identity.id();
    let refused = bounded(dial(&dialler, own, &[loopback()])).await;
    assert_eq!(refused.map(|_| ()), Err(Unreachable::OwnKey(own)));
    let address = std::net::TcpListener::bind(loopback())
        .and_then(|listener| listener.local_addr())
        .expect("loopback has free ports");
    let absent = Identity::ephemeral().id();
    let refused = bounded(dial(&dialler, absent, &[address])).await;
    let reason = refused.map(|_| ()).expect_err("nobody listens").to_string();
    assert!(reason.contains(&address.to_string()), "{reason}");
}

#[tokio::test]
async fn garbage_is_disconnected() {
    let (dialler, target) = (options(Pacing::Kernel), options(Pacing::Kernel));
    let mut listener = listen(&target, Admission::of([dialler.identity.id()])).await;
    let hello = b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n".to_vec();
    for garbage in [hello, vec![0; 5_000], vec![0x16; 50_000], Vec::new()] {
        let mut stream = TcpStream::connect(listener.addresses()[0])
            .await
            .expect("a listener");
        // The listener may have closed before all of it was written.
        let _ = stream.write_all(&garbage).await;
        let _ = stream.shutdown().await;
        let mut rest = Vec::new();
        let _ = bounded(stream.read_to_end(&mut rest)).await;
    }
    let dialled = bounded(dial(
        &dialler,
        target.identity.id(),
        &[listener.addresses()[0]],
    ))
    .await;
    let (a, _events) = dialled.expect("both know each other");
    let (b, _) = bounded(listener.accept())
        .await
        .expect("the listener lives");
    a.send_datagram(pattern(1, 10)).expect("there is room");
    assert_eq!(bounded(b.datagram()).await, Some(pattern(1, 10)));
}

#[tokio::test]
async fn silent_connections_block_no_one() {
    let (dialler, target) = (options(Pacing::Kernel), options(Pacing::Kernel));
    let mut listener = listen(&target, Admission::of([dialler.identity.id()])).await;
    let address = listener.addresses()[0];
    let mut strangers = Vec::new();
    for _ in 0..200 {
        let socket = TcpSocket::new_v4().expect("a socket");
        let from = SocketAddr::from(([127, 0, 0, 2], 0));
        socket.bind(from).expect("all of 127 is here");
        strangers.push(socket.connect(address).await.expect("a listener"));
    }
    let dialled = bounded(dial(&dialler, target.identity.id(), &[address])).await;
    dialled.map(|_| ()).expect("both know each other");
    let accepted = bounded(listener.accept()).await;
    accepted.expect("the listener lives");
    // All but those displaced by the newcomer are in a handshake or queued.
    let are_open = strangers.iter().filter(|stream| {
        let read = stream.try_read(&mut [0]);
        read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    });
    let open = are_open.count();
    assert!(open > 190, "{open} of 200");
}

#[tokio::test]
async fn missing_congestion_control_fails() {
    let mut options = options(Pacing::Kernel);
    options.congestion = Some("no-such-thing".into());
    let bound = Listener::bind(options, &[loopback()], Admission::nobody()).await;
    let error = bound.map(|_| ()).expect_err("no kernel has it").to_string();
    assert!(
        error.starts_with("cannot listen on 127.0.0.1:0 (tcp)"),
        "{error}"
    );
}

#[tokio::test]
async fn benchmark_congestion_controls_work() {
    for name in ["cubic", "reno"] {
        let (mut dialler, mut target) = (options(Pacing::Kernel), options(Pacing::Kernel));
        dialler.congestion = Some(name.into());
        target.congestion = Some(name.into());
        let mut listener = listen(&target, Admission::of([dialler.identity.id()])).await;
        let dialled = bounded(dial(
            &dialler,
            target.identity.id(),
            &[listener.addresses()[0]],
        ))
        .await;
        let (a, _events) = dialled.expect("both know each other");
        let (b, _) = bounded(listener.accept())
            .await
            .expect("the listener lives");
        a.send_datagram(pattern(1, 10)).expect("there is room");
        assert_eq!(bounded(b.datagram()).await, Some(pattern(1, 10)));
    }
}
