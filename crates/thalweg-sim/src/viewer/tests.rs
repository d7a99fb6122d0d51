//! Proves that a late frame leaves the previous picture on the screen, and that a gap hides the layers
//! above it.

use std::sync::Arc;

use thalweg_base::time::{Duration, Instant};

use super::Viewer;
use crate::film::{Film, Shown, tests::stream};

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

#[test]
fn late_frame_keeps_previous_picture() {
    let film = Arc::new(Film::new(&stream(&[60, 120, 240])).expect("room for three layers"));
    let mut viewer = Viewer::new(Arc::clone(&film), Duration::from_millis(100));
    assert_eq!(viewer.report(), Ok(None));
    for frame in 0..4 {
        viewer.handle_sent(frame, at(1_000 * frame));
    }
    // Frame 0: base and the third layer; 1: late by a nanosecond; 2: in time to the nanosecond; 3: nothing.
    viewer.handle_delivered(0, 0, at(50));
    viewer.handle_delivered(0, 2, at(50));
    viewer.handle_delivered(1, 0, at(1_100) + Duration::from_nanos(1));
    viewer.handle_delivered(2, 0, at(2_100));
    viewer.handle_delivered(2, 1, at(2_100));
    viewer.handle_delivered(99, 0, at(1));
    let looks = |picture, shown| film.compare(picture, shown).expect("one size").y_db;
    let expected = [
        looks(0, Shown::Picture(0, 1)),
        looks(1, Shown::Picture(0, 1)),
        looks(2, Shown::Picture(2, 2)),
        looks(3, Shown::Picture(2, 2)),
    ];
    let report = viewer.report().expect("one size").expect("four frames");
    assert_eq!((report.frames, report.shown), (4, 2));
    assert!((report.y_db - expected.iter().sum::<f64>() / 4.0).abs() < 1e-9);
}
