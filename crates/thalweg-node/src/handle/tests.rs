//! Proves that a subscriber loses nothing without counting it.

use bytes::Bytes;
use thalweg_core::adu::{Adu, Header};
use thalweg_core::id::{Sequence, StreamId};
use thalweg_net::Clock;
use tokio::sync::mpsc;

use super::{SubscribeOptions, Subscriber, SubscriberEvent};
use crate::forward::{Mail, mailbox};

fn adu(stream: u64, sequence: u64) -> Mail {
    let adu = Adu {
        header: Header::new(StreamId(stream), Sequence(sequence)),
        payload: Bytes::new(),
    };
    Mail::Adu {
        adu,
        is_sent_again: true,
    }
}

#[tokio::test]
async fn what_waits_when_a_stream_is_published_anew_is_counted() {
    let (mailbox, mail) = mailbox();
    let options = SubscribeOptions {
        name: "cam".parse().expect("a name"),
        in_sequence: true,
    };
    let (inputs, _control) = mpsc::channel(1);
    let mut subscriber = Subscriber::new(options, mail, Clock::start(), inputs);
    // Sequence 1 is missing, and 0 comes twice.
    let before = [0, 2, 3, 0].map(|sequence| adu(1, sequence));
    let after = [0, 1].map(|sequence| adu(2, sequence));
    for mail in before.into_iter().chain([Mail::Restarted]).chain(after) {
        mailbox.send(mail).await.expect("it has room");
    }
    let mut given = Vec::new();
    while given.len() < 3 {
        match subscriber.recv().await {
            Some(SubscriberEvent::Adu(adu)) => given.push((adu.header.stream, adu.header.sequence)),
            other => panic!("{other:?}"),
        }
    }
    let expected = [(1, 0), (2, 0), (2, 1)];
    let expected = expected.map(|(stream, sequence)| (StreamId(stream), Sequence(sequence)));
    assert_eq!(given, expected);
    assert_eq!((subscriber.skipped(), subscriber.discarded()), (0, 3));
}
