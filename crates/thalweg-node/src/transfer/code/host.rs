//! The sender of files by phrase: announces the number, answers receivers, and sends to those that
//! prove the phrase.
//!
//! *The idea.* [`Keeper`] decides; this adds the streams. Each admitted receiver gets a transfer of
//! its own, with its own keys, in its own task; so a slow or interrupted one delays no other, and
//! may return with the same phrase.
//!
//! *Sources.* docs/concepts/files.md §7.

use std::collections::BTreeMap;

use aws_lc_rs::rand;
use bytes::Bytes;
use thalweg_base::adu::Adu;
use thalweg_base::id::{NodeId, StreamId, StreamName};
use thalweg_base::needs::WEIGHT_USUAL;
use thalweg_base::time::Duration;
use thalweg_net::Clock;
use thalweg_transfer::meeting::{Answer, Ask, Refusal, Said};
use thalweg_transfer::{TransferId, name};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use super::super::map::Map;
use super::super::send::{Prepared, SendOptions, Sent, Transfer, outgoing, publication, unix_now};
use super::super::{Event, POLL_EVERY, TransferError, publish, reconnect, subscribe};
use super::Phrase;
use super::keeper::{Admitted, Keeper, WRONG_MAX};
use crate::handle::SubscriberEvent;
use crate::local::{LocalError, LocalPublisher};

/// Requests that wait for an answer: each receiver has at most one.
const WAITING_MAX: usize = 64;

/// Maximum number of request streams to listen to: more than the keeper's sessions.
const LISTENERS_MAX: usize = 128;

/// The limits of a phrase.
#[derive(Clone, Copy, Debug)]
pub struct CodeOptions {
    /// The number of nodes that may receive the files.
    pub uses: usize,
    /// How long new receivers are admitted.
    pub open_for: Duration,
}

/// A request, with its stream and its receiver.
type Asked = (StreamId, NodeId, Bytes);

/// The result of a transfer.
type Done = (NodeId, Result<Sent, TransferError>);

struct Host {
    options: SendOptions,
    prepared: Prepared,
    phrase: Phrase,
    own: NodeId,
    keeper: Keeper,
    clock: Clock,
    /// Receivers by their request stream: the node, and the task that listens to it.
    askers: BTreeMap<StreamId, (NodeId, AbortHandle)>,
    listeners: JoinSet<()>,
    asked: mpsc::Receiver<Asked>,
    ask: mpsc::Sender<Asked>,
    /// Names of receivers at the time of their request.
    names: BTreeMap<NodeId, String>,
    transfers: JoinSet<Done>,
    running: BTreeMap<NodeId, AbortHandle>,
    event_queue: mpsc::UnboundedReceiver<Event>,
    event_sender: mpsc::UnboundedSender<Event>,
    sent: Vec<Sent>,
    refused: Option<TransferError>,
}

/// Sends files to the holders of a phrase, which is reported as an event; returns once the allowed
/// number of receivers has everything.
///
/// Once the phrase is used up, has expired or is dead, receivers that have started are still
/// served.
///
/// Fails   if no receiver had the phrase in time; too many wrong phrases were tried; a file cannot be
///         read, or changes; the node goes away and does not return
pub async fn send_by_code(
    options: SendOptions,
    code: CodeOptions,
    mut events: impl FnMut(Event) + Send,
) -> Result<Sent, TransferError> {
    let map = Map::fetch(&options.socket).await?;
    map.check_rights()?;
    // The receivers are not known yet, so the most distant node decides the block length.
    let prepared = Prepared::prepare(&options, map.hops_longest(), 1, &mut events).await?;
    let taken = map.streams().iter();
    let taken: Vec<u16> = taken
        .filter_map(|stream| name::code_of_stream(&stream.name, &stream.publisher_key))
        .collect();
    let phrase = Phrase::draw(&taken).ok_or(TransferError::Random)?;
    let clock = Clock::start();
    let until = clock.now() + code.open_for;
    let (ask, asked) = mpsc::channel(WAITING_MAX);
    let (event_sender, event_queue) = mpsc::unbounded_channel();
    let mut host = Host {
        keeper: Keeper::new(phrase.clone(), map.own(), prepared.id(), code.uses, until),
        own: map.own(),
        options,
        prepared,
        phrase,
        clock,
        askers: BTreeMap::new(),
        listeners: JoinSet::new(),
        asked,
        ask,
        names: BTreeMap::new(),
        transfers: JoinSet::new(),
        running: BTreeMap::new(),
        event_queue,
        event_sender,
        sent: Vec::new(),
        refused: None,
    };
    let mut has_announced = false;
    loop {
        match host.run(&mut has_announced, &mut events).await {
            Ok(()) => return host.report(),
            Err(TransferError::Local(LocalError::Gone(_) | LocalError::Connect { .. })) => {
                host.forget_askers();
                reconnect(&host.options.socket, &mut events).await?;
            }
            Err(other) => return Err(other),
        }
    }
}

