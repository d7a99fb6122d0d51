//! Proves that no ADU leaves out of order or twice, and that a gap is given up exactly at its time.

use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;
use proptest::prelude::*;
use thalweg_base::adu::{Adu, Flags, Header};
use thalweg_base::id::{Epoch, Sequence, StreamId};
use thalweg_base::limits::KEEP_ADUS_MAX;
use thalweg_base::needs::Reliability;
use thalweg_base::time::{Duration, Instant};

use super::{
    BACKLOG_BYTES, BEGIN_ADUS, BEGIN_PATIENCE, Coming, END_PATIENCE, Ending, FIRST_PLAN,
    OVERTAKEN_LEAST, OVERTAKEN_PATIENCE, PATIENCE, PATIENCE_MAX, PATIENCE_ONCE, Resequencer,
    START_PATIENCE,
};

fn adu(sequence: u64, deadline: Instant) -> Adu {
    let mut header = Header::new(StreamId(1), Sequence(sequence));
    header.deadline = deadline;
    Adu {
        header,
        payload: Bytes::new(),
    }
}

fn drain(resequencer: &mut Resequencer, now: Instant) -> Vec<u64> {
    core::iter::from_fn(|| resequencer.poll_adu(now))
        .map(|adu| adu.header.sequence.0)
        .collect()
}

#[test]
fn gap_waits_until_deadline_behind_it() {
    let mut resequencer = Resequencer::default();
    let deadline = Instant::from_nanos(1_000);
    resequencer.handle_adu(adu(0, deadline), true, Instant::ZERO);
    resequencer.handle_adu(adu(2, deadline), true, Instant::ZERO);
    assert_eq!(drain(&mut resequencer, Instant::ZERO), [0]);
    assert_eq!(resequencer.poll_timeout(), deadline);
    assert_eq!(
        drain(&mut resequencer, deadline - Duration::from_nanos(1)),
        []
    );
    assert_eq!(drain(&mut resequencer, deadline), [2]);
    assert_eq!(resequencer.skipped(), 1);
    resequencer.handle_adu(adu(1, deadline), true, deadline);
    assert_eq!(drain(&mut resequencer, deadline), []);
    assert_eq!(resequencer.late(), 1);
}

#[test]
fn gap_waits_for_all_that_a_source_keeps() {
    let mut resequencer = Resequencer::default();
    resequencer.wait_for_kept();
    let most = KEEP_ADUS_MAX as u64;
    resequencer.handle_adu(adu(0, Instant::NEVER), true, Instant::ZERO);
    for sequence in 2..most + 2 {
        resequencer.handle_adu(adu(sequence, Instant::NEVER), true, Instant::ZERO);
    }
    assert_eq!(drain(&mut resequencer, Instant::ZERO), [0]);
    resequencer.handle_adu(adu(most + 2, Instant::NEVER), true, Instant::ZERO);
    assert_eq!(drain(&mut resequencer, Instant::ZERO)[0], 2, "one more");
}

#[test]
fn filled_gap_does_not_wait() {
    let mut resequencer = Resequencer::default();
    for sequence in [0, 2, 3, 1, 2] {
        resequencer.handle_adu(adu(sequence, Instant::NEVER), true, Instant::ZERO);
    }
    assert_eq!(drain(&mut resequencer, Instant::ZERO), [0, 1, 2, 3]);
    assert_eq!(resequencer.poll_timeout(), Instant::NEVER);
}

#[test]
fn late_joiner_waits_for_overtaken_adus() {
    let mut resequencer = Resequencer::default();
    let late = 8;
    resequencer.handle_adu(adu(late, Instant::NEVER), true, Instant::ZERO);
    assert_eq!(drain(&mut resequencer, Instant::ZERO), []);
    resequencer.handle_adu(adu(late - 1, Instant::NEVER), true, Instant::ZERO);
    let start = resequencer.poll_timeout();
    assert_eq!(start, Instant::ZERO + START_PATIENCE);
    assert_eq!(drain(&mut resequencer, start - Duration::from_nanos(1)), []);
    assert_eq!(drain(&mut resequencer, start), [late - 1, late]);
    assert_eq!(resequencer.skipped(), 0);
    let coming = resequencer.handle_adu(adu(late - 2, Instant::NEVER), true, start);
    assert_eq!(coming, Coming::BeforeFirst);
    assert_eq!((resequencer.skipped(), resequencer.late()), (1, 1));
}

