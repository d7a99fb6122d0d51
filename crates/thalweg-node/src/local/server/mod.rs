//! The node's side of the local socket.
//!
//! | file | what it does |
//! |---|---|
//! | `outward` | what flows to a program until it leaves: a subscription, drops, a trace, names |

mod outward;

use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration as StdDuration;

use thalweg_base::adu::Adu;
use thalweg_base::id::Epoch;
use thalweg_base::time::Duration;
use thalweg_base::units::Bitrate;
use thalweg_net::task::alone;
use thalweg_planner::planner::Planner;
use tokio::io::{BufReader, BufWriter, Interest};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::debug;

use super::frame::{self, Expected, Frame, Message, PublishRequest};
use super::request;
use crate::error::NodeError;
use crate::handle::{
    FINISH_MAX, Handle, Outgoing, Publication, PublishError, PublishSummary, Publisher,
    SubscribeOptions,
};
use crate::waiting::{REVOKE_GRACE, WaitingPlace, WaitingRoom};

/// How long to accept nothing after a failed accept; and how often to check for the exit of a
/// program that has written more than was read.
const PAUSE: StdDuration = StdDuration::from_millis(100);

/// How often a publisher gets the count of settled ADUs.
const SETTLED_EVERY: StdDuration = StdDuration::from_millis(100);

/// How long a program may take to send its request, from its connection on.
const FIRST_FRAME_MAX: StdDuration = StdDuration::from_secs(10);

/// How long a program may leave an answer unread.
const ANSWER_MAX: StdDuration = StdDuration::from_secs(30);

/// How long a program may leave a refusal unread.
const REFUSAL_MAX: StdDuration = StdDuration::from_secs(1);

/// Maximum number of connections without a complete request; beyond it the oldest is closed.
/// Connections that publish, subscribe or wait for an answer do not count.
const WAITING_MAX: usize = 64;

type In = BufReader<OwnedReadHalf>;
type Out = BufWriter<OwnedWriteHalf>;

/// The listening socket; its file is removed on drop.
pub(crate) struct Server {
    listener: UnixListener,
    path: PathBuf,
    handle: Handle,
}

impl Server {
    /// Listens on a path; replaces the socket that a dead node has left there.
    ///
    /// Fails   if another node listens there, or the path is something other than a socket, which
    ///         stays as it is
    pub(crate) async fn bind(path: &Path, handle: Handle) -> Result<Self, NodeError> {
        if UnixStream::connect(path).await.is_ok() {
            return Err(NodeError::SocketTaken {
                path: path.to_path_buf(),
            });
        }
        let is_stale = is_socket(path)?;
        let listen = || -> io::Result<UnixListener> {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            if is_stale {
                std::fs::remove_file(path)?;
            }
            let listener = UnixListener::bind(path)?;
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
            Ok(listener)
        };
        let listener = listen();
        let listener = listener.map_err(|source| NodeError::Socket {
            path: path.to_path_buf(),
            source,
        })?;
        Ok(Self {
            listener,
            path: path.to_path_buf(),
            handle,
        })
    }

    /// Serves until the node stops; then waits for publishers to end their streams.
    pub(crate) async fn run(self, mut stopping: watch::Receiver<bool>) {
        let mut connections = JoinSet::new();
        let mut waiting = WaitingRoom::new(WAITING_MAX);
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        let place = waiting.enter();
                        let (handle, stopping) = (self.handle.clone(), stopping.clone());
                        connections.spawn(alone(serve(stream, handle, stopping, place)));
                    }
                    Err(error) => {
                        debug!(%error, "local connection not accepted");
                        // Without free descriptors, accept fails again at once.
                        tokio::time::sleep(PAUSE).await;
                    }
                },
                Some(_) = connections.join_next() => {}
                () = wait_stopped(&mut stopping) => break,
            }
        }
        while connections.join_next().await.is_some() {}
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(is_socket(&self.path), Ok(true)) {
            // If the file cannot be removed, the next node replaces it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Returns whether a path is a socket; `false` if nothing is there.
///
/// Fails   if something else is there, such as a key file given by mistake, which must not be lost
pub(crate) fn is_socket(path: &Path) -> Result<bool, NodeError> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => Ok(true),
        Ok(_) => Err(NodeError::NoSocket {
            path: path.to_path_buf(),
        }),
        // A path that cannot be examined cannot be listened on either; that error gives the reason.
        Err(_) => Ok(false),
    }
}