impl Host {
    /// Announces the number, and answers until no new receiver can be admitted and all transfers
    /// are done.
    async fn run(
        &mut self,
        has_announced: &mut bool,
        events: &mut (dyn FnMut(Event) + Send),
    ) -> Result<(), TransferError> {
        let socket = self.options.socket.clone();
        let name = name::code_stream(self.phrase.number(), &self.own);
        let publication = publication(name, false, WEIGHT_USUAL);
        let mut publisher = publish(&socket, publication, events).await?;
        if !*has_announced {
            *has_announced = true;
            events(Event::Phrase(self.phrase.to_string()));
        }
        let mut next_check = tokio::time::interval(POLL_EVERY);
        while self.keeper.is_open(self.clock.now()) || !self.transfers.is_empty() {
            tokio::select! {
                _ = next_check.tick() => self.update_askers(&Map::fetch(&socket).await?),
                Some(asked) = self.asked.recv() => self.answer(asked, &mut publisher, events).await?,
                Some(event) = self.event_queue.recv() => events(event),
                Some(done) = self.transfers.join_next() => self.handle_done(done.ok(), events),
            }
        }
        while let Ok(event) = self.event_queue.try_recv() {
            events(event);
        }
        // Waits for the last answer to arrive; the result does not matter.
        let _ = publisher.finish().await;
        Ok(())
    }

    /// Starts to listen to new request streams on the map, and stops for those that have gone.
    fn update_askers(&mut self, map: &Map) {
        let number = self.phrase.number();
        let mut there = BTreeMap::new();
        for stream in map.streams() {
            if name::is_ask(&stream.name, number, &self.own)
                && let Some(id) = stream.id()
            {
                there.insert(id, stream);
            }
        }
        let gone: Vec<StreamId> = self
            .askers
            .keys()
            .filter(|id| !there.contains_key(id))
            .copied()
            .collect();
        for id in gone {
            self.keeper.handle_gone(id);
            if let Some((_, listener)) = self.askers.remove(&id) {
                listener.abort();
            }
        }
        while self.listeners.try_join_next().is_some() {}
        for (id, stream) in there {
            if self.askers.contains_key(&id) || self.askers.len() >= LISTENERS_MAX {
                continue;
            }
            let listener = forward_asks(
                self.options.socket.clone(),
                stream.name.clone(),
                (id, stream.publisher_key),
                self.ask.clone(),
            );
            let handle = self.listeners.spawn(listener);
            self.askers.insert(id, (stream.publisher_key, handle));
            self.names
                .insert(stream.publisher_key, stream.publisher.clone());
        }
    }

    fn forget_askers(&mut self) {
        self.listeners.abort_all();
        self.askers.clear();
    }

