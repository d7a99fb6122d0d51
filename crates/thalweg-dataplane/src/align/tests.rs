//! Proves order, the bounds of waiting, and that a gap stands where it is.

use bytes::Bytes;
use proptest::prelude::*;
use thalweg_base::adu::Header;

use super::*;

const WAIT: Duration = Duration::from_millis(300);

fn adu(stream: u64, sequence: u64, millis: u64) -> Adu {
    Adu {
        header: Header {
            media_time: MediaTime::from_micros(millis * 1_000),
            ..Header::new(StreamId(stream), Sequence(sequence))
        },
        payload: Bytes::from_static(b"0123456789"),
    }
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// Returns what leaves now, each as a word: `lane:millis`, `late:…`, `gap:lane:adus`, `silent:lane`.
fn poll(aligner: &mut Aligner, now: Instant) -> Vec<String> {
    core::iter::from_fn(|| aligner.poll_aligned(now))
        .map(|aligned| match aligned {
            Aligned::Adu { lane, adu, is_late } => {
                let millis = adu.header.media_time.as_micros() / 1_000;
                let late = if is_late { "late:" } else { "" };
                format!("{late}{lane}:{millis}")
            }
            Aligned::Gap { lane, adus, .. } => format!("gap:{lane}:{adus}"),
            Aligned::Silent { lane, .. } => format!("silent:{lane}"),
        })
        .collect()
}

#[test]
fn earliest_leaves_when_others_have_come_as_far() {
    let mut aligner = Aligner::new(2, WAIT);
    aligner.handle_adu(0, adu(1, 0, 0), at(0));
    aligner.handle_adu(0, adu(1, 1, 40), at(1));
    assert_eq!(poll(&mut aligner, at(1)), Vec::<String>::new());
    aligner.handle_adu(1, adu(2, 0, 30), at(2));
    assert_eq!(poll(&mut aligner, at(2)), ["0:0", "1:30"]);
    aligner.handle_adu(1, adu(2, 1, 40), at(3));
    assert_eq!(poll(&mut aligner, at(3)), ["0:40", "1:40"]);
    assert_eq!(aligner.poll_timeout(), None);
}

#[test]
fn silent_lane_holds_up_others_once() {
    let mut aligner = Aligner::new(2, WAIT);
    aligner.handle_adu(0, adu(1, 0, 0), at(0));
    assert_eq!(poll(&mut aligner, at(299)), Vec::<String>::new());
    assert_eq!(aligner.poll_timeout(), Some(at(300)));
    assert_eq!(poll(&mut aligner, at(300)), ["silent:1", "0:0"]);
    aligner.handle_adu(0, adu(1, 1, 400), at(400));
    assert_eq!(poll(&mut aligner, at(400)), ["0:400"]);
    // It comes again, too late for its time, and is waited for from then on.
    aligner.handle_adu(1, adu(2, 0, 100), at(410));
    assert_eq!(poll(&mut aligner, at(410)), ["late:1:100"]);
    aligner.handle_adu(0, adu(1, 2, 440), at(440));
    assert_eq!(poll(&mut aligner, at(440)), Vec::<String>::new());
}

#[test]
fn gap_stands_in_its_place() {
    let mut aligner = Aligner::new(2, WAIT);
    aligner.handle_adu(0, adu(1, 0, 0), at(0));
    aligner.handle_adu(0, adu(1, 1, 40), at(0));
    aligner.handle_adu(0, adu(1, 2, 80), at(0));
    aligner.handle_adu(1, adu(2, 7, 10), at(0));
    aligner.handle_adu(1, adu(2, 10, 50), at(0));
    aligner.handle_end(0);
    aligner.handle_end(1);
    let left = poll(&mut aligner, at(0));
    assert_eq!(left, ["0:0", "1:10", "0:40", "gap:1:2", "1:50", "0:80"]);
    assert!(aligner.is_over());
}

#[test]
fn pictures_out_of_presentation_order_keep_theirs() {
    let mut aligner = Aligner::new(2, WAIT);
    for (sequence, millis) in [(0, 0), (1, 120), (2, 40), (3, 80), (4, 160)] {
        aligner.handle_adu(0, adu(1, sequence, millis), at(0));
    }
    aligner.handle_adu(1, adu(2, 0, 130), at(0));
    aligner.handle_end(1);
    let left = poll(&mut aligner, at(0));
    assert_eq!(left, ["0:0", "0:120", "0:40", "0:80", "1:130", "0:160"]);
}

#[test]
fn new_time_base_is_followed() {
    let mut aligner = Aligner::new(1, WAIT);
    aligner.handle_adu(0, adu(1, 0, 60_000), at(0));
    aligner.handle_adu(0, adu(3, 0, 0), at(0));
    aligner.handle_adu(0, adu(3, 1, 40), at(0));
    assert_eq!(poll(&mut aligner, at(0)), ["0:60000", "0:0", "0:40"]);
}

proptest! {
    /// Whatever comes, everything leaves once, each lane in its sequence, within the wait and bound.
    #[test]
    fn everything_leaves_in_sequence(
        steps in prop::collection::vec((0..3_usize, 0..200_u64, 0..90_u64), 1..200),
    ) {
        let mut aligner = Aligner::new(3, WAIT);
        let (mut now, mut sequences) = (0, [0; 3]);
        let mut left = [0; 3];
        let mut take = |aligner: &mut Aligner, now| {
            while let Some(aligned) = aligner.poll_aligned(now) {
                if let Aligned::Adu { lane, adu, .. } = aligned {
                    assert_eq!(adu.header.sequence.0, left[lane]);
                    left[lane] += 1;
                }
            }
        };
        for (lane, millis, pass) in steps {
            now += pass;
            aligner.handle_adu(lane, adu(lane as u64, sequences[lane], millis), at(now));
            sequences[lane] += 1;
            take(&mut aligner, at(now));
            if let Some(timeout) = aligner.poll_timeout() {
                assert!(timeout > at(now));
            }
        }
        take(&mut aligner, at(now) + WAIT);
        prop_assert_eq!(left, sequences);
    }
}
