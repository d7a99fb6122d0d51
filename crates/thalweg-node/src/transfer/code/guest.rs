//! Who has a phrase, and asks whoever sends by its number.
//!
//! *The idea.* The map says who that is. It is asked on a stream of one's own, again and again until it answers, for neither end
//! knows when the other's stream has its way. Whoever else uses the number is asked too, and learns one wrong guess by that.
//!
//! *Sources.* docs/files.md §7.

use std::path::Path;
use std::time::Duration as StdDuration;

use aws_lc_rs::rand;
use bytes::Bytes;
use thalweg_core::adu::Adu;
use thalweg_core::id::{NodeId, StreamId, StreamName};
use thalweg_core::needs::WEIGHT_USUAL;
use thalweg_core::transfer::TransferId;
use thalweg_core::transfer::meeting::{Answer, Ask, Refusal, Said};
use thalweg_core::transfer::name;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::super::map::Map;
use super::super::receive::{GOODBYE_MAX, LOOK_EVERY, subscribe};
use super::super::send::{outgoing, publication};
use super::super::{Event, TransferError, publish};
use super::Phrase;
use super::proof::{Half, Keys, Opener, Pair};
use crate::handle::SubscriberEvent;
use crate::local::{LocalError, LocalPublisher, LocalSubscriber};

/// How long a number may be on nobody's map: a record crosses any fabric sooner.
const UNKNOWN_MAX: StdDuration = StdDuration::from_secs(10);

/// How long nothing is said of that.
const QUIET_MAX: StdDuration = StdDuration::from_secs(1);

/// How long somebody may take to answer: paths are planned both ways, and lost words said again.
const ANSWER_MAX: StdDuration = StdDuration::from_secs(40);

/// How often it is asked meanwhile.
const ASK_EVERY: StdDuration = StdDuration::from_millis(500);

/// A transfer to which a phrase has led.
pub(in super::super) struct Way {
    pub(in super::super) sender: (NodeId, String),
    /// What its streams are named by.
    pub(in super::super) road: TransferId,
    /// What its manifest must be.
    pub(in super::super) id: TransferId,
    pub(in super::super) opener: Opener,
}

/// What two said to each other so far.
enum Stage {
    Hello(Half),
    Proof(Keys),
}

