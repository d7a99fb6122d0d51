//! Proves that ADUs and control frames arrive unchanged, by each carriage and in each size, over
//! QUIC and TCP.

use bytes::Bytes;
use thalweg_base::adu::{Flags, Importance, MediaTime};
use thalweg_base::id::Epoch;
use thalweg_base::limits::{ADU_PAYLOAD_BYTES_MAX, CONTROL_BYTES_MAX};
use thalweg_base::time::Duration;
use thalweg_base::units::{Bitrate, DataSize};
use thalweg_link::tcp_mux::Pacing;
use thalweg_net::{Carriage, ControlError, OrderedId, Outcome};

use crate::node::{
    Measured, Node, Over, Seen, bounded, by, header, pair, pair_over, pair_through, pattern,
};

const SIZES: [usize; 5] = [0, 1, 1200, 64 << 10, 1 << 20];

fn lane(epoch: u32) -> OrderedId {
    OrderedId {
        stream: header(0).stream,
        epoch: Epoch(epoch),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_carries_every_size() {
    for over in Over::ALL {
        let (_a, b, link) = pair_over(over).await;
        for (sequence, bytes) in (0..).zip(SIZES) {
            let sending = link.send_adu(header(sequence), pattern(bytes), by(Carriage::Stream));
            assert_eq!(bounded(sending).await, Outcome::Acknowledged, "{bytes}");
            let (received, payload) = b.next_adu().await;
            assert_eq!(received, header(sequence));
            assert_eq!(payload.expect("whole"), pattern(bytes));
        }
        assert_eq!(link.counters().of(Outcome::Acknowledged), 5);
        assert_eq!(link.in_flight(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn large_datagram_goes_by_stream() {
    for over in Over::ALL {
        let (_a, b, link) = pair_over(over).await;
        for (sequence, bytes) in (0..).zip(SIZES) {
            let sending = link.send_adu(header(sequence), pattern(bytes), by(Carriage::Datagram));
            let outcome = bounded(sending).await;
            let expected = match bytes {
                0 | 1 => Outcome::Departed,
                _ => Outcome::Acknowledged,
            };
            // 1,200 bytes and a header fit a datagram only once the path's MTU is known.
            assert!(
                bytes == 1200 || outcome == expected,
                "{over:?} {bytes} {outcome:?}"
            );
            let (received, payload) = b.next_adu().await;
            assert_eq!(received, header(sequence));
            assert_eq!(payload.expect("whole"), pattern(bytes));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ordered_sequence_arrives_in_order() {
    for over in Over::ALL {
        let (_a, b, link) = pair_over(over).await;
        for round in 0..10 {
            for (place, bytes) in (0..).zip(SIZES) {
                let sending = link.send_adu(
                    header(round * 5 + place),
                    pattern(bytes),
                    by(Carriage::Ordered(lane(1))),
                );
                assert_eq!(bounded(sending).await, Outcome::Departed);
            }
        }
        for sequence in 0..50 {
            let (received, payload) = b.next_adu().await;
            assert_eq!(received.sequence.0, sequence);
            assert_eq!(
                payload.expect("whole"),
                pattern(SIZES[sequence as usize % 5])
            );
        }
        assert_eq!(
            bounded(link.finish_ordered(lane(1))).await,
            Outcome::Acknowledged
        );
        assert_eq!(
            bounded(link.finish_ordered(lane(2))).await,
            Outcome::Acknowledged
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn header_carries_remaining_deadline() {
    for over in Over::ALL {
        let (a, b, link) = pair_over(over).await;
        let mut sent = header(9);
        sent.importance = Importance(3);
        sent.layer = 2;
        sent.depends_on = 4;
        sent.epoch = Epoch(6);
        sent.media_time = MediaTime::from_micros(1_234_567);
        sent.flags = Flags::KEY.with(Flags::SEALED);
        sent.deadline = a.endpoint.clock().now() + Duration::from_secs(3600);
        link.send_adu(sent, pattern(10), by(Carriage::Stream))
            .detach(0);
        let (mut received, _) = b.next_adu().await;
        let left = received.deadline.saturating_since(b.endpoint.clock().now());
        assert!(left <= Duration::from_secs(3600), "{left}");
        assert!(left > Duration::from_secs(3000), "{left}");
        received.deadline = sent.deadline;
        assert_eq!(received, sent);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn detached_outcome_reaches_receiver() {
    for over in Over::ALL {
        let (a, _b, link) = pair_over(over).await;
        for sequence in 0..1000 {
            link.send_adu(header(sequence), pattern(100), by(Carriage::Stream))
                .detach(0);
        }
        acknowledged(&a, 1000).await;
    }
}

/// Waits for `count` outcomes, all of them acknowledgements.
async fn acknowledged(node: &Node, count: usize) {
    for _ in 0..count {
        let outcome = node
            .next(|seen| match seen {
                Seen::Outcome(outcome) => Some(outcome),
                _ => None,
            })
            .await;
        assert_eq!(outcome, Outcome::Acknowledged);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn patient_outcome_wakes_nothing() {
    const COUNT: u64 = 40;
    for over in Over::ALL {
        let (a, _b, link) = pair_over(over).await;
        let before = link.counters().wakes;
        for sequence in 0..COUNT {
            let mut sent = header(sequence);
            sent.deadline = a.endpoint.clock().now() + Duration::from_secs(60);
            let sending = link.send_adu(sent, pattern(100), by(Carriage::Stream));
            sending.patient().detach(0);
            // Long enough for most ADUs to be acknowledged before the next is sent.
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        acknowledged(&a, COUNT as usize).await;
        let wakes = link.counters().wakes - before;
        // Over QUIC each acknowledgement wakes the driver.
        assert!(
            over == Over::Quic || wakes < COUNT / 2,
            "{wakes} for {COUNT} ADUs"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn awaited_outcome_is_not_delayed() {
    for over in Over::ALL {
        let (a, _b, link) = pair_over(over).await;
        let mut sent = header(0);
        sent.deadline = a.endpoint.clock().now() + Duration::from_secs(60);
        let sending = link.send_adu(sent, pattern(100), by(Carriage::Stream));
        sending.patient().detach(0);
        // An awaited outcome is reported at once, together with earlier patient ones.
        for sequence in 1..20 {
            let sending = link.send_adu(header(sequence), pattern(100), by(Carriage::Stream));
            assert_eq!(bounded(sending).await, Outcome::Acknowledged);
        }
        acknowledged(&a, 1).await;
        assert_eq!(link.in_flight(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn adu_wakes_driver_once() {
    const ADUS: u64 = 100;
    let (a, _b, link) = pair().await;
    let before = link.counters().wakes;
    for sequence in 0..ADUS {
        let mut header = header(sequence);
        header.deadline = a.endpoint.clock().now() + Duration::from_secs(3600);
        let sending = link.send_adu(header, pattern(1_000), by(Carriage::Stream));
        assert_eq!(bounded(sending).await, Outcome::Acknowledged);
    }
    let wakes = link.counters().wakes - before;
    // One more wake-up may set the alarm, and one may be the first poll.
    assert!(wakes <= ADUS + 2, "{wakes} wakes for {ADUS} ADUs");
}

#[tokio::test(flavor = "multi_thread")]
async fn links_are_sampled_together() {
    let a = Node::start_over(Over::Tcp(Pacing::Kernel)).await;
    let (b, c) = (
        Node::start(1).await,
        Node::start_over(Over::Tcp(Pacing::Kernel)).await,
    );
    for other in [&b, &c] {
        a.admits(other);
        other.admits(&a);
    }
    let [to_b, _to_c] = [a.dial(&b).await, a.dial(&c).await];
    let measured = async |sent_to_b: DataSize| {
        let sent = |of: &Measured, node: &Node| {
            let of = of.iter().find(|(peer, _)| *peer == node.id());
            of.map(|(_, sent)| *sent)
        };
        let is_complete = |of: &Measured| sent(of, &b) >= Some(sent_to_b) && sent(of, &c).is_some();
        let mut samples = a.measured.clone();
        let samples = bounded(samples.wait_for(is_complete))
            .await
            .expect("it lives");
        (sent(&samples, &b).expect("it is there"), samples.len())
    };
    let (before, links) = measured(DataSize::ZERO).await;
    assert_eq!(links, 2);
    let payload = pattern(100_000);
    let sending = to_b.send_adu(header(1), payload.clone(), by(Carriage::Stream));
    assert_eq!(bounded(sending).await, Outcome::Acknowledged);
    measured(before + DataSize::from_bytes(payload.len() as u64)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_payload_is_not_sent() {
    for over in Over::ALL {
        let (_a, _b, link) = pair_over(over).await;
        let payload = Bytes::from(vec![0; ADU_PAYLOAD_BYTES_MAX + 1]);
        let outcome = bounded(link.send_adu(header(0), payload, by(Carriage::Stream))).await;
        assert_eq!(outcome, Outcome::TooLarge);
        let largest = Bytes::from(vec![0; ADU_PAYLOAD_BYTES_MAX]);
        let outcome = bounded(link.send_adu(header(1), largest, by(Carriage::Stream))).await;
        assert_eq!(outcome, Outcome::Acknowledged);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn control_frames_arrive_in_order() {
    for over in Over::ALL {
        let (a, b, link) = pair_over(over).await;
        let back = b
            .next(|seen| match seen {
                Seen::Link(thalweg_net::LinkEvent::Up(link)) => Some(link),
                _ => None,
            })
            .await;
        let sizes = [0, 1, 5000, CONTROL_BYTES_MAX];
        for bytes in sizes {
            bounded(link.send_control(pattern(bytes)))
                .await
                .expect("up");
            bounded(back.send_control(pattern(bytes)))
                .await
                .expect("up");
        }
        for (node, peer) in [(&a, &b), (&b, &a)] {
            for bytes in sizes {
                let (from, frame) = node
                    .next(|seen| match seen {
                        Seen::Control(from, frame) => Some((from, frame)),
                        _ => None,
                    })
                    .await;
                assert_eq!(from, peer.id());
                assert_eq!(frame, pattern(bytes));
            }
        }
        let too_large = bounded(link.send_control(pattern(CONTROL_BYTES_MAX + 1))).await;
        assert!(matches!(too_large, Err(ControlError::TooLarge { .. })));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn given_notifies_once_per_request() {
    for over in Over::ALL {
        let (a, b, link) = pair_over(over).await;
        let notified = async || {
            let seen = a.rest().await.into_iter();
            let notified = seen.filter_map(|seen| match seen {
                Seen::Given(peer) => Some(peer),
                _ => None,
            });
            notified.collect::<Vec<_>>()
        };
        let send_adu = async |sequence| {
            let sending = link.send_adu(header(sequence), pattern(1), by(Carriage::Stream));
            assert_eq!(bounded(sending).await, Outcome::Acknowledged);
        };
        send_adu(0).await;
        assert_eq!(notified().await, [], "nobody asked");
        link.tell_when_given();
        assert_eq!(notified().await, [], "nothing was given since");
        send_adu(1).await;
        send_adu(2).await;
        assert_eq!(notified().await, [b.id()]);
        link.tell_when_given();
        bounded(link.send_control(pattern(1)))
            .await
            .expect("the link is up");
        b.next(|seen| matches!(seen, Seen::Control(..)).then_some(()))
            .await;
        send_adu(3).await;
        assert_eq!(notified().await, [b.id()]);
        assert!(link.has_all_gone());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_adu_keeps_link_busy() {
    let (_a, b, link, _shaper) = pair_through(Bitrate::from_kbps(200)).await;
    let sending = link.send_adu(header(0), pattern(64 << 10), by(Carriage::Stream));
    sending.detach(0);
    assert!(!link.has_all_gone());
    b.next_adu().await.1.expect("whole");
}
