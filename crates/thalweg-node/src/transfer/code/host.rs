//! Who sends by a phrase: announces its number, answers who asks, and sends to those who have it.
//!
//! *The idea.* [`Keeper`] decides; here are the streams. Whoever is admitted gets a transfer of its own, with its own keys, in a task
//! beside the others; so one that is slow or interrupted holds up nobody, and may come again with the same phrase.
//!
//! *Sources.* docs/files.md §7.

use std::collections::BTreeMap;

use aws_lc_rs::rand;
use bytes::Bytes;
use thalweg_core::adu::Adu;
use thalweg_core::id::{NodeId, StreamId, StreamName};
use thalweg_core::needs::WEIGHT_USUAL;
use thalweg_core::time::Duration;
use thalweg_core::transfer::meeting::{Answer, Ask, Refusal, Said};
use thalweg_core::transfer::{TransferId, name};
use thalweg_net::Clock;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use super::super::map::Map;
use super::super::receive::{LOOK_EVERY, subscribe};
use super::super::send::{Load, SendOptions, Sent, Transfer, outgoing, publication, unix_now};
use super::super::{Event, TransferError, publish, reconnect};
use super::Phrase;
use super::keeper::{Admitted, Keeper, WRONG_MAX};
use crate::handle::SubscriberEvent;
use crate::local::{LocalError, LocalPublisher};

/// Asks that wait to be answered: each receiver has one under way.
const WAITING_MAX: usize = 64;

/// Streams of asks that are listened to: more than the keeper keeps sessions.
const LISTENERS_MAX: usize = 128;

/// Who may have files by a phrase, and how long.
#[derive(Clone, Copy, Debug)]
pub struct CodeOptions {
    /// How many nodes.
    pub uses: usize,
    /// How long it is good for who has not begun.
    pub open_for: Duration,
}

/// An ask, where it came from.
type Asked = (StreamId, NodeId, Bytes);

/// What became of a transfer.
type Done = (NodeId, Result<Sent, TransferError>);

struct Host {
    options: SendOptions,
    load: Load,
    phrase: Phrase,
    own: NodeId,
    keeper: Keeper,
    clock: Clock,
    /// Who asks: the stream, whose it is, what listens to it.
    askers: BTreeMap<StreamId, (NodeId, AbortHandle)>,
    listeners: JoinSet<()>,
    asked: mpsc::Receiver<Asked>,
    ask: mpsc::Sender<Asked>,
    /// Names of nodes, as they were when they asked.
    names: BTreeMap<NodeId, String>,
    transfers: JoinSet<Done>,
    running: BTreeMap<NodeId, AbortHandle>,
    told: mpsc::UnboundedReceiver<Event>,
    tell: mpsc::UnboundedSender<Event>,
    sent: Vec<Sent>,
    refused: Option<TransferError>,
}

