//! The receiving end: a stream becomes files.
//!
//! *The idea.* The [`Inbox`] chooses a transfer from the map, its receipts are published, and one
//! loop takes parcels in, writes blocks to the disk and sends receipts. A transfer without its sender
//! is abandoned as soon as another node sends; received parts stay on the disk.
//!
//! *What it does not do.* It makes no decision about trust: without `from`, any node on the map may
//! send.

mod goodbye;
mod inbox;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration as StdDuration;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use thalweg_base::adu::Adu;
use thalweg_base::id::{NodeId, StreamId, StreamName};
use thalweg_base::needs::WEIGHT_USUAL;
use thalweg_base::time::{Duration, Instant};
use thalweg_net::Clock;
use thalweg_transfer::{Have, Receiver, Taken, TransferId};
use tokio::sync::watch;

pub use self::inbox::Inbox;
use super::code::Phrase;
use super::code::guest::FoundTransfer;
use super::code::proof::Opener;
use super::disk::Disk;
use super::map::{Map, Stream};
use super::send::{outgoing, publication, unix_now};
use super::{Event, POLL_EVERY, TransferError, publish, reconnect, shown, subscribe};
use crate::handle::SubscriberEvent;
use crate::local::{LocalError, LocalPublisher, LocalSubscriber};

/// How often to check, while nothing arrives, that a transfer is still offered.
const OFFER_POLL_EVERY: Duration = Duration::from_secs(1);

/// How long a started transfer may be off the map before another replaces it: a restarted relay or
/// node is back sooner.
const GONE_MAX: Duration = Duration::from_secs(5);

/// How long to wait for the first data while another transfer is offered: an offer is small and is
/// sent at once.
const FIRST_DATA_MAX: Duration = Duration::from_secs(30);

/// How long a sender by phrase may be silent: it repeats its offer every few seconds, and its
/// phrase ends with it.
const SILENCE_MAX: StdDuration = StdDuration::from_secs(90);

/// What to receive, and where to.
#[derive(Clone, Debug)]
pub struct ReceiveOptions {
    /// The node's local socket.
    pub socket: PathBuf,
    /// The folder for the files.
    pub folder: PathBuf,
    /// Name or key of the only accepted sender.
    pub from: Option<String>,
    /// The sender's phrase; then no other transfer is received.
    pub phrase: Option<Phrase>,
    /// Whether existing files are replaced.
    pub force: bool,
    /// Whether files keep the sender's mode and time, instead of those of a new file here.
    pub keeps_modes: bool,
}

/// A received transfer.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Received {
    /// The transfer's id.
    pub id: String,
    /// The name of the node that sent it.
    pub from: String,
    /// The files' paths; bytes that are not UTF-8 are replaced.
    #[serde(serialize_with = "as_text")]
    pub files: Vec<PathBuf>,
    /// The same paths as bytes in hexadecimal, since a name may contain any bytes.
    pub files_hex: Vec<String>,
    /// Bytes of all files.
    pub bytes: u64,
    /// Bytes received by earlier runs.
    pub bytes_before: u64,
    /// Blocks with a wrong hash.
    pub corrupt: u64,
    /// When the first parcel arrived, in seconds since 1970.
    pub began_unix: f64,
    /// When every file was in its place.
    pub ended_unix: f64,
}

/// Writes paths as text, for people and programs that need UTF-8.
fn as_text<S: serde::Serializer>(files: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(files.iter().map(|file| file.to_string_lossy()))
}

/// One transfer, from its discovery on the map.
struct Transfer<'a> {
    inbox: &'a Inbox,
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
    /// When every file was in its place. The final receipt takes a round trip and the sender's time
    /// more.
    ended_unix: Option<f64>,
    bytes_before: u64,
    abandoned: Option<Abandoned>,
    /// Streams of senders, where the sender's node has the final receipt.
    heard: Vec<StreamId>,
    /// Whether the existing parts were verified.
    has_begun: bool,
    found_at: Instant,
    /// Since when it is not on the map.
    gone_since: Option<Instant>,
    /// Whether the stop of the sender was reported.
    has_reported_stop: bool,
}

/// Why a transfer was abandoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Abandoned {
    /// It left the map before it had begun, or another transfer replaces it.
    Gone,
    /// Its name only looked as if it were for this node.
    NotOurs,
}

/// What the receiver handles next.
enum Next {
    Event(SubscriberEvent),
    /// The stream's end.
    Ended,
    /// The stream is gone before anything of it has arrived, or another transfer replaces it.
    Abandoned,
}

