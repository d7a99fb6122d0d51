//! The receiver of files by phrase: finds the sender by the phrase's number, and proves the phrase.
//!
//! *The idea.* The map shows the senders with that number. The receiver asks on a stream of its
//! own, again and again until it gets an answer, since neither end knows when the other's stream
//! has a plan. If several senders use the number, each is asked and learns one wrong guess.
//!
//! *Sources.* docs/concepts/files.md §7.

use std::path::Path;
use std::time::Duration as StdDuration;

use aws_lc_rs::rand;
use bytes::Bytes;
use thalweg_base::adu::Adu;
use thalweg_base::id::{NodeId, StreamId, StreamName};
use thalweg_base::needs::WEIGHT_USUAL;
use thalweg_transfer::TransferId;
use thalweg_transfer::meeting::{Answer, Ask, Refusal, Said};
use thalweg_transfer::name;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::super::map::Map;
use super::super::send::{outgoing, publication};
use super::super::{Event, FINAL_RECEIPT_MAX, POLL_EVERY, TransferError, publish, subscribe};
use super::Phrase;
use super::proof::{Half, Keys, Opener, Pair};
use crate::handle::SubscriberEvent;
use crate::local::{LocalError, LocalPublisher, LocalSubscriber};

/// How long to wait for a sender with this number on the map; a record crosses any fabric sooner.
const UNKNOWN_MAX: StdDuration = StdDuration::from_secs(10);

/// How long to wait before the user is notified of that.
const NOTIFY_AFTER: StdDuration = StdDuration::from_secs(1);

/// How long a sender may take to answer: plans are made both ways, and lost messages repeated.
const ANSWER_MAX: StdDuration = StdDuration::from_secs(40);

/// How often to repeat a request meanwhile.
const ASK_EVERY: StdDuration = StdDuration::from_millis(500);

/// The transfer to which a phrase has led.
pub(in super::super) struct FoundTransfer {
    pub(in super::super) sender: (NodeId, String),
    /// The id by which its streams are named.
    pub(in super::super) public_id: TransferId,
    /// The id that its manifest must have.
    pub(in super::super) id: TransferId,
    pub(in super::super) opener: Opener,
}

/// The state of an exchange.
enum Stage {
    Hello(Half),
    Proof(Keys),
}

/// Asks every sender with a phrase's number, and returns the transfer of the one that has the
/// phrase.
///
/// Fails   if no sender has that number; the phrase is wrong, has expired or was used; the sender
///         does not answer
pub(in super::super) async fn find_transfer(
    socket: &Path,
    phrase: &Phrase,
    events: &mut (dyn FnMut(Event) + Send),
) -> Result<FoundTransfer, TransferError> {
    let started = Instant::now();
    let mut asked: Vec<NodeId> = Vec::new();
    let mut refused = None;
    let mut has_notified = false;
    loop {
        let map = Map::fetch(socket).await?;
        map.check_rights()?;
        let sends = |key: NodeId, name: &StreamName| {
            name::code_of_stream(name, &key) == Some(phrase.number())
        };
        let mut senders = map.streams().iter().filter_map(|stream| {
            let key = stream.publisher_key;
            let is_new = !asked.contains(&key);
            (sends(key, &stream.name) && is_new).then(|| (key, stream.publisher.clone()))
        });
        let Some(sender) = senders.next() else {
            if let Some(refused) = refused {
                return Err(refused);
            }
            if started.elapsed() >= UNKNOWN_MAX {
                return Err(no_sender(phrase));
            }
            if started.elapsed() >= NOTIFY_AFTER && !has_notified {
                has_notified = true;
                let number = phrase.number();
                let notice = format!("nobody sends by the phrase {number}-… yet; waiting");
                events(Event::Notice(notice));
            }
            tokio::time::sleep(POLL_EVERY).await;
            continue;
        };
        if sender.0 == map.own() {
            let sentence = "this node itself sends by that phrase: receive on another node";
            return Err(TransferError::Node(sentence.into()));
        }
        asked.push(sender.0);
        events(Event::Notice(format!("asking {}", sender.1)));
        match ask(socket, phrase, map.own(), sender, events).await {
            Ok(found) => return Ok(found),
            // Of several senders with this number, all but one find the phrase wrong.
            Err(TransferError::Phrase(refusal)) => {
                refused.get_or_insert(TransferError::Phrase(refusal));
            }
            Err(other) => return Err(other),
        }
    }
}

