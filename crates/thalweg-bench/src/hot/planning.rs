//! A plan by the default planner over a chain of six nodes.

use std::hint::black_box;

use thalweg_base::needs::Needs;
use thalweg_base::time::Duration;
use thalweg_base::units::Bitrate;
use thalweg_planner::model::{Edge, Layer, Snapshot, Stream, Topology, Traffic, Weights};
use thalweg_planner::planner::{self, Policy};

/// Insecure and narrow in the middle, with a deadline: every adapter is a candidate on every node.
pub(super) fn chain_of_6(plans: u64) {
    let snapshot = snapshot().expect("the names are valid");
    let policy = Policy::default();
    let (_, shortfalls) = planner::plan(&snapshot, &policy);
    assert!(shortfalls.is_empty(), "the chain can be planned");
    for _ in 0..plans {
        black_box(planner::plan(black_box(&snapshot), &policy));
    }
}

fn snapshot() -> anyhow::Result<Snapshot> {
    const RATES_KBPS: [u64; 5] = [2_000, 1_000, 300, 1_000, 2_000];
    let mut topology = Topology::default();
    let mut last = topology.add_node("n0".parse()?, 4, true);
    for (place, kbps) in RATES_KBPS.into_iter().enumerate() {
        let is_middle = (1..4).contains(&place);
        let node = topology.add_node(format!("n{}", place + 1).parse()?, 4, !is_middle);
        let mut link = Edge::new([last, node], Bitrate::from_kbps(kbps));
        link.delay = Duration::from_millis(10);
        link.secure = !is_middle;
        topology.add_link(link);
        last = node;
    }
    let layer = |kbps, utility| Layer {
        rate: Bitrate::from_kbps(kbps),
        utility,
    };
    let stream = Stream {
        name: "cam".parse()?,
        from: "n0".parse()?,
        to: vec!["n5".parse()?],
        layers: vec![layer(100, 0.6), layer(300, 0.3), layer(600, 0.1)],
        needs: Needs {
            confidential: true,
            deadline: Duration::from_millis(300),
            ..Needs::default()
        },
        importance: Stream::IMPORTANCE_DEFAULT,
        pack_ratio: None,
        seal_overhead: None,
        traffic: Traffic::default(),
    };
    Ok(Snapshot::new(topology, Weights::default(), stream))
}