/// The two connections to the node.
struct Connections {
    subscriber: LocalSubscriber,
    publisher: LocalPublisher,
}

impl<'a> Transfer<'a> {
    fn new(inbox: &'a Inbox, id: TransferId, stream: &Stream, own: NodeId) -> Self {
        let first = stream.id().unwrap_or_default();
        let options = inbox.options();
        let clock = Clock::start();
        Self {
            id,
            name: stream.name.clone(),
            sender: (stream.publisher_key, stream.publisher.clone()),
            receipts: id.receipts_stream(&own),
            stream: first,
            opener: None,
            receiver: Receiver::new(id, own, first),
            disk: Disk::new(&options.folder, id, options.force, options.keeps_modes),
            found_at: clock.now(),
            clock,
            began_unix: None,
            ended_unix: None,
            bytes_before: 0,
            abandoned: None,
            heard: Vec::new(),
            has_begun: false,
            gone_since: None,
            has_reported_stop: false,
            inbox,
            options,
        }
    }

    /// Waits for the stream to which a phrase has led.
    async fn by_code(inbox: &'a Inbox, found: FoundTransfer) -> Result<Self, TransferError> {
        let started = tokio::time::Instant::now();
        loop {
            let map = Map::fetch(&inbox.options().socket).await?;
            let name = found.public_id.coded_stream(&map.own());
            let is_it =
                |stream: &&Stream| stream.name == name && stream.publisher_key == found.sender.0;
            if let Some(stream) = map.streams().iter().find(is_it) {
                let new = Self::new(inbox, found.id, stream, map.own());
                return Ok(Self {
                    receipts: found.public_id.receipts_stream(&map.own()),
                    opener: Some(found.opener),
                    ..new
                });
            }
            if started.elapsed() >= SILENCE_MAX {
                return Err(sender_gone(&found.sender.1));
            }
            tokio::time::sleep(POLL_EVERY).await;
        }
    }

    /// Receives until the transfer is complete; reconnects if the node goes away.
    async fn receive(
        &mut self,
        events: &mut (dyn FnMut(Event) + Send),
    ) -> Result<(), TransferError> {
        if let Err(error) = self.resume(events) {
            // The sender gets the refusal with the first receipt.
            let now = self.clock.now();
            self.receiver.refuse(now, remote_reason(&error));
        }
        loop {
            match self.run(events).await {
                Ok(()) => return Ok(()),
                Err(TransferError::Local(LocalError::Gone(_) | LocalError::Connect { .. })) => {
                    reconnect(&self.options.socket, events).await?;
                }
                Err(other) => return Err(other),
            }
        }
    }

    /// Loads the parts of an earlier run.
    fn resume(&mut self, events: &mut (dyn FnMut(Event) + Send)) -> Result<(), TransferError> {
        let kept = self.disk.load_manifest();
        if kept.is_some_and(|manifest| self.receiver.handle_manifest(manifest)) {
            let have = self.open(events)?;
            self.begin(have, events);
        }
        Ok(())
    }

    /// Opens the parts on the disk. The sender gets a refusal too.
    fn open(&mut self, events: &mut (dyn FnMut(Event) + Send)) -> Result<Have, TransferError> {
        let manifest = self.receiver.manifest().expect("it is looked for before");
        let disk = &mut self.disk;
        tokio::task::block_in_place(|| disk.open(manifest, events))
    }

