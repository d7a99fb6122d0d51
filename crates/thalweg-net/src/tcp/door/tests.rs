//! Proves that malformed requests are refused or dropped, and do not block the next caller.

use std::net::Ipv4Addr;
use std::sync::Arc;

use thalweg_link::tcp_mux::{Out, Pacing, SessionId};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::*;
use crate::admission::Admission;
use crate::clock::Clock;
use crate::doorkeeper::{AtDoor, CALLERS_MAX};
use crate::task::Vital;
use crate::tcp::{ALPN_PLAIN, Listener, Options, dial};

struct Site {
    listener: Listener,
    keeper: NodeId,
    /// The admitted node.
    member: Identity,
}

/// Starts a listener with a door that echoes requests.
async fn site() -> Site {
    let (keeper, mut events) = mpsc::channel(1);
    tokio::spawn(async move {
        while let Some(event) = events.recv().await {
            if let AtDoor::Asked { knock, answer, .. } = event {
                // The caller may be gone.
                let _ = answer.send(knock);
            }
        }
    });
    let (own, member) = (Identity::ephemeral(), Identity::ephemeral());
    let options = Options::new(own.clone(), Clock::start());
    let admission = Admission::of([member.id()]);
    let door = Some(Arc::new(Door::new(keeper)));
    let anywhere = (Ipv4Addr::LOCALHOST, 0).into();
    let vital = Vital::default();
    let listener = Listener::bind_with(options, &[anywhere], admission, door, &vital).await;
    Site {
        listener: listener.expect("loopback can be listened on"),
        keeper: own.id(),
        member,
    }
}

impl Site {
    fn address(&self) -> SocketAddr {
        self.listener.addresses()[0]
    }

    /// Connects to the door and sends no request.
    async fn stranger(&self) -> (Line, Decoder) {
        let stream = TcpStream::connect(self.address()).await;
        let tls = Tls::new(&Identity::ephemeral(), &[]).expect("a cipher");
        let client = tls.client(self.keeper, ALPN_DOOR).expect("a handshake");
        let line = Line::establish(stream.expect("a listener"), client).await;
        line.expect("the door is open")
    }

    async fn is_open(&self) -> bool {
        let (stranger, address) = (Identity::ephemeral(), [self.address()]);
        match request(&stranger, None, self.keeper, &address, b"hello").await {
            Ok(answer) => answer == b"hello"[..],
            Err(Unreachable::Closed {
                code: CloseCode::Overload,
                ..
            }) => false,
            Err(other) => panic!("{other}"),
        }
    }
}

fn frame(frame: &Frame) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    bytes
}

fn part(stream: u64, offset: u64, is_last: bool) -> Vec<u8> {
    frame(&Frame::Data {
        stream: StreamNumber(stream),
        offset,
        is_last,
        bytes: Bytes::from_static(b"hello"),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_request_is_refused() {
    let site = site().await;
    let hello = Frame::Hello {
        session: SessionId::default(),
        carrier: 0,
    };
    let hostile = [
        frame(&hello),
        frame(&Frame::Ping),
        part(0, 0, false),
        part(0, 1, true),
        part(1, 0, true),
        vec![0xff; 300],
        // The largest frame that a link accepts.
        frame(&message_frame(vec![0; CHUNK_BYTES_MAX as usize].into())),
    ];
    for request_bytes in hostile {
        let (mut line, mut decoder) = site.stranger().await;
        let mut out = Out::new();
        out.words().extend_from_slice(&request_bytes);
        line.queue(&mut out).expect("room");
        while !line.flush().expect("it is open") {
            line.socket().writable().await.expect("it is open");
        }
        let reply = line.receive_frame(&mut decoder).await;
        assert!(
            matches!(&reply, Err(LineError::Closed(CloseCode::Protocol, reason)) if reason == NO_REQUEST),
            "{reply:?} to {:?}",
            &request_bytes[..request_bytes.len().min(20)]
        );
        assert!(site.is_open().await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_callers_block_no_session() {
    let mut site = site().await;
    let mut silent = Vec::new();
    for _ in 0..CALLERS_MAX {
        silent.push(site.stranger().await);
    }
    // The last caller may not have taken its place yet.
    while site.is_open().await {}
    let mut options = Options::new(site.member.clone(), Clock::start());
    options.pacing = Pacing::Acked;
    let (member, _) = dial(&options, site.keeper, &[site.address()])
        .await
        .expect("it is admitted");
    assert_eq!(member.peer(), site.keeper);
    let (accepted, _) = site.listener.accept().await.expect("it listens");
    assert_eq!(accepted.peer(), site.member.id());
    drop(silent);
    while !site.is_open().await {}
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_door_is_not_offered() {
    let site = site().await;
    let stream = TcpStream::connect(site.address()).await;
    let tls = Tls::new(&Identity::ephemeral(), &[]).expect("a cipher");
    let client = tls.client(site.keeper, ALPN_PLAIN).expect("a handshake");
    let line = Line::establish(stream.expect("a listener"), client).await;
    assert!(line.is_err(), "it was not offered");
}
