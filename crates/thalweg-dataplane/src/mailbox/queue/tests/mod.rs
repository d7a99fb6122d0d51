//! Proves the bounds of a mailbox in ADUs, bytes and time, and that every token is returned exactly once.

use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;
use proptest::prelude::*;
use thalweg_base::id::{Sequence, StreamId};
use thalweg_base::limits::{MAILBOX_BYTES_MAX, MAILBOX_EXCESS_BYTES_MAX};
use thalweg_base::mailbox::{Depth, Policy};
use thalweg_base::units::DataSize;

use super::*;

mod policies;

const LASTING: (Reliability, bool) = (Reliability::UntilDeadline, false);
const ONCE: (Reliability, bool) = (Reliability::None, false);

fn adu(sequence: u64, bytes: usize, deadline: Instant) -> Adu {
    let mut header = Header::new(StreamId(1), Sequence(sequence));
    header.deadline = deadline;
    Adu {
        header,
        payload: Bytes::from(vec![0; bytes]),
    }
}

fn taken(mailbox: &mut Mailbox<u64>, now: Instant) -> Vec<u64> {
    let mut taken = Vec::new();
    while let Some(mail) = mailbox.take(now) {
        if let Mail::Adu(adu, token) = mail {
            assert_eq!(adu.header.sequence.0, token, "a token stays with its ADU");
            taken.push(token);
        }
    }
    taken
}

fn dropped(mailbox: &mut Mailbox<u64>) -> Vec<(u64, DropCause)> {
    core::iter::from_fn(|| mailbox.poll_dropped()).collect()
}

fn second(second: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(second)
}

#[test]
fn untaken_adu_expires() {
    for in_sequence in [false, true] {
        let mut mailbox = Mailbox::new(in_sequence);
        for sequence in 0..3 {
            let one = adu(sequence, 10, second(sequence + 1));
            assert_eq!(mailbox.put(one, sequence, LASTING, Instant::ZERO), Ok(()));
        }
        let still = second(1) + TAKE_GRACE - Duration::from_nanos(1);
        mailbox.expire(still);
        assert_eq!(dropped(&mut mailbox), []);
        mailbox.expire(second(1) + TAKE_GRACE);
        assert_eq!(dropped(&mut mailbox), [(0, DropCause::Expired)]);
        assert_eq!(mailbox.size(), (2, 20));
        assert_eq!(taken(&mut mailbox, second(9)), []);
        let rest = [(1, DropCause::Expired), (2, DropCause::Expired)];
        assert_eq!(dropped(&mut mailbox), rest);
        assert_eq!((mailbox.skipped(), mailbox.size()), (3, (0, 0)));
    }
}

#[test]
fn full_mailbox_refuses_deadline_adu() {
    let mut mailbox = Mailbox::new(false);
    let half = MAILBOX_BYTES_MAX.as_bytes() as usize / 2;
    for sequence in 0..2 {
        let one = adu(sequence, half, second(5));
        assert_eq!(mailbox.put(one, sequence, LASTING, Instant::ZERO), Ok(()));
    }
    let beyond = adu(2, 1, second(5));
    let put = mailbox.put(beyond, 2, LASTING, Instant::ZERO);
    assert_eq!(put, Err((2, Refusal::Full)));
    assert!(!mailbox.is_pressed(false), "nothing waits for it");
    let later = second(5) + TAKE_GRACE;
    assert_eq!(mailbox.put(adu(3, 1, second(9)), 3, LASTING, later), Ok(()));
    assert_eq!(
        dropped(&mut mailbox).len(),
        2,
        "room is made by what is over"
    );
}

#[test]
fn sent_once_drops_oldest() {
    for in_sequence in [false, true] {
        let mut mailbox = Mailbox::new(in_sequence);
        let many = MAILBOX_ADUS_MAX as u64;
        for sequence in 0..many + 2 {
            let one = adu(sequence, 1, Instant::NEVER);
            assert_eq!(mailbox.put(one, sequence, ONCE, Instant::ZERO), Ok(()));
        }
        let oldest = [(0, DropCause::Overflow), (1, DropCause::Overflow)];
        assert_eq!(dropped(&mut mailbox), oldest);
        assert_eq!(taken(&mut mailbox, Instant::ZERO)[0], 2);
        assert_eq!(mailbox.skipped(), 2);
    }
}