    fn begin(&mut self, have: Have, events: &mut (dyn FnMut(Event) + Send)) {
        self.receiver.begin(self.clock.now(), have);
        // The sender may restart with another block length; then some bytes came in this run.
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

    /// Receives until the transfer is complete or refused, or the node is gone.
    async fn run(&mut self, events: &mut (dyn FnMut(Event) + Send)) -> Result<(), TransferError> {
        let socket = &self.options.socket;
        let subscriber = subscribe(socket, self.name.clone()).await?;
        // Receipts contain numbers only, so they are not confidential.
        let publication = publication(self.receipts.clone(), false, WEIGHT_USUAL);
        let publisher = publish(socket, publication, events).await?;
        let mut connections = Connections {
            subscriber,
            publisher,
        };
        let ended = self.carry(&mut connections, events).await;
        if self.abandoned == Some(Abandoned::Gone) {
            // No sender is left to notify.
            return ended;
        }
        if self.ended_unix.is_some() {
            events(Event::Whole);
        }
        if let Err(error @ (TransferError::File { .. } | TransferError::Ended(_))) = &ended {
            self.receiver.refuse(self.clock.now(), remote_reason(error));
        }
        self.send_final_receipt(connections.publisher, events)
            .await?;
        ended
    }

    async fn carry(
        &mut self,
        connections: &mut Connections,
        events: &mut (dyn FnMut(Event) + Send),
    ) -> Result<(), TransferError> {
        let mut wanted = connections.publisher.wanted_watch();
        self.receiver.handle_wanted(self.clock.now());
        while !self.is_over(events)? {
            let silence_max = match self.opener {
                Some(_) => SILENCE_MAX,
                None => StdDuration::MAX,
            };
            let next = self.next(connections, &mut wanted, events);
            let next = tokio::time::timeout(silence_max, next).await;
            match next.map_err(|_| sender_gone(&self.sender.1))?? {
                Next::Event(SubscriberEvent::Adu(adu)) => self.take(&adu, events).await?,
                Next::Event(SubscriberEvent::Notice(text)) => self.report_notice(&text, events),
                Next::Abandoned => self.abandoned = Some(Abandoned::Gone),
                Next::Ended => {
                    self.report_stop(events);
                    connections.subscriber =
                        subscribe(&self.options.socket, self.name.clone()).await?;
                }
            }
        }
        Ok(())
    }

    /// Reports why the sender does not send. That it is absent or has left the map is detected
    /// elsewhere.
    fn report_notice(&mut self, text: &str, events: &mut (dyn FnMut(Event) + Send)) {
        if let Some((_, why)) = text.split_once(&format!("cannot serve `{}` now: ", self.name)) {
            let sender = &self.sender.1;
            events(Event::Notice(format!("{sender} cannot send now: {why}")));
        } else if text == thalweg_control::control::Notice::CutOff.sentence(&self.name) {
            self.report_stop(events);
        } else {
            tracing::debug!(%text, "files");
        }
    }

    /// Reports once that the sender has stopped.
    fn report_stop(&mut self, events: &mut (dyn FnMut(Event) + Send)) {
        if std::mem::replace(&mut self.has_reported_stop, true) {
            return;
        }
        let sender = &self.sender.1;
        events(Event::Notice(if self.opener.is_some() {
            format!("{sender} stopped sending; waiting for it to resume")
        } else {
            format!("{sender} stopped sending; waiting for it to resume, or for another sender")
        }));
    }

    /// Returns whether to abandon this transfer: its sender has gone or was silent from the start,
    /// and another node sends.
    async fn should_abandon(
        &mut self,
        events: &mut (dyn FnMut(Event) + Send),
    ) -> Result<bool, TransferError> {
        let map = Map::fetch(&self.options.socket).await?;
        let now = self.clock.now();
        let is_it = |there: &Stream| {
            let is_named = there.name == self.name && self.inbox.is_accepted(there);
            // The record of a killed node stays on the map for minutes.
            is_named && map.is_reached(there.publisher_key)
        };
        let may_leave = if map.streams().iter().any(is_it) {
            self.gone_since = None;
            // A started transfer that is on the map continues, however slowly: a block may take
            // minutes.
            self.began_unix.is_none() && now.saturating_since(self.found_at) >= FIRST_DATA_MAX
        } else if self.has_begun {
            let since = *self.gone_since.get_or_insert(now);
            self.report_stop(events);
            now.saturating_since(since) >= GONE_MAX
        } else {
            return Ok(true);
        };
        let next = self.inbox.choose(&map, Some(&self.name));
        let Some((_, stream)) = next.filter(|_| may_leave) else {
            return Ok(false);
        };
        let other = &stream.publisher;
        events(Event::Notice(if self.has_begun {
            let (sender, parts) = (&self.sender.1, shown(self.disk.parts()));
            format!("receiving from {other} instead; the parts from {sender} are kept in {parts}")
        } else {
            format!("receiving from {other} instead")
        }));
        Ok(true)
    }

    /// Waits for the next event, and sends receipts meanwhile.
    async fn next(
        &mut self,
        connections: &mut Connections,
        wanted: &mut watch::Receiver<bool>,
        events: &mut (dyn FnMut(Event) + Send),
    ) -> Result<Next, TransferError> {
        // With a phrase, no other transfer is an alternative.
        let mut next_check = if self.opener.is_none() {
            self.clock.now() + OFFER_POLL_EVERY
        } else {
            Instant::NEVER
        };
        // Dropping a half-finished read loses its bytes, so the read stays pinned across the other
        // arms.
        let next = connections.subscriber.recv();
        tokio::pin!(next);
        loop {
            // A receipt sent before the sender listens would be lost.
            let is_wanted = *wanted.borrow();
            let wake = if is_wanted {
                if let Some(receipt) = self.receiver.poll_receipt(self.clock.now()) {
                    let payload = Bytes::from(receipt.encode());
                    connections.publisher.send(outgoing(payload)).await?;
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
                () = self.clock.sleep_until(wake.min(next_check)) => {}
            }
            if self.clock.now() >= next_check {
                // Events that the node has already delivered go first.
                let should_leave = tokio::select! {
                    biased;
                    next = &mut next => return Ok(next?.map_or(Next::Ended, Next::Event)),
                    should_leave = self.should_abandon(events) => should_leave?,
                };
                if should_leave {
                    return Ok(Next::Abandoned);
                }
                next_check = self.clock.now() + OFFER_POLL_EVERY;
            }
        }
    }

    /// Returns whether nothing is left to receive; moves complete files into place first.
    fn is_over(&mut self, events: &mut (dyn FnMut(Event) + Send)) -> Result<bool, TransferError> {
        if let Some(reason) = self.receiver.refusal() {
            let parts = self.disk.parts().display();
            return Err(TransferError::Ended(format!(
                "{reason}; received parts are kept in {parts}"
            )));
        }
        if self.receiver.is_whole() {
            let manifest = self.receiver.manifest().expect("what is whole has one");
            let disk = &mut self.disk;
            tokio::task::block_in_place(|| disk.finish(manifest, events))?;
            self.ended_unix = Some(unix_now());
            self.receiver.finish(self.clock.now());
            return Ok(true);
        }
        Ok(self.abandoned.is_some())
    }

    async fn take(
        &mut self,
        adu: &Adu,
        events: &mut (dyn FnMut(Event) + Send),
    ) -> Result<(), TransferError> {
        let stream = adu.header.stream;
        if stream != self.stream {
            let map = Map::fetch(&self.options.socket).await?;
            let Some(there) = map.announced(stream, &self.name) else {
                return Ok(());
            };
            // The name contains the id, so any publisher of it brings these bytes, or bytes that
            // fail verification. If several publish it, the node chooses one, as for any stream.
            if there.publisher_key != self.sender.0 {
                if self.opener.is_some() {
                    return Ok(());
                }
                if self.inbox.is_accepted(there) {
                    self.sender = (there.publisher_key, there.publisher.clone());
                }
            }
            self.stream = stream;
            self.receiver.handle_stream(self.clock.now(), stream);
        }
        let now = self.clock.now();
        self.gone_since = None;
        self.has_reported_stop = false;
        self.began_unix.get_or_insert_with(unix_now);
        let sequence = adu.header.sequence.0;
        let opened = self.opener.as_ref().map(|opener| opener.open(&adu.payload));
        let Some(payload) = opened.unwrap_or_else(|| Some(adu.payload.clone())) else {
            tracing::debug!("parcel not sealed by the sender");
            self.receiver.handle_corrupt(now, sequence);
            return Ok(());
        };
        match self.receiver.handle_parcel(now, sequence, &payload) {
            Err(error) => tracing::debug!(%error, "invalid parcel"),
            Ok(Taken::Nothing) => {}
            Ok(Taken::Corrupt) => tracing::debug!("hash mismatch"),
            Ok(Taken::NotForUs) => self.abandoned = Some(Abandoned::NotOurs),
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
        let place = |file: &thalweg_transfer::File| {
            self.options
                .folder
                .join(OsStr::from_bytes(file.name.as_bytes()))
        };
        let files: Vec<PathBuf> = manifest.files().iter().map(place).collect();
        let hex = |file: &PathBuf| HEXLOWER.encode(file.as_os_str().as_bytes());
        let ended_unix = self.ended_unix.unwrap_or_else(unix_now);
        Received {
            id: self.id.to_string(),
            from: self.sender.1.clone(),
            files_hex: files.iter().map(hex).collect(),
            files,
            bytes: manifest.layout().size(),
            bytes_before: self.bytes_before,
            corrupt: self.receiver.corrupt(),
            began_unix: self.began_unix.unwrap_or(ended_unix),
            ended_unix,
        }
    }
}

/// Returns the error for a sender by phrase that has fallen silent.
fn sender_gone(sender: &str) -> TransferError {
    TransferError::Ended(format!(
        "{sender} has stopped sending: ask for a new phrase; received parts are kept, and the transfer resumes with it"
    ))
}

/// Returns the reason that the sender gets for a failure here, without any path of this machine.
fn remote_reason(error: &TransferError) -> String {
    match error {
        TransferError::File { verb, source, .. } => format!("cannot {verb} there: {source}"),
        other => other.to_string(),
    }
}
