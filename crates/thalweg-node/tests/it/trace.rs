//! Proves that ADUs are traced with every carriage, through relays and adapters and to every sink
//! of a tree, on request of any node; and that subscribers see nothing of it.

use bytes::Bytes;
use thalweg_base::adu::{Flags, Importance, MediaTime};
use thalweg_base::id::StreamName;
use thalweg_base::needs::{Needs, Order, Reliability};
use thalweg_base::time::Duration;
use thalweg_base::units::Bitrate;
use thalweg_node::{
    Handle, HopCost, Outgoing, Publication, Publisher, SubscribeOptions, Subscriber,
    SubscriberEvent, TraceError, TraceEvent, TracedAdu, Tracer,
};
use thalweg_planner::planner::Planner;

use crate::fabric::{self, Known, PATIENCE, Running, trusted};

/// The shortest interval that a source allows.
const EVERY: Duration = Duration::from_millis(100);

fn name() -> StreamName {
    "cam".parse().expect("a name")
}

fn publication(needs: Needs) -> Publication {
    Publication {
        needs,
        pack_ratio: Some(1.0),
        planner: Some(Planner::Exact),
        ..Publication::new(name(), Bitrate::from_kbps(500))
    }
}

fn outgoing(number: u64, bytes: usize) -> Outgoing {
    Outgoing {
        media_time: MediaTime::from_micros(number * 20_000),
        importance: Importance(200),
        layer: 0,
        flags: Flags::NONE,
        depends_on: 0,
        payload: Bytes::from(vec![number as u8; bytes]),
    }
}

async fn subscribe(node: &Running) -> Subscriber {
    let options = SubscribeOptions::new(name(), false);
    node.handle.subscribe(options).await
}

