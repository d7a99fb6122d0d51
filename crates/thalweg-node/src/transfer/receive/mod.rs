//! The receiving end: a stream becomes files.
//!
//! *The idea.* The [`Inbox`] takes a transfer from the map, its receipts are published, and one loop brings parcels in, blocks
//! to the disk and receipts out. Whose sender has gone is left as soon as somebody else sends: what has come is on the disk.
//!
//! *What it does not do.* It does not decide whom to trust beyond what it is told: without `from`, whoever is on the map
//! may send.

mod goodbye;
mod inbox;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration as StdDuration;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use thalweg_core::adu::Adu;
use thalweg_core::id::{NodeId, StreamId, StreamName};
use thalweg_core::needs::WEIGHT_USUAL;
use thalweg_core::time::{Duration, Instant};
use thalweg_core::transfer::{Have, Receiver, Taken, TransferId};
use thalweg_net::Clock;
use tokio::sync::watch;

pub use self::inbox::Inbox;
use super::code::Phrase;
use super::code::guest::Way;
use super::code::proof::Opener;
use super::disk::Disk;
use super::map::{Map, Stream};
use super::send::{outgoing, publication, unix_now};
use super::{Event, TransferError, publish, reconnect, shown};
use crate::handle::{SubscribeOptions, SubscriberEvent};
use crate::local::{Client, LocalError, LocalPublisher, LocalSubscriber};

/// How often the map is looked at for a transfer.
pub(super) const LOOK_EVERY: StdDuration = StdDuration::from_millis(200);

/// How often it is looked, while nothing comes, whether it is still offered.
const OFFER_LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long a transfer that has begun may be gone from the map before another is taken instead: a relay or a node that is
/// started again is back by then.
const GONE_MAX: Duration = Duration::from_secs(5);

/// How long one of which nothing has come may be waited for while another is offered: an offer is small, and goes at once.
const MUTE_MAX: Duration = Duration::from_secs(30);

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
    /// Whether files get the mode and the time that they have at their sender, or those of any new file here.
    pub keeps_modes: bool,
}

/// What was received.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Received {
    /// The transfer's id.
    pub id: String,
    /// The name of the node that sent it.
    pub from: String,
    /// The files, where they are now; as text, what is not UTF-8 in a name is replaced.
    #[serde(serialize_with = "as_text")]
    pub files: Vec<PathBuf>,
    /// The same paths as their bytes, in hexadecimal: a name may have any, which text in JSON cannot.
    pub files_hex: Vec<String>,
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

/// Writes paths for people and for what knows of UTF-8 alone.
fn as_text<S: serde::Serializer>(files: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(files.iter().map(|file| file.to_string_lossy()))
}

/// One transfer, from when it was found on the map on.
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
    /// When every file was in its place: the goodbye that follows takes a round trip and the sender's time.
    ended_unix: Option<f64>,
    bytes_before: u64,
    left: Option<Left>,
    /// Streams on the map of those whose nodes have heard the last word.
    heard: Vec<StreamId>,
    /// Whether what was there has been looked at.
    has_begun: bool,
    found_at: Instant,
    /// Since when it is not on the map.
    gone_since: Option<Instant>,
    /// Whether it was told that the sender has stopped.
    has_told_stop: bool,
}

/// Why a transfer was left before it was whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// It had not begun when it went from the map, or another is taken meanwhile.
    Gone,
    /// Its name only looked as if it were for this node.
    NotOurs,
}

/// What comes next.
enum Next {
    Event(SubscriberEvent),
    /// The stream's end.
    Ended,
    /// There is no such stream any more and nothing of it has come, or another is to be taken.
    Left,
}

