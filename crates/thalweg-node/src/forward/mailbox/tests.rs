//! Proves what a mailbox holds, what waits for room in it, and that nothing is taken for given that is not.

use bytes::Bytes;
use thalweg_core::adu::Header;
use thalweg_core::id::Sequence;
use thalweg_core::limits::MAILBOX_ADUS_MAX;
use thalweg_core::mailbox::PATIENCE_ONCE;
use thalweg_core::time::Duration;

use super::*;

const STREAM: StreamId = StreamId(7);

const SOURCE: NodeId = NodeId([7; 32]);

fn adu(sequence: u64, deadline: Instant) -> Adu {
    let mut header = Header::new(STREAM, Sequence(sequence));
    header.deadline = deadline;
    Adu {
        header,
        payload: Bytes::new(),
    }
}

/// Returns mailboxes with one that is in sequence.
fn opened() -> (Mailboxes, Clock, Inbox) {
    let mailboxes = Mailboxes::default();
    let (mailbox, inbox) = mailbox(true);
    mailboxes.open(STREAM, SOURCE, mailbox);
    (mailboxes, Clock::start(), inbox)
}

fn taken(inbox: &Inbox, now: Instant) -> Vec<u64> {
    let mut taken = Vec::new();
    while let Some(mail) = inbox.poll(now) {
        match mail {
            Mail::Adu(adu) => taken.push(adu.header.sequence.0),
            other => panic!("{other:?}"),
        }
    }
    taken
}

#[tokio::test]
async fn what_waits_beside_others_has_bounded_room_and_what_waits_in_turn_needs_none() {
    let (mailboxes, clock) = (Mailboxes::default(), Clock::start());
    let (mailbox, unread) = mailbox(false);
    mailboxes.open(STREAM, SOURCE, mailbox);
    let adu = |bytes| Adu {
        header: Header::new(STREAM, Sequence(0)),
        payload: Bytes::from(vec![0; bytes]),
    };
    let patient = Patience::Until(Instant::NEVER);
    for _ in 0..MAILBOX_ADUS_MAX {
        let posted = mailboxes
            .post((adu(0), Reliability::UntilDeadline), &clock, patient)
            .await;
        assert_eq!(posted, Ok(()));
    }
    // All but a KiB of it.
    let most = WAITING_BYTES_MAX.as_bytes() as usize - 2048;
    let mut waiting =
        Box::pin(mailboxes.post((adu(most), Reliability::UntilDeadline), &clock, patient));
    assert!(polled_once(&mut waiting).await.is_none(), "it waits");
    let beyond = mailboxes
        .post((adu(1024), Reliability::UntilDeadline), &clock, patient)
        .await;
    assert_eq!(beyond, Err(DropCause::Overflow));
    let mut in_turn = Box::pin(mailboxes.post(
        (adu(1024), Reliability::UntilDeadline),
        &clock,
        Patience::InTurn,
    ));
    assert!(polled_once(&mut in_turn).await.is_none(), "it waits too");
    // Whoever reads makes room for both.
    for _ in 0..2 {
        assert!(unread.poll(clock.now()).is_some());
    }
    assert_eq!((waiting.await, in_turn.await), (Ok(()), Ok(())));
}

#[tokio::test]
async fn what_comes_after_its_place_was_given_up_is_a_loss() {
    let (mailboxes, clock, inbox) = opened();
    let post = |sequence| {
        let adu = adu(sequence, Instant::NEVER);
        mailboxes.post((adu, Reliability::None), &clock, Patience::InTurn)
    };
    for sequence in [0, 2] {
        assert_eq!(post(sequence).await, Ok(()));
    }
    let late = clock.now() + PATIENCE_ONCE;
    assert_eq!(taken(&inbox, late), [0, 2]);
    assert_eq!(post(1).await, Err(DropCause::Expired));
    assert_eq!(post(3).await, Ok(()));
    assert_eq!(taken(&inbox, late), [3]);
    assert_eq!((inbox.skipped(), inbox.discarded()), (1, 1));
}

