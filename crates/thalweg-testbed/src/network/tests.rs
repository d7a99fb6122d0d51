//! Checks the links' addresses and the commands for `ip`, as text.

use std::net::Ipv4Addr;

use thalweg_base::units::Bitrate;
use thalweg_planner::model::{Link, Node, NodeName, World};

use super::{addresses_of, setup_commands};

fn name(text: &str) -> NodeName {
    text.parse().expect("a valid name")
}

#[test]
fn addresses_are_unique() {
    let mut seen: Vec<Ipv4Addr> = (0..1_000)
        .flat_map(|link| addresses_of(link).ends)
        .collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 2_000);
    assert_eq!(
        addresses_of(0).ends,
        [Ipv4Addr::new(10, 77, 0, 1), Ipv4Addr::new(10, 77, 0, 2)]
    );
    assert_eq!(addresses_of(64).ends[0], Ipv4Addr::new(10, 77, 1, 1));
}

#[test]
fn node_has_device_per_link() {
    let mut world = World::default();
    for node in ["a", "b", "c"] {
        world.nodes.insert(name(node), Node::default());
    }
    for ends in [["a", "b"], ["b", "c"], ["c", "a"]] {
        world
            .links
            .push(Link::new(ends.map(name), Bitrate::from_kbps(1)));
    }
    assert_eq!(
        setup_commands(&world, &name("a")),
        "link set lo up\n\
         address add 10.77.0.1/30 dev link0\nlink set link0 mtu 1500 txqueuelen 1000 up\n\
         address add 10.77.0.10/30 dev link2\nlink set link2 mtu 1500 txqueuelen 1000 up\n"
    );
}
