//! Proves that a stream goes on soon after a node on its path restarts: the node's neighbours reinstall
//! at once what it has forgotten, instead of with the next renewal of its lease.

use std::collections::BTreeMap;

use thalweg_base::needs::{Needs, Reliability};
use thalweg_base::time::Duration;
use thalweg_base::units::Bitrate;
use thalweg_planner::model::{
    Change, Event, Layer, Link, Node, NodeAction, NodeName, Stream, Traffic, World,
};

use crate::worlds::run;

/// The nodes of a chain, in path order.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Frames per second, of one ADU each.
const FRAMES: u64 = 25;

fn name(text: &str) -> NodeName {
    text.parse().expect("a letter is a name")
}

/// Returns a chain in which a node crashes after 3 s and starts half a second later, and the stream
/// goes on for 7 s.
fn with_restart(of: &str, reliability: Reliability) -> World {
    let link = |pair: &[&str]| Link {
        delay: Duration::from_millis(5),
        ..Link::new([name(pair[0]), name(pair[1])], Bitrate::from_kbps(5_000))
    };
    let stream = Stream {
        name: "cam".parse().expect("a name"),
        from: name("a"),
        to: vec![name("d")],
        layers: vec![Layer {
            rate: Bitrate::from_kbps(400),
            utility: 1.0,
        }],
        needs: Needs {
            reliability,
            deadline: Duration::from_millis(300),
            ..Needs::default()
        },
        importance: Stream::IMPORTANCE_DEFAULT,
        pack_ratio: Some(1.0),
        seal_overhead: None,
        traffic: Traffic {
            frames: FRAMES as f64,
            ..Traffic::default()
        },
    };
    let at = |millis, action| Event {
        time: Duration::from_millis(millis),
        change: Change::Node {
            name: name(of),
            action,
        },
    };
    let nodes = NAMES.map(|node| (name(node), Node::default()));
    World {
        length: Some(Duration::from_secs(10)),
        nodes: BTreeMap::from(nodes),
        links: NAMES.windows(2).map(link).collect(),
        streams: vec![stream],
        events: vec![at(3_000, NodeAction::Crash), at(3_500, NodeAction::Start)],
        ..World::default()
    }
}

#[test]
fn stream_resumes_after_node_restart() {
    for reliability in [Reliability::None, Reliability::UntilDeadline] {
        for node in ["b", "c", "d"] {
            let report = run(&with_restart(node, reliability), 1).report;
            assert_eq!(report.violations, [] as [&str; 0], "{node}");
            let stream = &report.streams[0];
            let missed = stream.sent - stream.delivered;
            // Half a second of absence, the start of the world, and some round trips to link, plan and
            // report.
            assert!(
                missed <= FRAMES,
                "{node}: {missed} of {} missed",
                stream.sent
            );
        }
    }
}
