//! Proves what a viewer shows: the unbroken prefix of layers in time; and that media time and frame
//! number convert.

use thalweg_base::adu::Header;
use thalweg_base::id::{Sequence, StreamId};

use super::*;

fn adu(frame: usize, layer: u8) -> Adu {
    let mut header = Header::new(StreamId(1), Sequence(0));
    header.media_time = media_time(frame, 12);
    header.layer = layer;
    Adu {
        header,
        payload: Bytes::from(vec![layer]),
    }
}

#[test]
fn media_time_converts_both_ways() {
    for fps in [1, 12, 24, 30, 60] {
        for frame in (0..100_000).step_by(997) {
            assert_eq!(frame_of(media_time(frame, fps), fps), frame);
        }
    }
}

#[test]
fn prefix_ends_at_gap_or_late_layer() {
    let start = Instant::now();
    let due = start + Duration::from_millis(500);
    let screen = Screen::default();
    (0..3).for_each(|_| screen.captured(start));
    for layer in [0, 1, 3] {
        screen.handle_adu(adu(0, layer), 12, start);
    }
    assert_eq!(screen.take(0, due).len(), 2);
    screen.handle_adu(adu(1, 0), 12, due);
    screen.handle_adu(adu(1, 1), 12, due + Duration::from_nanos(1));
    assert_eq!(screen.take(1, due).len(), 1);
    screen.handle_adu(adu(2, 1), 12, start);
    assert!(screen.take(2, due).is_empty());
}

#[test]
fn late_frame_counts_only_for_latency() {
    let start = Instant::now();
    let screen = Screen::default();
    screen.captured(start);
    assert!(screen.take(0, start).is_empty());
    screen.handle_adu(adu(0, 0), 12, start + Duration::from_secs(2));
    screen.handle_adu(adu(7, 0), 12, start);
    assert!(screen.take(0, start + Duration::from_secs(9)).is_empty());
    let latency = screen.score().metrics(BTreeMap::new(), true).latency_ms;
    assert_eq!(latency.p99, Some(2000.0));
}