#[test]
fn lasting_adus_press_full_mailbox() {
    let mut mailbox = Mailbox::new(true);
    let half = MAILBOX_BYTES_MAX.as_bytes() as usize / 2;
    for sequence in 0..3 {
        let one = adu(sequence, half, Instant::NEVER);
        assert_eq!(mailbox.put(one, sequence, LASTING, Instant::ZERO), Ok(()));
        assert_eq!(mailbox.is_pressed(false), sequence == 2);
    }
    assert!(matches!(mailbox.take(Instant::ZERO), Some(Mail::Adu(_, 0))));
    assert!(!mailbox.is_pressed(false));
}

#[test]
fn abandoned_mailbox_drops_until_room() {
    let mut mailbox = Mailbox::new(true);
    let half = MAILBOX_BYTES_MAX.as_bytes() as usize / 2;
    let put = |mailbox: &mut Mailbox<u64>, sequence| {
        let one = adu(sequence, half, Instant::NEVER);
        mailbox.put(one, sequence, LASTING, Instant::ZERO)
    };
    for sequence in 0..3 {
        assert_eq!(put(&mut mailbox, sequence), Ok(()));
    }
    mailbox.give_up();
    assert!(!mailbox.is_pressed(false));
    assert_eq!(put(&mut mailbox, 3), Err((3, Refusal::Full)));
    assert!(mailbox.take(Instant::ZERO).is_some());
    assert!(mailbox.take(Instant::ZERO).is_some());
    for sequence in 4..7 {
        assert_eq!(
            put(&mut mailbox, sequence),
            Ok(()),
            "it is waited for again"
        );
    }
}

#[test]
fn unstoppable_source_is_bounded() {
    let mut mailbox = Mailbox::new(false);
    let most = (MAILBOX_BYTES_MAX.as_bytes() + MAILBOX_EXCESS_BYTES_MAX.as_bytes()) >> 20;
    for sequence in 0..most {
        let one = adu(sequence, 1 << 20, Instant::NEVER);
        assert_eq!(mailbox.put(one, sequence, LASTING, Instant::ZERO), Ok(()));
    }
    let beyond = adu(most, 1 << 20, Instant::NEVER);
    let put = mailbox.put(beyond, most, LASTING, Instant::ZERO);
    assert_eq!(put, Err((most, Refusal::Full)));
}

#[test]
fn gap_filler_has_reserved_room() {
    let mut mailbox = Mailbox::new(true);
    let many = MAILBOX_ADUS_MAX as u64;
    let put = |mailbox: &mut Mailbox<u64>, sequence| {
        let one = adu(sequence, 1, second(9));
        mailbox.put(one, sequence, LASTING, Instant::ZERO)
    };
    for sequence in (2..many + 2).rev() {
        assert_eq!(put(&mut mailbox, sequence), Ok(()));
    }
    assert_eq!(put(&mut mailbox, many + 2), Err((many + 2, Refusal::Full)));
    assert_eq!(put(&mut mailbox, 1), Ok(()));
    assert_eq!(put(&mut mailbox, 0), Ok(()));
    assert_eq!(taken(&mut mailbox, Instant::ZERO).len() as u64, many + 2);
}

#[test]
fn node_without_room_fills_mailbox() {
    let mut mailbox = Mailbox::new(false);
    let short = (Reliability::UntilDeadline, true);
    assert_eq!(
        mailbox.put(adu(0, 9, second(1)), 0, short, Instant::ZERO),
        Ok(())
    );
    let put = mailbox.put(adu(1, 9, second(1)), 1, short, Instant::ZERO);
    assert_eq!(put, Err((1, Refusal::Full)));
    let lasting = adu(2, 9, Instant::NEVER);
    assert_eq!(mailbox.put(lasting, 2, short, Instant::ZERO), Ok(()));
    assert!(mailbox.is_pressed(true) && !mailbox.is_pressed(false));
}

