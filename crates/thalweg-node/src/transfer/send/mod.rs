//! The sending end: files become a stream.
//!
//! *The idea.* One loop: receipts in, parcels out, the machine between says what and when. Publishing waits while the node
//! is not ready for more, so blocks are read at the pace of the path and one is in memory at a time.
//!
//! *What it does not do.* It does not wait for receivers for ever by itself: who calls it may drop it.

mod ears;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU8;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use thalweg_core::adu::{Flags, Importance, MediaTime};
use thalweg_core::id::{NodeId, StreamName};
use thalweg_core::limits::TRANSFER_TARGETS_MAX;
use thalweg_core::model::Layer;
use thalweg_core::needs::{Needs, Order, Reliability};
use thalweg_core::planner::Planner;
use thalweg_core::time::{Duration, Instant};
use thalweg_core::transfer::block::{self, Relay};
use thalweg_core::transfer::sender::{Next, Outcome};
use thalweg_core::transfer::{Layout, Parcel, Sender, TransferId};
use thalweg_core::units::{Bitrate, DataSize};
use thalweg_net::Clock;

use self::ears::{Ears, Heard};
use super::code::proof::Sealer;
use super::map::Map;
use super::scan::Files;
use super::{Event, TransferError, looking, publish, reconnect};
use crate::handle::{Outgoing, Publication};
use crate::local::{LocalError, LocalPublisher};

/// What a stream of files is announced with. It takes what others leave, so it asks nothing of a link.
pub(super) const RATE_ANNOUNCED: Bitrate = Bitrate::from_kbps(8);

/// The least: beside a live stream of the usual weight that wants all of a link, files get a seventeenth of it.
const WEIGHT: NonZeroU8 = NonZeroU8::MIN;

/// How often it is looked why nobody is sent anything.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Which files go where, and how.
#[derive(Clone, Debug)]
pub struct SendOptions {
    /// The node's local socket.
    pub socket: PathBuf,
    /// The files.
    pub files: Vec<PathBuf>,
    /// Names or keys of the nodes that receive them.
    pub targets: Vec<String>,
    /// What is taken of the link at most.
    pub limit: Option<Bitrate>,
    /// Whether nodes and links that may not see the files must not.
    pub confidential: bool,
    /// The length of a block in bytes; chosen by the path unless given.
    pub block_bytes: Option<u64>,
}

/// What was sent.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Sent {
    /// The transfer's id.
    pub id: String,
    /// Bytes of all files.
    pub bytes: u64,
    /// Bytes of blocks that were given to the node, those included that went again.
    pub bytes_given: u64,
    /// The length of a block.
    pub block_bytes: u64,
    /// Names of the nodes that have everything now.
    pub whole: Vec<String>,
    /// Those that took no more; by a phrase, whoever did and did not come again.
    pub refused: Vec<NotTaken>,
    /// When the first part of the manifest was given, in seconds since 1970.
    pub began_unix: f64,
    /// When the last receiver had said that it has everything.
    pub ended_unix: f64,
}

/// A receiver that took no more.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct NotTaken {
    /// The name of the node.
    pub name: String,
    /// What it said.
    pub reason: String,
}

impl Sent {
    /// Adds what was sent of the same files to another.
    pub fn add(&mut self, other: Self) {
        self.bytes_given += other.bytes_given;
        self.whole.extend(other.whole);
        self.whole.sort();
        self.began_unix = self.began_unix.min(other.began_unix);
        self.ended_unix = self.ended_unix.max(other.ended_unix);
    }

    /// Returns who took no more and why, in words.
    pub(super) fn reasons(&self) -> String {
        let reason = |not: &NotTaken| format!("{}: {}", not.name, not.reason);
        let reasons: Vec<String> = self.refused.iter().map(reason).collect();
        reasons.join("; ")
    }
}

/// Files that were looked at, and what is said of them: the same for whoever gets them.
#[derive(Clone)]
pub(super) struct Load {
    files: Arc<Files>,
    manifest: Bytes,
}

/// One transfer, from its first look at the map on.
pub(super) struct Transfer {
    options: SendOptions,
    load: Load,
    name: StreamName,
    /// What the streams of receipts are named by.
    road: TransferId,
    targets: Vec<(NodeId, String)>,
    offer: Bytes,
    sealer: Option<Sealer>,
    sender: Sender,
    clock: Clock,
    began_unix: Option<f64>,
    /// What was told last of each receiver that cannot be sent to, by its name.
    unserved: BTreeMap<String, String>,
    /// Receivers that it was told of that they are waited for, and that were not heard since.
    waited: BTreeSet<usize>,
}

