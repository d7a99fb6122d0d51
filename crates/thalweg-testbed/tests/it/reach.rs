//! Proves that two nodes behind NATs find a direct path with the help of an HTTPS relay, fall back to
//! the relay when that path is gone, and to another relay when the first is.
//!
//! ```text
//!  camera ── gate-a ──┐            gates: masquerade what leaves, and admit only replies
//!                   town (two of iroh-relay, https and QUIC by certificates of the fabric's own)
//!  base ──── gate-b ──┘
//! ```
//!
//! Symmetric NATs are not tested: through two of those there is no direct path, and the relay carries.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::Value;
use thalweg_base::units::Bitrate;
use thalweg_planner::model::{Link, Node, NodeName, World};
use thalweg_testbed::network::{Network, addresses_of};
use thalweg_testbed::system::program;

use crate::program::{Running, inside, is_possible, turn};

/// How long any awaited state may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// The four links, by their ends.
const LINKS: [[&str; 2]; 4] = [
    ["gate-a", "town"],
    ["gate-b", "town"],
    ["camera", "gate-a"],
    ["base", "gate-b"],
];

/// Returns a gate's rules for `nft`: masquerade what leaves, drop what comes unasked.
fn rules(inner: usize, outer: usize) -> String {
    format!(
        "table ip gate {{\n\
         chain leaving {{\n type nat hook postrouting priority 100\n oifname \"link{outer}\" masquerade\n}}\n\
         chain here {{\n type filter hook input priority 0; policy drop;\n ct state established,related accept\n}}\n\
         chain through {{\n type filter hook forward priority 0; policy drop;\n iifname \"link{inner}\" accept\n \
         ct state established,related accept\n}}\n}}\n"
    )
}

fn name(text: &str) -> NodeName {
    text.parse().expect("ours")
}

fn world() -> World {
    let mut world = World::default();
    for node in LINKS.as_flattened() {
        world.nodes.insert(name(node), Node::default());
    }
    let link = |ends: [&str; 2]| Link::new(ends.map(name), Bitrate::from_kbps(20_000));
    world.links = LINKS.map(link).into();
    world
}

struct Site {
    network: Network,
}

impl Site {
    /// Builds the network, with its routes and gates.
    ///
    /// Fails   the kernel has no NAT, or there is no `nft`
    fn build() -> anyhow::Result<Self> {
        let site = Self {
            network: Network::build(&world(), 1).expect("this user may"),
        };
        let towns = [0, 1].map(|gate| addresses_of(gate).ends[1]);
        site.forward("town");
        for (gate, town) in towns.into_iter().enumerate() {
            let (outer, inner) = (gate, gate + 2);
            let [node, node_gate] = LINKS[inner];
            site.forward(node_gate);
            site.route(node_gate, town);
            site.route(node, addresses_of(inner).ends[1]);
            let mut nft = site.command(node_gate, "nft");
            let rules = rules(inner, outer);
            program::run(nft.args(["-f", "-"]), &rules)?;
        }
        Ok(site)
    }

    fn command(&self, node: &str, program: &str) -> Command {
        inside(&self.network, &name(node), program)
    }

