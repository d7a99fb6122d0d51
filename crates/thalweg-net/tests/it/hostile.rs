//! Proves that errors of a peer or a stranger harm no one else: they are counted, and the link goes
//! on.

use bytes::Bytes;
use thalweg_base::id::NodeId;
use thalweg_base::limits::{ADU_PAYLOAD_BYTES_MAX, ARRIVING_BYTES_MAX};
use thalweg_base::wire::adu::encode_header;
use thalweg_net::{Carriage, CloseCode, DownCause, LinkEvent, Outcome, StreamCode};

use crate::node::{Node, Seen, bounded, by, header, pair, pattern};

/// Connects a bare QUIC peer to `node`, without a greeting.
async fn bare(node: &Node) -> (iroh::Endpoint, iroh::endpoint::Connection) {
    let bare = iroh::Endpoint::builder(iroh::endpoint::presets::Minimal)
        .clear_ip_transports()
        .bind_addr("127.0.0.1:0")
        .expect("an address")
        .bind()
        .await
        .expect("loopback can be listened on");
    node.admission.admit(NodeId(*bare.id().as_bytes()));
    let key = iroh::PublicKey::from_bytes(&node.id().0).expect("a key");
    let address = iroh::EndpointAddr::new(key).with_ip_addr(node.address());
    let connection = bounded(bare.connect(address, b"thalweg/1"))
        .await
        .expect("admitted");
    (bare, connection)
}