#[tokio::test]
async fn what_one_of_two_misses_is_a_loss_but_not_what_was_before_his_time() {
    let (mailboxes, clock) = (Mailboxes::default(), Clock::start());
    let ((first, one), (second, other)) = (mailbox(true), mailbox(true));
    mailboxes.open(STREAM, SOURCE, first);
    let post = |sequence| {
        let adu = adu(sequence, Instant::NEVER);
        mailboxes.post((adu, Reliability::None), &clock, Patience::InTurn)
    };
    let late = clock.now() + PATIENCE_ONCE;
    assert_eq!(post(0).await, Ok(()));
    mailboxes.open(STREAM, SOURCE, second);
    for sequence in [2, 4] {
        assert_eq!(post(sequence).await, Ok(()));
    }
    assert_eq!(taken(&other, late), [2]);
    // One waits for it, the other has begun with a later one.
    assert_eq!(post(1).await, Ok(()));
    assert_eq!(taken(&one, clock.now()), [0, 1, 2]);
    assert_eq!(taken(&other, late + PATIENCE_ONCE), [4]);
    assert_eq!(post(3).await, Err(DropCause::Expired), "the other has not");
    assert_eq!(taken(&one, clock.now()), [3, 4]);
    assert_eq!((one.discarded(), other.discarded()), (0, 2));
}

#[tokio::test]
async fn who_reads_slowly_gives_up_no_gap_that_what_is_here_fills() {
    let (mailboxes, clock, inbox) = opened();
    let deadline = clock.now() + Duration::from_secs(60);
    let patient = Patience::Until(Instant::NEVER);
    let post = |sequence| {
        mailboxes.post(
            (adu(sequence, deadline), Reliability::UntilDeadline),
            &clock,
            patient,
        )
    };
    for sequence in [0, 2, 3, 1] {
        assert_eq!(post(sequence).await, Ok(()));
    }
    assert_eq!(taken(&inbox, deadline), [0, 1, 2, 3]);
    assert_eq!((inbox.skipped(), inbox.discarded()), (0, 0));
}

#[tokio::test]
async fn what_waits_for_room_is_let_in_before_its_place_is_given_up() {
    let (mailboxes, clock, inbox) = opened();
    let deadline = clock.now() + Duration::from_secs(60);
    let patient = Patience::Until(Instant::NEVER);
    let post = |sequence| {
        mailboxes.post(
            (adu(sequence, deadline), Reliability::UntilDeadline),
            &clock,
            patient,
        )
    };
    let last = MAILBOX_ADUS_MAX as u64;
    for sequence in 0..=last {
        assert_eq!(post(sequence).await, Ok(()));
    }
    let mut newest = Box::pin(post(last + 2));
    let mut missing = Box::pin(post(last + 1));
    assert!(polled_once(&mut newest).await.is_none(), "it waits");
    assert!(polled_once(&mut missing).await.is_none(), "it waits too");
    assert_eq!(taken(&inbox, deadline).len() as u64, last + 1);
    assert_eq!((newest.await, missing.await), (Ok(()), Ok(())));
    assert_eq!(taken(&inbox, deadline), [last + 1, last + 2]);
}

#[tokio::test]
async fn what_fills_a_gap_has_room_of_its_own_that_is_bounded() {
    let (mailboxes, clock, inbox) = opened();
    let adu = |sequence| adu(sequence, Instant::NEVER);
    let many = 2 * MAILBOX_ADUS_MAX as u64;
    // Each before the last: all fill.
    for sequence in (1..=many).rev() {
        let posted = mailboxes.post(
            (adu(sequence), Reliability::UntilDeadline),
            &clock,
            Patience::InTurn,
        );
        assert_eq!(posted.await, Ok(()));
    }
    let mut beyond = Box::pin(mailboxes.post(
        (adu(0), Reliability::UntilDeadline),
        &clock,
        Patience::InTurn,
    ));
    assert!(polled_once(&mut beyond).await.is_none(), "it waits");
    drop(inbox);
    assert_eq!(beyond.await, Err(DropCause::Cancelled));
}

async fn polled_once<T>(work: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
    tokio::select! {
        biased;
        done = work => Some(done),
        () = tokio::task::yield_now() => None,
    }
}
