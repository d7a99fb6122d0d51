//! The nodes' namespaces and the links between them, in the kernel.
//!
//! One network namespace per node. A link is two TUN devices, one in the namespace of each end, with
//! the two addresses of a /30 of its own; packets that the kernel sends into one come out of the other
//! after the line ([`crate::emulator`]). An address is routable only on its own link, so other nodes
//! than neighbours are reachable only through Thalweg, and no traffic bypasses a line.
//!
//! ```text
//!  ┌ namespace camera ────┐      emulator       ┌ namespace relay ─────┐
//!  │ thalweg node ─ link0 │═► line a→b ════════►│ link0 ─ thalweg node │
//!  │          10.77.0.1   │◄════════ line b→a ◄═│ 10.77.0.2            │
//!  └──────────────────────┘                     └──────────────────────┘
//! ```
//!
//! It uses neither veth nor `tbf`; docs/decisions explains why.
//!
//! *Sources.* `ip-netns(8)`; Mininet for the idea of a network of namespaces.

mod address;

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use thalweg_netem::Impairment;
use thalweg_planner::model::{NodeName, World};

pub use address::{LinkAddresses, addresses_of};

use crate::emulator::{Emulator, LinkDevices};
use crate::system::owner::Owner;
use crate::system::{inside, leftovers, program, tun};

/// Maximum packet size, as on Ethernet and most internet paths.
const MTU: u32 = 1_500;

/// Packets that a device buffers for the emulator. This is transit, not the link's queue: at 1 Gbit/s,
/// 1 ms is 83 packets.
const TRANSIT_PACKETS: u32 = 1_000;

/// A running world's network; dropping this removes it.
pub struct Network {
    owner: Owner,
    folder: PathBuf,
    world: World,
    nodes: Vec<NodeName>,
    emulator: Emulator,
}

impl Network {
    /// Builds the network of a world; the seed determines its lines' random behaviour.
    ///
    /// Fails   the kernel or `ip` refuses something; what was built until then is removed
    pub fn build(world: &World, seed: u64) -> anyhow::Result<Self> {
        let owner = Owner::this();
        let guard = Guard(owner);
        let folder = std::env::temp_dir().join(owner.to_string());
        // The folder holds keys, so only its owner may enter it.
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        let nodes: Vec<NodeName> = world.nodes.keys().cloned().collect();
        for place in 0..nodes.len() {
            let name = namespace_name(owner, place);
            program::run(Command::new("ip").args(["netns", "add", &name]), "")?;
        }
        let mut devices = Vec::new();
        for (number, link) in world.links.iter().enumerate() {
            let [a, b] = [0, 1].map(|end| {
                let place = place_of(&nodes, &link.ends[end]);
                let namespace = leftovers::namespace_path(&namespace_name(owner, place));
                tun::open_in(&namespace, &device(number))
                    .with_context(|| format!("cannot make a TUN device for `{}`", link.ends[end]))
            });
            devices.push(LinkDevices {
                ends: [a?, b?],
                impairment: Impairment::from(link),
            });
        }
        for (place, name) in nodes.iter().enumerate() {
            let namespace = namespace_name(owner, place);
            let mut ip = Command::new("ip");
            program::run(
                ip.args(["-netns", &namespace, "-batch", "-"]),
                &setup_commands(world, name),
            )?;
        }
        let emulator = Emulator::start(devices, seed)?;
        std::mem::forget(guard);
        Ok(Self {
            owner,
            folder,
            world: world.clone(),
            nodes,
            emulator,
        })
    }

    /// Returns the folder of the run, which is removed with it.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the world as it was when the network was built.
    pub const fn world(&self) -> &World {
        &self.world
    }

    /// Returns the emulator.
    pub const fn emulator(&self) -> &Emulator {
        &self.emulator
    }

    /// Returns the path of a node's namespace.
    pub fn namespace(&self, node: &NodeName) -> PathBuf {
        let place = place_of(&self.nodes, node);
        leftovers::namespace_path(&namespace_name(self.owner, place))
    }

    /// Returns a command that runs inside a node's namespace and dies with this process.
    pub fn command(&self, node: &NodeName, program: &str) -> anyhow::Result<Command> {
        inside::command(&self.namespace(node), program)
    }

    /// Removes the network, and reports what could not be removed.
    pub fn tear_down(self) -> anyhow::Result<()> {
        let owner = self.owner;
        drop(self);
        leftovers::remove_of(owner).map(drop)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // An error here is dropped: the next run tries again and reports it.
        let _ = leftovers::remove_of(self.owner);
    }
}

/// Removes what was built if building fails halfway.
struct Guard(Owner);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = leftovers::remove_of(self.0);
    }
}

fn namespace_name(owner: Owner, place: usize) -> String {
    format!("{owner}-{place}")
}

fn device(link: usize) -> String {
    format!("link{link}")
}

fn place_of(nodes: &[NodeName], name: &NodeName) -> usize {
    let found = nodes.iter().position(|node| node == name);
    found.expect("a world that was loaded names only nodes that it has")
}

/// Returns the lines for `ip -batch` that set up a node's interfaces.
fn setup_commands(world: &World, node: &NodeName) -> String {
    let mut lines = String::from("link set lo up\n");
    for (number, link) in world.links.iter().enumerate() {
        for (end, _) in link
            .ends
            .iter()
            .enumerate()
            .filter(|(_, name)| *name == node)
        {
            let address = addresses_of(number).ends[end];
            let device = device(number);
            let _ = write!(
                lines,
                "address add {address}/30 dev {device}\nlink set {device} mtu {MTU} txqueuelen {TRANSIT_PACKETS} up\n"
            );
        }
    }
    lines
}

#[cfg(test)]
mod tests;