/// Sends files, and returns when every receiver has everything.
///
/// Fails   a node that is not on the map; a file that cannot be read, or changes; a receiver that refuses; a node that goes
///         away and does not come back
pub async fn send(
    options: SendOptions,
    mut events: impl FnMut(Event) + Send,
) -> Result<Sent, TransferError> {
    let map = Map::look(&options.socket).await?;
    map.allow()?;
    let transfer = Transfer::prepare(options, &map, &mut events).await?;
    transfer.send(&mut events).await
}

impl Load {
    /// Opens and hashes what is to be sent to one receiver or several; the length of a block is chosen for these hops, unless it
    /// is given.
    pub(super) async fn look(
        options: &SendOptions,
        hops: Vec<Option<Bitrate>>,
        receivers: usize,
        events: &mut (dyn FnMut(Event) + Send),
    ) -> Result<Self, TransferError> {
        let (paths, given) = (options.files.clone(), options.block_bytes);
        let limit = options.limit;
        // Where ways part it is copied, and it is opened before the last hop perhaps: both need a block whole.
        let relay = if receivers > 1 || options.confidential {
            Relay::Whole
        } else {
            Relay::Through
        };
        let look = move |events: &mut dyn FnMut(Event)| {
            let choose =
                |size: DataSize| given.unwrap_or_else(|| block::choose(size, &hops, relay, limit));
            Files::open(&paths, choose, events)
        };
        let files = looking(look, events).await?;
        let mut manifest = Vec::new();
        files.manifest.encode(&mut manifest);
        Ok(Self {
            files: Arc::new(files),
            manifest: manifest.into(),
        })
    }

    /// Returns what a transfer of these files is known by.
    pub(super) fn id(&self) -> TransferId {
        self.files.manifest.id()
    }

    fn layout(&self) -> &Layout {
        self.files.manifest.layout()
    }

    fn describe(&self) -> String {
        match self.files.manifest.files() {
            [one] => one.name.to_string(),
            files => format!("{} files", files.len()),
        }
    }

    fn offer(&self, targets: Vec<NodeId>) -> Bytes {
        let offer = Parcel::Offer {
            block_shift: self.layout().block_bytes().trailing_zeros() as u8,
            manifest_bytes: self.manifest.len() as u64,
            bytes: self.layout().size(),
            targets,
        };
        offer.encode().into()
    }
}

impl Transfer {
    async fn prepare(
        options: SendOptions,
        map: &Map,
        events: &mut (dyn FnMut(Event) + Send),
    ) -> Result<Self, TransferError> {
        let mut targets: BTreeMap<NodeId, String> = BTreeMap::new();
        for word in &options.targets {
            let key = map.find(word)?;
            if key == map.own() {
                let sentence = format!("{word} is this node: name another one");
                return Err(TransferError::Node(sentence));
            }
            targets.insert(key, map.name(key));
        }
        let targets: Vec<(NodeId, String)> = targets.into_iter().collect();
        let keys: Vec<NodeId> = targets.iter().map(|(key, _)| *key).collect();
        // The longest way decides: the shorter ones lose little by its smaller block.
        let hops = keys.iter().map(|key| map.hops(*key)).max_by_key(Vec::len);
        let load = Load::look(&options, hops.unwrap_or_default(), keys.len(), events).await?;
        let id = load.id();
        let name = id.files_stream(&keys).ok_or_else(|| {
            TransferError::Node(format!(
                "one transfer goes to 1 to {TRANSFER_TARGETS_MAX} nodes, not to {}",
                keys.len()
            ))
        })?;
        Ok(Self::new(options, load, (name, id), targets, None))
    }

    /// Returns the transfer to one that has proved the phrase; its streams say by their names neither what it is nor whose.
    pub(super) fn by_code(
        options: SendOptions,
        load: &Load,
        target: (NodeId, String),
        road: TransferId,
        sealer: Sealer,
    ) -> Self {
        let name = road.coded_stream(&target.0);
        Self::new(
            options,
            load.clone(),
            (name, road),
            vec![target],
            Some(sealer),
        )
    }

    fn new(
        options: SendOptions,
        load: Load,
        (name, road): (StreamName, TransferId),
        targets: Vec<(NodeId, String)>,
        sealer: Option<Sealer>,
    ) -> Self {
        let manifest_bytes = load.manifest.len() as u64;
        let layout = load.layout().clone();
        Self {
            sender: Sender::new(layout, manifest_bytes, targets.len(), options.limit),
            offer: load.offer(targets.iter().map(|(key, _)| *key).collect()),
            options,
            load,
            name,
            road,
            targets,
            sealer,
            clock: Clock::start(),
            began_unix: None,
            unserved: BTreeMap::new(),
            waited: BTreeSet::new(),
        }
    }