/// Waits until the program at the other end has exited or closed its sending half.
async fn wait_closed(read: &OwnedReadHalf) {
    loop {
        match read.ready(Interest::READABLE).await {
            Ok(ready) if !ready.is_read_closed() => tokio::time::sleep(PAUSE).await,
            Ok(_) | Err(_) => return,
        }
    }
}

/// Waits until the node is told to stop, or is gone.
async fn wait_stopped(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stop| *stop).await;
}

async fn serve(
    stream: UnixStream,
    handle: Handle,
    stopping: watch::Receiver<bool>,
    place: WaitingPlace,
) {
    let (read, write) = stream.into_split();
    let (mut read, mut write) = (BufReader::new(read), BufWriter::new(write));
    let first = match first_frame(&mut read, &handle, place).await {
        Ok(Ok(first)) => first,
        Ok(Err(error)) if is_malformed(&error) => return refuse(write, error.to_string()).await,
        Ok(Err(error)) => return debug!(%error, "local connection ended"),
        Err(reason) => return refuse(write, reason).await,
    };
    let answered = match first {
        Some(Frame::Message(Message::Publish(request))) => {
            publish(read, write, &handle, request, stopping).await
        }
        first => answer(first, &mut read, &mut write, handle, stopping).await,
    };
    if let Err(error) = answered {
        debug!(%error, "local connection ended");
    }
}

/// Reads a program's request.
///
/// Fails   with the reason to wait no longer
async fn first_frame(
    read: &mut In,
    handle: &Handle,
    mut place: WaitingPlace,
) -> Result<io::Result<Option<Frame>>, String> {
    let first = frame::read(read, Expected::Requests, || handle.now());
    tokio::pin!(first);
    tokio::select! {
        first = tokio::time::timeout(FIRST_FRAME_MAX, &mut first) => {
            first.map_err(|_| "no complete request within 10 s".to_string())
        }
        () = place.revoked() => {
            let first = tokio::time::timeout(REVOKE_GRACE, &mut first).await;
            first.map_err(|_| "too many connections without a request".to_string())
        }
    }
}

/// Returns whether a program sent malformed data, as opposed to having closed.
fn is_malformed(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidData
}

/// Sends a program the reason for closing its connection.
async fn refuse(mut write: Out, reason: String) {
    debug!(reason, "local connection refused");
    let refusal = Message::Refused { reason };
    // A program that reads nothing misses the reason.
    let _ = tokio::time::timeout(REFUSAL_MAX, frame::write_message(&mut write, &refusal)).await;
}

async fn answer(
    first: Option<Frame>,
    read: &mut In,
    write: &mut Out,
    handle: Handle,
    stopping: watch::Receiver<bool>,
) -> io::Result<()> {
    match first {
        None => Ok(()),
        Some(Frame::Message(Message::Subscribe {
            name,
            in_sequence,
            mailbox,
        })) => {
            if let Some((key, why)) = mailbox.fault() {
                let reason = format!("`{key}`: {why}");
                return reply(write, &Message::Refused { reason }).await;
            }
            let options = SubscribeOptions::new(name, in_sequence).with_mailbox(mailbox);
            outward::subscribe(read, write, &handle, options, stopping).await
        }
        Some(Frame::Message(Message::Trace { name, every_ms })) => {
            let every = Duration::from_millis(every_ms);
            outward::trace(read, write, &handle, (name, every), stopping).await
        }
        Some(Frame::Message(Message::Drops { name, own })) => {
            outward::drops(read, write, &handle, (name, own), stopping).await
        }
        Some(Frame::Message(Message::Watch(selection))) => {
            outward::watch(read, write, &handle, selection, stopping).await
        }
        Some(Frame::Message(request)) => {
            reply(write, &request::answer(request, &handle).await?).await
        }
        Some(Frame::Adu(_)) => {
            let reason = "an ADU came before a publish request".to_string();
            reply(write, &Message::Refused { reason }).await
        }
    }
}

