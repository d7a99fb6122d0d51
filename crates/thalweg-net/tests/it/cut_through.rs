//! Proves that relays forward the head of an ADU before its tail has arrived, over several hops;
//! that a cancellation upstream is passed on; and that the rest of an ordered sequence survives it.

use std::sync::Arc;

use bytes::Bytes;
use thalweg_base::id::{Epoch, NodeId, StreamId};
use thalweg_base::units::DataSize;
use thalweg_base::wire::adu::encode_header;
use thalweg_net::{
    Admission, Arriving, BodyError, Carriage, Clock, Endpoint, Link, LinkEvent, OrderedId, Outcome,
    Payload, Receiver, StreamCode,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::node::{Node, Over, bounded, by, header, options, pair_over, pattern};

/// Forwards every ADU to one other node while it arrives.
struct Relay {
    endpoint: std::sync::OnceLock<Endpoint>,
    next: NodeId,
    carriage: Carriage,
    outcomes: UnboundedSender<Outcome>,
}

impl Receiver for Relay {
    async fn handle_adu(&self, _link: &Link, adu: Arriving) {
        let endpoint = self.endpoint.get().expect("set before anybody dials");
        let link = endpoint.link(self.next).expect("the next hop is up");
        let sending = link.send_adu(adu.header, Payload::Arriving(adu.body), by(self.carriage));
        // The test may be over already.
        let _ = self.outcomes.send(sending.await);
    }

    async fn handle_control(&self, _link: &Link, _frame: Bytes) {}

    fn handle_link(&self, _event: LinkEvent) {}
}

/// Passes on every chunk as it arrives.
struct ChunkReader(UnboundedSender<Result<Bytes, BodyError>>);

impl Receiver for ChunkReader {
    async fn handle_adu(&self, _link: &Link, adu: Arriving) {
        let mut body = adu.body;
        loop {
            let chunk = body.chunk().await.map(Option::unwrap_or_default);
            let is_last = chunk.as_ref().map_or(true, Bytes::is_empty);
            if self.0.send(chunk).is_err() || is_last {
                return;
            }
        }
    }

    async fn handle_control(&self, _link: &Link, _frame: Bytes) {}

    fn handle_link(&self, _event: LinkEvent) {}
}

async fn relay(next: &Endpoint) -> (Endpoint, Admission, UnboundedReceiver<Outcome>) {
    relay_by(next, Carriage::Stream).await
}

async fn relay_by(
    next: &Endpoint,
    carriage: Carriage,
) -> (Endpoint, Admission, UnboundedReceiver<Outcome>) {
    let options = options(1);
    let admission = options.admission.clone();
    let (outcomes, outcomes_received) = unbounded_channel();
    let receiver = Arc::new(Relay {
        endpoint: std::sync::OnceLock::new(),
        next: next.id(),
        carriage,
        outcomes,
    });
    let endpoint = Endpoint::bind(options, receiver.clone(), Clock::start())
        .await
        .expect("loopback can be listened on");
    admission.admit(next.id());
    next.admission().admit(endpoint.id());
    bounded(endpoint.dial(next.id(), &next.listening()))
        .await
        .expect("admitted");
    assert!(receiver.endpoint.set(endpoint.clone()).is_ok());
    (endpoint, admission, outcomes_received)
}

async fn chunk_reader() -> (Endpoint, UnboundedReceiver<Result<Bytes, BodyError>>) {
    let (chunks, chunks_received) = unbounded_channel();
    let endpoint = Endpoint::bind(options(1), Arc::new(ChunkReader(chunks)), Clock::start())
        .await
        .expect("loopback can be listened on");
    (endpoint, chunks_received)
}

/// A bare QUIC peer that writes an ADU as slowly as a test needs.
async fn bare(to: &Endpoint) -> (iroh::Endpoint, iroh::endpoint::Connection) {
    let bare = iroh::Endpoint::builder(iroh::endpoint::presets::Minimal)
        .clear_ip_transports()
        .bind_addr("127.0.0.1:0")
        .expect("an address")
        .bind()
        .await
        .expect("loopback can be listened on");
    to.admission().admit(NodeId(*bare.id().as_bytes()));
    let key = iroh::PublicKey::from_bytes(&to.id().0).expect("a key");
    let address = iroh::EndpointAddr::new(key).with_ip_addr(to.listening()[0]);
    let connection = bounded(bare.connect(address, b"thalweg/1"))
        .await
        .expect("admitted");
    let mut control = connection.open_uni().await.expect("room for streams");
    control.write_all(&[0]).await.expect("it is open");
    // Kept open: its end would mean that this peer sends nothing more.
    std::mem::forget(control);
    (bare, connection)
}

fn head_of(payload_bytes: usize) -> Vec<u8> {
    let mut head = vec![1];
    add_head(5, payload_bytes, &mut head);
    head
}

fn add_head(sequence: u64, payload_bytes: usize, head: &mut Vec<u8>) {
    let start = thalweg_base::time::Instant::ZERO;
    encode_header(&header(sequence), payload_bytes, start, head);
}

/// Opens a stream of a sequence with the head of an ADU and its first byte.
async fn open_sequence(
    connection: &iroh::endpoint::Connection,
    sequence: u64,
    payload_bytes: usize,
    first: u8,
) -> iroh::endpoint::SendStream {
    let opened = bounded(connection.open_uni()).await;
    let mut stream = opened.expect("room for streams");
    let mut bytes = vec![2];
    add_head(sequence, payload_bytes, &mut bytes);
    bytes.push(first);
    stream.write_all(&bytes).await.expect("open");
    stream
}

fn lane() -> Carriage {
    Carriage::Ordered(OrderedId {
        stream: StreamId(1),
        epoch: Epoch(1),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn head_passes_relays_before_tail() {
    let (sink, mut chunks_received) = chunk_reader().await;
    let (second, _, mut second_outcomes) = relay(&sink).await;
    let (first, _, mut first_outcomes) = relay(&second).await;
    let (_bare, connection) = bare(&first).await;
    let payload = pattern(100_000);
    let mut stream = bounded(connection.open_uni())
        .await
        .expect("room for streams");
    stream
        .write_all(&head_of(payload.len()))
        .await
        .expect("open");
    stream.write_all(&payload[..1]).await.expect("open");
    // The rest is sent only after the far end has received the first byte.
    let first_chunk = bounded(chunks_received.recv())
        .await
        .expect("it lives")
        .expect("a chunk");
    assert_eq!(first_chunk, payload[..1]);
    stream.write_all(&payload[1..]).await.expect("open");
    stream.finish().expect("open");
    let mut received = first_chunk.to_vec();
    while received.len() < payload.len() {
        received.extend(
            bounded(chunks_received.recv())
                .await
                .expect("it lives")
                .expect("a chunk"),
        );
    }
    assert_eq!(received, payload);
    assert_eq!(
        bounded(first_outcomes.recv()).await,
        Some(Outcome::Acknowledged)
    );
    assert_eq!(
        bounded(second_outcomes.recv()).await,
        Some(Outcome::Acknowledged)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn cancellation_passes_downstream() {
    let (sink, mut chunks_received) = chunk_reader().await;
    let (first, _, mut outcomes_received) = relay(&sink).await;
    let (_bare, connection) = bare(&first).await;
    for (code, outcome) in [
        (StreamCode::Cancelled, Outcome::Cancelled),
        (StreamCode::Expired, Outcome::Expired),
    ] {
        let mut stream = bounded(connection.open_uni())
            .await
            .expect("room for streams");
        stream.write_all(&head_of(1000)).await.expect("open");
        stream.write_all(&[7]).await.expect("open");
        let chunk = bounded(chunks_received.recv()).await.expect("it lives");
        assert_eq!(chunk.as_deref(), Ok(&[7][..]));
        stream.reset((code.number() as u32).into()).expect("open");
        let end = bounded(chunks_received.recv()).await.expect("it lives");
        assert_eq!(end, Err(BodyError::Reset(code)));
        assert_eq!(bounded(outcomes_received.recv()).await, Some(outcome));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sequence_survives_truncated_adu() {
    let (sink, mut chunks_received) = chunk_reader().await;
    let (second, ..) = relay_by(&sink, lane()).await;
    let (first, _, mut outcomes_received) = relay_by(&second, lane()).await;
    let (_bare, connection) = bare(&first).await;
    let mut next_chunk = async || bounded(chunks_received.recv()).await.expect("it lives");
    let mut stream = open_sequence(&connection, 0, 2, 7).await;
    // The second byte is sent only after the far end has received the first.
    assert_eq!(next_chunk().await.as_deref(), Ok(&[7][..]));
    let mut bytes = vec![8];
    add_head(1, 2, &mut bytes);
    bytes.push(9);
    stream.write_all(&bytes).await.expect("open");
    assert_eq!(next_chunk().await.as_deref(), Ok(&[8][..]));
    assert_eq!(next_chunk().await.as_deref(), Ok(&[][..]));
    assert_eq!(
        bounded(outcomes_received.recv()).await,
        Some(Outcome::Departed)
    );
    assert_eq!(next_chunk().await.as_deref(), Ok(&[9][..]));
    stream.finish().expect("open");
    let cancelled = BodyError::Reset(StreamCode::Cancelled);
    assert_eq!(next_chunk().await, Err(cancelled));
    assert_eq!(
        bounded(outcomes_received.recv()).await,
        Some(Outcome::Cancelled)
    );
    let _stream = open_sequence(&connection, 2, 1, 10).await;
    assert_eq!(next_chunk().await.as_deref(), Ok(&[10][..]));
    assert_eq!(
        bounded(outcomes_received.recv()).await,
        Some(Outcome::Departed)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn sequence_survives_cancelled_adu() {
    for over in Over::ALL {
        let (a, b, link) = pair_over(over).await;
        for sequence in 0..3 {
            let mut sending =
                Box::pin(link.send_adu(header(2 * sequence), pattern(8 << 20), by(lane())));
            // It has begun once more bytes were sent than anything else accounts for.
            let before = link.stats().sent + DataSize::from_kib(20);
            let has_begun = async {
                while link.stats().sent < before {
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                biased;
                outcome = &mut sending => assert_eq!(outcome, Outcome::Departed),
                () = bounded(has_begun) => {}
            }
            drop(sending);
            let next = link.send_adu(header(2 * sequence + 1), pattern(10), by(lane()));
            assert_eq!(bounded(next).await, Outcome::Departed, "{over:?}");
            loop {
                let (header, payload) = b.next_adu().await;
                if header.sequence.0 == 2 * sequence + 1 {
                    assert_eq!(payload.expect("whole"), pattern(10));
                    break;
                }
            }
        }
        drop(a);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn adu_crosses_four_hops_intact() {
    let sink = Node::start(1).await;
    let (third, ..) = relay(&sink.endpoint).await;
    let (second, ..) = relay(&third).await;
    let (first, ..) = relay(&second).await;
    let source = Node::start(1).await;
    source.admission.admit(first.id());
    first.admission().admit(source.id());
    let link = bounded(source.endpoint.dial(first.id(), &first.listening()))
        .await
        .expect("admitted");
    for (sequence, bytes) in (0..).zip([0, 100, 60_000, 1 << 20]) {
        let sending = link.send_adu(header(sequence), pattern(bytes), by(Carriage::Stream));
        assert_eq!(bounded(sending).await, Outcome::Acknowledged);
        let (received, payload) = sink.next_adu().await;
        assert_eq!(received, header(sequence));
        assert_eq!(payload.expect("whole"), pattern(bytes));
    }
}
