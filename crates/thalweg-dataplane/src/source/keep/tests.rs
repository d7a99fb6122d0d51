//! Proves that exactly those ADUs are kept that are unacknowledged, unexpired and within bounds,
//! and that each is returned once.

use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;
use thalweg_base::adu::{Adu, Flags, Header};
use thalweg_base::id::{Epoch, NodeId, Sequence, StreamId};
use thalweg_base::limits::{
    ADU_PAYLOAD_BYTES_MAX, KEEP_ADUS_MAX, KEEP_BYTES_MAX, RECEIPT_RANGES_MAX,
};
use thalweg_base::needs::Needs;
use thalweg_base::needs::Reliability::{self, Full, UntilDeadline};
use thalweg_base::seen::Held;
use thalweg_base::time::{Duration, Instant};

use super::{END_SETTLE, END_WAIT_MAX, END_WAIT_MIN, KEEP_AGE_MAX, Keep};

fn adu(epoch: u32, sequence: u64, bytes: usize) -> Adu {
    let mut header = Header::new(StreamId(7), Sequence(sequence));
    header.epoch = Epoch(epoch);
    Adu {
        header,
        payload: Bytes::from(vec![0; bytes]),
    }
}

fn give(keep: &mut Keep, adu: &Adu, reliability: Reliability) {
    keep.handle_given(adu, &[adu.header.epoch], reliability, Instant::ZERO);
}

fn keeping(epoch: u32, sequences: core::ops::Range<u64>) -> Keep {
    let mut keep = Keep::default();
    for sequence in sequences {
        give(&mut keep, &adu(epoch, sequence, 10), UntilDeadline);
    }
    keep
}

fn taken(keep: &mut Keep, epochs: &[Epoch], now: Instant) -> Vec<u64> {
    let adus = keep.take(epochs, now);
    adus.iter().map(|adu| adu.header.sequence.0).collect()
}

#[test]
fn unacknowledged_adus_come_out_once() {
    let mut keep = keeping(1, 0..10);
    give(&mut keep, &adu(2, 10, 10), Full);
    let held = Held {
        floor: 3,
        ranges: vec![5..7, 20..30],
    };
    keep.handle_receipt(&[Epoch(2)], &held);
    assert_eq!(keep.size(), (11, 110), "of another plan");
    keep.handle_receipt(&[Epoch(1), Epoch(2)], &held);
    assert_eq!(keep.size(), (6, 60));
    let both = [Epoch(2), Epoch(1)];
    assert_eq!(taken(&mut keep, &both, Instant::ZERO), [3, 4, 7, 8, 9, 10]);
    assert_eq!(taken(&mut keep, &both, Instant::ZERO), []);
    assert_eq!(keep.size(), (0, 0));
}

#[test]
fn expired_and_lossy_adus_are_not_kept() {
    let mut keep = Keep::default();
    let mut early = adu(1, 0, 1);
    early.header.deadline = Instant::from_nanos(5);
    give(&mut keep, &early, UntilDeadline);
    give(&mut keep, &adu(1, 1, 1), Full);
    give(&mut keep, &adu(1, 2, 1), Reliability::None);
    let mut ended = Keep::default();
    let mut last = adu(1, 3, 0);
    last.header.flags = Flags::END;
    give(&mut ended, &last, Reliability::None);
    assert_eq!(
        taken(&mut ended, &[Epoch(1)], Instant::ZERO),
        [3],
        "its end"
    );
    let end = Instant::ZERO + KEEP_AGE_MAX;
    assert_eq!(keep.poll_settled(), end);
    assert!(!keep.is_settled(end - Duration::from_nanos(1)) && keep.is_settled(end));
    let late = Instant::from_nanos(5);
    assert_eq!(taken(&mut keep, &[Epoch(1)], late), [1]);
}

#[test]
fn overflow_drops_oldest() {
    let more = KEEP_ADUS_MAX as u64 + 3;
    let mut keep = keeping(1, 0..more);
    assert_eq!((keep.size().0, keep.overflowed()), (KEEP_ADUS_MAX, 3));
    assert_eq!(taken(&mut keep, &[Epoch(1)], Instant::ZERO)[0], 3);
    let fit = KEEP_BYTES_MAX.as_bytes() / ADU_PAYLOAD_BYTES_MAX as u64;
    let mut keep = Keep::default();
    for sequence in 0..=fit {
        let large = adu(1, sequence, ADU_PAYLOAD_BYTES_MAX);
        give(&mut keep, &large, Full);
    }
    assert_eq!(keep.size(), (fit as usize, KEEP_BYTES_MAX.as_bytes()));
    // Sent again under the same plan, it is kept once.
    give(&mut keep, &adu(1, fit, 10), Full);
    assert_eq!(keep.size().0, fit as usize);
}

