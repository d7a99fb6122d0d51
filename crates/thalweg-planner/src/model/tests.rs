//! The model's laws: adapters sort like their texts, events apply in time order, faults name their
//! key.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use thalweg_base::time::Duration;
use thalweg_base::units::{Bitrate, Ratio};

use super::*;

fn name(text: &str) -> NodeName {
    text.parse().expect("a test's node name is valid")
}

fn adapter(text: &str) -> Adapter {
    Adapter::Named(text.parse().expect("a test's adapter name is valid"))
}

fn link(a: &str, b: &str) -> Link {
    Link::new([name(a), name(b)], Bitrate::from_kbps(1_000))
}

#[test]
fn adapters_sort_like_their_texts() {
    let mut adapters: Vec<Adapter> = (0..=255).map(Adapter::Keep).collect();
    adapters.extend([Adapter::Unpack, Adapter::Seal, Adapter::Pack, Adapter::Open]);
    let named = [
        "blur", "keeper", "opened", "p", "pa", "pack-2", "packet", "protect", "zz.top_1",
    ];
    adapters.extend(named.map(adapter));
    let mut by_text = adapters.clone();
    adapters.sort();
    by_text.sort_by_key(ToString::to_string);
    assert_eq!(adapters, by_text);
    for adapter in adapters {
        assert_eq!(adapter.to_string().parse(), Ok(adapter));
    }
}

#[test]
fn other_text_is_no_adapter() {
    let long = "n".repeat(thalweg_base::limits::ADAPTER_NAME_BYTES_MAX + 1);
    let texts = [
        "", "keep", "keep:", "keep:+1", "keep:256", "Pack", "pack ", "pack:lz4", "1st", "-", "ö",
        &long,
    ];
    for text in texts {
        assert!(text.parse::<Adapter>().is_err(), "{text}");
    }
    assert_eq!(long[1..].parse(), Ok(adapter(&long[1..])));
    assert_eq!("keep".parse(), Ok(AdapterName::KEEP));
}

