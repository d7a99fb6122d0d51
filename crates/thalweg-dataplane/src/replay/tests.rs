//! Proves that a joiner gets the newest complete key ADU and everything since without a new hole,
//! and that every bound drops whole groups. The last test checks this for any order of arrival.

use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;
use proptest::prelude::*;
use thalweg_base::adu::{Adu, Flags, Header, Mark};
use thalweg_base::id::{Epoch, Sequence, StreamId};
use thalweg_base::limits::{
    REPLAY_ADUS_MAX, REPLAY_BYTES_MAX, REPLAY_GROUPS_MAX, REPLAY_TOTAL_BYTES_MAX,
};
use thalweg_base::time::{Duration, Instant};

use super::{Budget, Plan, Replay};

const NOW: Instant = Instant::from_nanos(5_000_000_000);

const fn plan(epoch: u32) -> Plan {
    (StreamId(7), Epoch(epoch))
}

fn adu(sequence: u64, flags: Flags, bytes: usize) -> Adu {
    let mut header = Header::new(StreamId(7), Sequence(sequence));
    header.flags = flags;
    header.deadline = NOW + Duration::from_millis(100);
    Adu {
        header,
        payload: Bytes::from(vec![0; bytes]),
    }
}

fn give(replay: &mut Replay, plan: Plan, adu: &Adu) -> bool {
    let is_wanted = replay.handle_begun(plan, &adu.header);
    if is_wanted {
        replay.handle_whole(plan, adu, NOW);
    }
    is_wanted
}

/// Hands over ADUs of ten bytes; those with a sequence divisible by `key_every` are keys.
fn given(sequences: core::ops::Range<u64>, key_every: u64) -> Replay {
    let mut replay = Replay::default();
    for sequence in sequences {
        let is_key = sequence.is_multiple_of(key_every);
        let flags = if is_key { Flags::KEY } else { Flags::NONE };
        give(&mut replay, plan(1), &adu(sequence, flags, 10));
    }
    replay
}

fn group(replay: &Replay, of: Plan) -> Vec<u64> {
    let group = replay.group(of, NOW);
    group.iter().map(|adu| adu.header.sequence.0).collect()
}

#[test]
fn group_starts_at_newest_whole_key() {
    let mut replay = given(3..18, 5);
    assert_eq!(group(&replay, plan(1)), [15, 16, 17]);
    assert_eq!(replay.size(), (3, 30));
    let next = adu(20, Flags::KEY, 10);
    assert!(replay.handle_begun(plan(1), &next.header));
    for sequence in [18, 21, 19] {
        give(&mut replay, plan(1), &adu(sequence, Flags::NONE, 10));
    }
    assert_eq!(group(&replay, plan(1)), [15, 16, 17, 18, 19, 21]);
    replay.handle_whole(plan(1), &next, NOW);
    assert_eq!(group(&replay, plan(1)), [20, 21]);
    assert_eq!(replay.size(), (2, 20));
}

#[test]
fn group_waits_for_its_first_key() {
    let mut replay = Replay::default();
    let key = adu(5, Flags::KEY, 10);
    assert!(!give(&mut replay, plan(1), &adu(4, Flags::NONE, 10)));
    assert!(replay.handle_begun(plan(1), &key.header));
    assert!(give(&mut replay, plan(1), &adu(6, Flags::NONE, 10)));
    assert!(group(&replay, plan(1)).is_empty(), "no key, no group");
    replay.handle_whole(plan(1), &key, NOW);
    assert_eq!(group(&replay, plan(1)), [5, 6]);
}

#[test]
fn no_group_without_base_key() {
    let mut replay = Replay::default();
    let mut upper = adu(1, Flags::KEY, 10);
    upper.header.layer = 1;
    assert!(!give(&mut replay, plan(1), &upper));
    assert!(!give(&mut replay, plan(1), &adu(2, Flags::END, 0)));
    assert_eq!(replay.size(), (0, 0));
    let mut replay = given(0..3, 5);
    assert!(!give(&mut replay, plan(1), &adu(3, Flags::END, 0)));
    assert!(group(&replay, plan(2)).is_empty(), "each plan has its own");
    replay.forget(plan(1));
    assert_eq!(replay.size(), (0, 0));
}

#[test]
fn group_has_one_deadline_and_newest_mark() {
    let mut replay = given(0..2, 5);
    let mut last = adu(2, Flags::NONE, 10);
    last.header.deadline = NOW + Duration::from_millis(40);
    last.header.set_mark(Mark::from_index(2));
    give(&mut replay, plan(1), &last);
    let later = NOW + Duration::from_secs(9);
    for adu in replay.group(plan(1), later) {
        assert_eq!(adu.header.deadline, later + Duration::from_millis(40));
        assert_eq!(adu.header.mark(), Mark::from_index(2));
    }
    let mut last = adu(3, Flags::NONE, 10);
    last.header.deadline = Instant::NEVER;
    give(&mut replay, plan(1), &last);
    let never = |adu: &Adu| adu.header.deadline.is_never();
    assert!(replay.group(plan(1), later).iter().all(never));
}

