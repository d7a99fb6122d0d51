//! Proves that mailboxes are independent, that an ADU is counted once for all of them, and how much
//! memory they take.

use bytes::Bytes;
use thalweg_base::adu::Header;
use thalweg_base::event::DropCause;
use thalweg_base::id::Sequence;
use thalweg_base::limits::{
    MAILBOX_ADUS_MAX, MAILBOX_BYTES_MAX, MAILBOX_SHARE_BYTES, MAILBOXES_BYTES_MAX,
};
use thalweg_base::mailbox::{PRIORITY_USUAL, Policy};
use thalweg_dataplane::mailbox::{PATIENCE_ONCE, START_PATIENCE, TAKE_GRACE};

use super::memory::ENTRY_BYTES;
use super::*;
use crate::forward::{DropLog, StreamCounts};

const STREAM: StreamId = StreamId(7);

const SOURCE: NodeId = NodeId([7; 32]);

impl Delivered for StreamCounts {
    fn handle_delivered(&self, _: &Header, ended: Result<(), DropCause>) {
        match ended {
            Ok(()) => self.delivered(),
            Err(cause) => self.dropped(cause),
        }
    }

    fn drops(&self) -> &Arc<DropLog> {
        self.drops()
    }
}

/// Mailboxes of one stream, and its counters.
struct Rig {
    mailboxes: Mailboxes,
    counts: Arc<StreamCounts>,
}

impl Rig {
    fn new() -> Self {
        Self {
            mailboxes: Mailboxes::default(),
            counts: Arc::default(),
        }
    }

    fn subscribe(&self, in_sequence: bool) -> Inbox {
        let (mailbox, inbox) =
            self.mailboxes
                .create(in_sequence, &MailboxOptions::default(), "a test".into());
        self.mailboxes.open(STREAM, SOURCE, mailbox);
        inbox
    }

    fn post(&self, sequence: u64, bytes: usize, deadline: Instant, now: Instant) {
        self.post_as(Reliability::UntilDeadline, (sequence, bytes), deadline, now);
    }

    fn post_as(
        &self,
        reliability: Reliability,
        (sequence, bytes): (u64, usize),
        deadline: Instant,
        now: Instant,
    ) {
        let mut header = Header::new(STREAM, Sequence(sequence));
        header.deadline = deadline;
        let payload = Bytes::from(vec![0; bytes]);
        let counts = Arc::clone(&self.counts);
        let delivery = Delivery::new(header, counts);
        self.mailboxes
            .post(&Adu { header, payload }, &delivery, reliability, now);
    }