/// Publishes without end and reads all subscribers; both stop when the future is dropped.
async fn flow(mut publisher: Publisher, mut subscribers: Vec<Subscriber>, bytes: usize) -> ! {
    let wanted = tokio::time::timeout(PATIENCE, publisher.wanted()).await;
    wanted.expect("a plan in time").expect("the node runs");
    for subscriber in subscribers.drain(..) {
        tokio::spawn(drain(subscriber));
    }
    for number in 0.. {
        let sent = publisher.send(outgoing(number, bytes)).await;
        sent.expect("the node runs");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    unreachable!("numbers do not end")
}

async fn drain(mut subscriber: Subscriber) {
    while let Some(event) = subscriber.recv().await {
        if let SubscriberEvent::Adu(adu) = event {
            let number = adu.header.sequence.0;
            assert_eq!(adu.payload.first(), Some(&(number as u8)));
        }
    }
}

/// Returns the tracer of a stream once it is on the node's map.
async fn tracer(handle: &Handle) -> Tracer {
    let started = tokio::time::Instant::now();
    loop {
        match handle.trace(name(), EVERY).await {
            Ok(tracer) => return tracer,
            Err(error) => assert!(started.elapsed() < PATIENCE, "{error}"),
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// Returns the first traced ADUs.
async fn traced(tracer: &mut Tracer, count: usize) -> Vec<TracedAdu> {
    let mut adus = Vec::new();
    let all = async {
        while adus.len() < count {
            if let TraceEvent::Adu(adu) = tracer.recv().await.expect("it is traced") {
                adus.push(adu);
            }
        }
    };
    let all = tokio::time::timeout(PATIENCE, all).await;
    all.expect("traced ADUs in time");
    adus
}

fn nodes(adu: &TracedAdu) -> Vec<&str> {
    adu.hops.iter().map(|hop| hop.node.as_str()).collect()
}

fn sum(hop: &HopCost) -> u64 {
    hop.node_us + hop.lift_us + hop.wait_us + hop.link_us
}

/// Sends ADUs of this size along a chain with an untrusted middle, and traces them from each of its
/// nodes.
async fn crosses(needs: Needs, bytes: usize) {
    let chain = fabric::chain(&["a", "b", "c"], |name| name != "b").await;
    let needs = Needs {
        confidential: true,
        ..needs
    };
    let subscriber = subscribe(&chain[2]).await;
    let publisher = chain[0].handle.publish(publication(needs)).await;
    let publisher = publisher.expect("it is published");
    let flow = tokio::spawn(async move {
        flow(publisher, vec![subscriber], bytes).await;
    });
    let mut has_line = [false; 2];
    for node in &chain {
        let mut tracer = tracer(&node.handle).await;
        assert_eq!(tracer.source(), "a");
        for adu in traced(&mut tracer, 3).await {
            assert_eq!((nodes(&adu), adu.sink.as_str()), (vec!["a", "b", "c"], "c"));
            let all: u64 = adu.hops.iter().map(sum).sum();
            assert!(all.abs_diff(adu.sum_us) <= 12, "{adu:?}");
            for (has_line, hop) in has_line.iter_mut().zip(&adu.hops) {
                *has_line |= hop.link_us > 0;
            }
            assert_eq!(adu.hops[2].link_us, 0, "nothing is behind the sink");
            let budget = needs.deadline.as_micros();
            match adu.budget_us {
                // The remaining time is rounded down to microseconds at each hop.
                Some(left) => assert!(left <= budget && left + 1_000_000 > budget, "{adu:?}"),
                None => assert_eq!(needs.reliability, Reliability::Full),
            }
        }
    }
    // A single value may be zero: on loopback half of the minimum round trip may be below a
    // microsecond.
    assert_eq!(has_line, [true; 2], "lines take time");
    flow.abort();
    for node in chain {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sealed_datagrams_are_traced() {
    let needs = Needs {
        reliability: Reliability::None,
        deadline: Duration::from_secs(5),
        ..Needs::default()
    };
    crosses(needs, 900).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sealed_cut_through_is_traced() {
    let needs = Needs {
        reliability: Reliability::UntilDeadline,
        deadline: Duration::from_secs(5),
        ..Needs::default()
    };
    crosses(needs, 30_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sealed_sequences_are_traced() {
    let needs = Needs {
        reliability: Reliability::Full,
        order: Order::Sequence,
        deadline: Duration::NEVER,
        ..Needs::default()
    };
    crosses(needs, 2_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_sink_has_its_own_path() {
    let known = |names: &[&'static str]| -> Vec<Known<'static>> {
        names.iter().map(|name| trusted(name, None)).collect()
    };
    let source = fabric::start("cam", &known(&["hub", "ann", "bob"])).await;
    let mut near = known(&["ann", "bob"]);
    near.push(trusted("cam", Some(source.address)));
    let hub = fabric::start("hub", &near).await;
    let far = [trusted("hub", Some(hub.address)), trusted("cam", None)];
    let sinks = [
        fabric::start("ann", &far).await,
        fabric::start("bob", &far).await,
    ];
    let publisher = source.handle.publish(publication(Needs::default())).await;
    let publisher = publisher.expect("it is published");
    let subscribers = vec![subscribe(&sinks[0]).await, subscribe(&sinks[1]).await];
    fabric::until("each sink has its plan", || async {
        let status = source.handle.status().await.expect("it runs");
        let active = status.plans.iter().filter(|plan| plan.state == "active");
        active.count() == 2
    })
    .await;
    let flow = tokio::spawn(async move {
        flow(publisher, subscribers, 5_000).await;
    });
    let mut tracer = tracer(&hub.handle).await;
    let (mut ann, mut bob) = (0, 0);
    for adu in traced(&mut tracer, 12).await {
        assert_eq!(nodes(&adu), ["cam", "hub", adu.sink.as_str()]);
        *(if adu.sink == "ann" {
            &mut ann
        } else {
            &mut bob
        }) += 1;
    }
    assert!(ann > 0 && bob > 0, "{ann} and {bob} ways");
    flow.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_stream_or_sink_is_reported() {
    let node = fabric::start("a", &[]).await;
    let refused = node.handle.trace(name(), EVERY).await.map(|_| ());
    assert_eq!(
        refused,
        Err(TraceError::Map("no node publishes `cam`".into()))
    );
    let publisher = node.handle.publish(publication(Needs::default())).await;
    let publisher = publisher.expect("it is published");
    let mut tracer = tracer(&node.handle).await;
    let event = tokio::time::timeout(PATIENCE, tracer.recv()).await;
    assert_eq!(event.expect("an answer in time"), Ok(TraceEvent::Sinks(0)));
    publisher.finish().await;
    let over = async { while tracer.recv().await.is_ok() {} };
    let over = tokio::time::timeout(PATIENCE, over).await;
    over.expect("the end of the stream is the tracer's end");
    node.stop().await;
}
