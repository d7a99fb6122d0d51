//! The sending end: files become a stream.
//!
//! *The idea.* One loop takes receipts in and sends parcels; the state machine between them decides
//! what to send and when. Publishing waits while the node is not ready for more, so blocks are read
//! at the path's rate, and one is in memory at a time.
//!
//! *What it does not do.* It sets no limit to the wait for receivers; its caller may drop it.

mod ears;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU8;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use thalweg_base::adu::{Flags, Importance, MediaTime};
use thalweg_base::id::{NodeId, StreamName};
use thalweg_base::limits::TRANSFER_TARGETS_MAX;
use thalweg_base::needs::{Needs, Order, Reliability};
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize};
use thalweg_net::Clock;
use thalweg_planner::planner::Planner;
use thalweg_transfer::block::{self, Relay};
use thalweg_transfer::sender::{Next, Outcome};
use thalweg_transfer::{Layout, Parcel, Sender, TransferId};

use self::ears::{ReceiptEvent, ReceiptListener};
use super::code::proof::Sealer;
use super::map::Map;
use super::scan::Files;
use super::{Event, TransferError, publish, reconnect, with_events};
use crate::handle::{Outgoing, Publication};
use crate::local::{LocalError, LocalPublisher};

/// The announced rate of a file stream. It uses what other streams leave, so it demands almost
/// nothing of a link.
pub(super) const RATE_ANNOUNCED: Bitrate = Bitrate::from_kbps(8);

/// The minimum weight: beside a live stream of the usual weight that fills a link, files get a
/// seventeenth of it.
const WEIGHT: NonZeroU8 = NonZeroU8::MIN;

/// How often to check why no receiver is served.
const POLL_EVERY: Duration = Duration::from_secs(2);

/// Which files go where, and how.
#[derive(Clone, Debug)]
pub struct SendOptions {
    /// The node's local socket.
    pub socket: PathBuf,
    /// The files.
    pub files: Vec<PathBuf>,
    /// Names or keys of the receiving nodes.
    pub targets: Vec<String>,
    /// Maximum rate of the transfer.
    pub limit: Option<Bitrate>,
    /// Whether the content is sealed on untrusted nodes and links.
    pub confidential: bool,
    /// The block length in bytes; `None` chooses it by the path.
    pub block_bytes: Option<u64>,
}

/// A sent transfer.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Sent {
    /// The transfer's id.
    pub id: String,
    /// Bytes of all files.
    pub bytes: u64,
    /// Bytes of blocks given to the node, including repeated ones.
    pub bytes_sent: u64,
    /// The block length in bytes.
    pub block_bytes: u64,
    /// Names of the nodes that have everything.
    pub complete: Vec<String>,
    /// Receivers that refused; with a phrase, those that did not return.
    pub refused: Vec<NotTaken>,
    /// When the first part of the manifest was sent, in seconds since 1970.
    pub began_unix: f64,
    /// When the last receiver had confirmed everything.
    pub ended_unix: f64,
}

/// A receiver that refused the transfer.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct NotTaken {
    /// The name of the node.
    pub name: String,
    /// Its reason.
    pub reason: String,
}

impl Sent {
    /// Adds another transfer of the same files.
    pub fn add(&mut self, other: Self) {
        self.bytes_sent += other.bytes_sent;
        self.complete.extend(other.complete);
        self.complete.sort();
        self.began_unix = self.began_unix.min(other.began_unix);
        self.ended_unix = self.ended_unix.max(other.ended_unix);
    }

    /// Returns the refusals with their reasons, as text.
    pub(super) fn reasons(&self) -> String {
        let reason = |not: &NotTaken| format!("{}: {}", not.name, not.reason);
        let reasons: Vec<String> = self.refused.iter().map(reason).collect();
        reasons.join("; ")
    }
}

/// Hashed files and their manifest: the same for all receivers.
#[derive(Clone)]
pub(super) struct Prepared {
    files: Arc<Files>,
    manifest: Bytes,
}

/// One transfer, from its preparation.
pub(super) struct Transfer {
    options: SendOptions,
    prepared: Prepared,
    name: StreamName,
    /// The id by which the streams of receipts are named.
    public_id: TransferId,
    targets: Vec<(NodeId, String)>,
    offer: Bytes,
    sealer: Option<Sealer>,
    sender: Sender,
    clock: Clock,
    began_unix: Option<f64>,
    /// The last reported reason for each receiver that cannot be served, by its name.
    unserved: BTreeMap<String, String>,
    /// Receivers that were reported as awaited and have sent no receipt since.
    waited: BTreeSet<usize>,
}

