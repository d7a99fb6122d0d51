//! Proves that a relay with several sinks behind it gets one copy, that no sink misses ADUs when
//! others leave, that a late sink starts with the newest key ADU, and that a slow reader delays no
//! other where sinks repair losses.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use thalweg_base::adu::{Flags, Importance, MediaTime};
use thalweg_base::needs::{Needs, Order, Reliability};
use thalweg_base::time::Duration;
use thalweg_base::units::Bitrate;
use thalweg_node::{
    Outgoing, Publication, Publisher, SubscribeOptions, Subscriber, SubscriberEvent,
};
use thalweg_planner::planner::Planner;

use crate::fabric::{self, Known, PATIENCE, Running, start, trusted};

const ADUS: u64 = 60;

/// Every ADU at this interval is a key ADU.
const KEY_EVERY: u64 = 20;

fn known<'a>(names: &[&'a str]) -> Vec<Known<'a>> {
    names.iter().map(|name| trusted(name, None)).collect()
}

/// A source, a relay, and sinks behind it.
async fn fork(sinks: &[&str]) -> (Running, Running, Vec<Running>) {
    let mut names = vec!["hub"];
    names.extend(sinks);
    let source = start("cam", &known(&names)).await;
    let mut near = known(sinks);
    near.push(trusted("cam", Some(source.address)));
    let hub = start("hub", &near).await;
    let mut all = Vec::new();
    for name in sinks {
        let known = [trusted("hub", Some(hub.address)), trusted("cam", None)];
        all.push(start(name, &known).await);
    }
    fabric::until("all are on the source's map", || async {
        let status = source.handle.status().await.expect("it runs");
        status.nodes.len() == sinks.len() + 2
    })
    .await;
    (source, hub, all)
}

fn publication() -> Publication {
    Publication {
        needs: Needs {
            deadline: Duration::from_secs(5),
            order: Order::Sequence,
            ..Needs::default()
        },
        pack_ratio: Some(1.0),
        planner: Some(Planner::Exact),
        ..Publication::new("cam".parse().expect("a name"), Bitrate::from_kbps(500))
    }
}

fn outgoing(number: u64) -> Outgoing {
    Outgoing {
        media_time: MediaTime::from_micros(number * 20_000),
        importance: Importance(200),
        layer: 0,
        flags: if number.is_multiple_of(KEY_EVERY) {
            Flags::KEY
        } else {
            Flags::NONE
        },
        depends_on: 0,
        payload: Bytes::from(vec![number as u8; 5_000]),
    }
}

async fn received(subscriber: &mut Subscriber) -> Vec<u64> {
    let mut sequences = Vec::new();
    let all = async {
        while let Some(event) = subscriber.recv().await {
            if let SubscriberEvent::Adu(adu) = event {
                let sent = outgoing(adu.header.sequence.0).payload;
                assert_eq!(adu.payload, sent.slice(..adu.payload.len()));
                sequences.push(adu.header.sequence.0);
            }
        }
    };
    let all = tokio::time::timeout(PATIENCE, all).await;
    all.expect("the end in time");
    sequences
}

async fn subscribe(node: &Running) -> Subscriber {
    subscribe_with(node, true).await
}

async fn subscribe_unordered(node: &Running) -> Subscriber {
    subscribe_with(node, false).await
}

