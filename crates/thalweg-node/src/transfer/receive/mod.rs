//! The receiving end: a stream becomes files.
//!
//! *The idea.* A node learns of every stream on the map; those of files say in their names for whom they are. The first one
//! for this node is taken, its receipts are published, and one loop brings parcels in, blocks to the disk and receipts out.
//!
//! *What it does not do.* It does not decide whom to trust beyond what it is told: without `from`, whoever is on the map
//! may send.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration as StdDuration;

use bytes::Bytes;
use thalweg_core::adu::Adu;
use thalweg_core::id::{NodeId, StreamId, StreamName};
use thalweg_core::needs::WEIGHT_USUAL;
use thalweg_core::time::{Duration, Instant};
use thalweg_core::transfer::{Have, Receiver, Taken, TransferId};
use thalweg_net::Clock;
use tokio::sync::watch;

use super::code::Phrase;
use super::code::guest::{self, Way};
use super::code::proof::Opener;
use super::disk::Disk;
use super::map::{Map, Stream};
use super::send::{outgoing, publication, unix_now};
use super::{Event, TransferError, publish, reconnect};
use crate::handle::{SubscribeOptions, SubscriberEvent};
use crate::local::{Client, LocalError, LocalPublisher, LocalSubscriber};

/// How often the map is looked at for a transfer.
pub(super) const LOOK_EVERY: StdDuration = StdDuration::from_millis(200);

/// How often it is looked whether what has not begun is still offered.
const OFFER_LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long the last word to the sender may take: after it the files are here all the same.
pub(super) const GOODBYE_MAX: StdDuration = StdDuration::from_secs(3);

/// How long a sender by phrase may say nothing: it offers every few seconds, and its phrase is of no use when it is gone.
const SILENCE_MAX: StdDuration = StdDuration::from_secs(90);

/// What is received, and where to.
#[derive(Clone, Debug)]
pub struct ReceiveOptions {
    /// The node's local socket.
    pub socket: PathBuf,
    /// Where the files go.
    pub folder: PathBuf,
    /// Name or key of the only node that may send.
    pub from: Option<String>,
    /// The phrase that somebody sends by; then nothing else is taken.
    pub phrase: Option<Phrase>,
    /// Whether files that are there are replaced.
    pub force: bool,
    /// Streams of transfers that are done, whose senders may not have heard it yet.
    pub except: Vec<StreamId>,
}

/// What was received.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Received {
    /// The transfer's id.
    pub id: String,
    /// The stream that brought it.
    #[serde(skip)]
    pub stream: StreamId,
    /// The name of the node that sent it.
    pub from: String,
    /// The files, where they are now; as text, what is not UTF-8 in a name is replaced.
    #[serde(serialize_with = "as_text")]
    pub files: Vec<PathBuf>,
    /// Bytes of all files.
    pub bytes: u64,
    /// Bytes that an earlier run had received.
    pub bytes_before: u64,
    /// Blocks that did not have their hash.
    pub corrupt: u64,
    /// When the first parcel came, in seconds since 1970.
    pub began_unix: f64,
    /// When every file was in its place.
    pub ended_unix: f64,
}

/// Writes paths whose names may be any bytes, which JSON cannot have.
fn as_text<S: serde::Serializer>(files: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(files.iter().map(|file| file.to_string_lossy()))
}

/// One transfer, from when it was found on the map on.
struct Transfer<'a> {
    options: &'a ReceiveOptions,
    id: TransferId,
    name: StreamName,
    sender: (NodeId, String),
    receipts: StreamName,
    stream: StreamId,
    opener: Option<Opener>,
    receiver: Receiver,
    disk: Disk,
    clock: Clock,
    began_unix: Option<f64>,
    /// When every file was in its place: the goodbye that follows takes a round trip and the sender's time.
    ended_unix: Option<f64>,
    bytes_before: u64,
    is_not_for_us: bool,
    /// Whether it went from the map before it had begun.
    is_withdrawn: bool,
    /// Whether what was there has been looked at.
    has_begun: bool,
}

/// What comes next.
enum Next {
    Event(SubscriberEvent),
    /// The stream's end.
    Ended,
    /// There is no such stream any more, and nothing of it has come.
    Withdrawn,
}

/// The two connections with the node.
struct Lines {
    subscriber: LocalSubscriber,
    publisher: LocalPublisher,
}