/// Writes an answer; a program that does not read it in time is disconnected.
async fn reply(write: &mut Out, answer: &Message) -> io::Result<()> {
    tokio::time::timeout(ANSWER_MAX, frame::write_message(write, answer)).await?
}

/// How a program's stream of ADUs came to its end.
enum StreamEnd {
    /// The program has finished its stream.
    Finished,
    /// The program is gone, or the node stops.
    Gone,
    /// The program sent something invalid.
    Invalid(String),
}

async fn publish(
    mut read: In,
    mut write: Out,
    handle: &Handle,
    request: PublishRequest,
    stopping: watch::Receiver<bool>,
) -> io::Result<()> {
    let planner = request
        .planner
        .map(|name| name.parse::<Planner>())
        .transpose();
    let refused = |reason: String| Message::Refused { reason };
    let planner = match planner {
        Ok(planner) => planner,
        Err(error) => return frame::write_message(&mut write, &refused(error.to_string())).await,
    };
    let publication = Publication {
        needs: request.needs,
        pack_ratio: request.pack_ratio,
        planner,
        description: request.description,
        ..Publication::layered(request.name, request.layers)
    };
    let mut publisher = match handle.publish(publication).await {
        Ok(publisher) => publisher,
        Err(error) => {
            let reason = error.to_string();
            let answer = if error.is_taken() {
                Message::NameInUse { reason }
            } else {
                refused(reason)
            };
            return frame::write_message(&mut write, &answer).await;
        }
    };
    let carried = match frame::write_message(&mut write, &Message::Accepted).await {
        Ok(()) => carry(&mut read, &mut write, &mut publisher, handle, stopping).await,
        Err(error) => Err(error),
    };
    // However the program ended, the ADUs that it has published are carried to their sinks.
    match carried {
        Ok(StreamEnd::Finished) => {
            let summary = finish(&read, publisher).await;
            let summary = serde_json::to_value(summary)?;
            frame::write_message(&mut write, &Message::Summary { summary }).await
        }
        Ok(StreamEnd::Invalid(reason)) => {
            // Both halves are closed before the stream ends, so that the program does not go on
            // writing meanwhile.
            refuse(write, reason).await;
            drop(read);
            publisher.cut_off().await;
            Ok(())
        }
        Ok(StreamEnd::Gone) => {
            drop((read, write));
            publisher.cut_off().await;
            Ok(())
        }
        Err(error) => {
            drop((read, write));
            publisher.cut_off().await;
            Err(error)
        }
    }
}

/// Ends a stream. If its program exits meanwhile, the name is freed at once.
async fn finish(read: &In, publisher: Publisher) -> PublishSummary {
    let release = publisher.release();
    let finished = publisher.finish();
    tokio::pin!(finished);
    tokio::select! {
        summary = &mut finished => return summary,
        () = wait_closed(read.get_ref()) => {}
    }
    release.await;
    finished.await
}