async fn ask(
    socket: &Path,
    phrase: &Phrase,
    own: NodeId,
    sender: (NodeId, String),
    events: &mut (dyn FnMut(Event) + Send),
) -> Result<FoundTransfer, TransferError> {
    let mut chance = [0; 4];
    rand::fill(&mut chance).map_err(|_| TransferError::Random)?;
    let number = phrase.number();
    let asks = name::ask_stream(number, &sender.0, u32::from_be_bytes(chance));
    let answers = name::code_stream(number, &sender.0);
    let subscriber = subscribe(socket, answers.clone()).await?;
    let mut publisher = publish(
        socket,
        publication(asks.clone(), false, WEIGHT_USUAL),
        events,
    )
    .await?;
    let map = Map::fetch(socket).await?;
    // Any node may announce a stream of this name; only the sender's own counts.
    let answers = map
        .stream(&answers, sender.0)
        .ok_or_else(|| no_sender(phrase))?;
    let stream = map.stream(&asks, own);
    let stream = stream.ok_or_else(|| {
        TransferError::Ended(format!("the node does not announce {asks}: run this again"))
    })?;
    let pair = Pair {
        sender: sender.0,
        receiver: own,
        asks: stream,
    };
    let negotiation = negotiate(&mut publisher, (subscriber, answers), phrase, pair);
    let found = match tokio::time::timeout(ANSWER_MAX, negotiation).await {
        Ok(found) => found,
        Err(_) => Err(TransferError::Ended(format!(
            "{} does not answer: ask whether it still sends, and run this again",
            sender.1
        ))),
    };
    // Finishes in the background; the result does not matter.
    tokio::spawn(tokio::time::timeout(FINAL_RECEIPT_MAX, publisher.finish()));
    let (public_id, id, opener) = found?;
    Ok(FoundTransfer {
        sender,
        public_id,
        id,
        opener,
    })
}

fn no_sender(phrase: &Phrase) -> TransferError {
    let number = phrase.number();
    TransferError::Ended(format!(
        "nobody sends by the phrase {number}-…: it was used, has expired, or begins with another number; ask the sender"
    ))
}

/// Repeats requests until there is a verdict.
async fn negotiate(
    publisher: &mut LocalPublisher,
    (subscriber, from): (LocalSubscriber, StreamId),
    phrase: &Phrase,
    pair: Pair,
) -> Result<(TransferId, TransferId, Opener), TransferError> {
    let (half, hello) = Half::of_receiver(phrase, pair);
    let mut stage = Stage::Hello(half);
    let mut ask = Bytes::from(Ask::Hello(hello).encode());
    let (reply_sender, mut answers) = mpsc::channel(8);
    // Dropped at the end of this function, which ends the task.
    let mut reading = JoinSet::new();
    reading.spawn(forward_answers(subscriber, from, pair.asks, reply_sender));
    let mut again = tokio::time::interval(ASK_EVERY);
    loop {
        let reply = tokio::select! {
            reply = answers.recv() => match reply {
                Some(Ok(reply)) => reply,
                Some(Err(error)) => {
                    let sentence = format!("the node went away: run this again when it is back ({error})");
                    return Err(TransferError::Ended(sentence));
                }
                None => return Err(TransferError::Ended(
                    "the phrase ended while it was asked for: its sender has stopped, or others tried wrong ones; ask for a new one".into(),
                )),
            },
            _ = again.tick() => {
                // Without a receiver, the request would only be dropped.
                if publisher.is_wanted() {
                    publisher.send(outgoing(ask.clone())).await?;
                }
                continue;
            }
        };
        stage = match (stage, reply) {
            (_, Said::Refused(refusal)) => return Err(refusal.into()),
            (Stage::Hello(half), Said::Hello(message)) => {
                let keys = half.finish(&message).ok_or(Refusal::Wrong(0))?;
                ask = Ask::Proof(keys.proof()).encode().into();
                again.reset_immediately();
                Stage::Proof(keys)
            }
            (Stage::Proof(keys), Said::Admitted(sealed)) => {
                let (public_id, id) = keys.admitted(&sealed).ok_or_else(|| {
                    TransferError::Ended("the sender there does not have the phrase".into())
                })?;
                return Ok((public_id, id, keys.opener()));
            }
            (stage, _) => stage,
        };
    }
}

/// Forwards the answers to these requests until the stream ends or the receiver is gone.
async fn forward_answers(
    mut subscriber: LocalSubscriber,
    from: StreamId,
    asks: StreamId,
    reply_sender: mpsc::Sender<Result<Said, LocalError>>,
) {
    loop {
        match subscriber.recv().await {
            Ok(Some(SubscriberEvent::Adu(Adu { header, payload }))) => {
                if header.stream != from {
                    continue;
                }
                match Answer::decode(&payload) {
                    Ok(answer) if answer.to == asks => {
                        if reply_sender.send(Ok(answer.said)).await.is_err() {
                            return;
                        }
                    }
                    Ok(_) => {}
                    Err(error) => tracing::debug!(%error, "invalid answer"),
                }
            }
            Ok(Some(SubscriberEvent::Notice(text))) => tracing::debug!(%text, "answers"),
            Ok(None) => return,
            Err(error) => {
                // The receiver may be gone.
                let _ = reply_sender.send(Err(error)).await;
                return;
            }
        }
    }
}