#[test]
fn shared_adu_is_kept_until_last_receipt() {
    let mut keep = Keep::default();
    let plans = [Epoch(1), Epoch(2), Epoch(3)];
    keep.handle_given(&adu(1, 0, 10), &plans, UntilDeadline, Instant::ZERO);
    assert_eq!(keep.size(), (1, 10));
    let all = Held::everything();
    keep.handle_receipt(&[Epoch(1)], &all);
    assert_eq!(taken(&mut keep, &[Epoch(2)], Instant::ZERO), [0]);
    assert_eq!(
        keep.size(),
        (1, 10),
        "the third sink has not acknowledged it"
    );
    assert_eq!(taken(&mut keep, &[Epoch(1)], Instant::ZERO), []);
    keep.handle_receipt(&[Epoch(3)], &all);
    assert_eq!(keep.size(), (0, 0));
}

#[test]
fn kept_gap_counts_as_missing() {
    let mut keep = keeping(1, 0..4);
    for sequence in 4..10 {
        give(&mut keep, &adu(2, sequence, 10), Full);
    }
    let held = Held {
        floor: 1,
        ranges: vec![5..6, 8..9],
    };
    keep.handle_receipt(&[Epoch(1), Epoch(2)], &held);
    let missing = |plan, now| keep.missing(Epoch(plan), &held, now);
    assert_eq!(missing(1, Instant::ZERO), 3, "1 to 3");
    assert_eq!(missing(2, Instant::ZERO), 3, "4, 6 and 7");
    assert_eq!(missing(3, Instant::ZERO), 0);
    let late = Instant::ZERO + KEEP_AGE_MAX;
    assert_eq!(missing(2, late), 0, "it will not be resent");
}

#[test]
fn end_waits_while_sinks_progress() {
    let second = |count| Instant::ZERO + Duration::from_secs(count);
    let patience = Duration::from_secs(10);
    let (sink, other) = (NodeId([1; 32]), NodeId([2; 32]));
    let held = |floor, above: &[u64]| Held {
        floor,
        ranges: above.iter().map(|at| *at..at + 1).collect(),
    };
    let mut keep = keeping(1, 0..4);
    let then = second(1);
    keep.handle_ended(then);
    assert_eq!(keep.poll_acknowledged(patience), second(11));
    keep.handle_word(sink, &held(1, &[]), second(9));
    assert_eq!(keep.poll_acknowledged(patience), second(19));
    keep.handle_word(sink, &held(1, &[]), second(12));
    assert_eq!(keep.poll_acknowledged(patience), second(19), "nothing new");
    // Progress may concern ADUs no longer kept, and any sink; by then no ADU is worth a resend.
    keep.handle_word(other, &held(0, &[1]), second(18));
    keep.handle_word(sink, &held(1, &[2]), second(26));
    let late = Instant::ZERO + KEEP_AGE_MAX + Duration::from_secs(1);
    assert!(keep.is_settled(late));
    assert_eq!(keep.poll_acknowledged(patience), second(36));
    let mut timed = Keep::default();
    let mut early = adu(1, 0, 1);
    early.header.deadline = second(5);
    give(&mut timed, &early, UntilDeadline);
    timed.handle_ended(then);
    timed.handle_word(sink, &held(0, &[1]), second(4));
    assert_eq!(timed.poll_acknowledged(patience), second(5), "its deadline");
    keep.handle_receipt(&[Epoch(1)], &held(4, &[]));
    assert!(keep.poll_acknowledged(patience) <= then, "all have all");
}

#[test]
fn full_receipt_still_shows_progress() {
    let patience = Duration::from_secs(10);
    let most = RECEIPT_RANGES_MAX as u64;
    let mut keep = keeping(1, 0..1);
    // Every second ADU arrives first, and receipts name the newest of these.
    for second in 0..3 * most {
        let now = Instant::ZERO + Duration::from_secs(second);
        let first = (second + 1).saturating_sub(most);
        let held = Held {
            floor: 0,
            ranges: (first..=second).map(|at| 2 * at + 1..2 * at + 2).collect(),
        };
        keep.handle_word(NodeId([1; 32]), &held, now);
        assert_eq!(keep.poll_acknowledged(patience), now + patience);
    }
}