    /// Sends until every receiver has everything, over whatever happens to the node.
    pub(super) async fn send(
        mut self,
        events: &mut (dyn FnMut(Event) + Send),
    ) -> Result<Sent, TransferError> {
        events(Event::Begun {
            what: format!("{} to {}", self.load.describe(), self.names().join(", ")),
            of: self.load.layout().size(),
        });
        loop {
            match self.run(events).await {
                Ok(()) => return self.report(),
                Err(TransferError::Local(LocalError::Gone(_) | LocalError::Connect { .. })) => {
                    reconnect(&self.options.socket, events).await?;
                }
                Err(other) => return Err(other),
            }
        }
    }

    fn names(&self) -> Vec<String> {
        self.targets.iter().map(|(_, name)| name.clone()).collect()
    }

    /// Publishes, and sends until everybody has everything or the node is gone.
    async fn run(&mut self, events: &mut (dyn FnMut(Event) + Send)) -> Result<(), TransferError> {
        let mut publisher = publish(&self.options.socket, self.publication(), events).await?;
        let mut ears = Ears::open(&self.options.socket, self.road, &self.targets).await?;
        let map = Map::look(&self.options.socket).await?;
        let stream = map.stream(&self.name, map.own());
        let stream = stream.ok_or_else(|| {
            TransferError::Ended(format!("the node does not announce {}", self.name))
        })?;
        self.sender.handle_stream(self.clock.now(), stream);
        let mut wanted = publisher.wanted_watch();
        let mut look = self.clock.now() + LOOK_EVERY;
        while !self.sender.is_over() {
            if wanted.has_changed().unwrap_or(false) && *wanted.borrow_and_update() {
                self.sender.handle_wanted(self.clock.now());
            }
            // What nobody receives would only be dropped.
            let next = publisher
                .is_wanted()
                .then(|| self.sender.poll_next(self.clock.now()))
                .flatten();
            if let Some(next) = next {
                self.give(&mut publisher, &next).await?;
                if self.sender.has_begun() && self.began_unix.is_none() {
                    self.began_unix = Some(unix_now());
                }
                while let Some(heard) = ears.try_hear() {
                    self.hear(heard?, events);
                }
                continue;
            }
            let is_wanted = publisher.is_wanted();
            tokio::select! {
                heard = ears.hear() => self.hear(heard?, events),
                changed = wanted.changed() => {
                    if changed.is_err() {
                        return Err(LocalError::Gone(std::io::ErrorKind::ConnectionReset.into()).into());
                    }
                    self.sender.handle_wanted(self.clock.now());
                }
                paused = self.pause(is_wanted, &mut look, events) => paused?,
            }
        }
        if let Ok(sent) = self.report() {
            events(Event::Sent(Box::new(sent)));
        }
        // Everything has arrived: how the node ends the stream is of no interest any more.
        let _ = publisher.finish().await;
        Ok(())
    }

    /// Waits until there may be something to send; looks why there is not, where nobody receives.
    ///
    /// It may be dropped at any point, for what the node has given already does not wait for what it is asked.
    async fn pause(
        &mut self,
        is_wanted: bool,
        look: &mut Instant,
        events: &mut (dyn FnMut(Event) + Send),
    ) -> Result<(), TransferError> {
        if is_wanted {
            self.clock.sleep_until(self.sender.poll_timeout()).await;
        } else {
            self.clock.sleep_until(*look).await;
            self.look_why(events).await?;
            *look = self.clock.now() + LOOK_EVERY;
        }
        Ok(())
    }

    /// Tells why a receiver that has asked is sent nothing, if that is new.
    async fn look_why(
        &mut self,
        events: &mut (dyn FnMut(Event) + Send),
    ) -> Result<(), TransferError> {
        let map = Map::look(&self.options.socket).await?;
        for (sink, reason) in map.unserved(&self.name) {
            let why = format!("{sink} cannot be sent to now: {reason}");
            if self.unserved.get(sink) != Some(&why) {
                events(Event::Notice(why.clone()));
                self.unserved.insert(sink.into(), why);
            }
        }
        Ok(())
    }

    fn publication(&self) -> Publication {
        let mut publication = publication(self.name.clone(), self.options.confidential, WEIGHT);
        if self.targets.len() > 1 {
            // One that is slow must not hold up the others; what it misses it asks for.
            publication.needs.reliability = Reliability::Repaired;
        }
        publication
    }