async fn greet(connection: &iroh::endpoint::Connection) -> iroh::endpoint::SendStream {
    let mut control = bounded(connection.open_uni())
        .await
        .expect("room for streams");
    control.write_all(&[0]).await.expect("it is open");
    control
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_datagrams_are_harmless() {
    let (_a, b, link) = pair().await;
    let stranger = std::net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
    for bytes in [0, 1, 20, 1200, 9000] {
        for byte in [0x00, 0x40, 0xc0, 0xff] {
            stranger
                .send_to(&vec![byte; bytes], b.address())
                .expect("loopback takes it");
        }
    }
    let sending = link.send_adu(header(1), pattern(5000), by(Carriage::Stream));
    assert_eq!(bounded(sending).await, Outcome::Acknowledged);
    assert_eq!(b.next_adu().await.1.expect("whole"), pattern(5000));
    assert_eq!(b.endpoint.links().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_streams_are_counted() {
    let node = Node::start(1).await;
    let (_bare, connection) = bare(&node).await;
    let _control = greet(&connection).await;
    let mut too_long = vec![1, 1, 0, 0, 0];
    too_long.extend([0; 8]);
    // Sequence, epoch, media time, depends-on, budget, and then a payload one byte above the limit.
    too_long.extend([0; 5]);
    too_long.extend((0x8000_0000_u32 | (ADU_PAYLOAD_BYTES_MAX as u32 + 1)).to_be_bytes());
    // A header with a number of trace stamps that is zero, or larger than any path.
    let stamped = |count| {
        let mut header = vec![1, 1, 0x80, 0, 0];
        header.extend([0; 8 + 6]);
        header.push(count);
        header
    };
    let wrong: [&[u8]; 7] = [
        &[9],
        &[1, 99, 0, 0, 0],
        &[2, 99, 0, 0, 0],
        &[1, 1, 0xff, 0, 16],
        &too_long,
        &stamped(0),
        &stamped(32),
    ];
    for bytes in wrong {
        let mut stream = bounded(connection.open_uni())
            .await
            .expect("room for streams");
        stream.write_all(bytes).await.expect("it is open");
        let stopped = bounded(stream.stopped()).await.expect("the link lives");
        let code = stopped.map(|code| StreamCode::from_number(code.into_inner()));
        assert_eq!(code, Some(StreamCode::Protocol), "{bytes:?}");
    }
    // Ends in the middle of a header.
    let mut short = bounded(connection.open_uni())
        .await
        .expect("room for streams");
    short.write_all(&[1, 1, 0]).await.expect("it is open");
    short.finish().expect("it is open");
    bounded(short.stopped()).await.expect("the link lives");
    connection
        .send_datagram(Bytes::from_static(b"garbage"))
        .expect("it fits");
    let link = &node.endpoint.links()[0];
    bounded(async {
        while link.counters().malformed < 8 || link.counters().unknown_kinds < 1 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(link.counters().received, 0);
    let sending = link.send_adu(header(1), pattern(10), by(Carriage::Stream));
    let accepting = async {
        let control = connection.accept_uni().await.expect("the link lives");
        let mut adu = connection.accept_uni().await.expect("the link lives");
        let bytes = adu.read_to_end(1000).await.expect("whole");
        (control, bytes)
    };
    let (outcome, (_, bytes)) = bounded(async { tokio::join!(sending, accepting) }).await;
    assert_eq!(outcome, Outcome::Acknowledged);
    assert!(bytes.ends_with(&pattern(10)));
}

#[tokio::test(flavor = "multi_thread")]
async fn incomplete_adus_are_bounded() {
    let node = Node::start(1).await;
    let (_bare, connection) = bare(&node).await;
    let _control = greet(&connection).await;
    let start = thalweg_base::time::Instant::ZERO;
    let mut open = Vec::new();
    let count = ARRIVING_BYTES_MAX.as_bytes() as usize / ADU_PAYLOAD_BYTES_MAX + 1;
    for sequence in 0..count {
        let mut stream = bounded(connection.open_uni())
            .await
            .expect("room for streams");
        let mut head = vec![1];
        let header = header(sequence as u64);
        encode_header(&header, ADU_PAYLOAD_BYTES_MAX, start, &mut head);
        stream.write_all(&head).await.expect("it is open");
        let cut = vec![7; ADU_PAYLOAD_BYTES_MAX - 1];
        // The last one is stopped before it is written completely.
        let _ = bounded(stream.write_all(&cut)).await;
        open.push(stream);
    }
    let (seen, given_up) = node.next_adu().await;
    assert_eq!(given_up, Err(thalweg_net::BodyError::Overflow));
    let (mut refused, mut waiting) = (Vec::new(), Vec::new());
    for (sequence, stream) in open.into_iter().enumerate() {
        let is_refused = header(sequence as u64).sequence == seen.sequence;
        if is_refused {
            &mut refused
        } else {
            &mut waiting
        }
        .push(stream);
    }
    let stopped = bounded(refused[0].stopped()).await.expect("the link lives");
    let code = stopped.map(|code| StreamCode::from_number(code.into_inner()));
    assert_eq!(code, Some(StreamCode::Overload));
    // The others wait for their last byte.
    for mut stream in waiting {
        stream.write_all(&[7]).await.expect("it is open");
        stream.finish().expect("it is open");
        let (_, payload) = node.next_adu().await;
        assert_eq!(payload.expect("whole").len(), ADU_PAYLOAD_BYTES_MAX);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn truncated_payload_fails_reader() {
    let node = Node::start(1).await;
    let (_bare, connection) = bare(&node).await;
    let _control = greet(&connection).await;
    let mut stream = bounded(connection.open_uni())
        .await
        .expect("room for streams");
    let mut head = vec![1];
    let start = thalweg_base::time::Instant::ZERO;
    encode_header(&header(3), 100, start, &mut head);
    stream.write_all(&head).await.expect("it is open");
    stream.write_all(&[1; 40]).await.expect("it is open");
    stream.finish().expect("it is open");
    let (received, payload) = node.next_adu().await;
    assert_eq!(received, header(3));
    assert!(
        matches!(payload, Err(thalweg_net::BodyError::Truncated { .. })),
        "{payload:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_control_frame_ends_link() {
    let node = Node::start(1).await;
    let (_bare, connection) = bare(&node).await;
    let mut control = greet(&connection).await;
    control.write_all(&[0xff; 4]).await.expect("it is open");
    let end = bounded(connection.closed()).await;
    let cause = end.to_string();
    assert!(cause.contains("above the limit"), "{cause}");
    let down = node
        .next(|seen| match seen {
            Seen::Link(LinkEvent::Down { cause, .. }) => Some(cause),
            _ => None,
        })
        .await;
    assert_eq!(down, DownCause::ByUs);
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_peer_gets_no_link() {
    let node = Node::start(1).await;
    let (_bare, connection) = bare(&node).await;
    let mut stream = bounded(connection.open_uni())
        .await
        .expect("room for streams");
    stream.write_all(&[1]).await.expect("it is open");
    let end = bounded(connection.closed()).await;
    let iroh::endpoint::ConnectionError::ApplicationClosed(close) = end else {
        panic!("{end}");
    };
    assert_eq!(close.error_code.into_inner(), CloseCode::Protocol.number());
    assert!(node.endpoint.links().is_empty());
}
