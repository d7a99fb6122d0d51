//! The model's laws: adapters sort as their texts do, events apply in time order, faults name their key.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::*;
use crate::time::Duration;
use crate::units::{Bitrate, Ratio};

fn name(text: &str) -> NodeName {
    text.parse().expect("a test's node name is valid")
}

fn link(a: &str, b: &str) -> Link {
    Link::new([name(a), name(b)], Bitrate::from_kbps(1_000))
}

#[test]
fn adapters_order_as_their_texts_do() {
    let mut adapters: Vec<Adapter> = (0..=255).map(Adapter::Keep).collect();
    adapters.extend([Adapter::Unpack, Adapter::Seal, Adapter::Pack, Adapter::Open]);
    let mut by_text = adapters.clone();
    adapters.sort();
    by_text.sort_by_key(ToString::to_string);
    assert_eq!(adapters, by_text);
    for adapter in adapters {
        assert_eq!(adapter.to_string().parse(), Ok(adapter));
    }
}

#[test]
fn adapters_are_not_read_from_other_text() {
    for text in ["", "keep", "keep:", "keep:+1", "keep:256", "Pack", "pack "] {
        assert!(text.parse::<Adapter>().is_err(), "{text}");
    }
}

#[test]
fn events_apply_in_time_order_up_to_and_at_the_moment() {
    let change = |seconds: u64, kbps| Event {
        time: Duration::from_millis(seconds * 1_000),
        change: Change::Link {
            ends: [name("b"), name("a")],
            set: LinkChange {
                rate: Some(Bitrate::from_kbps(kbps)),
                ..LinkChange::default()
            },
        },
    };
    let world = World {
        links: [link("a", "b")].into(),
        events: [change(20, 20), change(10, 10)].into(),
        ..World::default()
    };
    let rate_at = |ms| world.at(Duration::from_millis(ms)).links[0].rate;
    assert_eq!(rate_at(9_999), Bitrate::from_kbps(1_000));
    assert_eq!(rate_at(10_000), Bitrate::from_kbps(10));
    assert_eq!(rate_at(20_000), Bitrate::from_kbps(20));
}

#[test]
fn faults_name_the_key() {
    let mut world = World::default();
    world.nodes.insert(name("a"), Node::default());
    world.links.push(link("a", "a"));
    world.links.push(link("a", "c"));
    world.weights.seal = f64::NAN;
    let paths: Vec<_> = world.faults().into_iter().map(|fault| fault.path).collect();
    assert_eq!(paths, ["weights.seal", "link[0].ends", "link[1].ends[1]"]);
}

#[test]
fn a_name_is_refused_beyond_its_limit() {
    let longest = "n".repeat(crate::limits::NODE_NAME_BYTES_MAX);
    assert!(longest.parse::<NodeName>().is_ok());
    for text in [longest + "n", String::new(), " a".into(), "a\n".into()] {
        assert!(text.parse::<NodeName>().is_err(), "{text:?}");
    }
}

#[test]
fn losses_that_cannot_come_in_such_bursts_are_faults() {
    let fault = |loss, burst, burst_loss| {
        let mut world = World::default();
        world.nodes.insert(name("a"), Node::default());
        world.nodes.insert(name("b"), Node::default());
        world.links.push(Link {
            loss: Ratio::new(loss).expect("a ratio"),
            burst,
            burst_loss: Ratio::new(burst_loss).expect("a ratio"),
            ..link("a", "b")
        });
        world.faults().into_iter().next().map(|fault| fault.path)
    };
    assert_eq!(fault(0.01, 8.0, 0.5), None);
    assert_eq!(fault(1.0, 1.0, 1.0), None);
    assert_eq!(fault(0.5, 1.0, 1.0), None);
    assert_eq!(fault(0.01, 0.5, 1.0).as_deref(), Some("link[0].burst"));
    assert_eq!(fault(0.01, f64::NAN, 1.0).as_deref(), Some("link[0].burst"));
    assert_eq!(fault(0.3, 2.0, 0.2).as_deref(), Some("link[0].loss"));
    assert_eq!(fault(0.9, 2.0, 1.0).as_deref(), Some("link[0].burst"));
}

#[test]
fn what_is_played_must_be_possible() {
    let mut world = World::default();
    let drifting = Node {
        clock_drift_ppm: -2_000,
        ..Node::default()
    };
    world.nodes.insert(name("a"), drifting);
    world.events.push(Event {
        time: Duration::ZERO,
        change: Change::Node {
            name: name("c"),
            action: NodeAction::Stop,
        },
    });
    let paths: Vec<_> = world.faults().into_iter().map(|fault| fault.path).collect();
    assert_eq!(paths, ["node.a.clock_drift_ppm", "at[0].node"]);
}
