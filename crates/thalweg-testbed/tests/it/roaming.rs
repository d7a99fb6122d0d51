//! Proves that a stream goes on when its source's node gets another address.
//!
//! *How.* The camera dials; then its address is replaced by another from which the studio is reachable,
//! in a network without a default route. ADUs given meanwhile expire after three seconds, and all of
//! them must arrive.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration as Time;

use bytes::Bytes;
use thalweg_base::adu::{Flags, Importance, MediaTime};
use thalweg_base::needs::Needs;
use thalweg_base::time::Duration;
use thalweg_base::units::Bitrate;
use thalweg_node::local::Client;
use thalweg_node::{Outgoing, Publication, SubscribeOptions, SubscriberEvent};
use thalweg_planner::model::{Link, Node, NodeName, World};
use thalweg_testbed::fabric::Fabric;
use thalweg_testbed::network::{Network, addresses_of};
use thalweg_testbed::system::program;

use crate::program::{Running, inside, is_possible, turn};

/// How long any awaited state may take.
const PATIENCE: Time = Time::from_mins(1);

/// Interval between two ADUs.
const PACE: Time = Time::from_millis(20);

/// Number of ADUs before the address changes, and in total.
const BEFORE: u32 = 50;
const ALL: u32 = 150;

fn name(text: &str) -> NodeName {
    text.parse().expect("ours")
}

fn world() -> World {
    let ends = ["camera", "studio"].map(name);
    let mut world = World::default();
    for node in &ends {
        world.nodes.insert(node.clone(), Node::default());
    }
    world.links = vec![Link::new(ends, Bitrate::from_kbps(20_000))];
    world
}

/// Runs `ip` in a node's namespace.
fn ip(network: &Network, node: &str, words: &str) {
    let mut ip = inside(network, &name(node), "ip");
    program::run(ip.args(words.split(' ')), "").expect("root may");
}

fn outgoing(number: u32) -> Outgoing {
    Outgoing {
        media_time: MediaTime::from_micros(u64::from(number) * 20_000),
        importance: Importance(1),
        layer: 0,
        flags: Flags::KEY,
        depends_on: 0,
        payload: Bytes::from(vec![number as u8; 1_000]),
    }
}

fn publication() -> Publication {
    Publication {
        needs: Needs {
            deadline: Duration::from_secs(3),
            ..Needs::default()
        },
        pack_ratio: None,
        planner: None,
        ..Publication::new(
            "camera/view".parse().expect("a name"),
            Bitrate::from_kbps(500),
        )
    }
}

fn thalweg() -> PathBuf {
    let testbed = Path::new(env!("CARGO_BIN_EXE_thalweg-testbed"));
    testbed.with_file_name("thalweg")
}

/// Starts the nodes with their prepared configuration files.
fn start(network: &Network) -> [Running; 2] {
    let thalweg = thalweg();
    // Names and files are in the same order.
    let places = [("camera", "0.toml"), ("studio", "1.toml")];
    places.map(|(node, config)| {
        let mut command = inside(
            network,
            &name(node),
            thalweg.to_str().expect("cargo's path"),
        );
        command
            .args(["node", "--config", config])
            .current_dir(network.folder());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Running(command.spawn().expect("it starts"))
    })
}

async fn connect(fabric: &Fabric<'_>, node: &str) -> Client {
    loop {
        if let Ok(client) = Client::connect(fabric.socket(&name(node))).await {
            return client;
        }
        tokio::time::sleep(PACE).await;
    }
}

/// Runs the stream; returns how many ADUs have arrived.
async fn arrived(network: &Network, fabric: &Fabric<'_>) -> u32 {
    let client = connect(fabric, "studio").await;
    let options = SubscribeOptions::new(publication().name, false);
    let subscriber = client.subscribe(options).await;
    let mut subscriber = subscriber.expect("accepted");
    let client = connect(fabric, "camera").await;
    let publisher = client.publish(publication()).await;
    let mut publisher = publisher.expect("accepted");
    publisher.wanted().await.expect("the node runs");
    let counted = tokio::spawn(async move {
        let mut adus = 0;
        while let Ok(Some(event)) = subscriber.recv().await {
            adus += u32::from(matches!(event, SubscriberEvent::Adu(_)));
        }
        adus
    });
    for number in 0..ALL {
        if number == BEFORE {
            let [camera, studio] = addresses_of(0).ends;
            ip(network, "studio", "route add 192.0.2.0/24 dev link0");
            ip(
                network,
                "camera",
                &format!("address del {camera}/30 dev link0"),
            );
            ip(network, "camera", "address add 192.0.2.7/24 dev link0");
            ip(network, "camera", &format!("route add {studio} dev link0"));
        }
        let given = publisher.send(outgoing(number)).await;
        given.expect("the node runs");
        tokio::time::sleep(PACE).await;
    }
    publisher.finish().await.expect("the node runs");
    counted.await.expect("it counts")
}

/// Changes the address of a stream's source; `camera` is appended to its configuration.
fn move_source(camera: &str) {
    if !is_possible() {
        return;
    }
    let _turn = turn();
    let network = Network::build(&world(), 1).expect("this user may");
    let fabric = Fabric::lay_out(&network, &thalweg()).expect("it is laid out");
    let config = network.folder().join("0.toml");
    let text = std::fs::read_to_string(&config).expect("it was laid out");
    std::fs::write(&config, text + camera).expect("the folder is ours");
    let nodes = start(&network);
    let runtime = tokio::runtime::Runtime::new().expect("it starts");
    let arrived = runtime
        .block_on(async { tokio::time::timeout(PATIENCE, arrived(&network, &fabric)).await });
    assert_eq!(arrived.expect("in time"), ALL);
    drop((nodes, fabric));
    network.tear_down().expect("nothing stays");
}

#[test]
fn moved_source_loses_nothing() {
    move_source("");
}

#[test]
fn moved_confined_source_loses_nothing() {
    move_source("\n[reach]\nconfined = true\n");
}
