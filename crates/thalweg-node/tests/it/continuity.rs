//! Proves that a stream continues when its path breaks: every ADU arrives, once and in order, and
//! its source knows that.
//!
//! *How.* A source and a sink with relays between them, each on an address of its own and joined by
//! lines that can be cut; a relay with all its lines cut at once is as good as killed. The stream's
//! deadline allows for a change of path and is below the time after which QUIC gives up a
//! connection, so ADUs that are not resent over another path are lost.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use thalweg_base::adu::Flags;
use thalweg_base::event::DropCause;
use thalweg_base::needs::{Needs, Order, Reliability};
use thalweg_base::time::Duration;
use thalweg_base::units::Bitrate;
use thalweg_net::shaper::Direction;
use thalweg_net::{Impairment, Shaper, ShaperOptions};
use thalweg_node::status::LedgerStatus;
use thalweg_node::{
    Config, Outgoing, Publication, Publisher, SubscribeOptions, Subscriber, SubscriberEvent,
};
use thalweg_planner::planner::Planner;

use crate::fabric::{self, PATIENCE, Running, start_with, trusted};

const RELAYS: [&str; 3] = ["r0", "r1", "r2"];

/// The number of ADUs of a stream, and their interval.
const ADUS: u64 = 150;
const INTERVAL: std::time::Duration = std::time::Duration::from_millis(20);

/// A source and a sink, and relays between them.
struct Fan {
    source: Running,
    relays: BTreeMap<&'static str, Running>,
    sink: Running,
    /// The lines of each relay to the source and to the sink.
    lines: BTreeMap<&'static str, [Shaper; 2]>,
}

/// An index into a relay's lines.
const NEAR: usize = 0;
const FAR: usize = 1;

fn line(up: bool) -> Impairment {
    Impairment {
        rate: Bitrate::from_kbps(20_000),
        delay: Duration::from_millis(5),
        up,
        ..Impairment::default()
    }
}

async fn start_line(from: SocketAddr, towards: SocketAddr) -> Shaper {
    let options = ShaperOptions {
        from: SocketAddr::new(from.ip(), 0),
        towards,
        a_to_b: line(true),
        b_to_a: line(true),
        seed: 1,
    };
    Shaper::start(options).await.expect("loopback has ports")
}

fn address(net: u8, host: u8) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(127, 0, net, host), 0))
}

fn confined(at: SocketAddr) -> impl FnOnce(&mut Config) {
    move |config| {
        config.listen = vec![at];
        config.reach.packets = thalweg_net::Reach::OwnAddress;
    }
}

impl Fan {
    /// Starts it with this number of relays, in a network of its own.
    async fn start(net: u8, relays: usize) -> Self {
        let names = &RELAYS[..relays];
        let mut known: Vec<_> = names.iter().map(|name| trusted(name, None)).collect();
        known.push(trusted("sink", None));
        let source = start_with("source", &known, confined(address(net, 1))).await;
        let (mut all, mut near) = (BTreeMap::new(), Vec::new());
        for (name, host) in names.iter().zip(3..) {
            let at = address(net, host);
            let line = start_line(at, source.address).await;
            let known = [
                trusted("source", Some(line.address())),
                trusted("sink", None),
            ];
            all.insert(*name, start_with(name, &known, confined(at)).await);
            near.push(line);
        }
        let at = address(net, 2);
        let mut lines = BTreeMap::new();
        for (name, near) in names.iter().zip(near) {
            let far = start_line(at, all[name].address).await;
            lines.insert(*name, [near, far]);
        }
        let mut known = vec![trusted("source", None)];
        known.extend(names.iter().map(|name| {
            let far = &lines[name][FAR];
            trusted(name, Some(far.address()))
        }));
        let sink = start_with("sink", &known, confined(at)).await;
        let fan = Self {
            source,
            relays: all,
            sink,
            lines,
        };
        fan.wait_joined().await;
        fan
    }

    /// Waits until every node knows every path.
    async fn wait_joined(&self) {
        let links = 2 * self.relays.len();
        fabric::until("all links are on the source's map", || async {
            let status = self.source.handle.status().await.expect("it runs");
            let relays = status.nodes.iter().filter(|node| self.is_relay(&node.name));
            relays.map(|node| node.neighbours.len()).sum::<usize>() == links
        })
        .await;
    }

    fn is_relay(&self, name: &str) -> bool {
        self.relays.contains_key(name)
    }