    async fn answer(
        &mut self,
        (asks, receiver, payload): Asked,
        publisher: &mut LocalPublisher,
        events: &mut (dyn FnMut(Event) + Send),
    ) -> Result<(), TransferError> {
        let ask = match Ask::decode(&payload) {
            Ok(ask) => ask,
            Err(error) => {
                tracing::debug!(%error, "invalid request");
                return Ok(());
            }
        };
        let mut public_id = TransferId([0; 16]);
        rand::fill(&mut public_id.0).map_err(|_| TransferError::Random)?;
        let was = self.keeper.tries_left();
        let now = self.clock.now();
        let (reply, admitted) = self.keeper.handle_ask(now, receiver, asks, &ask, public_id);
        let name = self.name(receiver);
        if self.keeper.tries_left() < was {
            let sentence = match reply {
                Some(Said::Refused(Refusal::Wrong(left))) => {
                    format!("{name} tried a wrong phrase; {left} more wrong tries end this one")
                }
                _ => format!(
                    "{name} tried a wrong phrase, the last of {WRONG_MAX}: this phrase has ended"
                ),
            };
            events(Event::Notice(sentence));
        }
        if let Some(reply) = reply {
            let answer = Answer {
                to: asks,
                said: reply,
            };
            publisher.send(outgoing(answer.encode().into())).await?;
        }
        if let Some(admitted) = admitted {
            events(Event::Notice(format!("{name} has the phrase")));
            self.start_transfer(admitted, name);
        }
        Ok(())
    }

    fn name(&self, node: NodeId) -> String {
        self.names
            .get(&node)
            .cloned()
            .unwrap_or_else(|| node.short())
    }

    /// Starts a transfer to an admitted receiver, beside the others.
    fn start_transfer(&mut self, admitted: Admitted, name: String) {
        let receiver = admitted.receiver;
        let transfer = Transfer::by_code(
            self.options.clone(),
            &self.prepared,
            (receiver, name),
            admitted.public_id,
            admitted.sealer,
        );
        let event_sender = self.event_sender.clone();
        let task = self.transfers.spawn(async move {
            let events = &mut |event| {
                // The receiver may be gone.
                let _ = event_sender.send(event);
            };
            (receiver, transfer.send(events).await)
        });
        // A receiver that returns was interrupted; its earlier transfer leads nowhere.
        if let Some(before) = self.running.insert(receiver, task) {
            before.abort();
        }
    }

    fn handle_done(&mut self, done: Option<Done>, events: &mut (dyn FnMut(Event) + Send)) {
        // An aborted task has no result.
        let Some((receiver, done)) = done else {
            return;
        };
        self.running.remove(&receiver);
        match done {
            Ok(sent) => self.sent.push(sent),
            Err(error) => {
                self.keeper.handle_refused(receiver);
                events(Event::Notice(error.to_string()));
                self.refused = Some(error);
            }
        }
    }

    /// Returns the sum of all transfers.
    fn report(mut self) -> Result<Sent, TransferError> {
        let Some(mut all) = self.sent.pop() else {
            if let Some(refused) = self.refused {
                return Err(refused);
            }
            let sentence = if self.keeper.is_dead() {
                let guessers = self.keeper.guessers().iter().map(|node| self.name(*node));
                let guessers: Vec<String> = guessers.collect();
                format!(
                    "no receiver has the files, and {WRONG_MAX} wrong phrases were tried, by {}: send again for a new one",
                    guessers.join(", ")
                )
            } else {
                "no receiver had the phrase before it expired: send again for a new one, or use --valid-for".into()
            };
            return Err(TransferError::Ended(sentence));
        };
        if let Some(TransferError::Refused(not)) = self.refused {
            all.refused = not.refused;
        }
        for sent in self.sent {
            all.add(sent);
        }
        all.refused.retain(|not| !all.complete.contains(&not.name));
        all.ended_unix = unix_now();
        Ok(all)
    }
}

/// Forwards requests from a receiver's stream until it ends or the host is gone.
async fn forward_asks(
    socket: std::path::PathBuf,
    name: StreamName,
    (asks, receiver): (StreamId, NodeId),
    requests: mpsc::Sender<Asked>,
) {
    let Ok(mut subscriber) = subscribe(&socket, name).await else {
        return;
    };
    loop {
        match subscriber.recv().await {
            // Any node may announce a stream of this name; only the one found on the map counts.
            Ok(Some(SubscriberEvent::Adu(Adu { header, payload }))) if header.stream == asks => {
                if requests.send((asks, receiver, payload)).await.is_err() {
                    return;
                }
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => return,
        }
    }
}
