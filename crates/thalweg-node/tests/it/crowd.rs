//! Proves that a thousand subscribers of one node are independent: those that are stopped lose what
//! their mailboxes have no room for, and those that are slow or fast lose nothing.

use bytes::Bytes;
use thalweg_base::limits::MAILBOX_BYTES_MAX;
use thalweg_base::needs::{Needs, Reliability};
use thalweg_base::time::Duration;
use thalweg_base::units::Bitrate;
use thalweg_node::{Outgoing, Publication, SubscribeOptions, Subscriber, SubscriberEvent};

use crate::fabric::{self, PATIENCE, Running};

const STOPPED: usize = 100;
const SLOW: usize = 100;
const FAST: usize = 800;

/// Bytes of an ADU: 64 of them fill a mailbox.
const ADU_BYTES: usize = MAILBOX_BYTES_MAX.as_bytes() as usize / 64;

/// Those that are slow take half of them meanwhile, so what waits for them stays within their bounds.
const ADUS: u64 = 100;

async fn subscribe(node: &Running, count: usize) -> Vec<Subscriber> {
    let mut subscribers = Vec::new();
    for _ in 0..count {
        let options = SubscribeOptions::new("truck/cam".parse().expect("a name"), true);
        subscribers.push(node.handle.subscribe(options).await);
    }
    subscribers
}

fn publication() -> Publication {
    Publication {
        needs: Needs {
            reliability: Reliability::UntilDeadline,
            // Nothing expires in this test.
            deadline: Duration::from_secs(600),
            ..Needs::default()
        },
        ..Publication::new(
            "truck/cam".parse().expect("a name"),
            Bitrate::from_kbps(500),
        )
    }
}

/// Returns the sequence of the next ADU.
async fn next(subscriber: &mut Subscriber) -> u64 {
    let next = async {
        loop {
            match subscriber.recv().await.expect("the stream goes on") {
                SubscriberEvent::Adu(adu) => return adu.header.sequence.0,
                SubscriberEvent::Notice(_) => {}
            }
        }
    };
    tokio::time::timeout(PATIENCE, next).await.expect("in time")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousand_subscribers_lose_only_their_own() {
    let nodes = fabric::chain(&["n0", "n1"], |_| true).await;
    let stopped = subscribe(&nodes[1], STOPPED).await;
    let mut slow = subscribe(&nodes[1], SLOW).await;
    let mut fast = subscribe(&nodes[1], FAST).await;
    let published = nodes[0].handle.publish(publication()).await;
    let mut publisher = published.expect("it is new");
    let wanted = tokio::time::timeout(PATIENCE, publisher.wanted()).await;
    wanted.expect("a plan in time").expect("the node runs");
    for sequence in 0..ADUS {
        let mut adu = fabric::outgoing(&[]);
        adu = Outgoing {
            payload: Bytes::from(vec![0; ADU_BYTES]),
            ..adu
        };
        publisher.send(adu).await.expect("the node runs");
        for subscriber in &mut fast {
            assert_eq!(next(subscriber).await, sequence);
        }
        if sequence % 2 == 0 {
            for subscriber in &mut slow {
                assert_eq!(next(subscriber).await, sequence / 2);
            }
        }
    }
    let status = nodes[1].handle.status().await.expect("the node runs");
    let most = MAILBOX_BYTES_MAX.as_bytes();
    assert_eq!(status.subscribers.len(), STOPPED + SLOW + FAST);
    assert!(status.subscribers.iter().all(|of| of.waiting_bytes <= most));
    let missing = status.subscribers.iter().filter(|of| of.missed > 0);
    assert!(missing.count() <= STOPPED);
    for subscriber in &mut slow {
        for sequence in ADUS / 2..ADUS {
            assert_eq!(next(subscriber).await, sequence);
        }
        assert_eq!(subscriber.skipped(), 0);
    }
    assert!(fast.iter().all(|subscriber| subscriber.skipped() == 0));
    for mut subscriber in stopped {
        for sequence in 0..64 {
            assert_eq!(next(&mut subscriber).await, sequence);
        }
    }
}
