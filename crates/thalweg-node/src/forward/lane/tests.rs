//! Proves that a lane carries out what its machine asks for, and that its counters follow.

use std::num::NonZeroU8;

use thalweg_base::id::Sequence;
use thalweg_base::mailbox::MailboxOptions;
use thalweg_base::needs::Order;
use thalweg_base::part::{Installation, Secrets};
use thalweg_dataplane::packet::Pool;
use thalweg_net::Clock;
use thalweg_net::link::Arriving;

use super::*;
use crate::forward::{Forwarder, Inbox, Mail};

const STREAM: StreamId = StreamId(7);
const BEFORE: NodeId = NodeId([1; 32]);
const NEXT: NodeId = NodeId([2; 32]);

fn installation(epoch: u32, next: Option<NodeId>, reliability: Reliability) -> Installation {
    Installation {
        name: "cam".parse().expect("a name"),
        stream: STREAM,
        epoch: Epoch(epoch),
        source: BEFORE,
        previous: BEFORE,
        next,
        adapters: Vec::new(),
        reliability,
        order: Order::Sequence,
        weight: NonZeroU8::MIN,
        plaintext: true,
        base: None,
    }
}

/// Returns a node's data path with these parts.
fn forwarder(parts: impl IntoIterator<Item = Installation>) -> Forwarder {
    let forwarder = Forwarder::new(Clock::start(), Pool::new(0));
    for part in parts {
        let secrets = Secrets {
            key: None,
            instance: 0,
        };
        forwarder.install(part, secrets).expect("nothing but a way");
    }
    forwarder
}

fn header(epoch: u32, sequence: u64) -> Header {
    Header {
        epoch: Epoch(epoch),
        ..Header::new(STREAM, Sequence(sequence))
    }
}

/// Lets an ADU arrive that is here whole.
fn arrive(lane: &Arc<Lane>, header: Header) -> Taken {
    let payload = Bytes::from_static(b"payload");
    let adu = Arriving {
        header,
        payload_bytes: payload.len(),
        body: Body::whole(payload),
        trace: None,
    };
    lane.take(BEFORE, adu)
}

fn adu(header: Header) -> Adu {
    Adu {
        header,
        payload: Bytes::from_static(b"payload"),
    }
}

fn taken(forwarder: &Forwarder, inbox: &Inbox) -> Vec<u64> {
    let mails = std::iter::from_fn(|| inbox.poll(forwarder.clock.now()));
    let sequence = |mail| match mail {
        Mail::Adu(adu, _) => adu.header.sequence.0,
        other => panic!("{other:?}"),
    };
    mails.map(sequence).collect()
}

#[test]
fn arriving_adu_is_delivered_once() {
    let forwarder = forwarder([installation(1, None, Reliability::UntilDeadline)]);
    let (mailbox, inbox) =
        forwarder
            .mailboxes
            .create(true, &MailboxOptions::default(), "a test".into());
    forwarder.mailboxes.open(STREAM, BEFORE, mailbox);
    let lane = forwarder.lane(STREAM).expect("it is installed");
    for sequence in [0, 1, 1] {
        assert!(matches!(arrive(&lane, header(1, sequence)), Taken::Done));
    }
    assert!(matches!(
        arrive(&lane, header(2, 2)),
        Taken::Refused(_, StreamCode::UnknownStream, true)
    ));
    assert_eq!(taken(&forwarder, &inbox), [0, 1]);
    let reading = lane.counts().reading();
    assert_eq!((reading.received, reading.delivered), (3, 2));
    assert_eq!(reading.dropped["duplicate"], 1);
    let news = forwarder.take_news();
    assert_eq!((news.len(), news[0].1.floor), (1, 2));
    assert!(forwarder.take_news().is_empty(), "told once");
}

#[test]
fn end_of_stream_is_urgent() {
    let forwarder = forwarder([installation(1, None, Reliability::UntilDeadline)]);
    let lane = forwarder.lane(STREAM).expect("it is installed");
    arrive(&lane, header(1, 0));
    assert!(!lane.lock().is_told);
    let end = Header {
        flags: Flags::END,
        ..header(1, 1)
    };
    arrive(&lane, end);
    assert!(lane.lock().is_told);
    let now = forwarder.clock.now();
    assert_eq!(
        forwarder.take_due(now, Duration::ZERO),
        [(STREAM, Epoch(1))]
    );
    assert!(!lane.lock().is_told);
    assert!(forwarder.take_counts((STREAM, Epoch(1))).is_some());
    let soon = Duration::from_secs(60);
    assert!(forwarder.take_due(now, soon).is_empty(), "read just now");
}