/// Asks everybody who sends by a phrase's number, and returns the way to the one that has the phrase.
///
/// Fails   nobody sends by that number; a wrong phrase, or one that has expired or was used; a node that does not answer
pub(in super::super) async fn meet(
    socket: &Path,
    phrase: &Phrase,
    events: &mut (dyn FnMut(Event) + Send),
) -> Result<Way, TransferError> {
    let begun = Instant::now();
    let mut asked: Vec<NodeId> = Vec::new();
    let mut refused = None;
    let mut has_told = false;
    loop {
        let map = Map::look(socket).await?;
        map.allow()?;
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
            if begun.elapsed() >= UNKNOWN_MAX {
                return Err(nobody(phrase));
            }
            if begun.elapsed() >= QUIET_MAX && !has_told {
                has_told = true;
                let number = phrase.number();
                let notice = format!("nobody sends by the phrase {number}-… yet; waiting");
                events(Event::Notice(notice));
            }
            tokio::time::sleep(LOOK_EVERY).await;
            continue;
        };
        if sender.0 == map.own() {
            let sentence = "this node itself sends by that phrase: receive at another one";
            return Err(TransferError::Node(sentence.into()));
        }
        asked.push(sender.0);
        events(Event::Notice(format!("asking {}", sender.1)));
        match ask(socket, phrase, map.own(), sender, events).await {
            Ok(way) => return Ok(way),
            // Of several with this number all but one think it wrong.
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
) -> Result<Way, TransferError> {
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
    let map = Map::look(socket).await?;
    // Anybody may announce a stream of that name: the sender's own counts.
    let answers = map
        .stream(&answers, sender.0)
        .ok_or_else(|| nobody(phrase))?;
    let stream = map.stream(&asks, own);
    let stream = stream.ok_or_else(|| {
        TransferError::Ended(format!("the node does not announce {asks}: run this again"))
    })?;
    let pair = Pair {
        sender: sender.0,
        receiver: own,
        asks: stream,
    };
    let talk = talk(&mut publisher, (subscriber, answers), phrase, pair);
    let way = match tokio::time::timeout(ANSWER_MAX, talk).await {
        Ok(way) => way,
        Err(_) => Err(TransferError::Ended(format!(
            "{} does not answer: ask whether it still sends, and run this again",
            sender.1
        ))),
    };
    // How the node ends the stream is of no interest.
    tokio::spawn(tokio::time::timeout(GOODBYE_MAX, publisher.finish()));
    let (road, id, opener) = way?;
    Ok(Way {
        sender,
        road,
        id,
        opener,
    })
}

fn nobody(phrase: &Phrase) -> TransferError {
    let number = phrase.number();
    TransferError::Ended(format!(
        "nobody sends by the phrase {number}-…: it was used, has expired, or begins with another number; ask the sender"
    ))
}

/// Asks until there is a verdict.
async fn talk(
    publisher: &mut LocalPublisher,
    (subscriber, from): (LocalSubscriber, StreamId),
    phrase: &Phrase,
    pair: Pair,
) -> Result<(TransferId, TransferId, Opener), TransferError> {
    let (half, hello) = Half::of_receiver(phrase, pair);
    let mut stage = Stage::Hello(half);
    let mut ask = Bytes::from(Ask::Hello(hello).encode());
    let (tell, mut answers) = mpsc::channel(8);
    // Dropped with this function, and the reading ends.
    let mut reading = JoinSet::new();
    reading.spawn(listen(subscriber, from, pair.asks, tell));
    let mut again = tokio::time::interval(ASK_EVERY);
    loop {
        let said = tokio::select! {
            said = answers.recv() => match said {
                Some(Ok(said)) => said,
                Some(Err(error)) => {
                    let sentence = format!("the node went away: run this again when it is back ({error})");
                    return Err(TransferError::Ended(sentence));
                }
                None => return Err(TransferError::Ended(
                    "the phrase ended while it was asked for: its sender has stopped, or others tried wrong ones; ask for a new one".into(),
                )),
            },
            _ = again.tick() => {
                // What nobody receives would only be dropped.
                if publisher.is_wanted() {
                    publisher.send(outgoing(ask.clone())).await?;
                }
                continue;
            }
        };
        stage = match (stage, said) {
            (_, Said::Refused(refusal)) => return Err(refusal.into()),
            (Stage::Hello(half), Said::Hello(message)) => {
                let keys = half.finish(&message).ok_or(Refusal::Wrong(0))?;
                ask = Ask::Proof(keys.proof()).encode().into();
                again.reset_immediately();
                Stage::Proof(keys)
            }
            (Stage::Proof(keys), Said::Admitted(sealed)) => {
                let (road, id) = keys.admitted(&sealed).ok_or_else(|| {
                    TransferError::Ended("who sends there does not have the phrase".into())
                })?;
                return Ok((road, id, keys.opener()));
            }
            (stage, _) => stage,
        };
    }
}

/// Passes on what is answered to these asks, until the stream has ended or nobody listens.
async fn listen(
    mut subscriber: LocalSubscriber,
    from: StreamId,
    asks: StreamId,
    tell: mpsc::Sender<Result<Said, LocalError>>,
) {
    loop {
        match subscriber.recv().await {
            Ok(Some(SubscriberEvent::Adu(Adu { header, payload }))) => {
                if header.stream != from {
                    continue;
                }
                match Answer::decode(&payload) {
                    Ok(answer) if answer.to == asks => {
                        if tell.send(Ok(answer.said)).await.is_err() {
                            return;
                        }
                    }
                    Ok(_) => {}
                    Err(error) => tracing::debug!(%error, "an answer is none"),
                }
            }
            Ok(Some(SubscriberEvent::Notice(text))) => tracing::debug!(%text, "answers"),
            Ok(None) => return,
            Err(error) => {
                // Nobody is left to be told.
                let _ = tell.send(Err(error)).await;
                return;
            }
        }
    }
}
