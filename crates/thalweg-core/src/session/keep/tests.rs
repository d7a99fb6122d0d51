//! Proves that what is kept is what no sink has, no deadline has taken and every bound allows, and that it comes out once.

use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;

use super::{END_MAX, END_SURE, END_TOLD, KEEP_AGE_MAX, Keep};
use crate::adu::{Adu, Flags, Header};
use crate::id::{Epoch, NodeId, Sequence, StreamId};
use crate::limits::{ADU_PAYLOAD_BYTES_MAX, KEEP_ADUS_MAX, KEEP_BYTES_MAX, RECEIPT_RANGES_MAX};
use crate::mailbox::Held;
use crate::needs::Needs;
use crate::needs::Reliability::{self, Full, UntilDeadline};
use crate::time::{Duration, Instant};

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
fn what_the_sink_has_is_not_kept_and_the_rest_comes_out_once_in_sequence() {
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
fn nothing_is_kept_beyond_its_deadline_or_age_nor_of_what_may_be_lost() {
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
fn the_oldest_goes_when_there_are_too_many_or_too_many_bytes() {
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
    // Given again under the same plan it is kept once.
    give(&mut keep, &adu(1, fit, 10), Full);
    assert_eq!(keep.size().0, fit as usize);
}

#[test]
fn what_goes_to_many_sinks_is_kept_once_and_until_the_last_has_it() {
    let mut keep = Keep::default();
    let plans = [Epoch(1), Epoch(2), Epoch(3)];
    keep.handle_given(&adu(1, 0, 10), &plans, UntilDeadline, Instant::ZERO);
    assert_eq!(keep.size(), (1, 10));
    let all = Held::everything();
    keep.handle_receipt(&[Epoch(1)], &all);
    assert_eq!(taken(&mut keep, &[Epoch(2)], Instant::ZERO), [0]);
    assert_eq!(keep.size(), (1, 10), "the third has not said so");
    assert_eq!(taken(&mut keep, &[Epoch(1)], Instant::ZERO), []);
    keep.handle_receipt(&[Epoch(3)], &all);
    assert_eq!(keep.size(), (0, 0));
}

#[test]
fn a_sink_is_said_to_lack_what_went_by_the_plan_and_lies_before_what_it_has() {
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
    assert_eq!(missing(2, late), 0, "nobody sends it again");
}

#[test]
fn the_end_waits_as_long_as_a_sink_has_something_new_and_for_nothing_of_no_use() {
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
    // What is new may be of what is not kept any more, and of any sink; by then nothing may be sent again.
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
fn what_a_sink_tells_is_new_also_where_as_many_ranges_are_told_as_can_be() {
    let patience = Duration::from_secs(10);
    let most = RECEIPT_RANGES_MAX as u64;
    let mut keep = keeping(1, 0..1);
    // Every other one comes first, and of those the newest are told.
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
fn the_end_waits_for_who_is_slow_and_not_for_who_would_take_for_ever() {
    let (patience, pace) = (Duration::from_secs(10), Duration::from_secs(9));
    let ended = Instant::ZERO + Duration::from_secs(5);
    let (slow, silent, done) = (NodeId([1; 32]), NodeId([2; 32]), NodeId([3; 32]));
    let had = |floor| Held {
        floor,
        ranges: Vec::new(),
    };
    // At one in nine seconds the longest time is that of 466; the first hundred were there before.
    let most = END_MAX.as_nanos() / pace.as_nanos();
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
                over <= ended + END_MAX && over >= ended + END_SURE,
                "{over:?}"
            );
        }
    }
}

#[test]
fn at_whatever_pace_the_end_waits_for_ten_minutes() {
    let patience = Duration::from_secs(10);
    let mut keep = keeping(1, 0..10_000);
    keep.handle_ended(Instant::ZERO);
    let held = |floor| Held {
        floor,
        ranges: Vec::new(),
    };
    let (sink, last) = (NodeId([1; 32]), Instant::ZERO + Duration::from_secs(599));
    keep.handle_word(sink, &held(1), last);
    assert_eq!(keep.poll_acknowledged(patience), Instant::ZERO + END_SURE);
    // With half of it half of the longest time is let.
    keep.handle_word(sink, &held(4_999), last);
    assert_eq!(keep.poll_acknowledged(patience), last + patience);
    let half = Duration::from_nanos(END_MAX.as_nanos() / 2);
    let before = Instant::ZERO + half - Duration::from_nanos(1);
    let mut other = keeping(1, 0..10_000);
    other.handle_ended(Instant::ZERO);
    other.handle_word(sink, &held(4_999), before);
    assert_eq!(other.poll_acknowledged(patience), Instant::ZERO + half);
    // What is told of a moment after the end was there by then, and is no pace.
    let soon = Instant::ZERO + END_TOLD;
    for (told, until) in [(soon - Duration::from_nanos(1), END_SURE), (soon, half)] {
        let mut burst = keeping(1, 0..10_000);
        burst.handle_ended(Instant::ZERO);
        burst.handle_word(sink, &held(4_998), told);
        burst.handle_word(sink, &held(4_999), before);
        let until = Instant::ZERO + until;
        assert_eq!(burst.poll_acknowledged(patience), until);
    }
}

#[test]
fn producer_waits_for_a_sink_until_it_is_given_up() {
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
    // What it lacks was given up, so it need not be waited for.
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