#[test]
fn link_that_is_gone_ends_its_adus() {
    let forwarder = forwarder([installation(1, Some(NEXT), Reliability::Full)]);
    let lane = forwarder.lane(STREAM).expect("it is installed");
    lane.give(adu(header(1, 0)), None);
    assert_eq!(lane.counts().reading().dropped["path-lost"], 1);
    // The machine takes the link for up, which has gone meanwhile: each ADU ends, and the next goes.
    lane.handle_link(NEXT, true);
    for sequence in 1..4 {
        lane.give(adu(header(1, sequence)), None);
    }
    let reading = lane.counts().reading();
    assert_eq!((reading.outstanding, reading.dropped["path-lost"]), (0, 4));
}

#[test]
fn jobs_are_done_by_who_is_at_it() {
    let forwarder = forwarder([installation(1, None, Reliability::UntilDeadline)]);
    let (mailbox, inbox) =
        forwarder
            .mailboxes
            .create(false, &MailboxOptions::default(), "a test".into());
    forwarder.mailboxes.open(STREAM, BEFORE, mailbox);
    let lane = forwarder.lane(STREAM).expect("it is installed");
    lane.lock().is_carrying = true;
    arrive(&lane, header(1, 0));
    assert!(taken(&forwarder, &inbox).is_empty(), "another is at it");
    assert!(
        lane.carry_batch(Vec::new())
            .is_some_and(|jobs| jobs.len() == 1)
    );
    // As if that one had panicked: the next input does what is left.
    drop(Carrying(&lane));
    arrive(&lane, header(1, 1));
    assert_eq!(taken(&forwarder, &inbox), [1]);
}

#[tokio::test]
async fn recalled_plan_is_not_waited_for() {
    let forwarder = forwarder([installation(1, Some(NEXT), Reliability::Full)]);
    let lane = forwarder.lane(STREAM).expect("it is installed");
    lane.handle_link(NEXT, true);
    // Another task is to hand it to the link, and has not yet.
    lane.lock().is_carrying = true;
    for sequence in 0..2 {
        lane.give(adu(header(1, sequence)), None);
    }
    let counts = lane.counts();
    assert_eq!(counts.reading().outstanding, 1, "the second waits");
    let mut waiting = Box::pin(async {
        lane.wait_turn(&[Epoch(1)]).await;
        lane.settled(0).await;
    });
    tokio::select! {
        biased;
        () = &mut waiting => panic!("its turn has not come"),
        () = tokio::task::yield_now() => {}
    }
    lane.recall([Epoch(1)]);
    waiting.await;
    lane.give(adu(header(1, 2)), None);
    assert_eq!(counts.reading().dropped["cancelled"], 2, "it waits no more");
    assert!(lane.ordered().is_empty());
}

#[test]
fn lane_stays_while_it_is_needed() {
    let forwarder = forwarder([installation(1, None, Reliability::UntilDeadline)]);
    let sweep = || forwarder.sweep(forwarder.clock.now(), std::collections::BTreeSet::new);
    sweep();
    assert!(forwarder.lane(STREAM).is_some(), "a plan is installed");
    forwarder.remove(STREAM, Epoch(1));
    sweep();
    assert!(
        forwarder.lane(STREAM).is_some(),
        "a subscriber may want the rest"
    );
    forwarder.forget_arrivals(STREAM);
    let held = forwarder.lane(STREAM);
    sweep();
    assert!(forwarder.lane(STREAM).is_some(), "somebody holds it");
    drop(held);
    sweep();
    assert!(forwarder.lane(STREAM).is_none());
}

#[test]
fn trace_goes_with_each_copy_but_no_resend() {
    let mut traces = TracedAdus::default();
    let trace = || Some(Box::new(Trace::begin(Instant::ZERO)));
    traces.note(Sequence(1), trace());
    assert!(traces.of(Sequence(1)).is_some() && traces.of(Sequence(1)).is_some());
    assert!(traces.of(Sequence(2)).is_none());
    traces.note(Sequence(1), None);
    assert!(traces.of(Sequence(1)).is_none());
    for sequence in 0..100 {
        traces.note(Sequence(sequence), trace());
    }
    assert!(traces.of(Sequence(99)).is_some() && traces.of(Sequence(50)).is_none());
}