#[test]
fn restart_lets_waiting_adus_leave() {
    let mut mailbox = Mailbox::new(true);
    for sequence in [0, 2] {
        let one = adu(sequence, 1, Instant::NEVER);
        assert_eq!(mailbox.put(one, sequence, LASTING, Instant::ZERO), Ok(()));
    }
    mailbox.restart(NodeId([1; 32]));
    let again = adu(0, 1, Instant::NEVER);
    assert_eq!(mailbox.put(again, 0, LASTING, Instant::ZERO), Ok(()));
    assert_eq!(taken(&mut mailbox, Instant::ZERO), [0, 2, 0]);
    assert_eq!((mailbox.skipped(), mailbox.size()), (1, (0, 0)));
}

/// A step of the node or the subscriber.
#[derive(Clone, Debug)]
enum Step {
    Put {
        ahead: u64,
        bytes: usize,
        life: Option<u64>,
    },
    Take,
    Restart,
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let put = (0..6_u64, 0..5_000_000_usize, prop::option::of(1..400_u64));
    prop_oneof![
        6 => put.prop_map(|(ahead, bytes, life)| Step::Put { ahead, bytes, life }),
        3 => Just(Step::Take),
        1 => Just(Step::Restart),
        2 => (1..300_u64).prop_map(Step::Wait),
    ]
}

fn options() -> impl Strategy<Value = MailboxOptions> {
    let policy = prop::option::of(prop::sample::select(&Policy::ALL[..]));
    let depth = prop::option::of(prop_oneof![
        (1..9_usize).prop_map(Depth::Adus),
        (1..9_000_000_u64).prop_map(|bytes| Depth::Bytes(DataSize::from_bytes(bytes))),
        (1..900_u64).prop_map(|ms| Depth::Time(Duration::from_millis(ms))),
    ]);
    (policy, depth, any::<bool>()).prop_map(|(policy, depth, pull)| MailboxOptions {
        policy,
        depth,
        pull,
        ..MailboxOptions::default()
    })
}

proptest! {
    #[test]
    fn every_token_returns_once(
        in_sequence: bool,
        once: bool,
        options in options(),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut mailbox = Mailbox::with(in_sequence, &options);
        let reliability = if once { Reliability::None } else { Reliability::UntilDeadline };
        let (mut now, mut base, mut given, mut back) = (Instant::ZERO, 0, 0_u64, 0_u64);
        let zeros = Bytes::from(vec![0; 5_000_000]);
        for step in steps {
            match step {
                Step::Put { ahead, bytes, life } => {
                    let life = life.map_or(Instant::NEVER, |ms| now + Duration::from_millis(ms));
                    let mut one = adu(base + ahead, 0, life);
                    one.payload = zeros.slice(..bytes);
                    base += 1;
                    given += 1;
                    back += u64::from(mailbox.put(one, given, (reliability, false), now).is_err());
                }
                Step::Take => {
                    mailbox.request(u64::from(base % 3 > 0));
                    back += u64::from(matches!(mailbox.take(now), Some(Mail::Adu(..))));
                }
                Step::Restart => mailbox.restart(NodeId([1; 32])),
                Step::Wait(ms) => now = now + Duration::from_millis(ms),
            }
            while mailbox.poll_dropped().is_some() {
                back += 1;
            }
            let (adus, bytes) = mailbox.size();
            prop_assert_eq!(given, back + adus as u64);
            let most = MAILBOX_BYTES_MAX.as_bytes() + MAILBOX_EXCESS_BYTES_MAX.as_bytes();
            prop_assert!(bytes <= most, "{bytes} bytes");
            let may_block = matches!(options.policy, None | Some(Policy::Wait));
            prop_assert!(may_block || !mailbox.is_pressed(true), "it costs others nothing");
            if options.policy == Some(Policy::Newest) {
                prop_assert!(adus <= 1, "{adus} ADUs");
            }
        }
    }
}