async fn subscribe_with(node: &Running, in_sequence: bool) -> Subscriber {
    let options = SubscribeOptions::new("cam".parse().expect("a name"), in_sequence);
    node.handle.subscribe(options).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_sinks_cost_one_copy() {
    let (source, hub, sinks) = fork(&["ann", "bob", "eve"]).await;
    let publisher = source.handle.publish(publication()).await;
    let mut publisher = publisher.expect("it is published");
    let mut subscribers = Vec::new();
    for sink in &sinks {
        subscribers.push(subscribe(sink).await);
    }
    fabric::until("all three plans lie on the relay", || async {
        let status = hub.handle.status().await.expect("it runs");
        status.routes.len() == 3
    })
    .await;
    fabric::until("each sink has its plan", || async {
        let status = source.handle.status().await.expect("it runs");
        let active = status.plans.iter().filter(|plan| plan.state == "active");
        active.count() == 3
    })
    .await;
    for number in 0..ADUS {
        publisher.send(outgoing(number)).await.expect("it runs");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    fabric::until("the source knows of all copies", || async {
        let status = source.handle.status().await.expect("it runs");
        let mut ledgers = status
            .streams
            .iter()
            .filter_map(|stream| stream.ledger.as_ref());
        ledgers.any(|ledger| ledger.delivered == 3 * ADUS && ledger.pending == 0)
    })
    .await;
    let ended = publisher.finish();
    let [ann, bob, eve] = &mut subscribers[..] else {
        panic!("three subscribed");
    };
    let (summary, ann, bob, eve) = tokio::join!(ended, received(ann), received(bob), received(eve));
    let all: Vec<u64> = (0..ADUS).collect();
    assert_eq!((&ann, &bob, &eve), (&all, &all, &all));
    assert_eq!(summary.produced, ADUS);
    // 60 ADUs and the end, once.
    assert_eq!(summary.counts.sent, ADUS + 1, "{summary:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unacknowledged_copies_are_counted() {
    let (source, _hub, sinks) = fork(&["ann", "bob", "eve"]).await;
    let mut publication = publication();
    publication.needs.reliability = Reliability::None;
    let publisher = source.handle.publish(publication).await;
    let mut publisher = publisher.expect("it is published");
    let mut subscribers = Vec::new();
    for sink in &sinks {
        subscribers.push(subscribe(sink).await);
    }
    wait_active(&source, 3).await;
    for number in 0..ADUS {
        // Each fits in a datagram.
        let payload = Bytes::from(vec![number as u8; 200]);
        let outgoing = Outgoing {
            payload,
            ..outgoing(number)
        };
        publisher.send(outgoing).await.expect("it runs");
        tokio::time::sleep(std::time::Duration::from_millis(25)).await;
    }
    let ledger = publisher.finish().await.ledger;
    let lost: u64 = ledger.losses.iter().map(|loss| loss.adus).sum();
    assert_eq!(
        (ledger.published, ledger.pending),
        (3 * ADUS, 0),
        "{ledger:?}"
    );
    assert_eq!(ledger.delivered + lost, ledger.published, "{ledger:?}");
    let mut received = 0;
    for subscriber in &mut subscribers {
        while let Some(event) = subscriber.recv().await {
            received += u64::from(matches!(event, SubscriberEvent::Adu(_)));
        }
    }
    assert_eq!(ledger.delivered, received, "{ledger:?}");
}

/// Waits until this number of plans is in force.
async fn wait_active(source: &Running, plans: usize) {
    fabric::until("the plans are in force", || async {
        let status = source.handle.status().await.expect("it runs");
        let active = status.plans.iter().filter(|plan| plan.state == "active");
        active.count() == plans
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_sink_starts_at_newest_key() {
    let (source, _hub, sinks) = fork(&["ann", "bob"]).await;
    let publisher = source.handle.publish(publication()).await;
    let mut publisher = publisher.expect("it is published");
    let mut ann = subscribe(&sinks[0]).await;
    wait_active(&source, 1).await;
    for number in 0..30 {
        publisher.send(outgoing(number)).await.expect("it runs");
    }
    // One sink behind the relay, which forwards cut-through, and one on the producer's node.
    let mut bob = subscribe(&sinks[1]).await;
    let mut near = subscribe(&source).await;
    wait_active(&source, 3).await;
    for number in 30..ADUS {
        publisher.send(outgoing(number)).await.expect("it runs");
    }
    let (_, ann, bob, near) = tokio::join!(
        publisher.finish(),
        received(&mut ann),
        received(&mut bob),
        received(&mut near)
    );
    assert_eq!(ann, (0..ADUS).collect::<Vec<_>>());
    assert_eq!(bob, (20..ADUS).collect::<Vec<_>>());
    assert_eq!(near, (20..ADUS).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replay_joins_live_without_gap() {
    let (source, _hub, sinks) = fork(&["ann", "bob", "eve"]).await;
    let mut publication = publication();
    // They read at the end only, so ADUs with a deadline expire meanwhile.
    publication.needs.deadline = Duration::NEVER;
    let publisher = source.handle.publish(publication).await;
    let mut publisher = publisher.expect("it is published");
    let mut subscribers = vec![subscribe(&sinks[0]).await];
    wait_active(&source, 1).await;
    let mut next = 0;
    for (joined, sink) in sinks[1..].iter().enumerate() {
        let until = next + 50;
        while next < until {
            publisher.send(outgoing(next)).await.expect("it runs");
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            next += 1;
        }
        subscribers.push(subscribe(sink).await);
        // The stream continues while the plan is made, and past the next key.
        let is_active = wait_active(&source, joined + 2);
        tokio::pin!(is_active);
        loop {
            tokio::select! {
                () = &mut is_active => break,
                () = tokio::time::sleep(std::time::Duration::from_millis(2)) => {}
            }
            publisher.send(outgoing(next)).await.expect("it runs");
            next += 1;
        }
    }
    let [ann, bob, eve] = &mut subscribers[..] else {
        panic!("three subscribed");
    };
    let (_, ann, bob, eve) = tokio::join!(
        publisher.finish(),
        received(ann),
        received(bob),
        received(eve)
    );
    assert_eq!(ann, (0..next).collect::<Vec<_>>());
    for late in [bob, eve] {
        let first = late[0];
        assert!(first.is_multiple_of(KEY_EVERY) && first > 0, "{first}");
        assert_eq!(late, (first..next).collect::<Vec<_>>());
    }
}

/// A producer that serves ann, a standby of the same name on bob's node, and the 30 ADUs that both
/// have published.
struct TwoProducers {
    source: Running,
    _hub: Running,
    sinks: Vec<Running>,
    first: Publisher,
    standby: Publisher,
    ann: Subscriber,
}

async fn two_producers(in_sequence: bool) -> TwoProducers {
    let (source, hub, sinks) = fork(&["ann", "bob"]).await;
    let first = source.handle.publish(publication()).await;
    let mut first = first.expect("it is published");
    let name = publication().name;
    let options = SubscribeOptions::new(name, in_sequence);
    let ann = sinks[0].handle.subscribe(options).await;
    wait_active(&source, 1).await;
    let standby = sinks[1].handle.publish(publication()).await;
    let mut standby = standby.expect("another node has the name too");
    // A sink that does not know the standby yet would end with the first producer.
    fabric::until("ann knows of both", || async {
        let status = sinks[0].handle.status().await.expect("it runs");
        status.streams.len() == 2
    })
    .await;
    for number in 0..30 {
        first.send(outgoing(number)).await.expect("it runs");
        standby.send(outgoing(number)).await.expect("it runs");
    }
    TwoProducers {
        source,
        _hub: hub,
        sinks,
        first,
        standby,
        ann,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standby_continues_after_end() {
    for in_sequence in [true, false] {
        let TwoProducers {
            source: _source,
            _hub,
            sinks,
            first,
            mut standby,
            mut ann,
        } = Box::pin(two_producers(in_sequence)).await;
        let ann = tokio::spawn(async move { received(&mut ann).await });
        first.finish().await;
        wait_active(&sinks[1], 1).await;
        for number in 30..ADUS {
            standby.send(outgoing(number)).await.expect("it runs");
        }
        standby.finish().await;
        let ann = tokio::time::timeout(PATIENCE, ann).await;
        let mut ann = ann
            .expect("the last one's end is the end")
            .expect("no panic");
        if !in_sequence {
            // In arrival order: streams of one link may overtake each other.
            ann[..30].sort_unstable();
            ann[30..].sort_unstable();
        }
        // All of the first producer, then the standby from its newest key ADU on.
        let expected: Vec<u64> = (0..30).chain(20..ADUS).collect();
        assert_eq!(ann, expected, "in sequence: {in_sequence}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standby_replaces_lost_producer() {
    let TwoProducers {
        source,
        _hub,
        sinks,
        first,
        mut standby,
        mut ann,
    } = Box::pin(two_producers(true)).await;
    assert!(!standby.is_wanted(), "who is served stays");
    fabric::until("the first has brought all that it was given", || async {
        let status = source.handle.status().await.expect("it runs");
        let mut ledgers = status.streams.iter().filter_map(|s| s.ledger.as_ref());
        ledgers.any(|ledger| ledger.delivered == 30)
    })
    .await;
    // Its program exits without closing the stream.
    drop(first);
    wait_active(&sinks[1], 1).await;
    for number in 30..ADUS {
        standby.send(outgoing(number)).await.expect("it runs");
    }
    let (_, ann) = tokio::join!(standby.finish(), received(&mut ann));
    let expected: Vec<u64> = (0..30).chain(20..ADUS).collect();
    assert_eq!(ann, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_reader_delays_no_other() {
    const MANY: u64 = 12_000;
    /// How far the producer may be ahead of the quick subscriber: less than the hub's queue for it,
    /// so that it lacks nothing on a busy machine either.
    const AHEAD_MAX: u64 = 200;
    let (source, hub, sinks) = fork(&["ann", "eve"]).await;
    let mut publication = publication();
    publication.needs.reliability = Reliability::Repaired;
    publication.needs.deadline = Duration::NEVER;
    let publisher = source.handle.publish(publication).await;
    let mut publisher = publisher.expect("it is published");
    let mut ann = subscribe(&sinks[0]).await;
    let mut eve = subscribe_unordered(&sinks[1]).await;
    wait_active(&source, 2).await;
    let of_hub = |of: &'static str| {
        let hub = &hub;
        async move {
            let status = hub.handle.status().await.expect("it runs");
            let streams = status.streams.iter();
            let count = |counts: &thalweg_node::status::StreamReading| match of {
                "received" => counts.received,
                _ => counts.dropped.get(of).copied().unwrap_or(0),
            };
            streams.map(|stream| count(&stream.counts)).sum::<u64>()
        }
    };
    for number in 0..MANY {
        let mut adu = outgoing(number);
        adu.payload = adu.payload.slice(..2_000);
        let sent = tokio::time::timeout(PATIENCE, publisher.send(adu)).await;
        sent.expect("nobody is waited for").expect("it runs");
        if number >= AHEAD_MAX {
            let next = tokio::time::timeout(PATIENCE, next_adu(&mut ann)).await;
            assert_eq!(next.expect("in time"), number - AHEAD_MAX);
        }
    }
    for number in MANY - AHEAD_MAX..MANY {
        let next = tokio::time::timeout(PATIENCE, next_adu(&mut ann)).await;
        assert_eq!(next.expect("in time"), number);
    }
    assert_eq!(of_hub("received").await, MANY, "one copy");
    let had = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&had);
    // The late one misses only what its own queue before the link had no room for.
    let eve = tokio::spawn(async move {
        let mut count = 0;
        while let Some(event) = eve.recv().await {
            count += u64::from(matches!(event, SubscriberEvent::Adu(_)));
            had.store(count, Ordering::Relaxed);
        }
        count
    });
    fabric::until("the late one has all that was kept", || async {
        seen.load(Ordering::Relaxed) + of_hub("overflow").await == MANY
    })
    .await;
    let dropped = of_hub("overflow").await;
    publisher.finish().await;
    assert_eq!(eve.await.expect("no panic") + dropped, MANY);
}

/// Returns the sequence of the next ADU.
async fn next_adu(subscriber: &mut Subscriber) -> u64 {
    loop {
        match subscriber.recv().await.expect("the stream goes on") {
            SubscriberEvent::Adu(adu) => return adu.header.sequence.0,
            SubscriberEvent::Notice(_) => {}
        }
    }
}
