//! Files, sent and received over a node's local socket.
//!
//! *The idea.* The state machines of `thalweg_transfer` decide; this adds the files, the
//! clock and the socket. To the node a transfer is a stream and a few small ones back; it knows
//! nothing of files. So a crash of the node is to a transfer like any lost link: the transfer
//! reconnects and resumes.
//!
//! | room | what lives there |
//! |---|---|
//! | `map` | the part of a node's status that a transfer needs |
//! | `scan` | files to send: opened and hashed |
//! | `disk` | received files, until they are complete and in place |
//! | [`send()`], [`Inbox`] | the two ends |
//! | `code` | files for the holder of a phrase |
//!
//! *What it does not do.* It prints nothing; its callers get [`Event`]s.
//!
//! *Sources.* docs/concepts/files.md.

mod code;
mod disk;
mod map;
mod receive;
mod scan;
mod send;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration as StdDuration;

use thalweg_base::id::StreamName;
use thalweg_transfer::manifest::ManifestError;
use thalweg_transfer::meeting::Refusal;
use thalweg_transfer::name::BadFileName;
use tokio::sync::mpsc;

use crate::handle::{Publication, SubscribeOptions};
use crate::local::{Client, LocalError, LocalPublisher, LocalSubscriber};

pub use code::{BadPhrase, CodeOptions, Phrase, send_by_code};
pub use receive::{Inbox, ReceiveOptions, Received};
pub use send::{NotTaken, SendOptions, Sent, send};

/// How long to wait for a node that has gone away.
const RECONNECT_MAX: StdDuration = StdDuration::from_mins(1);

/// How often to try to reconnect.
const RECONNECT_EVERY: StdDuration = StdDuration::from_millis(500);

/// How long the stream of a killed program may take to end: its node waits up to 30 s for ADUs under
/// way, 30 s for the end of the stream, and 2 s for the last accounts.
const UNPUBLISH_MAX: StdDuration = StdDuration::from_secs(65);

/// How often to retry publishing meanwhile.
const REPUBLISH_EVERY: StdDuration = StdDuration::from_millis(100);

/// How often to look for a transfer on the map.
const POLL_EVERY: StdDuration = StdDuration::from_millis(200);

/// How long the final receipt may take; the files are complete without it.
const FINAL_RECEIPT_MAX: StdDuration = StdDuration::from_secs(3);

/// An event of a transfer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// Files are being hashed or verified.
    Looking {
        /// Bytes so far.
        bytes: u64,
        /// Bytes in total.
        of: u64,
    },
    /// The files are known, and their transfer begins.
    Begun {
        /// A description of the files and the other end.
        what: String,
        /// Bytes of all files.
        of: u64,
    },
    /// Verified bytes at the receiver; of several receivers, the one furthest behind.
    Progress {
        /// Bytes so far.
        bytes: u64,
    },
    /// Every received file is in its place. The final receipt to the sender follows, which takes
    /// seconds at most.
    Whole,
    /// Every receiver of a transfer has everything. The end of its stream follows, which needs no
    /// waiting. With a phrase, each receiver has a transfer of its own.
    Sent(Box<Sent>),
    /// The phrase that receivers must give.
    Phrase(String),
    /// A sentence for the user.
    Notice(String),
}

