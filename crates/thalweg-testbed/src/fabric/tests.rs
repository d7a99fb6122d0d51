//! Proves that a node can parse its configuration, and that it has the world's values.

use std::collections::BTreeMap;
use std::path::Path;

use thalweg_base::units::Bitrate;
use thalweg_node::Config;
use thalweg_planner::model::{Link, Node, NodeName, World};

use super::config;

fn name(text: &str) -> NodeName {
    text.parse().expect("a valid name")
}

fn world() -> World {
    let mut world = World::default();
    for (node, trusted) in [("a", true), ("the \"relay\"", false), ("z", true)] {
        let node = (
            name(node),
            Node {
                slots: 3,
                trusted,
                ..Node::default()
            },
        );
        world.nodes.insert(node.0, node.1);
    }
    for ends in [["a", "the \"relay\""], ["the \"relay\"", "z"]] {
        world.links.push(Link {
            secure: false,
            ..Link::new(ends.map(name), Bitrate::from_kbps(150))
        });
    }
    world
}

#[test]
fn node_parses_its_configuration() {
    let mut world = world();
    // More slots than any plan uses: a world may have them, a configuration may not.
    let plenty = world.nodes.get_mut(&name("z"));
    plenty.expect("it is there").slots = 17;
    let keys: BTreeMap<NodeName, String> = (world.nodes.keys().cloned())
        // Points of the curve, as keys are.
        .zip(["11", "13", "17"].map(|byte| byte.repeat(32)))
        .collect();
    let config = |node: &str, place| {
        let text = config::text(&world, &name(node), place, &keys);
        Config::parse(&text, "node.toml", Path::new("/x")).expect(&text)
    };
    let relay = config("the \"relay\"", 1);
    assert_eq!((relay.slots, relay.peers.len()), (3, 2));
    assert_eq!(config("z", 2).slots, 16);
    assert_eq!(relay.weights, world.weights);
    assert_eq!(relay.socket.as_deref(), Some(Path::new("/x/1.sock")));
    let peer = |of: &Config, other: &str| {
        let found = of.peers.iter().find(|peer| peer.name == name(other));
        found.cloned().expect("every other node is a peer")
    };
    // One end of each link dials, and has the address.
    assert!(peer(&relay, "a").addresses.is_empty());
    assert_eq!(
        peer(&relay, "z").addresses,
        ["10.77.0.6:7400".parse().expect("an address")]
    );
    let relay_at_a = peer(&config("a", 0), "the \"relay\"");
    assert_eq!(
        relay_at_a.addresses,
        ["10.77.0.2:7400".parse().expect("an address")]
    );
    assert_eq!(relay_at_a.rate, Some(Bitrate::from_kbps(150)));
    assert!(!relay_at_a.trusted && !relay_at_a.secure && relay_at_a.connect);
    // A node that is no neighbour is known and trusted, and not dialled.
    let far = peer(&config("a", 0), "z");
    assert!(far.trusted && !far.connect && far.addresses.is_empty() && far.rate.is_none());
}
