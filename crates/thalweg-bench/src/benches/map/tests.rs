//! Proves that the computed number of frames is what a run gives.

use thalweg_base::time::Duration;
use thalweg_base::units::Bitrate;
use thalweg_sim::flood::{Flood, Shape};

use super::network::{distances, frames_of_flood};

#[test]
fn flood_matches_computed_frames() {
    for nodes in [2, 5, 40] {
        let shape = Shape::grown(nodes, Bitrate::from_kbps(1_000_000), 1);
        let mut flood = Flood::start(&shape, 1);
        flood.pass(Duration::from_secs(3));
        let begun = flood.traffic_of_all().frames;
        // Publishing a stream makes one record.
        let publication = thalweg_control::control::Publication {
            planner: None,
            ..thalweg_control::control::Publication::new(
                "cam".parse().expect("a name"),
                Bitrate::from_kbps(100),
            )
        };
        flood.at(0, |control, now, keys| {
            control.publish(publication, None, now, keys)
        });
        let far = distances(&shape, 0, None).into_iter().flatten().max();
        flood.pass(far.expect("there are nodes") + Duration::from_millis(1));
        let frames = flood.traffic_of_all().frames - begun;
        assert_eq!(frames, frames_of_flood(&shape), "{nodes} nodes");
    }
}