/// Why files cannot be sent or received.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The node cannot be used.
    #[error(transparent)]
    Local(#[from] LocalError),
    /// A node's name is unknown or ambiguous.
    #[error("{0}")]
    Node(String),
    /// This node's grant lacks a right that transfers need.
    #[error(
        "the grant of this node does not include `{right}`, and files need `publish` and `subscribe` at both ends: revoke it, and \
         admit it again with a ticket for both"
    )]
    Rights {
        /// The missing right.
        right: &'static str,
    },
    /// A file cannot be read or written.
    #[error("cannot {verb} {}: {source}", shown(path))]
    File {
        /// The failed action.
        verb: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The path to send is a folder.
    #[error(
        "{} is a folder: send it as one archive, as `tar` makes it",
        shown(path)
    )]
    Folder {
        /// The path.
        path: PathBuf,
    },
    /// The path to send is a pipe, a socket or a device.
    #[error(
        "{} is not a regular file: write its output to a file, and send that",
        shown(path)
    )]
    NoFile {
        /// The path.
        path: PathBuf,
    },
    /// A file's content is longer or shorter than its reported length.
    #[error(
        "{} reports {said} bytes and has more or fewer, as system files do: copy it with `cat` and send the copy",
        shown(path)
    )]
    Length {
        /// The file.
        path: PathBuf,
        /// The reported length in bytes.
        said: u64,
    },
    /// A file has changed since it was hashed.
    #[error("{path} changed while it was being sent: send it again when nobody writes to it")]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The files cannot form a transfer.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A file's name is not allowed at receivers.
    #[error(transparent)]
    Name(#[from] BadFileName),
    /// Some receivers do not have everything; others may.
    #[error("some receivers do not have everything: {}", .0.reasons())]
    Refused(Box<Sent>),
    /// The sender refuses this phrase or this receiver.
    #[error(transparent)]
    Phrase(#[from] Refusal),
    /// The system has no random numbers, or no phrase number is free.
    #[error("the system has no random numbers, or no number is free for a phrase: try again")]
    Random,
    /// The transfer has ended, with the reason.
    #[error("{0}")]
    Ended(String),
}

impl TransferError {
    /// Returns whether the error concerns a single received transfer, so that another may be
    /// received after it.
    pub const fn is_of_one(&self) -> bool {
        matches!(self, Self::File { .. } | Self::Ended(_))
    }

    fn file(verb: &'static str, path: &Path, source: io::Error) -> Self {
        Self::File {
            verb,
            path: path.to_path_buf(),
            source,
        }
    }
}

/// Returns a path for display, with control characters escaped: its end may be chosen by a sender.
pub fn shown(path: &Path) -> String {
    path.display().to_string().escape_debug().collect()
}

/// Reconnects to a node that was there before and may come back.
async fn reconnect(
    socket: &Path,
    events: &mut (dyn FnMut(Event) + Send),
) -> Result<(), TransferError> {
    let end = tokio::time::Instant::now() + RECONNECT_MAX;
    events(Event::Notice(
        "the node went away; waiting for it to come back".into(),
    ));
    loop {
        match Client::connect(socket).await {
            Ok(_) => return Ok(()),
            Err(error) if tokio::time::Instant::now() >= end => return Err(error.into()),
            Err(_) => tokio::time::sleep(RECONNECT_EVERY).await,
        }
    }
}

/// Publishes a stream; waits for the end of one of the same name that a killed program has left.
async fn publish(
    socket: &Path,
    publication: Publication,
    events: &mut (dyn FnMut(Event) + Send),
) -> Result<LocalPublisher, LocalError> {
    let started = tokio::time::Instant::now();
    let mut has_notified = false;
    loop {
        let client = Client::connect(socket).await?;
        match client.publish(publication.clone()).await {
            Err(LocalError::Taken(reason)) if started.elapsed() < UNPUBLISH_MAX => {
                tracing::debug!(%reason, "not published yet");
                if started.elapsed() > RECONNECT_EVERY && !has_notified {
                    has_notified = true;
                    let notice = "this node still publishes this stream for another program, or is still ending it; waiting";
                    events(Event::Notice(notice.into()));
                }
                tokio::time::sleep(REPUBLISH_EVERY).await;
            }
            other => return other,
        }
    }
}

async fn subscribe(socket: &Path, name: StreamName) -> Result<LocalSubscriber, LocalError> {
    let client = Client::connect(socket).await?;
    let options = SubscribeOptions::new(name, false);
    client.subscribe(options).await
}

/// Runs lengthy work on files, and forwards its events meanwhile. If the future is dropped, the
/// work runs on unobserved.
async fn with_events<T: Send + 'static>(
    work: impl FnOnce(&mut dyn FnMut(Event)) -> T + Send + 'static,
    events: &mut (dyn FnMut(Event) + Send),
) -> T {
    let (event_sender, mut event_queue) = mpsc::unbounded_channel();
    let work = blocking(move || {
        work(&mut |event| {
            // The receiver may be gone.
            let _ = event_sender.send(event);
        })
    });
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            Some(event) = event_queue.recv() => events(event),
        }
    }
}

/// Runs blocking work outside of the runtime.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work)
        .await
        .expect("it does not panic, and the runtime lives as long as who waits")
}
