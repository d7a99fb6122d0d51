//! Proves that a world written as TOML or as JSON is read back as the same world.

use proptest::prelude::*;
use thalweg_base::needs::Needs;
use thalweg_base::time::Duration;
use thalweg_base::units::{Bitrate, DataSize, Ratio};
use thalweg_planner::model::{
    AdapterName, Change, Declaration, Edge, Event, Layer, Link, LinkChange, Node, NodeAction,
    NodeName, Stream, Traffic, World,
};
use thalweg_world::{Format, load_str, to_json};

fn name(number: usize) -> NodeName {
    format!("node {number}").parse().expect("a valid name")
}

/// Durations below the precision at which text would need more digits than a float has.
fn durations() -> impl Strategy<Value = Duration> {
    (0..1u64 << 50).prop_map(Duration::from_nanos)
}

fn links() -> impl Strategy<Value = Link> {
    let values = (1..1u64 << 50, durations(), 0.0..0.5, any::<[bool; 3]>());
    (values, 1..1u64 << 50, 1..5usize).prop_map(
        |((bps, delay, loss, [secure, up, ordered]), queue, to)| Link {
            delay,
            jitter: delay,
            ordered,
            burst: 8.0,
            loss: Ratio::new(loss).expect("made in range"),
            secure,
            queue: DataSize::from_bytes(queue),
            up,
            ..Link::new([name(0), name(to)], Bitrate::from_bps(bps))
        },
    )
}

/// Declares a pair and a transcoder, with most keys.
fn declared(layer: Layer, delay: Duration) -> impl Iterator<Item = (AdapterName, Declaration)> {
    let name = |text: &str| text.parse().expect("a valid name");
    let protect = Declaration {
        rate_factor: Some(1.25),
        repairs: Some(Ratio::ONE),
        pair: Some(name("recover")),
        order: Some(3),
        delay,
        ..Declaration::default()
    };
    let small = Declaration {
        layers: Some(vec![layer]),
        cpu_per_mbps: Some(0.5),
        ..Declaration::default()
    };
    let recover = Declaration::default();
    [("protect", protect), ("recover", recover), ("small", small)]
        .map(|(text, declaration)| (name(text), declaration))
        .into_iter()
}

fn done(time: Duration, to: usize, action: NodeAction) -> Event {
    let name = name(to);
    let change = Change::Node { name, action };
    Event { time, change }
}

fn worlds() -> impl Strategy<Value = World> {
    let nodes = prop::collection::vec((0..20u32, any::<bool>()), 5);
    let deadline = (1..1u64 << 50).prop_map(Duration::from_nanos);
    let stream = (1..1u64 << 50, deadline, any::<bool>());
    let links = prop::collection::vec(links(), 1..6);
    (nodes, links, stream, durations()).prop_map(|(nodes, links, (bps, deadline, flag), time)| {
        let node = |(slots, trusted)| Node {
            slots,
            trusted,
            clock_drift_ppm: -40,
            copy_time: if trusted {
                Duration::from_micros(250)
            } else {
                Duration::ZERO
            },
            adapters: trusted.then(|| vec![AdapterName::KEEP, AdapterName::OPEN]),
            cpu_cores: trusted.then_some(0.5),
            ..Node::default()
        };
        let layer = |utility| Layer {
            rate: Bitrate::from_bps(bps),
            utility,
        };
        let set = LinkChange {
            delay: Some(deadline),
            up: flag.then_some(flag),
            ..LinkChange::default()
        };
        let share = if flag { 1.0 } else { 0.4 };
        let share = Ratio::new(share).expect("a ratio");
        World {
            adapters: declared(layer(0.5), time).filter(|_| flag).collect(),
            nodes: (0..).map(name).zip(nodes.into_iter().map(node)).collect(),
            streams: vec![Stream {
                name: "a/b".parse().expect("a valid name"),
                from: name(0),
                to: vec![name(3), name(1)],
                layers: vec![layer(0.75), layer(0.25)],
                needs: Needs {
                    confidential: flag,
                    deadline,
                    loss_max: Ratio::new(0.25).expect("a ratio"),
                    ..Needs::default()
                },
                importance: time.as_nanos() as u8,
                pack_ratio: flag.then_some(0.25),
                seal_overhead: None,
                traffic: Traffic {
                    stop: flag.then_some(Duration::from_secs(100)),
                    ..Traffic::default()
                },
            }],
            events: vec![
                Event {
                    time,
                    change: Change::Link {
                        ends: links[0].ends.clone(),
                        set,
                    },
                },
                done(time, 2, NodeAction::Crash),
                done(time, 3, NodeAction::Withhold(share)),
            ],
            links,
            ..World::default()
        }
    })
}

proptest! {
    #[test]
    fn written_world_reads_back_the_same(world in worlds()) {
        let json = to_json(&world);
        let read = load_str(&json, Format::Json, "w.json");
        prop_assert_eq!(read.as_ref(), Ok(&world));
        let toml = toml::to_string(&world).expect("a world can be written as TOML");
        let read = load_str(&toml, Format::Toml, "w.toml");
        prop_assert_eq!(read.as_ref(), Ok(&world));
    }
}

#[test]
fn omitted_keys_have_documented_defaults() {
    let text = r#"
        node.a = {}
        node.b = {}
        link = [{ ends = ["a", "b"], rate = "1 Mbit/s" }]
    "#;
    let world = load_str(text, Format::Toml, "w.toml").expect("a sound world");
    let node = world.nodes.values().next().expect("two nodes");
    assert_eq!((node.slots, node.trusted), (16, true));
    assert_eq!((&node.adapters, node.cpu_cores), (&None, None));
    let link = &world.links[0];
    assert!(link.secure && link.up);
    assert_eq!((link.delay, link.loss), (Duration::ZERO, Ratio::ZERO));
    assert_eq!(link.queue, Edge::QUEUE_DEFAULT);
}