/// Publishes the client's ADUs until it finishes, goes away, or the node stops.
async fn carry(
    read: &mut In,
    write: &mut Out,
    publisher: &mut Publisher,
    handle: &Handle,
    mut stopping: watch::Receiver<bool>,
) -> io::Result<StreamEnd> {
    let mut plans = publisher.plans();
    let (mut sendable, mut losses) = (publisher.sendable(), publisher.losses());
    let mut wanted = false;
    let (mut settled, mut next_report) = (0, Instant::now() + SETTLED_EVERY);
    loop {
        send_wanted(write, &mut plans, &mut wanted).await?;
        let next = {
            // Dropping a half-finished read loses its bytes, so it stays pinned across the arms.
            let next = frame::read(read, Expected::Stream, || handle.now());
            tokio::pin!(next);
            loop {
                tokio::select! {
                    biased;
                    () = tokio::time::sleep_until(next_report) => {
                        next_report = Instant::now() + SETTLED_EVERY;
                        send_settled(write, publisher.settled(), &mut settled).await?;
                    }
                    next = &mut next => break next,
                    changed = plans.changed() => {
                        if changed.is_err() {
                            return Ok(StreamEnd::Gone);
                        }
                        send_wanted(write, &mut plans, &mut wanted).await?;
                    }
                    rate = sendable.changed() => {
                        let Ok(rate) = rate else {
                            return Ok(StreamEnd::Gone);
                        };
                        let bits_per_second = rate.map(Bitrate::as_bps);
                        frame::write_message(write, &Message::Sendable { bits_per_second }).await?;
                    }
                    sums = losses.changed() => {
                        let Ok(sums) = sums else {
                            return Ok(StreamEnd::Gone);
                        };
                        let losses = serde_json::to_value(sums)?;
                        frame::write_message(write, &Message::Losses { losses }).await?;
                    }
                    () = wait_stopped(&mut stopping) => return Ok(StreamEnd::Gone),
                }
            }
        };
        let published = match next {
            Ok(Some(Frame::Adu(adu))) => {
                let gone = wait_abandoned(read.get_ref(), publisher.release());
                tokio::select! {
                    published = publish_adu(publisher, adu) => published,
                    // A sink that reads nothing may block the publisher for any length of time.
                    () = gone => return Ok(StreamEnd::Gone),
                    () = wait_stopped(&mut stopping) => return Ok(StreamEnd::Gone),
                }
            }
            Ok(Some(Frame::Message(Message::Finish))) => return Ok(StreamEnd::Finished),
            Ok(Some(Frame::Message(_))) => {
                let why = "a publisher may only send ADUs and finish its stream";
                return Ok(StreamEnd::Invalid(why.into()));
            }
            Ok(None) => return Ok(StreamEnd::Gone),
            Err(error) if is_malformed(&error) => return Ok(StreamEnd::Invalid(error.to_string())),
            Err(error) => return Err(error),
        };
        match published {
            Ok(()) => {}
            Err(PublishError::Stopped) => return Ok(StreamEnd::Gone),
            Err(error) => return Ok(StreamEnd::Invalid(error.to_string())),
        }
    }
}

/// Waits until a stream's program has exited, frees its name, then waits as long as the end of a
/// stream may take.
async fn wait_abandoned(read: &OwnedReadHalf, release: impl Future<Output = ()>) {
    wait_closed(read).await;
    release.await;
    tokio::time::sleep(FINISH_MAX).await;
}

/// Publishes an ADU of the client.
async fn publish_adu(publisher: &mut Publisher, adu: Adu) -> Result<(), PublishError> {
    let outgoing = Outgoing {
        media_time: adu.header.media_time,
        importance: adu.header.importance,
        layer: adu.header.layer,
        flags: adu.header.flags,
        depends_on: adu.header.depends_on,
        payload: adu.payload,
    };
    publisher.send(outgoing).await.map(drop)
}

/// Sends the client the number of its settled ADUs if it has grown.
async fn send_settled(write: &mut Out, adus: u64, last: &mut u64) -> io::Result<()> {
    if adus <= *last {
        return Ok(());
    }
    *last = adus;
    frame::write_message(write, &Message::Settled { adus }).await
}

/// Sends the client whether its stream has a subscriber if that has changed.
async fn send_wanted(
    write: &mut Out,
    plans: &mut watch::Receiver<Vec<Epoch>>,
    last: &mut bool,
) -> io::Result<()> {
    let subscribed = !plans.borrow_and_update().is_empty();
    if subscribed == *last {
        return Ok(());
    }
    *last = subscribed;
    frame::write_message(write, &Message::Subscribed { subscribed }).await
}