    /// Returns the number of delivered ADUs, and of dropped ones by cause.
    fn counted(&self) -> (u64, Vec<(&'static str, u64)>) {
        let reading = self.counts.reading();
        (reading.delivered, reading.dropped.into_iter().collect())
    }
}

fn taken(inbox: &Inbox, now: Instant) -> Vec<u64> {
    let mut taken = Vec::new();
    while let Some(mail) = inbox.poll(now) {
        match mail {
            Mail::Adu(adu, _) => taken.push(adu.header.sequence.0),
            other => panic!("{other:?}"),
        }
    }
    taken
}

fn millis(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

#[test]
fn stopped_subscriber_slows_none() {
    let rig = Rig::new();
    let (stopped, reader) = (rig.subscribe(true), rig.subscribe(true));
    let many = 3 * MAILBOX_ADUS_MAX as u64;
    for sequence in 0..many {
        let now = millis(sequence);
        rig.post(sequence, 100, now + Duration::from_millis(500), now);
        assert_eq!(taken(&reader, now), [sequence], "at once, and all");
    }
    let waiting = rig.mailboxes.of(STREAM)[0].reading().map(|one| one.waiting);
    let most = 500 + TAKE_GRACE.as_nanos() / 1_000_000 + 1;
    assert!(
        waiting.is_some_and(|(adus, _)| adus as u64 <= most),
        "{waiting:?}"
    );
    drop(stopped);
    // One of two subscribers missed each ADU, except for those that waited when it left.
    let (delivered, dropped) = rig.counted();
    assert!(delivered <= most, "{delivered}");
    assert_eq!(dropped, [("expired", many - delivered)]);
}

#[test]
fn adu_counts_when_taken() {
    let rig = Rig::new();
    let inbox = rig.subscribe(true);
    let deadline = millis(500);
    for sequence in 0..2 {
        rig.post(sequence, 1, deadline, Instant::ZERO);
    }
    assert_eq!(rig.counted(), (0, vec![]));
    assert!(matches!(inbox.poll(Instant::ZERO), Some(Mail::Adu(..))));
    assert_eq!(rig.counted(), (1, vec![]));
    rig.mailboxes.sweep(deadline + TAKE_GRACE);
    assert_eq!(rig.counted(), (1, vec![("expired", 1)]));
    assert_eq!((inbox.skipped(), inbox.discarded()), (1, 0));
}

#[test]
fn lasting_adu_counts_when_put() {
    let rig = Rig::new();
    let inbox = rig.subscribe(true);
    rig.post(0, 1, Instant::NEVER, Instant::ZERO);
    assert_eq!(rig.counted(), (1, vec![]));
    assert_eq!(taken(&inbox, Instant::ZERO), [0]);
    assert_eq!(rig.counted(), (1, vec![]), "once");
}

#[test]
fn adu_after_skipped_place_is_lost() {
    let rig = Rig::new();
    let inbox = rig.subscribe(true);
    let post = |sequence, now| {
        rig.post_as(Reliability::None, (sequence, 1), Instant::NEVER, now);
    };
    for sequence in [0, 2] {
        post(sequence, Instant::ZERO);
    }
    let late = Instant::ZERO + PATIENCE_ONCE;
    assert_eq!(taken(&inbox, late), [0, 2]);
    post(1, late);
    post(3, late);
    assert_eq!(taken(&inbox, late), [3]);
    assert_eq!((inbox.skipped(), inbox.discarded()), (1, 1));
    assert_eq!(rig.counted(), (3, vec![("expired", 1)]));
}

#[test]
fn adu_before_first_is_no_loss() {
    let rig = Rig::new();
    let one = rig.subscribe(true);
    let post = |sequence, now| {
        rig.post_as(Reliability::None, (sequence, 1), Instant::NEVER, now);
    };
    let late = Instant::ZERO + PATIENCE_ONCE;
    post(0, Instant::ZERO);
    let other = rig.subscribe(true);
    for sequence in [2, 4] {
        post(sequence, Instant::ZERO);
    }
    assert_eq!(taken(&other, Instant::ZERO + START_PATIENCE), [2]);
    // The first subscriber waits for it; the other started with a later ADU.
    post(1, Instant::ZERO);
    assert_eq!(taken(&one, Instant::ZERO), [0, 1, 2]);
    assert_eq!(taken(&other, late), [4]);
    assert_eq!(rig.counted(), (4, vec![]));
    post(3, Instant::ZERO);
    assert_eq!(
        rig.counted(),
        (4, vec![("expired", 1)]),
        "the other lacks it"
    );
    assert_eq!(taken(&one, Instant::ZERO), [3, 4]);
    assert_eq!((one.discarded(), other.discarded()), (0, 2));
}

#[tokio::test]
async fn full_mailbox_blocks_stream() {
    let rig = Rig::new();
    let inbox = rig.subscribe(true);
    let half = MAILBOX_BYTES_MAX.as_bytes() as usize / 2;
    for sequence in 0..3 {
        rig.post(sequence, half, Instant::NEVER, Instant::ZERO);
    }
    assert!(rig.mailboxes.is_blocked(STREAM));
    let clock = Clock::start();
    let mut unblocked = Box::pin(rig.mailboxes.unblocked(STREAM, &clock, Duration::NEVER));
    tokio::select! {
        biased;
        () = &mut unblocked => panic!("nothing was taken"),
        () = tokio::task::yield_now() => {}
    }
    assert!(inbox.poll(Instant::ZERO).is_some());
    unblocked.await;
    assert!(!rig.mailboxes.is_blocked(STREAM));
}

#[tokio::test]
async fn stream_resumes_after_wait() {
    let rig = Rig::new();
    let _inbox = rig.subscribe(true);
    let half = MAILBOX_BYTES_MAX.as_bytes() as usize / 2;
    for sequence in 0..3 {
        rig.post(sequence, half, Instant::NEVER, Instant::ZERO);
    }
    let wait = Duration::from_millis(20);
    rig.mailboxes.unblocked(STREAM, &Clock::start(), wait).await;
    assert!(!rig.mailboxes.is_blocked(STREAM));
    rig.post(3, half, Instant::NEVER, Instant::ZERO);
    assert_eq!(rig.counted(), (3, vec![("overflow", 1)]));
}

#[test]
fn closed_mailbox_frees_memory() {
    let rig = Rig::new();
    let inbox = rig.subscribe(false);
    rig.post(0, 1000, Instant::NEVER, Instant::ZERO);
    let taken = || rig.mailboxes.memory.bytes();
    assert_eq!(taken(), 1000 + ENTRY_BYTES);
    drop(inbox);
    assert_eq!(taken(), 0);
    rig.post(1, 1000, millis(9), Instant::ZERO);
    assert_eq!((taken(), rig.counted().1), (0, vec![("cancelled", 1)]));
}

/// The payload of a large ADU: 64 of them fill a mailbox.
const LARGE_BYTES: usize = MAILBOX_BYTES_MAX.as_bytes() as usize / 64;

#[test]
fn thousand_subscribers_lose_only_their_own() {
    const STOPPED: usize = 100;
    const SLOW: usize = 100;
    const FAST: usize = 800;
    const ADUS: u64 = 100;
    let rig = Rig::new();
    let subscribe = |count| (0..count).map(|_| rig.subscribe(true)).collect();
    let [stopped, slow, fast]: [Vec<Inbox>; 3] = [STOPPED, SLOW, FAST].map(subscribe);
    let deadline = millis(10_000);
    for sequence in 0..ADUS {
        rig.post(sequence, LARGE_BYTES, deadline, Instant::ZERO);
        for inbox in &fast {
            assert_eq!(taken(inbox, Instant::ZERO), [sequence]);
        }
        if sequence % 2 == 0 {
            for inbox in &slow {
                let next = inbox.poll(Instant::ZERO);
                assert!(
                    matches!(next, Some(Mail::Adu(adu, _)) if adu.header.sequence.0 == sequence / 2)
                );
            }
        }
    }
    // Each payload counts once, though hundreds of mailboxes hold it.
    let waiting = STOPPED as u64 * 64 + SLOW as u64 * ADUS / 2;
    let most = ADUS * LARGE_BYTES as u64 + waiting * ENTRY_BYTES;
    assert!(rig.mailboxes.memory.bytes() <= most);
    for inbox in &slow {
        assert_eq!(taken(inbox, Instant::ZERO).len() as u64, ADUS / 2);
        assert_eq!(inbox.skipped(), 0);
    }
    for inbox in &stopped[..STOPPED / 2] {
        assert_eq!(taken(inbox, Instant::ZERO), (0..64).collect::<Vec<_>>());
    }
    // Nothing waits for longer than its deadline allows.
    rig.mailboxes.sweep(deadline + TAKE_GRACE);
    assert_eq!(rig.mailboxes.memory.bytes(), 0);
    assert!(
        stopped
            .iter()
            .chain(&slow)
            .chain(&fast)
            .all(Inbox::is_empty)
    );
    assert!(fast.iter().all(|inbox| inbox.skipped() == 0));
}

#[test]
fn mailboxes_share_bounded_memory() {
    const STREAMS: u64 = 400;
    let rig = Rig::new();
    let mut inboxes = Vec::new();
    for stream in 0..STREAMS {
        let (mailbox, inbox) =
            rig.mailboxes
                .create(true, &MailboxOptions::default(), "a test".into());
        rig.mailboxes.open(StreamId(stream), SOURCE, mailbox);
        inboxes.push(inbox);
        for sequence in 0..12 {
            let mut header = Header::new(StreamId(stream), Sequence(sequence));
            header.deadline = millis(500);
            let payload = Bytes::from(vec![0; LARGE_BYTES]);
            let delivery = Delivery::new(header, rig.counts.clone());
            let adu = Adu { header, payload };
            let reliability = Reliability::UntilDeadline;
            rig.mailboxes
                .post(&adu, &delivery, reliability, Instant::ZERO);
        }
    }
    // Each has its share, and at most one ADU beyond it.
    let share = MAILBOX_SHARE_BYTES.as_bytes() + LARGE_BYTES as u64 + ENTRY_BYTES;
    let most = MAILBOXES_BYTES_MAX.as_bytes() + STREAMS * share;
    let bytes = rig.mailboxes.memory.bytes();
    assert!(
        bytes > MAILBOXES_BYTES_MAX.as_bytes() && bytes <= most,
        "{bytes}"
    );
    let share = MAILBOX_SHARE_BYTES.as_bytes() as usize / LARGE_BYTES;
    for inbox in &inboxes {
        assert!(
            taken(inbox, Instant::ZERO).len() >= share,
            "its share is its own"
        );
    }
    assert_eq!(rig.mailboxes.memory.bytes(), 0);
}

/// Fills mailboxes of many streams until all together hold more than `most`; they must be kept.
fn fill(rig: &Rig, first_stream: u64, most: u64) -> Vec<Inbox> {
    let mut inboxes = Vec::new();
    while rig.mailboxes.memory.bytes() <= most {
        let stream = first_stream + inboxes.len() as u64;
        inboxes.push(subscribe_to(rig, stream, u8::MAX));
        for sequence in 0..32 {
            put(rig, stream, sequence);
        }
    }
    inboxes
}

fn subscribe_to(rig: &Rig, stream: u64, priority: u8) -> Inbox {
    let options = MailboxOptions {
        priority,
        ..MailboxOptions::default()
    };
    let name = "a test".into();
    let (mailbox, inbox) = rig.mailboxes.create(true, &options, name);
    rig.mailboxes.open(StreamId(stream), SOURCE, mailbox);
    inbox
}

/// Posts a large ADU with a deadline.
fn put(rig: &Rig, stream: u64, sequence: u64) {
    let mut header = Header::new(StreamId(stream), Sequence(sequence));
    header.deadline = millis(500);
    let payload = Bytes::from(vec![0; LARGE_BYTES]);
    let delivery = Delivery::new(header, rig.counts.clone());
    let adu = Adu { header, payload };
    let reliability = Reliability::UntilDeadline;
    rig.mailboxes
        .post(&adu, &delivery, reliability, Instant::ZERO);
}

#[test]
fn low_priority_loses_first() {
    let all = MAILBOXES_BYTES_MAX.as_bytes();
    let rig = Rig::new();
    // Each has more than its share, and then the node fills up.
    let priorities = [0, 64, PRIORITY_USUAL, u8::MAX];
    let of_stream = |at: usize| at as u64 + 1;
    let inboxes: Vec<Inbox> = (0..priorities.len())
        .map(|at| subscribe_to(&rig, of_stream(at), priorities[at]))
        .collect();
    let mut next = 0;
    let mut post_each = || {
        for _ in 0..6 {
            (0..priorities.len()).for_each(|at| put(&rig, of_stream(at), next));
            next += 1;
        }
    };
    let waiting = || -> Vec<usize> {
        let all = (0..priorities.len()).flat_map(|at| rig.mailboxes.of(StreamId(of_stream(at))));
        all.filter_map(|one| Some(one.reading()?.waiting.0))
            .collect()
    };
    post_each();
    assert_eq!(waiting(), [6; 4]);
    let mut others = fill(&rig, 100, all / 2);
    post_each();
    assert_eq!(waiting(), [6, 12, 12, 12]);
    others.extend(fill(&rig, 1_000, all));
    post_each();
    assert_eq!(
        waiting(),
        [6, 12, 12, 18],
        "a quarter more is for the highest"
    );
    others.extend(fill(&rig, 2_000, all / 4 * 5));
    post_each();
    assert_eq!(waiting(), [6, 12, 12, 18]);
    drop(inboxes);
}

#[test]
fn drops_are_recorded_by_mailbox_and_gap() {
    let rig = Rig::new();
    let newest = MailboxOptions {
        policy: Some(Policy::Newest),
        ..MailboxOptions::default()
    };
    let (mailbox, display) = rig.mailboxes.create(true, &newest, "a display".into());
    rig.mailboxes.open(STREAM, SOURCE, mailbox);
    let recorder = rig.subscribe(true);
    // The third never comes.
    for sequence in [0, 1, 3, 4] {
        let once = Reliability::None;
        rig.post_as(once, (sequence, 1), Instant::NEVER, Instant::ZERO);
    }
    let late = Instant::ZERO + PATIENCE_ONCE;
    assert_eq!(taken(&recorder, late), [0, 1, 3, 4]);
    assert_eq!(taken(&display, late), [4]);
    let records = rig.counts.drops().after(0, millis(9_000));
    let shown: Vec<_> = records
        .iter()
        .map(|one| (one.place.kind(), one.cause, one.sequences, one.adus))
        .collect();
    let passed_over = ("mailbox", "cancelled", [0, 3], 3);
    assert_eq!(shown, [passed_over, ("way", "missing", [2, 2], 1)]);
    // The display did not want them, and the recorder has them.
    assert_eq!(rig.counted(), (4, vec![]));
}
