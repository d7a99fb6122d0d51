//! Proves `thalweg trace` on real nodes: a table that fits a window, an object for each ADU, and a
//! sentence when there is nothing to show.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tempfile::tempdir;
use thalweg_base::adu::{Flags, Importance, MediaTime};
use thalweg_base::needs::Needs;
use thalweg_base::units::Bitrate;
use thalweg_node::local::Client;
use thalweg_node::{Outgoing, Publication, SubscribeOptions};
use thalweg_planner::planner::Planner;
use tokio::runtime::Runtime;

use crate::fabric::{Fabric, PATIENCE};
use crate::program::run;

/// Publishes a stream of small ADUs through the nodes' sockets; it ends with the runtime.
fn flow(runtime: &Runtime, folder: &Path) {
    let (source, sink) = (folder.join("camera.sock"), folder.join("base.sock"));
    runtime.spawn(async move {
        let options = SubscribeOptions::new("cam".parse().expect("a name"), false);
        let node = Client::connect(&sink).await.expect("it listens");
        let mut subscriber = node.subscribe(options).await.expect("it does");
        while let Ok(Some(_)) = subscriber.recv().await {}
    });
    runtime.spawn(async move {
        let node = Client::connect(&source).await.expect("it listens");
        let mut publisher = node.publish(publication()).await.expect("it does");
        for number in 0.. {
            let outgoing = Outgoing {
                media_time: MediaTime::from_micros(number * 10_000),
                importance: Importance(200),
                layer: 0,
                flags: Flags::NONE,
                depends_on: 0,
                payload: Bytes::from(vec![7; 3_000]),
            };
            publisher.send(outgoing).await.expect("the node runs");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

fn publication() -> Publication {
    Publication {
        needs: Needs {
            deadline: thalweg_base::time::Duration::from_secs(2),
            confidential: true,
            ..Needs::default()
        },
        pack_ratio: None,
        planner: Some(Planner::Exact),
        ..Publication::new("cam".parse().expect("a name"), Bitrate::from_kbps(500))
    }
}

#[test]
fn any_node_traces_a_live_stream() {
    let fabric = Fabric::start();
    fabric.wait_for_links("relay", 2);
    fabric
        .run(&["trace", "cam"], "base")
        .exits(1)
        .says(&["no node publishes `cam`"]);
    let runtime = Runtime::new().expect("threads");
    flow(&runtime, fabric.path());
    let begun = std::time::Instant::now();
    let arguments = ["trace", "cam", "--count", "5", "--every", "100ms"];
    let text = loop {
        // Until the viewer knows the stream and the stream has a plan.
        let run = fabric.run(&arguments, "viewer");
        if run.0.status.success() {
            break run.out();
        }
        assert!(begun.elapsed() < PATIENCE, "{}", run.err());
    };
    for word in [
        "cam to base",
        "5 ADUs",
        "camera",
        "relay",
        "lift",
        "of the budget of 2000 ms",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(text.lines().count() <= 24, "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    let json = [&arguments[..], &["--json"]].concat();
    let out = fabric.run(&json, "relay").exits(0).out();
    let objects: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).expect("one JSON object a line"))
        .collect();
    let (summary, adus) = objects.split_last().expect("a summary");
    assert_eq!(adus.len(), 5, "{out}");
    for adu in adus {
        let nodes: Vec<&Value> = adu["hops"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|hop| &hop["node"])
            .collect();
        assert_eq!(nodes, ["camera", "relay", "base"]);
        // Sealed at the camera and opened at the base.
        assert!(adu["hops"][0]["lift_us"].as_u64() > Some(0), "{adu}");
    }
    assert_eq!(summary["summary"][0]["adus"], 5);
    drop(runtime);
    fabric.stop();
}

#[test]
fn missing_subscriber_or_node_is_reported() {
    let fabric = Fabric::start();
    let runtime = Runtime::new().expect("threads");
    let socket = fabric.path().join("camera.sock");
    let publisher = runtime.block_on(async {
        let node = Client::connect(&socket).await.expect("it listens");
        node.publish(publication()).await.expect("it does")
    });
    fabric
        .run(&["trace", "cam", "--wait", "300ms"], "camera")
        .exits(1)
        .says(&["`cam` has no subscriber", "camera"]);
    drop(publisher);
    drop(runtime);
    fabric.stop();
    let folder = tempdir().expect("a directory");
    run(folder.path(), &["trace", "cam", "--node", "x.sock"])
        .exits(4)
        .says(&["no node listens on x.sock"]);
}