/// Waits for a transfer to this node, and returns when it is whole and in its place.
///
/// Fails   a name that is taken; a full disk; blocks that are changed on their way; a node that goes away and does not come
///         back. What has come is kept for another run
pub async fn receive(
    options: &ReceiveOptions,
    mut events: impl FnMut(Event) + Send,
) -> Result<Received, TransferError> {
    if let Some(phrase) = &options.phrase {
        let way = guest::meet(&options.socket, phrase, &mut events).await?;
        let transfer = Transfer::by_code(options, way).await?;
        return transfer
            .receive(&mut events)
            .await
            .map(|done| done.report());
    }
    let mut not_ours: Vec<StreamName> = Vec::new();
    let mut has_told = false;
    loop {
        let map = match Map::look(&options.socket).await {
            Ok(map) => map,
            Err(error) if has_told => {
                tracing::debug!(%error, "no status");
                reconnect(&options.socket, &mut events).await?;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let from = options
            .from
            .as_deref()
            .map(|word| map.find(word))
            .transpose()?;
        let found = map.streams().iter().find_map(|stream| {
            let id = TransferId::of_stream(&stream.name, &map.own())?;
            let is_meant = from.is_none_or(|from| from == stream.publisher_key);
            let is_done = stream.id().is_some_and(|id| options.except.contains(&id));
            (is_meant && !is_done && !not_ours.contains(&stream.name)).then_some((id, stream))
        });
        let Some((id, stream)) = found else {
            if !has_told {
                has_told = true;
                events(Event::Notice("waiting for files".into()));
            }
            tokio::time::sleep(LOOK_EVERY).await;
            continue;
        };
        let transfer = Transfer::new(options, id, stream, map.own());
        let transfer = transfer.receive(&mut events).await?;
        if transfer.is_withdrawn {
            // The map had still shown one that was over; the next may be there already.
            continue;
        }
        if transfer.is_not_for_us {
            not_ours.push(transfer.name);
            continue;
        }
        return Ok(transfer.report());
    }
}

impl<'a> Transfer<'a> {
    fn new(options: &'a ReceiveOptions, id: TransferId, stream: &Stream, own: NodeId) -> Self {
        let first = stream.id().unwrap_or_default();
        Self {
            id,
            name: stream.name.clone(),
            sender: (stream.publisher_key, stream.publisher.clone()),
            receipts: id.receipts_stream(&own),
            stream: first,
            opener: None,
            receiver: Receiver::new(id, own, first),
            disk: Disk::new(&options.folder, id, options.force),
            clock: Clock::start(),
            began_unix: None,
            ended_unix: None,
            bytes_before: 0,
            is_not_for_us: false,
            is_withdrawn: false,
            has_begun: false,
            options,
        }
    }

    /// Waits for the stream to which a phrase has led.
    async fn by_code(options: &'a ReceiveOptions, way: Way) -> Result<Self, TransferError> {
        let begun = tokio::time::Instant::now();
        loop {
            let map = Map::look(&options.socket).await?;
            let name = way.road.coded_stream(&map.own());
            let is_it =
                |stream: &&Stream| stream.name == name && stream.publisher_key == way.sender.0;
            if let Some(stream) = map.streams().iter().find(is_it) {
                let new = Self::new(options, way.id, stream, map.own());
                return Ok(Self {
                    receipts: way.road.receipts_stream(&map.own()),
                    opener: Some(way.opener),
                    ..new
                });
            }
            if begun.elapsed() >= SILENCE_MAX {
                return Err(gone(&way.sender.1));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Receives until it is whole, over whatever happens to the node.
    async fn receive(
        mut self,
        events: &mut (dyn FnMut(Event) + Send),
    ) -> Result<Self, TransferError> {
        if let Err(error) = self.begin_again(events) {
            // The sender is to hear it too: by the first word of the run.
            let now = self.clock.now();
            self.receiver.refuse(now, told(&error));
        }
        loop {
            match self.run(events).await {
                Ok(()) => return Ok(self),
                Err(TransferError::Local(LocalError::Gone(_) | LocalError::Connect { .. })) => {
                    reconnect(&self.options.socket, events).await?;
                }
                Err(other) => return Err(other),
            }
        }
    }

    /// Takes up what an earlier run has left.
    fn begin_again(&mut self, events: &mut (dyn FnMut(Event) + Send)) -> Result<(), TransferError> {
        let kept = self.disk.kept();
        if kept.is_some_and(|manifest| self.receiver.handle_manifest(manifest)) {
            let have = self.open(events)?;
            self.begin(have, events);
        }
        Ok(())
    }

    /// Makes the parts; a refusal is one for the sender too.
    fn open(&mut self, events: &mut (dyn FnMut(Event) + Send)) -> Result<Have, TransferError> {
        let manifest = self.receiver.manifest().expect("it is looked for before");
        let disk = &mut self.disk;
        tokio::task::block_in_place(|| disk.open(manifest, events))
    }

    fn begin(&mut self, have: Have, events: &mut (dyn FnMut(Event) + Send)) {
        self.receiver.begin(self.clock.now(), have);
        // The sender may begin again with other blocks: then some of it came in this run.
        if !self.has_begun {
            self.bytes_before = self.receiver.bytes();
        }
        self.has_begun = true;
        let manifest = self.receiver.manifest().expect("it is looked for before");
        let what = match manifest.files() {
            [one] => one.name.to_string(),
            files => format!("{} files", files.len()),
        };
        events(Event::Begun {
            what: format!("{what} from {}", self.sender.1),
            of: manifest.layout().size(),
        });
        events(Event::Progress {
            bytes: self.receiver.bytes(),
        });
    }

    /// Receives until the transfer is whole, is refused, or the node is gone.
    async fn run(&mut self, events: &mut (dyn FnMut(Event) + Send)) -> Result<(), TransferError> {
        let socket = &self.options.socket;
        let subscriber = subscribe(socket, self.name.clone()).await?;
        // Receipts are not confidential: they hold numbers.
        let publication = publication(self.receipts.clone(), false, WEIGHT_USUAL);
        let publisher = publish(socket, publication, events).await?;
        let mut lines = Lines {
            subscriber,
            publisher,
        };
        let ended = self.carry(&mut lines, events).await;
        if self.is_withdrawn {
            // Nobody is there to take leave of.
            return ended;
        }
        if let Err(error @ (TransferError::File { .. } | TransferError::Ended(_))) = &ended {
            self.receiver.refuse(self.clock.now(), told(error));
        }
        // The last word, whatever it is; a sender that does not listen yet is waited for a little.
        let _ = tokio::time::timeout(GOODBYE_MAX, lines.publisher.wanted()).await;
        if let Some(receipt) = self.receiver.poll_receipt(self.clock.now()) {
            lines
                .publisher
                .send(outgoing(receipt.encode().into()))
                .await?;
        }
        let goodbye = lines.publisher.finish();
        let _ = tokio::time::timeout(GOODBYE_MAX, goodbye).await;
        ended
    }

    async fn carry(
        &mut self,
        lines: &mut Lines,
        events: &mut (dyn FnMut(Event) + Send),
    ) -> Result<(), TransferError> {
        let mut wanted = lines.publisher.wanted_watch();
        self.receiver.handle_wanted(self.clock.now());
        while !self.is_over()? {
            let silence_max = match self.opener {
                Some(_) => SILENCE_MAX,
                None => StdDuration::MAX,
            };
            let next = tokio::time::timeout(silence_max, self.next(lines, &mut wanted)).await;
            match next.map_err(|_| gone(&self.sender.1))?? {
                Next::Event(SubscriberEvent::Adu(adu)) => self.take(&adu, events).await?,
                Next::Event(SubscriberEvent::Notice(text)) => self.tell(&text, events),
                Next::Withdrawn => self.is_withdrawn = true,
                Next::Ended => {
                    let sender = &self.sender.1;
                    let notice = format!("{sender} stopped sending; waiting for it to go on");
                    events(Event::Notice(notice));
                    lines.subscriber = subscribe(&self.options.socket, self.name.clone()).await?;
                }
            }
        }
        Ok(())
    }

    /// Tells why the sender does not send; that it is not there yet, or not any more, is found otherwise.
    fn tell(&self, text: &str, events: &mut (dyn FnMut(Event) + Send)) {
        if let Some((_, why)) = text.split_once(&format!("cannot serve `{}` now: ", self.name)) {
            let sender = &self.sender.1;
            events(Event::Notice(format!("{sender} cannot send now: {why}")));
        } else {
            tracing::debug!(%text, "files");
        }
    }

    /// Waits for what comes next, and says receipts meanwhile.
    async fn next(
        &mut self,
        lines: &mut Lines,
        wanted: &mut watch::Receiver<bool>,
    ) -> Result<Next, TransferError> {
        // Who came by a phrase waits for this one and no other; who has begun goes on when it comes back.
        let may_look = !self.has_begun && self.opener.is_none();
        let mut look = if may_look {
            self.clock.now() + OFFER_LOOK_EVERY
        } else {
            Instant::NEVER
        };
        // A frame that is half read when another arm is ready would be lost: the read is pinned across the others.
        let next = lines.subscriber.recv();
        tokio::pin!(next);
        loop {
            // Nobody hears a receipt that is said before the sender listens.
            let is_wanted = *wanted.borrow();
            let wake = if is_wanted {
                if let Some(receipt) = self.receiver.poll_receipt(self.clock.now()) {
                    let payload = Bytes::from(receipt.encode());
                    lines.publisher.send(outgoing(payload)).await?;
                }
                self.receiver.poll_timeout()
            } else {
                Instant::NEVER
            };
            tokio::select! {
                biased;
                next = &mut next => return Ok(next?.map_or(Next::Ended, Next::Event)),
                changed = wanted.changed() => {
                    if changed.is_err() {
                        return Err(LocalError::Gone(std::io::ErrorKind::ConnectionReset.into()).into());
                    }
                    self.receiver.handle_wanted(self.clock.now());
                }
                () = self.clock.sleep_until(wake.min(look)) => {}
            }
            if self.clock.now() >= look {
                let map = Map::look(&self.options.socket).await?;
                if map.stream(&self.name, self.sender.0).is_none() {
                    return Ok(Next::Withdrawn);
                }
                look = self.clock.now() + OFFER_LOOK_EVERY;
            }
        }
    }

    /// Returns whether there is nothing left to receive; what is whole is brought to its place first.
    fn is_over(&mut self) -> Result<bool, TransferError> {
        if let Some(reason) = self.receiver.refusal() {
            let parts = self.disk.parts().display();
            return Err(TransferError::Ended(format!(
                "{reason}; what has come is kept in {parts}"
            )));
        }
        if self.receiver.is_whole() {
            let manifest = self.receiver.manifest().expect("what is whole has one");
            let disk = &mut self.disk;
            tokio::task::block_in_place(|| disk.finish(manifest))?;
            self.ended_unix = Some(unix_now());
            self.receiver.finish(self.clock.now());
            return Ok(true);
        }
        Ok(self.is_not_for_us || self.is_withdrawn)
    }

    async fn take(
        &mut self,
        adu: &Adu,
        events: &mut (dyn FnMut(Event) + Send),
    ) -> Result<(), TransferError> {
        let stream = adu.header.stream;
        if stream != self.stream {
            let map = Map::look(&self.options.socket).await?;
            if !map.is_of(stream, &self.name, self.sender.0) {
                return Ok(());
            }
            self.stream = stream;
            self.receiver.handle_stream(self.clock.now(), stream);
        }
        let now = self.clock.now();
        self.began_unix.get_or_insert_with(unix_now);
        let sequence = adu.header.sequence.0;
        let opened = self.opener.as_ref().map(|opener| opener.open(&adu.payload));
        let Some(payload) = opened.unwrap_or_else(|| Some(adu.payload.clone())) else {
            tracing::debug!("a parcel is not sealed by the sender");
            self.receiver.handle_corrupt(now, sequence);
            return Ok(());
        };
        match self.receiver.handle_parcel(now, sequence, &payload) {
            Err(error) => tracing::debug!(%error, "a parcel is none"),
            Ok(Taken::Nothing) => {}
            Ok(Taken::Corrupt) => tracing::debug!("something does not have its hash"),
            Ok(Taken::NotForUs) => self.is_not_for_us = true,
            Ok(Taken::Manifest) => {
                let have = self.open(events)?;
                self.begin(have, events);
            }
            Ok(Taken::Block {
                block,
                place,
                bytes,
            }) => {
                let disk = &self.disk;
                let written = tokio::task::block_in_place(|| disk.write(place, &bytes));
                written.map_err(|error| TransferError::file("write", self.disk.parts(), error))?;
                self.receiver.handle_written(block);
                events(Event::Progress {
                    bytes: self.receiver.bytes(),
                });
            }
        }
        Ok(())
    }

    fn report(&self) -> Received {
        let manifest = self.receiver.manifest().expect("what is whole has one");
        let place = |file: &thalweg_core::transfer::File| {
            self.options
                .folder
                .join(OsStr::from_bytes(file.name.as_bytes()))
        };
        let ended_unix = self.ended_unix.unwrap_or_else(unix_now);
        Received {
            id: self.id.to_string(),
            stream: self.stream,
            from: self.sender.1.clone(),
            files: manifest.files().iter().map(place).collect(),
            bytes: manifest.layout().size(),
            bytes_before: self.bytes_before,
            corrupt: self.receiver.corrupt(),
            began_unix: self.began_unix.unwrap_or(ended_unix),
            ended_unix,
        }
    }
}

pub(super) async fn subscribe(
    socket: &std::path::Path,
    name: StreamName,
) -> Result<LocalSubscriber, LocalError> {
    let client = Client::connect(socket).await?;
    let options = SubscribeOptions {
        name,
        in_sequence: false,
    };
    client.subscribe(options).await
}

/// Returns the end of a transfer by phrase whose sender says nothing more.
fn gone(sender: &str) -> TransferError {
    TransferError::Ended(format!(
        "{sender} sends no more: ask for a new phrase; what has come is kept, and goes on with it"
    ))
}

/// Returns what the sender is told of why it ends here: no path of this machine.
fn told(error: &TransferError) -> String {
    match error {
        TransferError::File { verb, source, .. } => format!("cannot {verb} there: {source}"),
        other => other.to_string(),
    }
}
