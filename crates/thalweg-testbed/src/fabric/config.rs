//! A node's configuration, from the world.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use thalweg_base::limits::ADAPTERS_PER_NODE_MAX;
use thalweg_planner::model::{NodeName, World};

use crate::network::addresses_of;

/// The port of every node, each in a namespace of its own.
const PORT: u16 = 7400;

/// Returns a node's configuration. Its files are named by its index, as a name may contain anything.
pub fn text(
    world: &World,
    name: &NodeName,
    place: usize,
    keys: &BTreeMap<NodeName, String>,
) -> String {
    // A world may give more slots than any plan uses, which a configuration may not.
    let slots = world.nodes[name].slots.min(ADAPTERS_PER_NODE_MAX as u32);
    // JSON's strings are TOML's.
    let quoted = |name: &NodeName| serde_json::Value::from(name.as_str()).to_string();
    let mut text = format!(
        "name = {}\nkey_file = \"{place}.key\"\nsocket = \"{place}.sock\"\nlisten = [\"0.0.0.0:{PORT}\"]\nslots = {slots}\n\n\
         [api]\nlisten = \"127.0.0.1:7481\"\n\n{}",
        quoted(name),
        weights(world),
    );
    for (peer, node) in world.nodes.iter().filter(|(peer, _)| *peer != name) {
        let links = world.links.iter().enumerate();
        let links: Vec<_> = links
            .filter(|(_, link)| link.joins(&[name.clone(), peer.clone()]))
            .collect();
        let _ = write!(
            text,
            "\n[[peer]]\nname = {}\nkey = \"{}\"\ntrusted = {}\nconnect = {}\n",
            quoted(peer),
            keys[peer],
            node.trusted,
            !links.is_empty(),
        );
        // Two nodes keep one connection, so of parallel links the first is used, as in the simulator.
        if let Some((number, link)) = links.first() {
            let far = usize::from(link.ends[0] == *name);
            let _ = write!(text, "secure = {}\nrate = \"{}\"\n", link.secure, link.rate);
            // Only the first end dials, so that no packet of a slow link goes into a second handshake.
            if name < peer {
                let address = addresses_of(*number).ends[far];
                let _ = writeln!(text, "addresses = [\"{address}:{PORT}\"]");
            }
        }
    }
    text
}

fn weights(world: &World) -> String {
    let value = serde_json::to_value(world.weights).expect("weights are numbers");
    let mut text = String::from("[weights]\n");
    for (key, value) in value.as_object().into_iter().flatten() {
        let _ = writeln!(text, "{key} = {value}");
    }
    text
}