#[test]
fn end_waits_for_slow_but_not_stalled_sink() {
    let (patience, pace) = (Duration::from_secs(10), Duration::from_secs(9));
    let ended = Instant::ZERO + Duration::from_secs(5);
    let (slow, silent, done) = (NodeId([1; 32]), NodeId([2; 32]), NodeId([3; 32]));
    let had = |floor| Held {
        floor,
        ranges: Vec::new(),
    };
    // At one ADU in nine seconds, the maximum covers 466; the first hundred had arrived before.
    let most = END_WAIT_MAX.as_nanos() / pace.as_nanos();
    for (lacked, is_whole) in [(most, true), (most + 1, false), (10_000, false)] {
        let given = 100 + lacked;
        let mut keep = keeping(1, 0..given);
        keep.handle_word(slow, &had(100), Instant::ZERO);
        keep.handle_word(silent, &had(100), Instant::ZERO);
        keep.handle_ended(ended);
        keep.handle_word(done, &had(given), ended);
        let mut now = ended;
        for floor in 101..=given {
            if keep.poll_acknowledged(patience) < now + pace {
                break;
            }
            now = now + pace;
            keep.handle_word(slow, &had(floor), now);
            keep.handle_receipt(&[Epoch(1)], &had(floor));
        }
        let is_there = keep.size() == (0, 0);
        assert_eq!(is_there, is_whole, "{lacked}");
        if !is_whole {
            let over = keep.poll_acknowledged(patience);
            assert!(
                over <= ended + END_WAIT_MAX && over >= ended + END_WAIT_MIN,
                "{over:?}"
            );
        }
    }
}

#[test]
fn end_waits_ten_minutes_at_any_pace() {
    let patience = Duration::from_secs(10);
    let mut keep = keeping(1, 0..10_000);
    keep.handle_ended(Instant::ZERO);
    let held = |floor| Held {
        floor,
        ranges: Vec::new(),
    };
    let (sink, last) = (NodeId([1; 32]), Instant::ZERO + Duration::from_secs(599));
    keep.handle_word(sink, &held(1), last);
    assert_eq!(
        keep.poll_acknowledged(patience),
        Instant::ZERO + END_WAIT_MIN
    );
    // Half of the ADUs allow half of the maximum.
    keep.handle_word(sink, &held(4_999), last);
    assert_eq!(keep.poll_acknowledged(patience), last + patience);
    let half = Duration::from_nanos(END_WAIT_MAX.as_nanos() / 2);
    let before = Instant::ZERO + half - Duration::from_nanos(1);
    let mut other = keeping(1, 0..10_000);
    other.handle_ended(Instant::ZERO);
    other.handle_word(sink, &held(4_999), before);
    assert_eq!(other.poll_acknowledged(patience), Instant::ZERO + half);
    // What is reported a moment after the end had arrived before it, and shows no pace.
    let soon = Instant::ZERO + END_SETTLE;
    for (sink_progress, until) in [(soon - Duration::from_nanos(1), END_WAIT_MIN), (soon, half)] {
        let mut burst = keeping(1, 0..10_000);
        burst.handle_ended(Instant::ZERO);
        burst.handle_word(sink, &held(4_998), sink_progress);
        burst.handle_word(sink, &held(4_999), before);
        let until = Instant::ZERO + until;
        assert_eq!(burst.poll_acknowledged(patience), until);
    }
}

#[test]
fn producer_waits_until_sink_is_given_up() {
    let wait = Duration::from_secs(40);
    let needs = Needs {
        wait_at_most: wait,
        ..Needs::default()
    };
    let mut keep = Keep::new(&needs);
    let [stuck, well] = [Epoch(1), Epoch(2)];
    let give = |keep: &mut Keep, sequence, now| {
        let one = adu(1, sequence, 1 << 20);
        keep.handle_given(&one, &[stuck, well], UntilDeadline, now);
    };
    for sequence in 0..16 {
        assert!(!keep.is_pressed());
        give(&mut keep, sequence, Instant::ZERO);
    }
    assert!(keep.is_pressed(), "16 MiB are kept");
    let all = Held {
        floor: 16,
        ranges: Vec::new(),
    };
    keep.handle_receipt(&[well], &all);
    assert!(keep.is_pressed(), "one has all, the other nothing");
    assert_eq!(keep.hindered_by(), [stuck]);
    assert_eq!(keep.poll_timeout(), Instant::ZERO + wait);
    keep.expire(Instant::ZERO + wait);
    assert!(!keep.is_pressed());
    let later = Instant::ZERO + wait;
    give(&mut keep, 16, later);
    assert_eq!(
        keep.take(&[stuck], later).len(),
        0,
        "nothing is kept for it"
    );
    // What it lacks was given up, so it need not be awaited.
    let behind = Held {
        floor: 3,
        ranges: core::iter::once(16..17).collect(),
    };
    assert_eq!(keep.given_up_below(&[stuck], &behind), Some(Sequence(16)));
    assert_eq!(keep.given_up_below(&[stuck], &all), None);
    keep.take_up(&[stuck]);
    give(&mut keep, 17, later);
    assert_eq!(
        keep.take(&[stuck], later).len(),
        1,
        "it is waited for again"
    );
}