/// Sends files to whoever has the phrase that is told as an event, and returns when as many as may have everything.
///
/// When the phrase is used up, has expired or is dead, those who have begun are still served.
///
/// Fails   nobody had the phrase in time; too many wrong ones were tried; a file that cannot be read, or changes; a node that
///         goes away and does not come back
pub async fn send_by_code(
    options: SendOptions,
    code: CodeOptions,
    mut events: impl FnMut(Event) + Send,
) -> Result<Sent, TransferError> {
    let map = Map::look(&options.socket).await?;
    map.allow()?;
    // Who will have it is not known: the furthest may.
    let load = Load::look(&options, map.hops_longest(), 1, &mut events).await?;
    let taken = map.streams().iter();
    let taken: Vec<u16> = taken
        .filter_map(|stream| name::code_of_stream(&stream.name, &stream.publisher_key))
        .collect();
    let phrase = Phrase::draw(&taken).ok_or(TransferError::Random)?;
    let clock = Clock::start();
    let until = clock.now() + code.open_for;
    let (ask, asked) = mpsc::channel(WAITING_MAX);
    let (tell, told) = mpsc::unbounded_channel();
    let mut host = Host {
        keeper: Keeper::new(phrase.clone(), map.own(), load.id(), code.uses, until),
        own: map.own(),
        options,
        load,
        phrase,
        clock,
        askers: BTreeMap::new(),
        listeners: JoinSet::new(),
        asked,
        ask,
        names: BTreeMap::new(),
        transfers: JoinSet::new(),
        running: BTreeMap::new(),
        told,
        tell,
        sent: Vec::new(),
        refused: None,
    };
    let mut has_told = false;
    loop {
        match host.run(&mut has_told, &mut events).await {
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
    /// Announces the number, and answers until nobody can come any more and all who came are through.
    async fn run(
        &mut self,
        has_told: &mut bool,
        events: &mut (dyn FnMut(Event) + Send),
    ) -> Result<(), TransferError> {
        let socket = self.options.socket.clone();
        let name = name::code_stream(self.phrase.number(), &self.own);
        let publication = publication(name, false, WEIGHT_USUAL);
        let mut publisher = publish(&socket, publication, events).await?;
        if !*has_told {
            *has_told = true;
            events(Event::Phrase(self.phrase.to_string()));
        }
        let mut look = tokio::time::interval(LOOK_EVERY);
        while self.keeper.is_open(self.clock.now()) || !self.transfers.is_empty() {
            tokio::select! {
                _ = look.tick() => self.look(&Map::look(&socket).await?),
                Some(asked) = self.asked.recv() => self.answer(asked, &mut publisher, events).await?,
                Some(event) = self.told.recv() => events(event),
                Some(done) = self.transfers.join_next() => self.take_done(done.ok(), events),
            }
        }
        while let Ok(event) = self.told.try_recv() {
            events(event);
        }
        // The last answer is to arrive; how the node ends the stream is of no interest.
        let _ = publisher.finish().await;
        Ok(())
    }

    /// Listens to those on the map who ask, and no more to who has gone.
    fn look(&mut self, map: &Map) {
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
            let listener = listen(
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
                tracing::debug!(%error, "an ask is none");
                return Ok(());
            }
        };
        let mut road = TransferId([0; 16]);
        rand::fill(&mut road.0).map_err(|_| TransferError::Random)?;
        let was = self.keeper.left();
        let now = self.clock.now();
        let (said, admitted) = self.keeper.handle_ask(now, receiver, asks, &ask, road);
        let name = self.name(receiver);
        if self.keeper.left() < was {
            let sentence = match said {
                Some(Said::Refused(Refusal::Wrong(left))) => {
                    format!("{name} tried a wrong phrase; after {left} more this one is dead")
                }
                _ => format!(
                    "{name} tried a wrong phrase, the last of {WRONG_MAX}: this one is dead"
                ),
            };
            events(Event::Notice(sentence));
        }
        if let Some(said) = said {
            let answer = Answer { to: asks, said };
            publisher.send(outgoing(answer.encode().into())).await?;
        }
        if let Some(admitted) = admitted {
            events(Event::Notice(format!("{name} has the phrase")));
            self.begin(admitted, name);
        }
        Ok(())
    }

    fn name(&self, node: NodeId) -> String {
        self.names
            .get(&node)
            .cloned()
            .unwrap_or_else(|| node.short())
    }

    /// Sends to who has the phrase, beside the others.
    fn begin(&mut self, admitted: Admitted, name: String) {
        let receiver = admitted.receiver;
        let transfer = Transfer::by_code(
            self.options.clone(),
            &self.load,
            (receiver, name),
            admitted.road,
            admitted.sealer,
        );
        let tell = self.tell.clone();
        let task = self.transfers.spawn(async move {
            let events = &mut |event| {
                // Nobody is left to be told.
                let _ = tell.send(event);
            };
            (receiver, transfer.send(events).await)
        });
        // Who comes again was interrupted: what was begun for it goes nowhere.
        if let Some(before) = self.running.insert(receiver, task) {
            before.abort();
        }
    }

    fn take_done(&mut self, done: Option<Done>, events: &mut (dyn FnMut(Event) + Send)) {
        // Nothing of one that was aborted.
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

    /// Returns all that was sent as one.
    fn report(mut self) -> Result<Sent, TransferError> {
        let Some(mut all) = self.sent.pop() else {
            if let Some(refused) = self.refused {
                return Err(refused);
            }
            let sentence = if self.keeper.is_dead() {
                let guessers = self.keeper.guessers().iter().map(|node| self.name(*node));
                let guessers: Vec<String> = guessers.collect();
                format!(
                    "nobody has the files, and {WRONG_MAX} wrong phrases were tried, by {}: send again for a new one",
                    guessers.join(", ")
                )
            } else {
                "nobody came with the phrase before it expired: send again for a new one, or use --open-for".into()
            };
            return Err(TransferError::Ended(sentence));
        };
        if let Some(TransferError::Refused(not)) = self.refused {
            all.refused = not.refused;
        }
        for sent in self.sent {
            all.add(sent);
        }
        all.refused.retain(|not| !all.whole.contains(&not.name));
        all.ended_unix = unix_now();
        Ok(all)
    }
}

/// Passes on what somebody asks on its stream, until that has ended or nobody listens.
async fn listen(
    socket: std::path::PathBuf,
    name: StreamName,
    (asks, receiver): (StreamId, NodeId),
    tell: mpsc::Sender<Asked>,
) {
    let Ok(mut subscriber) = subscribe(&socket, name).await else {
        return;
    };
    loop {
        match subscriber.recv().await {
            // Anybody may announce a stream of that name: the one that was on the map counts.
            Ok(Some(SubscriberEvent::Adu(Adu { header, payload }))) if header.stream == asks => {
                if tell.send((asks, receiver, payload)).await.is_err() {
                    return;
                }
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => return,
        }
    }
}