#[test]
fn events_apply_in_time_order() {
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
fn faults_name_their_key() {
    let mut world = World::default();
    world.nodes.insert(name("a"), Node::default());
    world.links.push(link("a", "a"));
    world.links.push(link("a", "c"));
    world.weights.seal = f64::NAN;
    let paths: Vec<_> = world.faults().into_iter().map(|fault| fault.path).collect();
    assert_eq!(paths, ["weights.seal", "link[0].ends", "link[1].ends[1]"]);
}

#[test]
fn long_or_invisible_name_is_rejected() {
    let longest = "n".repeat(thalweg_base::limits::NODE_NAME_BYTES_MAX);
    assert!(longest.parse::<NodeName>().is_ok());
    for text in [longest + "n", String::new(), " a".into(), "a\n".into()] {
        assert!(text.parse::<NodeName>().is_err(), "{text:?}");
    }
    // Invisible characters would make one name pass for another, or reverse the line on a terminal.
    for unseen in [
        "\u{202e}",
        "\u{200b}",
        "\u{2028}",
        "\u{feff}",
        "\u{e0041}",
        "\u{1b}",
    ] {
        let text = format!("a{unseen}b");
        let said = text.parse::<NodeName>().expect_err("is invisible");
        for shown in [said.to_string(), visible(&text)] {
            assert!(
                !shown.contains(unseen) && shown.contains("\\u{"),
                "{shown:?}"
            );
        }
    }
    let seen = "`\"it's\" C:\\\\n` — träge,\nmy line";
    assert_eq!(visible(seen), seen);
    // Some scripts need joiners.
    assert!("می\u{200c}خواهم".parse::<NodeName>().is_ok());
}

#[test]
fn impossible_bursts_are_faults() {
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
fn impossible_traffic_is_a_fault() {
    let mut world = World::default();
    let drifting = Node {
        clock_drift_ppm: -2_000,
        copy_time: Duration::from_millis(101),
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
    let expected = ["node.a.clock_drift_ppm", "node.a.copy_time", "at[0].node"];
    assert_eq!(paths, expected);
}

/// Returns the keys of the faults of a world with two nodes and these declared adapters.
fn faults_of(declared: &[(&str, Declaration)]) -> Vec<String> {
    let mut world = World::default();
    for (name, declaration) in declared {
        let name = name.parse().expect("a test's adapter name is valid");
        world.adapters.insert(name, declaration.clone());
    }
    let faults = world.faults().into_iter();
    faults.map(|fault| fault.path).collect()
}

#[test]
fn invalid_declarations_are_faults() {
    let plain = Declaration::default;
    let paired = |with: &str| Declaration {
        pair: Some(with.parse().expect("a name")),
        ..plain()
    };
    let factor = |factor| Declaration {
        rate_factor: Some(factor),
        ..plain()
    };
    assert_eq!(faults_of(&[("blur", factor(0.5))]), [""; 0]);
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let found = faults_of(&[("blur", factor(bad))]);
        assert_eq!(found, ["adapter.blur.rate_factor"]);
    }
    let better = Declaration {
        quality_factor: Some(1.5),
        cost_per_mbps: Some(-1.0),
        cpu_per_mbps: Some(f64::INFINITY),
        hides: Some(true),
        ..plain()
    };
    let keys = ["hides", "quality_factor", "cost_per_mbps", "cpu_per_mbps"];
    let keys = keys.map(|key| alloc::format!("adapter.x.{key}"));
    assert_eq!(faults_of(&[("x", better)]), keys);
    assert_eq!(faults_of(&[("x", paired("y"))]), ["adapter.x.pair"]);
    assert_eq!(faults_of(&[("x", paired("x"))]), ["adapter.x.pair"]);
    assert_eq!(faults_of(&[("x", paired("open"))]), ["adapter.x.pair"]);
    assert_eq!(faults_of(&[("x", paired("y")), ("y", plain())]), [""; 0]);
    let two = [("x", paired("z")), ("y", paired("z")), ("z", plain())];
    assert_eq!(faults_of(&two), ["adapter.x.pair", "adapter.y.pair"]);
    let told_twice = [("x", paired("y")), ("y", factor(2.0))];
    assert_eq!(faults_of(&told_twice), ["adapter.y.rate_factor"]);
    let lossy = Declaration {
        quality_factor: Some(0.5),
        ..paired("y")
    };
    let found = faults_of(&[("x", lossy), ("y", plain())]);
    assert_eq!(found, ["adapter.x.quality_factor"]);
    assert_eq!(
        faults_of(&[("seal", factor(1.5))]),
        ["adapter.seal.rate_factor"]
    );
    let delay = Declaration {
        delay: Duration::from_millis(1),
        cpu_per_mbps: Some(0.1),
        ..plain()
    };
    assert_eq!(faults_of(&[("seal", delay)]), [""; 0]);
}

#[test]
fn too_many_states_are_a_fault() {
    let names = ["a", "b", "c", "d", "e"];
    let blurs = names.map(|name| (name, Declaration::default()));
    assert_eq!(faults_of(&blurs[..4]), [""; 0]);
    assert_eq!(faults_of(&blurs), ["adapter"]);
    let table = |layers| Declaration {
        layers: Some(alloc::vec![
            Layer {
                rate: Bitrate::from_kbps(10),
                utility: 0.01,
            };
            layers
        ]),
        ..Declaration::default()
    };
    assert_eq!(faults_of(&[("small", table(17))]), ["adapter.small.layers"]);
    assert_eq!(faults_of(&[("small", table(0))]), ["adapter.small.layers"]);
    let mut world = World::default();
    for at in 0..32 {
        let name = alloc::format!("t{at}").parse().expect("a name");
        world.adapters.insert(name, table(10));
    }
    let layers = Layer {
        rate: Bitrate::from_kbps(10),
        utility: 1.0,
    };
    world.nodes.insert(name("a"), Node::default());
    world.nodes.insert(name("b"), Node::default());
    world.streams.push(Stream {
        name: "cam".parse().expect("a name"),
        from: name("a"),
        to: [name("b")].into(),
        layers: [layers].into(),
        needs: thalweg_base::needs::Needs::default(),
        importance: Stream::IMPORTANCE_DEFAULT,
        pack_ratio: None,
        seal_overhead: None,
        traffic: Traffic::default(),
    });
    let faults = world.faults();
    assert_eq!(faults[0].path, "stream[0].layers");
    assert!(faults[0].message.contains("1284 states"), "{}", faults[0]);
    let one_more = "t32".parse().expect("a name");
    world.adapters.insert(one_more, table(1));
    assert_eq!(world.faults()[0].path, "adapter");
}

#[test]
fn unknown_held_adapter_is_a_fault() {
    let mut world = World::default();
    let held = Node {
        adapters: Some(
            ["keep", "blur"]
                .map(|kind| kind.parse().expect("a name"))
                .into(),
        ),
        cpu_cores: Some(f64::NAN),
        ..Node::default()
    };
    world.nodes.insert(name("a"), held);
    let faults = world.faults();
    let paths: Vec<_> = faults.iter().map(|fault| &fault.path).collect();
    assert_eq!(paths, ["node.a.cpu", "node.a.adapters[1]"]);
    let says = "there is no adapter `blur` (there are keep, open, pack, seal, unpack)";
    assert_eq!(faults[1].message, says);
}