    /// Gives the node what the machine wants to go next.
    async fn give(
        &mut self,
        publisher: &mut LocalPublisher,
        next: &Next,
    ) -> Result<(), TransferError> {
        let payload: Bytes = match next {
            Next::Offer => self.offer.clone(),
            Next::Manifest(part) => {
                let bytes = self
                    .load
                    .manifest
                    .slice(part.start as usize..part.end as usize);
                Parcel::Manifest {
                    offset: part.start,
                    bytes,
                }
                .encode()
                .into()
            }
            Next::Block(block) => {
                let bytes = self.load.files.read(*block).await?;
                Parcel::Block {
                    block: *block,
                    bytes,
                }
                .encode()
                .into()
            }
        };
        let payload = match &mut self.sealer {
            Some(sealer) => sealer.seal(&payload),
            None => payload,
        };
        publisher.send(outgoing(payload)).await?;
        Ok(())
    }

    fn hear(&mut self, heard: Heard, events: &mut (dyn FnMut(Event) + Send)) {
        match heard {
            Heard::Receipt { target, receipt } => {
                self.waited.remove(&target);
                let was = self.sender.outcome(target).cloned();
                self.sender
                    .handle_receipt(self.clock.now(), target, receipt);
                let is = self.sender.outcome(target);
                let name = &self.targets[target].1;
                match is {
                    Some(Outcome::Refused(reason)) if was.as_ref() != is => {
                        events(Event::Notice(format!("{name} takes no more: {reason}")));
                    }
                    Some(Outcome::Whole) if was.as_ref() != is && self.targets.len() > 1 => {
                        events(Event::Notice(format!("{name} has everything")));
                    }
                    _ => {}
                }
                events(Event::Progress {
                    bytes: self.sender.progress().bytes,
                });
            }
            Heard::Notice { target, text } => {
                // That nobody publishes receipts yet is how every transfer begins. One whose receiver has gone before it was
                // served hears no end of them.
                let name = &self.targets[target].1;
                let is_nobody =
                    text.contains("no node publishes") || text.contains("is gone; waiting");
                // A receiver that has ended after its last word is waited for no more.
                let is_waited = is_nobody && self.sender.outcome(target).is_none();
                if is_waited && self.waited.insert(target) {
                    events(Event::Notice(format!(
                        "waiting for `thalweg receive` at {name}"
                    )));
                } else {
                    tracing::debug!(%name, %text, "receipts");
                }
            }
        }
    }

    fn report(&self) -> Result<Sent, TransferError> {
        let mut whole = Vec::new();
        let mut refused = Vec::new();
        for (number, (_, name)) in self.targets.iter().enumerate() {
            match self.sender.outcome(number) {
                Some(Outcome::Refused(reason)) => refused.push(NotTaken {
                    name: name.clone(),
                    reason: reason.clone(),
                }),
                _ => whole.push(name.clone()),
            }
        }
        let layout = self.load.layout();
        let ended_unix = unix_now();
        let sent = Sent {
            id: self.load.id().to_string(),
            bytes: layout.size(),
            bytes_given: self.sender.progress().given,
            block_bytes: layout.block_bytes(),
            whole,
            refused,
            began_unix: self.began_unix.unwrap_or(ended_unix),
            ended_unix,
        };
        if sent.refused.is_empty() {
            Ok(sent)
        } else {
            Err(TransferError::Refused(Box::new(sent)))
        }
    }
}

/// Returns how a stream of a transfer is published.
pub(super) fn publication(name: StreamName, confidential: bool, weight: NonZeroU8) -> Publication {
    Publication {
        name,
        needs: Needs {
            confidential,
            reliability: Reliability::Full,
            order: Order::Sequence,
            weight,
            ..Needs::default()
        },
        layers: vec![Layer {
            rate: RATE_ANNOUNCED,
            utility: 1.0,
        }],
        // What is worth sending as a file is mostly packed already.
        pack_ratio: Some(1.0),
        planner: Some(Planner::Exact),
    }
}

/// Returns a payload as what a publisher takes; it matters least.
pub(super) fn outgoing(payload: Bytes) -> Outgoing {
    Outgoing {
        media_time: MediaTime::from_micros(0),
        importance: Importance(0),
        layer: 0,
        flags: Flags::NONE,
        depends_on: 0,
        payload,
    }
}

/// Returns the time of day, which a report is told in: two processes of one machine can compare it.
pub(super) fn unix_now() -> f64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}
