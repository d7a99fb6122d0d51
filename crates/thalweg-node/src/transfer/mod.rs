//! Files, sent and received over a node's local socket.
//!
//! *The idea.* The machines of `thalweg_core::transfer` decide; here are the files, the clock and the socket. The node
//! knows nothing of it: to it a transfer is a stream and a few small ones back. So a crash of the node is to a transfer
//! what any lost link is: it connects again and goes on.
//!
//! | room | what lives there |
//! |---|---|
//! | `map` | what a status says: who is where, whose a stream is |
//! | `scan` | the hashes of files that are to be sent |
//! | `disk` | what is received, until it is whole and in its place |
//! | [`send()`], [`Inbox`] | the two ends |
//! | `code` | files for who has a phrase |
//!
//! *What it does not do.* It prints nothing: a caller hears [`Event`]s.
//!
//! *Sources.* docs/files.md.

mod code;
mod disk;
mod map;
mod receive;
mod scan;
mod send;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration as StdDuration;

use thalweg_core::transfer::manifest::ManifestError;
use thalweg_core::transfer::meeting::Refusal;
use thalweg_core::transfer::name::BadFileName;
use tokio::sync::mpsc;

use crate::handle::Publication;
use crate::local::{Client, LocalError, LocalPublisher};

pub use code::{BadPhrase, CodeOptions, Phrase, send_by_code};
pub use receive::{Inbox, ReceiveOptions, Received};
pub use send::{NotTaken, SendOptions, Sent, send};

/// How long a node that has gone away is waited for.
const RECONNECT_MAX: StdDuration = StdDuration::from_mins(1);

/// How often it is looked for.
const RECONNECT_EVERY: StdDuration = StdDuration::from_millis(500);

/// How long a stream that a killed program has published may take to end: its node waits for what was under way, for the
/// end of the stream, and for the last accounts, 30 s, 30 s and 2 s.
const UNPUBLISH_MAX: StdDuration = StdDuration::from_secs(65);

/// How often publishing is tried meanwhile.
const REPUBLISH_EVERY: StdDuration = StdDuration::from_millis(100);

/// What happens while files are sent or received.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// So many bytes of files have been hashed, or looked at, of so many.
    Looking {
        /// So far.
        bytes: u64,
        /// Of all.
        of: u64,
    },
    /// It is known what is sent.
    Begun {
        /// What, and from or to whom, in words.
        what: String,
        /// Bytes of all files.
        of: u64,
    },
    /// Bytes that are verified where they should be; of several receivers the one furthest behind.
    Progress {
        /// So far.
        bytes: u64,
    },
    /// Every file that is received is in its place; what follows is the last word to the sender, which takes seconds at most.
    Whole,
    /// Everybody whom a transfer is for has everything; what follows is the end of its stream, which nobody need wait for. By a phrase
    /// each receiver has a transfer of its own.
    Sent(Box<Sent>),
    /// What somebody has to say to get the files.
    Phrase(String),
    /// A sentence for people.
    Notice(String),
}

/// Files cannot be sent or received.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The node cannot be used.
    #[error(transparent)]
    Local(#[from] LocalError),
    /// No node of this name is on the map, or several are.
    #[error("{0}")]
    Node(String),
    /// This node's grant does not let it take part.
    #[error(
        "the grant of this node does not include `{right}`, and files need `publish` and `subscribe` at both ends: revoke it, and \
         let it in anew with a ticket for both"
    )]
    Rights {
        /// What it does not include.
        right: &'static str,
    },
    /// A file cannot be read, or something of it not written.
    #[error("cannot {verb} {}: {source}", shown(path))]
    File {
        /// What could not be done.
        verb: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What is to be sent is a folder.
    #[error(
        "{} is a folder: send it as one archive, as `tar` makes it",
        shown(path)
    )]
    Folder {
        /// What it is called.
        path: PathBuf,
    },
    /// What is to be sent is a pipe, a socket or a device.
    #[error(
        "{} is no file: write what comes from it to one, and send that",
        shown(path)
    )]
    NoFile {
        /// What it is called.
        path: PathBuf,
    },
    /// A file holds more or less than the length that it tells.
    #[error(
        "{} says that it has {said} bytes, and has more or fewer, as files of the system do: copy it with `cat` and send the copy",
        shown(path)
    )]
    Length {
        /// Which.
        path: PathBuf,
        /// What it says.
        said: u64,
    },
    /// A file is another than it was when it was hashed.
    #[error("{path} changed while it was being sent: send it again when nobody writes to it")]
    Changed {
        /// Which.
        path: PathBuf,
    },
    /// The files do not make a transfer.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A file's name cannot be one elsewhere.
    #[error(transparent)]
    Name(#[from] BadFileName),
    /// Some receivers do not have everything; others may.
    #[error("not everybody has everything: {}", .0.reasons())]
    Refused(Box<Sent>),
    /// Who sends by a phrase does not take this one.
    #[error(transparent)]
    Phrase(#[from] Refusal),
    /// The system has no randomness.
    #[error("the system has no random numbers, or no number is free for a phrase: try again")]
    Random,
    /// This receiver takes nothing more.
    #[error("{0}")]
    Ended(String),
}

impl TransferError {
    /// Returns whether it is about one transfer that was received, and another may be received after it.
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

/// Returns a path for people: what a terminal would act on is escaped, for the end of it may be a sender's word.
pub fn shown(path: &Path) -> String {
    path.display().to_string().escape_debug().collect()
}

/// Connects with a node that was there and may be on its way back.
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

/// Publishes a stream; one of the same name that a killed program has left is waited for until its end.
async fn publish(
    socket: &Path,
    publication: Publication,
    events: &mut (dyn FnMut(Event) + Send),
) -> Result<LocalPublisher, LocalError> {
    let begun = tokio::time::Instant::now();
    let mut has_told = false;
    loop {
        let client = Client::connect(socket).await?;
        match client.publish(publication.clone()).await {
            Err(LocalError::Taken(reason)) if begun.elapsed() < UNPUBLISH_MAX => {
                tracing::debug!(%reason, "not published yet");
                if begun.elapsed() > RECONNECT_EVERY && !has_told {
                    has_told = true;
                    let notice = "this node still publishes the same for another program, or ends what one began; waiting";
                    events(Event::Notice(notice.into()));
                }
                tokio::time::sleep(REPUBLISH_EVERY).await;
            }
            other => return other,
        }
    }
}

/// Runs what looks at files for long, and passes on what it tells meanwhile; who is dropped waits no longer.
async fn looking<T: Send + 'static>(
    work: impl FnOnce(&mut dyn FnMut(Event)) -> T + Send + 'static,
    events: &mut (dyn FnMut(Event) + Send),
) -> T {
    let (tell, mut told) = mpsc::unbounded_channel();
    let work = blocking(move || {
        work(&mut |event| {
            // Nobody is left to be told.
            let _ = tell.send(event);
        })
    });
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            Some(event) = told.recv() => events(event),
        }
    }
}

/// Runs what blocks beside the runtime.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work)
        .await
        .expect("it does not panic, and the runtime lives as long as who waits")
}