#[test]
fn first_sink_gets_resent_first_adu() {
    let deadline = Instant::ZERO + Duration::from_secs(1);
    let cases = [
        (Instant::NEVER, true, Instant::ZERO + BEGIN_PATIENCE),
        (Instant::NEVER, false, Instant::ZERO + PATIENCE_ONCE),
        (deadline, true, deadline),
    ];
    for (deadline, is_resent, until) in cases {
        let soon = until - Duration::from_nanos(1);
        for (first, now, expected) in [(0, soon, [0, 1, 2]), (3, until, [1, 2, 3])] {
            let mut resequencer = Resequencer::default();
            for sequence in [2, 1] {
                let mut early = adu(sequence, deadline);
                early.header.epoch = FIRST_PLAN;
                resequencer.handle_adu(early, is_resent, Instant::ZERO);
            }
            assert_eq!(drain(&mut resequencer, soon), []);
            assert_eq!(resequencer.poll_timeout(), until);
            resequencer.handle_adu(adu(first, deadline), is_resent, soon);
            assert_eq!(drain(&mut resequencer, now), expected);
        }
    }
    // The stream started long before, for another sink.
    let mut resequencer = Resequencer::default();
    let mut late = adu(BEGIN_ADUS, Instant::NEVER);
    late.header.epoch = FIRST_PLAN;
    resequencer.handle_adu(late, true, Instant::ZERO);
    assert_eq!(resequencer.poll_timeout(), Instant::ZERO + START_PATIENCE);
}

#[test]
fn wait_depends_on_end_and_resends() {
    for (is_resent, patience) in [(false, PATIENCE_ONCE), (true, PATIENCE)] {
        let mut resequencer = Resequencer::default();
        for sequence in [0, 2] {
            let mut endless = adu(sequence, Instant::NEVER);
            // The plan has changed.
            endless.header.epoch = Epoch(u32::from(sequence > 0));
            resequencer.handle_adu(endless, is_resent, Instant::ZERO);
        }
        assert_eq!(drain(&mut resequencer, Instant::ZERO), [0]);
        assert_eq!(resequencer.poll_timeout(), Instant::ZERO + patience);
        assert_eq!(drain(&mut resequencer, Instant::ZERO + patience), [2]);
        let mut end = adu(4, Instant::NEVER);
        end.header.flags = Flags::END;
        resequencer.handle_adu(end, is_resent, Instant::ZERO);
        assert_eq!(resequencer.poll_timeout(), Instant::ZERO + END_PATIENCE);
    }
}

#[test]
fn end_waits_while_adus_arrive() {
    let mut resequencer = Resequencer::default();
    let mut end = adu(4, Instant::NEVER);
    end.header.flags = Flags::END;
    resequencer.handle_adu(end, true, Instant::ZERO);
    let mut now = Instant::ZERO;
    for sequence in [0, 2, 1] {
        resequencer.handle_adu(adu(sequence, Instant::NEVER), true, now);
        now = now + END_PATIENCE - Duration::from_nanos(1);
    }
    assert_eq!(drain(&mut resequencer, now), [0, 1, 2]);
    assert_eq!(drain(&mut resequencer, now + Duration::from_nanos(1)), [4]);
    assert_eq!(resequencer.skipped(), 1);
}

#[test]
fn end_is_due_as_in_sequence() {
    let just_before = |then| then - Duration::from_nanos(1);
    let mut end = adu(4, Instant::NEVER);
    end.header.flags = Flags::END;
    for (reliability, patience) in [
        (Reliability::None, PATIENCE_ONCE),
        (Reliability::Repaired, PATIENCE_ONCE),
        (Reliability::UntilDeadline, PATIENCE),
        (Reliability::Full, PATIENCE),
    ] {
        let is_resent = patience == PATIENCE;
        for fills in [false, true] {
            let (mut ending, mut resequencer) = (Ending::default(), Resequencer::default());
            let mut come = |adu: &Adu, now| {
                let payload_bytes = adu.payload.len();
                ending.handle_adu(adu.header, payload_bytes, reliability, now);
                resequencer.handle_adu(adu.clone(), is_resent, now);
            };
            let start = Instant::ZERO + Duration::from_millis(500);
            come(&adu(0, Instant::NEVER), Instant::ZERO);
            come(&adu(2, Instant::NEVER), Instant::ZERO);
            come(&adu(3, Instant::NEVER), start);
            come(&end, start);
            if fills {
                come(&adu(1, Instant::NEVER), start);
            }
            let over = if fills {
                start
            } else {
                Instant::ZERO + patience
            };
            if !fills {
                assert!(!ending.poll(just_before(over)));
                assert_eq!(ending.poll_timeout(), over);
            }
            assert_eq!(drain(&mut resequencer, over).last(), Some(&4));
            assert!(ending.poll(over), "{reliability:?}, all: {fills}");
            assert!(ending.poll_timeout().is_never());
        }
    }
}