/// Sends files, and returns once every receiver has everything.
///
/// Fails   if a receiver is not on the map or refuses; a file cannot be read, or changes; the node
///         goes away and does not return
pub async fn send(
    options: SendOptions,
    mut events: impl FnMut(Event) + Send,
) -> Result<Sent, TransferError> {
    let map = Map::fetch(&options.socket).await?;
    map.check_rights()?;
    let transfer = Transfer::prepare(options, &map, &mut events).await?;
    transfer.send(&mut events).await
}

impl Prepared {
    /// Opens and hashes files for one or several receivers; chooses the block length for these hops
    /// unless it is given.
    pub(super) async fn prepare(
        options: &SendOptions,
        hops: Vec<Option<Bitrate>>,
        receivers: usize,
        events: &mut (dyn FnMut(Event) + Send),
    ) -> Result<Self, TransferError> {
        let (paths, given) = (options.files.clone(), options.block_bytes);
        let limit = options.limit;
        // Where paths part the stream is copied, and a confidential one may be opened before the
        // last hop. Both need a block whole.
        let relay = if receivers > 1 || options.confidential {
            Relay::Whole
        } else {
            Relay::Through
        };
        let open = move |events: &mut dyn FnMut(Event)| {
            let choose =
                |size: DataSize| given.unwrap_or_else(|| block::choose(size, &hops, relay, limit));
            Files::open(&paths, choose, events)
        };
        let files = with_events(open, events).await?;
        let mut manifest = Vec::new();
        files.manifest.encode(&mut manifest);
        Ok(Self {
            files: Arc::new(files),
            manifest: manifest.into(),
        })
    }

