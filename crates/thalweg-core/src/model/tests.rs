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
    Link {
        ends: [name(a), name(b)],
        rate: Bitrate::from_kbps(1_000),
        delay: Duration::ZERO,
        loss: Ratio::ZERO,
        secure: true,
        queue: Edge::QUEUE_DEFAULT,
        up: true,
    }
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
        link: [name("b"), name("a")],
        set: LinkChange {
            rate: Some(Bitrate::from_kbps(kbps)),
            ..LinkChange::default()
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