#[test]
fn single_plan_extends_gap_wait() {
    let chunk = Bytes::from(vec![0; BACKLOG_BYTES as usize / 4]);
    let come = |resequencer: &mut Resequencer, sequence, epoch, now| {
        let mut adu = adu(sequence, Instant::NEVER);
        (adu.payload, adu.header.epoch) = (chunk.clone(), Epoch(epoch));
        resequencer.handle_adu(adu, true, now);
    };
    let soon = Instant::ZERO + OVERTAKEN_LEAST - Duration::from_nanos(1);
    let then = Instant::ZERO + OVERTAKEN_LEAST;
    let (usual, longer) = (Instant::ZERO + PATIENCE, then + OVERTAKEN_PATIENCE);
    let cases = [
        (4, 1, then, longer),
        // An ADU that fills a gap was not overtaken by far.
        (4, 1, soon, usual),
        (5, 1, then, usual),
        (3, 2, then, usual),
    ];
    for (count, epoch, filled, until) in cases {
        let mut resequencer = Resequencer::default();
        come(&mut resequencer, 0, 1, Instant::ZERO);
        assert_eq!(drain(&mut resequencer, Instant::ZERO), [0]);
        // The second is missing, the fourth for a while; the last arrive by this plan, or another.
        for (sequence, epoch) in [(2, 1), (4, 1)] {
            come(&mut resequencer, sequence, epoch, Instant::ZERO);
        }
        for sequence in [3].into_iter().chain(5..2 + count) {
            come(&mut resequencer, sequence, epoch, filled);
        }
        assert_eq!(resequencer.poll_timeout(), until);
        let soon = until - Duration::from_nanos(1);
        assert_eq!(drain(&mut resequencer, soon), []);
        assert_eq!(drain(&mut resequencer, until).first(), Some(&2));
    }
}

#[test]
fn gap_wait_is_bounded() {
    let mut resequencer = Resequencer::default();
    let mut now = Instant::ZERO;
    let least = now + PATIENCE_MAX - OVERTAKEN_PATIENCE;
    for sequence in [0, 2] {
        resequencer.handle_adu(adu(sequence, Instant::NEVER), true, now);
    }
    assert_eq!(drain(&mut resequencer, now), [0]);
    let mut sequence = 4;
    while now < least + OVERTAKEN_LEAST {
        for sequence in [sequence, sequence - 1] {
            resequencer.handle_adu(adu(sequence, Instant::NEVER), true, now);
            now = now + OVERTAKEN_LEAST;
        }
        sequence += 2;
    }
    assert_eq!(resequencer.poll_timeout(), Instant::ZERO + PATIENCE_MAX);
}

proptest! {
    #[test]
    fn arrivals_leave_in_order_and_once(order in Just((0..50_u64).collect::<Vec<_>>()).prop_shuffle()) {
        let mut resequencer = Resequencer::default();
        let mut left = Vec::new();
        for sequence in order {
            resequencer.handle_adu(adu(sequence, Instant::NEVER), true, Instant::ZERO);
            left.extend(drain(&mut resequencer, Instant::ZERO));
        }
        prop_assert_eq!(left, (0..50).collect::<Vec<_>>());
    }
}

#[test]
fn gap_that_never_fills_does_not_wait() {
    let mut resequencer = Resequencer::default();
    for sequence in [0, 3, 6, 9] {
        resequencer.handle_adu(adu(sequence, Instant::NEVER), true, Instant::ZERO);
    }
    assert_eq!(drain(&mut resequencer, Instant::ZERO), [0]);
    resequencer.handle_gone(2..3);
    assert_eq!(drain(&mut resequencer, Instant::ZERO), [], "1 may come");
    assert!(resequencer.poll_timeout() > Instant::ZERO);
    resequencer.handle_gone(1..2);
    assert_eq!(resequencer.poll_timeout(), Instant::ZERO);
    assert_eq!(drain(&mut resequencer, Instant::ZERO), [3]);
    resequencer.handle_gone(0..7);
    assert_eq!(drain(&mut resequencer, Instant::ZERO), [6]);
    // An ADU that arrives after all takes its place unless that has passed.
    resequencer.handle_gone(0..8);
    resequencer.handle_adu(adu(7, Instant::NEVER), true, Instant::ZERO);
    assert_eq!(drain(&mut resequencer, Instant::ZERO), [7]);
    assert_eq!(drain(&mut resequencer, Instant::ZERO + PATIENCE), [9]);
    assert_eq!(resequencer.skipped(), 5);
}