    /// Returns the id of a transfer of these files.
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
        // The longest path decides; shorter ones lose little by its smaller blocks.
        let hops = keys.iter().map(|key| map.hops(*key)).max_by_key(Vec::len);
        let prepared =
            Prepared::prepare(&options, hops.unwrap_or_default(), keys.len(), events).await?;
        let id = prepared.id();
        let name = id.files_stream(&keys).ok_or_else(|| {
            TransferError::Node(format!(
                "one transfer goes to 1 to {TRANSFER_TARGETS_MAX} nodes, not to {}",
                keys.len()
            ))
        })?;
        Ok(Self::new(options, prepared, (name, id), targets, None))
    }

    /// Returns the transfer to a receiver that has proved the phrase. Its streams' names reveal
    /// neither its content nor its ends.
    pub(super) fn by_code(
        options: SendOptions,
        prepared: &Prepared,
        target: (NodeId, String),
        public_id: TransferId,
        sealer: Sealer,
    ) -> Self {
        let name = public_id.coded_stream(&target.0);
        Self::new(
            options,
            prepared.clone(),
            (name, public_id),
            vec![target],
            Some(sealer),
        )
    }

    fn new(
        options: SendOptions,
        prepared: Prepared,
        (name, public_id): (StreamName, TransferId),
        targets: Vec<(NodeId, String)>,
        sealer: Option<Sealer>,
    ) -> Self {
        let manifest_bytes = prepared.manifest.len() as u64;
        let layout = prepared.layout().clone();
        Self {
            sender: Sender::new(layout, manifest_bytes, targets.len(), options.limit),
            offer: prepared.offer(targets.iter().map(|(key, _)| *key).collect()),
            options,
            prepared,
            name,
            public_id,
            targets,
            sealer,
            clock: Clock::start(),
            began_unix: None,
            unserved: BTreeMap::new(),
            waited: BTreeSet::new(),
        }
    }

    /// Sends until every receiver has everything; reconnects if the node goes away.
    pub(super) async fn send(
        mut self,
        events: &mut (dyn FnMut(Event) + Send),
    ) -> Result<Sent, TransferError> {
        events(Event::Begun {
            what: format!(
                "{} to {}",
                self.prepared.describe(),
                self.names().join(", ")
            ),
            of: self.prepared.layout().size(),
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

    /// Publishes, and sends until every receiver has everything or the node is gone.
    async fn run(&mut self, events: &mut (dyn FnMut(Event) + Send)) -> Result<(), TransferError> {
        let mut publisher = publish(&self.options.socket, self.publication(), events).await?;
        let mut receipts =
            ReceiptListener::open(&self.options.socket, self.public_id, &self.targets).await?;
        let map = Map::fetch(&self.options.socket).await?;
        let stream = map.stream(&self.name, map.own());
        let stream = stream.ok_or_else(|| {
            TransferError::Ended(format!("the node does not announce {}", self.name))
        })?;
        self.sender.handle_stream(self.clock.now(), stream);
        let mut wanted = publisher.wanted_watch();
        let mut next_check = self.clock.now() + POLL_EVERY;
        while !self.sender.is_over() {
            if wanted.has_changed().unwrap_or(false) && *wanted.borrow_and_update() {
                self.sender.handle_wanted(self.clock.now());
            }
            // Without a receiver, a parcel would only be dropped.
            let next = publisher
                .is_wanted()
                .then(|| self.sender.poll_next(self.clock.now()))
                .flatten();
            if let Some(next) = next {
                self.publish_next(&mut publisher, &next).await?;
                if self.sender.has_begun() && self.began_unix.is_none() {
                    self.began_unix = Some(unix_now());
                }
                while let Some(event) = receipts.try_next() {
                    self.handle_receipt_event(event?, events);
                }
                continue;
            }
            let is_wanted = publisher.is_wanted();
            tokio::select! {
                event = receipts.next() => self.handle_receipt_event(event?, events),
                changed = wanted.changed() => {
                    if changed.is_err() {
                        return Err(LocalError::Gone(std::io::ErrorKind::ConnectionReset.into()).into());
                    }
                    self.sender.handle_wanted(self.clock.now());
                }
                paused = self.pause(is_wanted, &mut next_check, events) => paused?,
            }
        }
        if let Ok(sent) = self.report() {
            events(Event::Sent(Box::new(sent)));
        }
        // Everything has arrived, so the result does not matter.
        let _ = publisher.finish().await;
        Ok(())
    }

    /// Waits until there may be something to send; without a receiver, checks why.
    ///
    /// Cancel safe: events that the node has already delivered are not delayed by this wait.
    async fn pause(
        &mut self,
        is_wanted: bool,
        next_check: &mut Instant,
        events: &mut (dyn FnMut(Event) + Send),
    ) -> Result<(), TransferError> {
        if is_wanted {
            self.clock.sleep_until(self.sender.poll_timeout()).await;
        } else {
            self.clock.sleep_until(*next_check).await;
            self.report_unserved(events).await?;
            *next_check = self.clock.now() + POLL_EVERY;
        }
        Ok(())
    }

    /// Reports why a receiver that has asked is not served, if the reason is new.
    async fn report_unserved(
        &mut self,
        events: &mut (dyn FnMut(Event) + Send),
    ) -> Result<(), TransferError> {
        let map = Map::fetch(&self.options.socket).await?;
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
            // A slow receiver must not delay the others; it asks for what it misses.
            publication.needs.reliability = Reliability::Repaired;
        }
        publication
    }

    /// Publishes the parcel that the state machine wants to send next.
    async fn publish_next(
        &mut self,
        publisher: &mut LocalPublisher,
        next: &Next,
    ) -> Result<(), TransferError> {
        let payload: Bytes = match next {
            Next::Offer => self.offer.clone(),
            Next::Manifest(part) => {
                let bytes = self
                    .prepared
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
                let bytes = self.prepared.files.read(*block).await?;
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

    fn handle_receipt_event(
        &mut self,
        event: ReceiptEvent,
        events: &mut (dyn FnMut(Event) + Send),
    ) {
        match event {
            ReceiptEvent::Receipt { target, receipt } => {
                self.waited.remove(&target);
                let was = self.sender.outcome(target).cloned();
                self.sender
                    .handle_receipt(self.clock.now(), target, receipt);
                let is = self.sender.outcome(target);
                let name = &self.targets[target].1;
                match is {
                    Some(Outcome::Refused(reason)) if was.as_ref() != is => {
                        events(Event::Notice(format!("{name} accepts no more: {reason}")));
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
            ReceiptEvent::Notice { target, text } => {
                // Every transfer begins before its receivers publish receipts. A receiver that left
                // before it was served never ends that stream.
                let name = &self.targets[target].1;
                let is_nobody =
                    text.contains("no node publishes") || text.contains("is gone; waiting");
                // A receiver that has ended after its final receipt is not awaited.
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
        let mut complete = Vec::new();
        let mut refused = Vec::new();
        for (number, (_, name)) in self.targets.iter().enumerate() {
            match self.sender.outcome(number) {
                Some(Outcome::Refused(reason)) => refused.push(NotTaken {
                    name: name.clone(),
                    reason: reason.clone(),
                }),
                _ => complete.push(name.clone()),
            }
        }
        let layout = self.prepared.layout();
        let ended_unix = unix_now();
        let sent = Sent {
            id: self.prepared.id().to_string(),
            bytes: layout.size(),
            bytes_sent: self.sender.progress().given,
            block_bytes: layout.block_bytes(),
            complete,
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

/// Returns the publication of a transfer's stream.
pub(super) fn publication(name: StreamName, confidential: bool, weight: NonZeroU8) -> Publication {
    Publication {
        needs: Needs {
            confidential,
            reliability: Reliability::Full,
            order: Order::Sequence,
            weight,
            ..Needs::default()
        },
        // Most files that are worth sending are compressed already.
        pack_ratio: Some(1.0),
        planner: Some(Planner::Exact),
        ..Publication::new(name, RATE_ANNOUNCED)
    }
}

/// Returns a payload in the publisher's form, with the least importance.
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

/// Returns the time of day, so that the reports of two processes on one machine can be compared.
pub(super) fn unix_now() -> f64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}