    /// Returns the relay of the plan in force.
    async fn relay_in_use(&self) -> Option<&'static str> {
        let status = self.source.handle.status().await.expect("it runs");
        let plan = status.plans.iter().find(|plan| plan.state == "active")?;
        let by = plan.report.as_ref()?.path.get(1)?.to_string();
        RELAYS.into_iter().find(|name| *name == by)
    }

    fn set(&self, relay: &str, line_at: usize, up: bool) {
        for direction in [Direction::AToB, Direction::BToA] {
            self.lines[relay][line_at].set(direction, line(up));
        }
    }

    /// Waits until the stream has left a relay, and returns the relay that it uses instead.
    async fn wait_left(&self, relay: &str) -> &'static str {
        let taken = std::sync::Mutex::new(None);
        fabric::until("the stream takes another way", || async {
            let by = self.relay_in_use().await.filter(|by| *by != relay);
            *taken.lock().expect("nobody panicked") = by;
            by.is_some()
        })
        .await;
        taken
            .into_inner()
            .expect("nobody panicked")
            .expect("it did")
    }

    async fn stream(&self, needs: Needs) -> (Publisher, Subscriber) {
        let subscriber = self.subscribe().await;
        let mut publisher = self.publish(needs).await;
        let wanted = tokio::time::timeout(PATIENCE, publisher.wanted()).await;
        wanted.expect("a plan in time").expect("the node runs");
        (publisher, subscriber)
    }

    async fn subscribe(&self) -> Subscriber {
        let name = "cam".parse().expect("a name");
        let options = SubscribeOptions::new(name, true);
        self.sink.handle.subscribe(options).await
    }

    async fn publish(&self, needs: Needs) -> Publisher {
        publish(&self.source, needs).await
    }
}

async fn publish(producer: &Running, needs: Needs) -> Publisher {
    let publication = Publication {
        needs,
        pack_ratio: None,
        planner: Some(Planner::Exact),
        ..Publication::new("cam".parse().expect("a name"), Bitrate::from_kbps(200))
    };
    let publisher = producer.handle.publish(publication).await;
    publisher.expect("it is published")
}

/// Needs with a deadline that a viewer tolerates: below the 8 s after which a dead connection is
/// given up.
fn live() -> Needs {
    Needs {
        deadline: Duration::from_secs(7),
        order: Order::Sequence,
        ..Needs::default()
    }
}

fn full() -> Needs {
    Needs {
        reliability: Reliability::Full,
        order: Order::Sequence,
        ..Needs::default()
    }
}

/// Needs of a stream that is held while no path exists, in sequence.
fn held(needs: Needs) -> Needs {
    Needs {
        deadline: Duration::NEVER,
        hold: Duration::from_secs(60),
        ..needs
    }
}

async fn produce(mut publisher: Publisher) -> LedgerStatus {
    publish_adu(&mut publisher).await;
    publisher.finish().await.ledger
}

async fn publish_adu(publisher: &mut Publisher) {
    let mut due = tokio::time::interval(INTERVAL);
    for number in 0..ADUS {
        due.tick().await;
        publisher.send(adu(number)).await.expect("the node runs");
    }
}

fn adu(number: u64) -> Outgoing {
    Outgoing {
        payload: Bytes::from(vec![number as u8; 400]),
        ..fabric::outgoing(b"")
    }
}

async fn received(mut subscriber: Subscriber) -> Vec<u64> {
    let mut sequences = Vec::new();
    while let Some(event) = subscriber.recv().await {
        if let SubscriberEvent::Adu(adu) = event {
            assert_eq!(adu.payload, vec![adu.header.sequence.0 as u8; 400]);
            sequences.push(adu.header.sequence.0);
        }
    }
    sequences
}