    /// Enables IP forwarding in a namespace.
    fn forward(&self, node: &str) {
        let mut set = self.command(node, "sh");
        set.args(["-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]);
        program::run(&mut set, "").expect("root may");
    }

    /// Adds a default route through a neighbour in a namespace.
    fn route(&self, node: &str, via: Ipv4Addr) {
        let mut ip = self.command(node, "ip");
        ip.args(["route", "add", "default", "via", &via.to_string()]);
        program::run(&mut ip, "").expect("it is a neighbour");
    }

    fn folder(&self) -> &Path {
        self.network.folder()
    }

    fn start(&self, node: &str, program: &str, arguments: &[&str]) -> Running {
        let log = self.folder().join(format!("{node}.log"));
        let log = File::create(log).expect("the folder is ours");
        let mut command = self.command(node, program);
        command.args(arguments).current_dir(self.folder());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Running(command.stderr(log).spawn().expect("it starts"))
    }

    /// Starts the relays, with certificates by an authority with its own certificate in `ca.pem`.
    fn start_relays(&self) -> [Running; 2] {
        let program = std::env::var("THALWEG_TEST_RELAY").expect(
            "this test needs a relay: run `cargo xtask test`, or `cargo xtask relay` and set THALWEG_TEST_RELAY to the \
             program that it names",
        );
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = || KeyPair::generate().expect("there is randomness");
        let ca = CertifiedIssuer::self_signed(params, key()).expect("it is right");
        self.put("ca.pem", &ca.pem());
        [0, 1].map(|number| {
            let (address, own) = (town(number), key());
            let params = CertificateParams::new([address.to_string()]).expect("an address");
            let certificate = params.signed_by(&own, &ca).expect("it is right");
            self.put(&format!("relay{number}.pem"), &certificate.pem());
            self.put(&format!("relay{number}.key"), &own.serialize_pem());
            let text = format!(
                "http_bind_addr = \"{address}:80\"\nenable_metrics = false\nenable_quic_addr_discovery = true\n\n[tls]\n\
                 https_bind_addr = \"{address}:443\"\nquic_bind_addr = \"{address}:7842\"\ncert_mode = \"Manual\"\n\
                 manual_cert_path = \"relay{number}.pem\"\nmanual_key_path = \"relay{number}.key\"\n"
            );
            let config = format!("relay{number}.toml");
            self.put(&config, &text);
            self.start("town", &program, &["--config-path", &config])
        })
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.folder().join(name), text).expect("the folder is ours");
    }

    fn thalweg(arguments: &[&str]) -> Command {
        let testbed = Path::new(env!("CARGO_BIN_EXE_thalweg-testbed"));
        let mut command = Command::new(testbed.with_file_name("thalweg"));
        command.args(arguments);
        command
    }

    fn path(&self, name: &str) -> String {
        self.folder().join(name).to_str().expect("ours").to_owned()
    }

    /// Starts two nodes that know each other only through the relays.
    fn start_nodes(&self) -> [Running; 2] {
        let nodes = ["camera", "base"];
        let relays = [0, 1].map(|number| format!("\"https://{}\"", town(number)));
        let relays = relays.join(", ");
        let keys = nodes.map(|node| {
            let text = format!(
                "name = \"{node}\"\nkey_file = \"{node}.key\"\nsocket = \"{node}.sock\"\nlisten = [\"0.0.0.0:7400\"]\n\
                 [api]\nenabled = false\n[reach]\nrelays = [{relays}]\nrelay_ca = \"ca.pem\"\n"
            );
            let config = self.path(&format!("{node}.toml"));
            fs::write(&config, text).expect("the folder is ours");
            let id = program::run(&mut Self::thalweg(&["id", "--config", &config]), "");
            id.expect("it makes a key").trim().to_owned()
        });
        for (node, place) in [("camera", 1), ("base", 0)] {
            let config = self.path(&format!("{node}.toml"));
            let (peer, key) = (nodes[place], &keys[place]);
            let text = fs::read_to_string(&config).expect("it was written above");
            let peer =
                format!("[[peer]]\nname = \"{peer}\"\nkey = \"{key}\"\naddresses = [{relays}]\n");
            fs::write(&config, text + &peer).expect("the folder is ours");
        }
        nodes.map(|node| {
            let thalweg = Self::thalweg(&[]);
            let thalweg = thalweg.get_program().to_str().expect("cargo's path");
            self.start(
                node,
                thalweg,
                &["node", "--config", &format!("{node}.toml")],
            )
        })
    }

    /// Returns the addresses used by the camera's link, if it is up.
    fn ways(&self) -> Vec<String> {
        let socket = self.path("camera.sock");
        let ls = program::run(&mut Self::thalweg(&["ls", "--json", "--node", &socket]), "");
        let status: Value = ls
            .ok()
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default();
        let links = status["links"].as_array().into_iter().flatten();
        let up = links.filter(|link| link["state"] == "up");
        let addresses = up.filter_map(|link| link["addresses"].as_array());
        let texts = addresses.flatten().filter_map(Value::as_str);
        texts.map(str::to_owned).collect()
    }

    fn until(&self, what: &str, so: impl Fn(&[String]) -> bool) {
        let begun = Instant::now();
        loop {
            let ways = self.ways();
            if so(&ways) {
                return;
            }
            if begun.elapsed() > PATIENCE {
                let log = |node| fs::read_to_string(self.path(node)).unwrap_or_default();
                let (camera, town) = (log("camera.log"), log("town.log"));
                panic!("{what}: {ways:?}\ncamera: {camera}\nrelay: {town}");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Returns the address of a relay.
fn town(number: usize) -> Ipv4Addr {
    addresses_of(number).ends[1]
}

#[test]
fn nodes_behind_nats_fall_back_to_relays() {
    if !is_possible() {
        return;
    }
    let _turn = turn();
    let site = match Site::build() {
        Ok(site) => site,
        Err(error) => return println!("not run: {error:#}"),
    };
    let relays = site.start_relays();
    let _nodes = site.start_nodes();
    // The other node's gate, with its hole punched.
    let direct = format!("{}:", addresses_of(1).ends[0]);
    let is_direct = |way: &String| way.starts_with(&direct);
    let is_by = |number: usize| {
        let relay = format!("relay https://{}/", town(number));
        move |way: &String| *way == relay
    };
    site.until("a direct way is found", |ways| ways.iter().any(is_direct));
    // The hole is closed: packets from the other gate are dropped.
    let mut nft = site.command("gate-a", "nft");
    let closed = format!(
        "insert rule ip gate through ip saddr {} drop\n",
        addresses_of(1).ends[0]
    );
    program::run(nft.args(["-f", "-"]), &closed).expect("the rule is right");
    let goes_by = |what: &str, numbers: &[usize]| {
        site.until(what, |ways| {
            let by = |number: &usize| ways.iter().any(is_by(*number));
            numbers.iter().any(by) && !ways.iter().any(is_direct)
        });
    };
    goes_by("it goes by a relay", &[0, 1]);
    let used = usize::from(!site.ways().iter().any(is_by(0)));
    let [first, second] = relays;
    let (dead, _living) = if used == 0 {
        (first, second)
    } else {
        (second, first)
    };
    drop(dead);
    goes_by("it goes by the other relay", &[1 - used]);
    site.network.tear_down().expect("nothing stays");
}
