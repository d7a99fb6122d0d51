//! Proves that a subscriber counts every ADU that it misses.

use std::sync::Arc;
use std::time::Duration as StdDuration;

use bytes::Bytes;
use thalweg_base::adu::{Adu, Flags, Header};
use thalweg_base::event::DropCause;
use thalweg_base::id::{NodeId, Sequence, StreamId};
use thalweg_base::mailbox::MailboxOptions;
use thalweg_base::needs::Reliability;
use thalweg_dataplane::mailbox::END_PATIENCE;
use thalweg_net::Clock;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::{SubscribeOptions, Subscriber, SubscriberEvent};
use crate::forward::{Delivered, Delivery, DropLog, Mailbox, Mailboxes};
use crate::input::Input;

fn adu(stream: u64, sequence: u64) -> Adu {
    Adu {
        header: Header::new(StreamId(stream), Sequence(sequence)),
        payload: Bytes::new(),
    }
}

/// Returns a subscriber, the node's end of its mailbox, and the receiver of its questions to the
/// node.
fn subscribed(in_sequence: bool) -> (Mailbox, Subscriber, Clock, mpsc::Receiver<Input>) {
    let name = "cam".parse().expect("a name");
    let options = SubscribeOptions::new(name, in_sequence);
    subscribed_with(&Mailboxes::default(), options)
}

fn subscribed_with(
    mailboxes: &Mailboxes,
    options: SubscribeOptions,
) -> (Mailbox, Subscriber, Clock, mpsc::Receiver<Input>) {
    let name = "a test".into();
    let (mailbox, inbox) = mailboxes.create(options.in_sequence, &options.mailbox, name);
    let (inputs, control) = mpsc::channel(1);
    let clock = Clock::start();
    let subscriber = Subscriber::new(options, inbox, clock, inputs);
    (mailbox, subscriber, clock, control)
}

/// Deliveries of which nobody keeps count.
#[derive(Debug, Default)]
struct Uncounted(Arc<DropLog>);

impl Delivered for Uncounted {
    fn handle_delivered(&self, _: &Header, _: Result<(), DropCause>) {}

    fn drops(&self) -> &Arc<DropLog> {
        &self.0
    }
}

fn put_in(mailbox: &Mailbox, adu: &Adu, clock: &Clock) {
    let delivery = Delivery::new(adu.header, Arc::new(Uncounted::default()));
    mailbox.put(adu, &delivery, Reliability::UntilDeadline, clock.now());
}

#[tokio::test]
async fn republished_stream_loses_nothing() {
    let (mailbox, mut subscriber, clock, _control) = subscribed(true);
    // Sequence 1 is missing, and 0 comes twice.
    let source = |stream: StreamId| NodeId([stream.0 as u8; 32]);
    for (stream, sequences) in [(1, &[0, 2, 3, 0][..]), (2, &[0, 1])] {
        mailbox.open(StreamId(stream), source(StreamId(stream)));
        for sequence in sequences {
            put_in(&mailbox, &adu(stream, *sequence), &clock);
        }
    }
    let mut given = Vec::new();
    while given.len() < 5 {
        match subscriber.recv().await {
            Some(SubscriberEvent::Adu(Adu { header, .. })) => {
                assert_eq!(subscriber.source(), Some(source(header.stream)));
                given.push((header.stream, header.sequence));
            }
            other => panic!("{other:?}"),
        }
    }
    let expected = [(1, 0), (1, 2), (1, 3), (2, 0), (2, 1)];
    let expected = expected.map(|(stream, sequence)| (StreamId(stream), Sequence(sequence)));
    assert_eq!(given, expected);
    assert_eq!((subscriber.skipped(), subscriber.discarded()), (1, 1));
}

#[tokio::test]
async fn unordered_end_awaits_resends() {
    let (mailbox, mut subscriber, clock, control) = subscribed(false);
    // A stopped node continues no name.
    drop(control);
    mailbox.open(StreamId(1), NodeId([1; 32]));
    let put = |sequence, flags| {
        let mut adu = adu(1, sequence);
        adu.header.flags = flags;
        put_in(&mailbox, &adu, &clock);
    };
    // The end matters most and arrives first; ADU 1 was lost, or is still under way.
    put(3, Flags::END);
    put(0, Flags::NONE);
    put(2, Flags::NONE);
    let long = StdDuration::from(END_PATIENCE) * 2;
    let mut given = Vec::new();
    loop {
        match timeout(long, subscriber.recv()).await {
            Ok(Some(SubscriberEvent::Adu(adu))) => given.push(adu.header.sequence.0),
            // Nothing has arrived for longer than the end waits while nothing is under way.
            Err(_) if given == [0, 2] => put(1, Flags::NONE),
            ended => {
                assert!(matches!(ended, Ok(None)), "{ended:?}");
                break;
            }
        }
    }
    assert_eq!(given, [0, 2, 1]);
}

/// A single worker, which by itself runs the one first that was woken last.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn high_priority_is_served_first() {
    let mailboxes = Mailboxes::default();
    let (order, mut served) = mpsc::unbounded_channel();
    let mut ends = Vec::new();
    for priority in [10, 200, 128] {
        let options = SubscribeOptions::new("cam".parse().expect("a name"), true);
        let options = options.with_mailbox(MailboxOptions {
            priority,
            ..MailboxOptions::default()
        });
        let (mailbox, mut subscriber, clock, control) = subscribed_with(&mailboxes, options);
        mailboxes.open(StreamId(1), NodeId([1; 32]), mailbox);
        ends.push((clock, control));
        let order = order.clone();
        tokio::spawn(async move {
            while let Some(SubscriberEvent::Adu(adu)) = subscriber.recv().await {
                let _ = order.send((adu.header.sequence.0, priority));
            }
        });
    }
    let clock = ends[0].0;
    let post = async move {
        let mut in_order = 0;
        for sequence in 0..100 {
            let adu = adu(1, sequence);
            let delivery = Delivery::new(adu.header, Arc::new(Uncounted::default()));
            mailboxes.post(&adu, &delivery, Reliability::UntilDeadline, clock.now());
            let mut all = Vec::new();
            for _ in 0..3 {
                all.extend(served.recv().await);
            }
            let expected = [200, 128, 10].map(|priority| (sequence, priority));
            in_order += u32::from(all == expected);
        }
        in_order
    };
    let in_order = tokio::spawn(post).await.expect("it runs");
    assert!(in_order >= 80, "{in_order} of 100");
}