/// Sends a stream while `event` breaks the path through the relay in use. All of it arrives, and
/// the source knows that, even if nodes had reports to send over the broken path.
async fn unbroken(fan: &Fan, needs: Needs, event: impl AsyncFnOnce(&'static str)) {
    let ledger = whole(fan, needs, event).await;
    // An ADU that arrives over both paths ends once as a duplicate.
    let twice = DropCause::Duplicate.name();
    let lost = ledger.losses.iter().find(|loss| loss.cause != twice);
    let ends = (ledger.delivered, ledger.pending, lost);
    assert_eq!(ends, (ADUS, 0, None), "{ledger:?}");
}

/// Sends a stream while `event` happens to the relay in use, which it gets. All of it arrives.
async fn whole(fan: &Fan, needs: Needs, event: impl AsyncFnOnce(&'static str)) -> LedgerStatus {
    let (publisher, subscriber) = fan.stream(needs).await;
    let all = async {
        tokio::join!(produce(publisher), received(subscriber), async {
            tokio::time::sleep(INTERVAL * 30).await;
            let first = fan.relay_in_use().await.expect("a plan in force");
            event(first).await;
        })
    };
    let (ledger, sequences, ()) = tokio::time::timeout(PATIENCE, all).await.expect("in time");
    assert_eq!(sequences, (0..ADUS).collect::<Vec<_>>());
    ledger
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_link_cut_keeps_adus() {
    let fan = Fan::start(51, 2).await;
    unbroken(&fan, live(), async |first| {
        fan.set(first, NEAR, false);
        fan.wait_left(first).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn distant_link_cut_keeps_adus() {
    let fan = Fan::start(52, 2).await;
    unbroken(&fan, live(), async |first| {
        fan.set(first, FAR, false);
        fan.wait_left(first).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_relay_keeps_adus() {
    for (net, needs) in [(53, live()), (54, full())] {
        let fan = Fan::start(net, 2).await;
        unbroken(&fan, needs, async |first| {
            fan.set(first, FAR, false);
            fan.set(first, NEAR, false);
            fan.wait_left(first).await;
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_path_break_keeps_adus() {
    // Two silences in a row may exceed a viewer's deadline on a busy machine.
    let fan = Fan::start(55, 3).await;
    unbroken(&fan, full(), async |first| {
        fan.set(first, FAR, false);
        let second = fan.wait_left(first).await;
        fan.set(second, FAR, false);
        fan.wait_left(second).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn healing_path_keeps_adus() {
    let fan = Fan::start(56, 2).await;
    for needs in [live(), full()] {
        unbroken(&fan, needs, async |first| {
            fan.set(first, NEAR, false);
            fan.wait_left(first).await;
            fan.set(first, NEAR, true);
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopping_relay_is_left_first() {
    for (net, needs, may_come_twice) in [(57, live(), false), (58, full(), true)] {
        let mut fan = Fan::start(net, 2).await;
        let mut relays = std::mem::take(&mut fan.relays);
        whole(&fan, needs, async |first| {
            let relay = relays.remove(first).expect("the plan leads by one");
            relay.stop().await;
            fan.wait_left(first).await;
        })
        .await;
        // The stream left it while it still worked, so nothing had to be resent, except in streams
        // that must be whole.
        let status = fan.sink.handle.status().await.expect("it runs");
        let mut streams = status.streams.iter();
        let dropped = streams.find(|stream| !stream.counts.dropped.is_empty());
        assert!(may_come_twice || dropped.is_none(), "{dropped:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn held_adus_arrive_once_path_exists() {
    for (net, needs) in [(59, held(live())), (60, held(full()))] {
        let fan = Fan::start(net, 1).await;
        fan.set("r0", FAR, false);
        let mut publisher = fan.publish(needs).await;
        publish_adu(&mut publisher).await;
        let subscriber = fan.subscribe().await;
        fan.set("r0", FAR, true);
        let both = async { tokio::join!(publisher.finish(), received(subscriber)) };
        let both = tokio::time::timeout(PATIENCE, both).await;
        let (summary, sequences) = both.expect("in time");
        assert_eq!(sequences, (0..ADUS).collect::<Vec<_>>());
        assert!(summary.counts.dropped.is_empty(), "{summary:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_sink_gets_held_adus() {
    let fan = Fan::start(64, 1).await;
    let mut publisher = fan.publish(held(full())).await;
    publish_adu(&mut publisher).await;
    let ended = tokio::spawn(publisher.finish());
    let options = SubscribeOptions::new("cam".parse().expect("a name"), true);
    let first = fan.relays["r0"].handle.subscribe(options).await;
    let both = async {
        let first = received(first).await;
        let second = received(fan.subscribe().await).await;
        (first, second)
    };
    let all = tokio::time::timeout(PATIENCE, async { tokio::join!(both, ended) }).await;
    let ((first, second), summary) = all.expect("in time");
    let whole: Vec<u64> = (0..ADUS).collect();
    assert_eq!((&first, &second), (&whole, &whole));
    let summary = summary.expect("it does not panic");
    assert!(summary.counts.dropped.is_empty(), "{summary:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn end_arrives_over_another_path() {
    let fan = Fan::start(63, 2).await;
    let needs = Needs {
        reliability: Reliability::None,
        ..live()
    };
    let (mut publisher, subscriber) = fan.stream(needs).await;
    publish_adu(&mut publisher).await;
    let first = fan.relay_in_use().await.expect("a plan in force");
    // The relay gets the end, and cannot pass it on.
    fan.set(first, FAR, false);
    let both = async { tokio::join!(publisher.finish(), received(subscriber)) };
    let both = tokio::time::timeout(PATIENCE, both).await;
    let (_, sequences) = both.expect("the subscriber is told of the end");
    assert!(!sequences.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn held_stream_resumes_on_old_path() {
    let fan = Fan::start(61, 1).await;
    unbroken(&fan, held(live()), async |first| {
        fan.set(first, FAR, false);
        fabric::until("the way is given up", || async {
            fan.relay_in_use().await.is_none()
        })
        .await;
        fan.set(first, FAR, true);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashed_producer_is_replaced() {
    let fan = Fan::start(62, 1).await;
    let (mut first, mut subscriber) = fan.stream(live()).await;
    let mut standby = publish(&fan.relays["r0"], live()).await;
    for number in 0..10 {
        first.send(adu(number)).await.expect("the node runs");
    }
    take(&mut subscriber, 10).await;
    assert!(!standby.is_wanted(), "who is served stays");
    fan.set("r0", NEAR, false);
    let wanted = tokio::time::timeout(PATIENCE, standby.wanted()).await;
    wanted.expect("in time").expect("the node runs");
    let status = fan.sink.handle.status().await.expect("it runs");
    let mut nodes = status.nodes.iter();
    assert!(
        nodes.any(|node| node.name == "source"),
        "long before its links are given up"
    );
    standby.send(adu(0)).await.expect("the node runs");
    let rest = async { tokio::join!(standby.finish(), received(subscriber)) };
    let (_, sequences) = tokio::time::timeout(PATIENCE, rest).await.expect("in time");
    assert_eq!(sequences, [0]);
}

/// Receives this number of ADUs of a stream on an intact path.
async fn take(subscriber: &mut Subscriber, adus: u64) {
    let mut came = 0;
    while came < adus {
        let event = tokio::time::timeout(PATIENCE, subscriber.recv()).await;
        let event = event.expect("in time").expect("the node runs");
        came += u64::from(matches!(event, SubscriberEvent::Adu(_)));
    }
}

/// Returns an ADU of which every fifth is a key ADU.
fn keyed(number: u64) -> Outgoing {
    let is_key = number.is_multiple_of(5);
    Outgoing {
        flags: if is_key { Flags::KEY } else { Flags::NONE },
        ..adu(number)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn returning_producer_continues() {
    let with = |reliability| Needs {
        reliability,
        ..live()
    };
    // The sink starts with the newest group again; an in-sequence reliability starts with live
    // ADUs.
    for (net, needs, begins_with) in [
        (63, live(), 5),
        (64, full(), 10),
        (65, with(Reliability::Repaired), 10),
        (66, with(Reliability::None), 5),
    ] {
        let fan = Fan::start(net, 1).await;
        let (mut first, mut subscriber) = fan.stream(needs).await;
        let mut second = publish(&fan.relays["r0"], needs).await;
        for number in 0..10 {
            first.send(keyed(number)).await.expect("the node runs");
        }
        take(&mut subscriber, 10).await;
        fan.set("r0", NEAR, false);
        let wanted = tokio::time::timeout(PATIENCE, second.wanted()).await;
        wanted.expect("in time").expect("the node runs");
        for number in 0..10 {
            second.send(keyed(number)).await.expect("the node runs");
        }
        take(&mut subscriber, 10).await;
        fan.set("r0", NEAR, true);
        let is_left = || async { !first.is_wanted() };
        fabric::until("the first has heard that it was left", is_left).await;
        let rest = tokio::spawn(received(subscriber));
        second.finish().await;
        let wanted = tokio::time::timeout(PATIENCE, first.wanted()).await;
        wanted.expect("in time").expect("the node runs");
        for number in 10..20 {
            first.send(keyed(number)).await.expect("the node runs");
        }
        first.finish().await;
        let rest = tokio::time::timeout(PATIENCE, rest).await.expect("in time");
        let rest = rest.expect("no panic");
        assert_eq!(rest, (begins_with..20).collect::<Vec<_>>(), "{needs:?}");
    }
}