/// The two connections with the node.
struct Lines {
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
            left: None,
            heard: Vec::new(),
            has_begun: false,
            gone_since: None,
            has_told_stop: false,
            inbox,
            options,
        }
    }

    /// Waits for the stream to which a phrase has led.
    async fn by_code(inbox: &'a Inbox, way: Way) -> Result<Self, TransferError> {
        let begun = tokio::time::Instant::now();
        loop {
            let map = Map::look(&inbox.options().socket).await?;
            let name = way.road.coded_stream(&map.own());
            let is_it =
                |stream: &&Stream| stream.name == name && stream.publisher_key == way.sender.0;
            if let Some(stream) = map.streams().iter().find(is_it) {
                let new = Self::new(inbox, way.id, stream, map.own());
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
        &mut self,
        events: &mut (dyn FnMut(Event) + Send),
    ) -> Result<(), TransferError> {
        if let Err(error) = self.begin_again(events) {
            // The sender is to hear it too: by the first word of the run.
            let now = self.clock.now();
            self.receiver.refuse(now, told(&error));
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
        if self.left == Some(Left::Gone) {
            // Nobody is there to take leave of.
            return ended;
        }
        if self.ended_unix.is_some() {
            events(Event::Whole);
        }
        if let Err(error @ (TransferError::File { .. } | TransferError::Ended(_))) = &ended {
            self.receiver.refuse(self.clock.now(), told(error));
        }
        self.take_leave(lines.publisher, events).await?;
        ended
    }

    async fn carry(
        &mut self,
        lines: &mut Lines,
        events: &mut (dyn FnMut(Event) + Send),
    ) -> Result<(), TransferError> {
        let mut wanted = lines.publisher.wanted_watch();
        self.receiver.handle_wanted(self.clock.now());
        while !self.is_over(events)? {
            let silence_max = match self.opener {
                Some(_) => SILENCE_MAX,
                None => StdDuration::MAX,
            };
            let next = self.next(lines, &mut wanted, events);
            let next = tokio::time::timeout(silence_max, next).await;
            match next.map_err(|_| gone(&self.sender.1))?? {
                Next::Event(SubscriberEvent::Adu(adu)) => self.take(&adu, events).await?,
                Next::Event(SubscriberEvent::Notice(text)) => self.tell(&text, events),
                Next::Left => self.left = Some(Left::Gone),
                Next::Ended => {
                    self.tell_stop(events);
                    lines.subscriber = subscribe(&self.options.socket, self.name.clone()).await?;
                }
            }
        }
        Ok(())
    }

    /// Tells why the sender does not send; that it is not there yet, or not any more by the map, is found
    /// otherwise.
    fn tell(&mut self, text: &str, events: &mut (dyn FnMut(Event) + Send)) {
        if let Some((_, why)) = text.split_once(&format!("cannot serve `{}` now: ", self.name)) {
            let sender = &self.sender.1;
            events(Event::Notice(format!("{sender} cannot send now: {why}")));
        } else if text == thalweg_core::control::Notice::CutOff.sentence(&self.name) {
            self.tell_stop(events);
        } else {
            tracing::debug!(%text, "files");
        }
    }

    /// Tells once that the sender does not go on.
    fn tell_stop(&mut self, events: &mut (dyn FnMut(Event) + Send)) {
        if std::mem::replace(&mut self.has_told_stop, true) {
            return;
        }
        let sender = &self.sender.1;
        events(Event::Notice(if self.opener.is_some() {
            format!("{sender} stopped sending; waiting for it to go on")
        } else {
            format!("{sender} stopped sending; waiting for it to go on, or for who sends next")
        }));
    }

    /// Looks whether this transfer is to be left: its sender has gone, or has said nothing at all, and somebody else sends.
    async fn poll_quiet(
        &mut self,
        events: &mut (dyn FnMut(Event) + Send),
    ) -> Result<bool, TransferError> {
        let map = Map::look(&self.options.socket).await?;
        let now = self.clock.now();
        let is_it = |there: &Stream| {
            let is_named = there.name == self.name && self.inbox.is_meant(there);
            // The record of a node that was killed stays on the map for minutes.
            is_named && map.is_reached(there.publisher_key)
        };
        let may_leave = if map.streams().iter().any(is_it) {
            self.gone_since = None;
            // What has begun and is on the map comes, however slow: a block may take minutes.
            self.began_unix.is_none() && now.saturating_since(self.found_at) >= MUTE_MAX
        } else if self.has_begun {
            let since = *self.gone_since.get_or_insert(now);
            self.tell_stop(events);
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
            format!("taking what {other} sends instead; what came from {sender} is kept in {parts}")
        } else {
            format!("taking what {other} sends instead")
        }));
        Ok(true)
    }

    /// Waits for what comes next, and says receipts meanwhile.
    async fn next(
        &mut self,
        lines: &mut Lines,
        wanted: &mut watch::Receiver<bool>,
        events: &mut (dyn FnMut(Event) + Send),
    ) -> Result<Next, TransferError> {
        // Who came by a phrase waits for this one and no other.
        let mut look = if self.opener.is_none() {
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
                // What the node has given already does not wait for what it is asked.
                let is_left = tokio::select! {
                    biased;
                    next = &mut next => return Ok(next?.map_or(Next::Ended, Next::Event)),
                    is_left = self.poll_quiet(events) => is_left?,
                };
                if is_left {
                    return Ok(Next::Left);
                }
                look = self.clock.now() + OFFER_LOOK_EVERY;
            }
        }
    }

    /// Returns whether there is nothing left to receive; what is whole is brought to its place first.
    fn is_over(&mut self, events: &mut (dyn FnMut(Event) + Send)) -> Result<bool, TransferError> {
        if let Some(reason) = self.receiver.refusal() {
            let parts = self.disk.parts().display();
            return Err(TransferError::Ended(format!(
                "{reason}; what has come is kept in {parts}"
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
        Ok(self.left.is_some())
    }

    async fn take(
        &mut self,
        adu: &Adu,
        events: &mut (dyn FnMut(Event) + Send),
    ) -> Result<(), TransferError> {
        let stream = adu.header.stream;
        if stream != self.stream {
            let map = Map::look(&self.options.socket).await?;
            let Some(there) = map.announced(stream, &self.name) else {
                return Ok(());
            };
            // The name holds the ID: whoever publishes it brings these bytes, or what is not believed. The node takes
            // one of several that publish it, as it does with any stream.
            if there.publisher_key != self.sender.0 {
                if self.opener.is_some() {
                    return Ok(());
                }
                if self.inbox.is_meant(there) {
                    self.sender = (there.publisher_key, there.publisher.clone());
                }
            }
            self.stream = stream;
            self.receiver.handle_stream(self.clock.now(), stream);
        }
        let now = self.clock.now();
        self.gone_since = None;
        self.has_told_stop = false;
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
            Ok(Taken::NotForUs) => self.left = Some(Left::NotOurs),
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