#[test]
fn too_long_group_is_dropped_whole() {
    let most = REPLAY_ADUS_MAX as u64;
    let mut replay = given(0..most, u64::MAX);
    assert_eq!(replay.size().0, REPLAY_ADUS_MAX);
    give(&mut replay, plan(1), &adu(most, Flags::NONE, 10));
    assert_eq!(replay.size(), (0, 0));
    assert!(!give(&mut replay, plan(1), &adu(most + 1, Flags::NONE, 10)));
    let bytes = REPLAY_BYTES_MAX.as_bytes();
    give(
        &mut replay,
        plan(1),
        &adu(most + 2, Flags::KEY, bytes as usize),
    );
    assert_eq!(replay.size(), (1, bytes));
    give(&mut replay, plan(1), &adu(most + 3, Flags::NONE, 1));
    assert_eq!(replay.size(), (0, 0));
}

#[test]
fn longest_group_is_dropped_first() {
    let bytes = REPLAY_BYTES_MAX.as_bytes();
    let room = (REPLAY_TOTAL_BYTES_MAX.as_bytes() / bytes) as u32;
    let mut replay = Replay::default();
    for epoch in 1..=room {
        let bytes = bytes - u64::from(epoch != 3);
        let key = adu(0, Flags::KEY, bytes as usize);
        give(&mut replay, plan(epoch), &key);
    }
    assert_eq!(replay.size().0 as u32, room);
    give(&mut replay, plan(99), &adu(0, Flags::KEY, 100));
    assert!(group(&replay, plan(3)).is_empty());
    assert_eq!(group(&replay, plan(99)), [0]);
    assert_eq!(replay.size().0 as u32, room);
}

#[test]
fn number_of_groups_is_bounded() {
    let mut replay = Replay::default();
    for epoch in 0..=REPLAY_GROUPS_MAX as u32 {
        let is_kept = give(&mut replay, plan(epoch), &adu(0, Flags::KEY, 1));
        assert_eq!(is_kept, (epoch as usize) < REPLAY_GROUPS_MAX);
    }
    assert_eq!(replay.size().0, REPLAY_GROUPS_MAX);
}

#[test]
fn shared_budget_bounds_all() {
    let budget = Budget::default();
    let [mut one, mut other] = [(), ()].map(|()| Replay::within(budget.clone()));
    let most = REPLAY_BYTES_MAX.as_bytes() as usize;
    let room = (REPLAY_TOTAL_BYTES_MAX.as_bytes() / most as u64) as u32;
    for epoch in 1..room {
        give(&mut one, plan(epoch), &adu(0, Flags::KEY, most));
    }
    give(&mut other, plan(1), &adu(0, Flags::KEY, most));
    // It makes room among its own, and leaves the other's.
    give(&mut other, plan(2), &adu(0, Flags::KEY, 100));
    assert_eq!(
        (one.size().0 as u32, group(&other, plan(1)).len()),
        (room - 1, 0)
    );
    drop(one);
    for epoch in 3..2 + room {
        give(&mut other, plan(epoch), &adu(0, Flags::KEY, most));
    }
    assert_eq!(other.size().0 as u32, room, "what is gone takes no room");
}

proptest! {
    /// For any order of starts and completions, the group is everything that was completed from its
    /// key ADU on, among the ADUs that started after that key.
    #[test]
    fn group_is_complete_since_its_key(order in Just((0..40u64).collect::<Vec<_>>()).prop_shuffle(), lost in 0..40u64) {
        let mut replay = Replay::default();
        let flags = |sequence: u64| if sequence.is_multiple_of(8) { Flags::KEY } else { Flags::NONE };
        let mut came: Vec<u64> = Vec::new();
        for sequence in 0..40 {
            replay.handle_begun(plan(1), &adu(sequence, flags(sequence), 1).header);
        }
        for sequence in order.into_iter().filter(|sequence| *sequence != lost) {
            replay.handle_whole(plan(1), &adu(sequence, flags(sequence), 1), NOW);
            came.push(sequence);
            let key = came.iter().filter(|sequence| sequence.is_multiple_of(8)).max();
            let got = group(&replay, plan(1));
            prop_assert_eq!(got.first(), key);
            prop_assert!(got.is_sorted());
            prop_assert!(got.iter().all(|sequence| came.contains(sequence)));
            prop_assert_eq!(replay.size().1, replay.size().0 as u64);
        }
    }
}
