//! Proves that a session is unencrypted if both ends are configured so, and only then.

use std::sync::{Arc, Mutex, PoisonError};

use thalweg_net::Unreachable;
use thalweg_net::tcp::{ALPN, ALPN_PLAIN};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// All bytes that passed the tap, in both directions of all connections.
type Captured = Arc<Mutex<Vec<u8>>>;

/// Starts a forwarder in front of an address that records all bytes.
async fn tap(target: SocketAddr) -> (SocketAddr, Captured) {
    let captured = Captured::default();
    let listener = TcpListener::bind(loopback())
        .await
        .expect("loopback has free ports");
    let address = listener.local_addr().expect("it is bound");
    let tap = captured.clone();
    tokio::spawn(async move {
        while let Ok((from, _)) = listener.accept().await {
            let to = TcpStream::connect(target).await.expect("a listener");
            let ((from_reader, from_writer), (to_reader, to_writer)) =
                (from.into_split(), to.into_split());
            tokio::spawn(pass(from_reader, to_writer, tap.clone()));
            tokio::spawn(pass(to_reader, from_writer, tap.clone()));
        }
    });
    (address, captured)
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, captured: Captured) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        record(&captured, &buffer[..count]);
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

fn record(captured: &Captured, bytes: &[u8]) {
    let mut all = captured.lock().unwrap_or_else(PoisonError::into_inner);
    all.extend_from_slice(bytes);
}

/// Returns both ends' options; the arguments tell whether each lists the other as plain.
fn ends(dialler_plain: bool, target_plain: bool) -> (Options, Options) {
    let (mut dialler, mut target) = (options(Pacing::Kernel), options(Pacing::Kernel));
    dialler
        .plain
        .extend(dialler_plain.then(|| target.identity.id()));
    target
        .plain
        .extend(target_plain.then(|| dialler.identity.id()));
    (dialler, target)
}

#[tokio::test]
async fn plain_needs_both_ends() {
    for (dialler_plain, is_plain) in [(true, true), (false, false)] {
        let (dialler, target) = ends(dialler_plain, true);
        let mut listener = listen(&target, Admission::of([dialler.identity.id()])).await;
        let (address, captured) = tap(listener.addresses()[0]).await;
        let (a, mut events) = bounded(dial(&dialler, target.identity.id(), &[address]))
            .await
            .expect("both know each other");
        let (b, _) = bounded(listener.accept())
            .await
            .expect("the listener lives");
        let sent = pattern(3, 400_000);
        let stream = a.open(0).expect("the peer admits it");
        write_all(&a, stream, sent.clone()).await;
        let arriving = bounded(b.accept()).await.expect("the session lives");
        let received = bounded(arriving.collect(1 << 20)).await;
        assert_eq!(received.expect("it is finished"), sent);
        acknowledged(&mut events, 1).await;
        b.send_datagram(pattern(1, 900)).expect("there is room");
        assert_eq!(bounded(a.datagram()).await, Some(pattern(1, 900)));
        let captured = captured.lock().unwrap_or_else(PoisonError::into_inner);
        let is_readable = captured
            .windows(200)
            .any(|bytes| bytes == &sent[1_000..1_200]);
        assert_eq!(is_readable, is_plain);
    }
}

#[tokio::test]
async fn plain_at_one_end_is_refused() {
    let (dialler, mut target) = ends(true, false);
    let peer = target.identity.id();
    let admission = Admission::of([dialler.identity.id()]);
    let listener = listen(&target, admission.clone()).await;
    let refused = bounded(dial(&dialler, peer, &[listener.addresses()[0]])).await;
    let expected = Unreachable::Version {
        peer,
        alpn: ALPN_PLAIN,
    };
    assert_eq!(refused.map(|_| ()), Err(expected));
    // It is plain with another peer.
    target.plain.insert(Identity::ephemeral().id());
    let listener = listen(&target, admission).await;
    let refused = bounded(dial(&dialler, peer, &[listener.addresses()[0]])).await;
    let reason = format!(
        "node {} has no unencrypted sessions with the key {}",
        peer.short(),
        dialler.identity.id().short()
    );
    let expected = Unreachable::NotAdmitted { peer, reason };
    assert_eq!(refused.map(|_| ()), Err(expected));
    assert_ne!(ALPN, ALPN_PLAIN);
}

#[tokio::test]
async fn wrong_key_is_refused_before_plain() {
    let (mut dialler, target) = ends(true, true);
    let expected_key = Identity::ephemeral().id();
    dialler.plain.insert(expected_key);
    let listener = listen(&target, Admission::of([dialler.identity.id()])).await;
    let refused = bounded(dial(&dialler, expected_key, &[listener.addresses()[0]])).await;
    let expected = Unreachable::WrongKey {
        addresses: listener.addresses()[0].to_string(),
        peer: expected_key,
    };
    assert_eq!(refused.map(|_| ()), Err(expected));
}
