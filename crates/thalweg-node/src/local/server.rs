//! The node's side of the local socket.

use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration as StdDuration;

use thalweg_core::adu::Adu;
use thalweg_core::id::{Epoch, StreamName};
use thalweg_core::planner::Planner;
use thalweg_core::time::Duration;
use thalweg_core::units::Bitrate;
use thalweg_net::task::alone;
use tokio::io::{BufReader, BufWriter, Interest};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::debug;

use super::frame::{self, Expected, Frame, Message, PublishRequest};
use super::ticket::invite;
use crate::control::{RouteError, TraceError};
use crate::handle::{
    FINISH_MAX, Handle, Outgoing, Publication, PublishError, PublishSummary, Publisher,
    SubscribeOptions, SubscriberEvent,
};
use crate::node::NodeError;
use crate::waiting::{LAST_CHANCE, WaitingPlace, WaitingRoom};

/// How long nobody is let in after that failed; and how often it is looked whether a program is gone that has written more than is
/// read.
const PAUSE: StdDuration = StdDuration::from_millis(100);

/// What a program is answered when the node's control part is gone.
const STOPPED: &str = "the node has stopped";

/// How often a publisher is told what of its stream need not be given again.
const SETTLED_EVERY: StdDuration = StdDuration::from_millis(100);

/// How long a program may take to say what it wants, from when it has connected.
const FIRST_FRAME_MAX: StdDuration = StdDuration::from_secs(10);

/// How long a program may leave an answer unread.
const ANSWER_MAX: StdDuration = StdDuration::from_secs(30);

/// How long a program may leave unread why it is refused.
const REFUSAL_MAX: StdDuration = StdDuration::from_secs(1);

/// Connections at once of which nothing whole has come; of more the oldest ends. Those of programs that
/// publish, subscribe or wait for an answer are not among them.
const WAITING_MAX: usize = 64;

type In = BufReader<OwnedReadHalf>;
type Out = BufWriter<OwnedWriteHalf>;

/// The listening socket; its file goes when it does.
pub(crate) struct Server {
    listener: UnixListener,
    path: PathBuf,
    handle: Handle,
}

impl Server {
    /// Listens on a path, where a node that died may have left its socket behind.
    ///
    /// Fails   another node listens there, or something is there that is no socket: that stays as it is
    pub(crate) async fn bind(path: &Path, handle: Handle) -> Result<Self, NodeError> {
        if UnixStream::connect(path).await.is_ok() {
            return Err(NodeError::SocketTaken {
                path: path.to_path_buf(),
            });
        }
        let is_left = is_socket(path)?;
        let listen = || -> io::Result<UnixListener> {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            if is_left {
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

    /// Serves until told to stop; then lets publishers end their streams, and waits for them.
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
                        // Without descriptors it fails again at once, for as long as there are none.
                        tokio::time::sleep(PAUSE).await;
                    }
                },
                Some(_) = connections.join_next() => {}
                () = stopped(&mut stopping) => break,
            }
        }
        while connections.join_next().await.is_some() {}
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(is_socket(&self.path), Ok(true)) {
            // Nothing can be done about a file that will not go; the next node takes it over.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Returns whether there is a socket at a path, and not nothing.
///
/// Fails   there is something else: a key file that was mistaken for a socket is not to be lost
pub(crate) fn is_socket(path: &Path) -> Result<bool, NodeError> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => Ok(true),
        Ok(_) => Err(NodeError::NoSocket {
            path: path.to_path_buf(),
        }),
        // What cannot be looked at cannot be listened on either, which says why.
        Err(_) => Ok(false),
    }
}

/// Waits until the program at the other end is gone, or will say nothing more.
async fn closed(read: &OwnedReadHalf) {
    loop {
        match read.ready(Interest::READABLE).await {
            Ok(ready) if !ready.is_read_closed() => tokio::time::sleep(PAUSE).await,
            Ok(_) | Err(_) => return,
        }
    }
}

/// Waits until the node is told to stop, or is gone.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
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
        Ok(Err(error)) if is_wrong(&error) => return refuse(write, error.to_string()).await,
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

/// Reads what a program wants.
///
/// Fails   with why it is not waited for any longer
async fn first_frame(
    read: &mut In,
    handle: &Handle,
    mut place: WaitingPlace,
) -> Result<io::Result<Option<Frame>>, String> {
    let first = frame::read(read, Expected::Requests, || handle.now());
    tokio::pin!(first);
    tokio::select! {
        first = tokio::time::timeout(FIRST_FRAME_MAX, &mut first) => {
            first.map_err(|_| "nothing whole was asked within 10 s".to_string())
        }
        () = place.wanted_back() => {
            let first = tokio::time::timeout(LAST_CHANCE, &mut first).await;
            first.map_err(|_| "too many connections ask for nothing".to_string())
        }
    }
}

/// Returns whether a program sent what makes no sense, and did not just go away.
fn is_wrong(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidData
}

/// Says to a program why its connection ends.
async fn refuse(mut write: Out, reason: String) {
    debug!(reason, "local connection refused");
    let refusal = Message::Refused { reason };
    // A program that reads nothing cannot be told.
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
        Some(Frame::Message(Message::Subscribe { name, in_sequence })) => {
            let options = SubscribeOptions { name, in_sequence };
            subscribe(read, write, &handle, options, stopping).await
        }
        Some(Frame::Message(Message::Status)) => {
            let answer = match handle.status().await {
                Some(status) => Message::Report {
                    status: serde_json::to_value(status)?,
                },
                None => no(false, STOPPED.into()),
            };
            reply(write, &answer).await
        }
        Some(Frame::Message(Message::Invite(request))) => {
            let answer = match invite(&handle, request).await {
                Ok(ticket) => Message::Ticket { ticket },
                Err(reason) => Message::Refused { reason },
            };
            reply(write, &answer).await
        }
        Some(Frame::Message(Message::Route { from, to, stream })) => {
            let answer = match handle.route(&from, &to, stream).await {
                Ok(ways) => Message::Ways {
                    ways: serde_json::to_value(ways)?,
                },
                Err(error) => {
                    let is_unknown =
                        matches!(&error, RouteError::Name(error) if error.is_unknown());
                    no(is_unknown, error.to_string())
                }
            };
            reply(write, &answer).await
        }
        Some(Frame::Message(Message::Trace { name, every_ms })) => {
            let every = Duration::from_millis(every_ms);
            trace(read, write, &handle, (name, every), stopping).await
        }
        Some(Frame::Message(Message::Revoke { node })) => {
            let answer = match handle.revoke(&node).await {
                Ok(text) => Message::Notice { text },
                Err(error) => no(error.is_unknown(), error.to_string()),
            };
            reply(write, &answer).await
        }
        Some(_) => {
            let reason =
                "the first frame is neither publish, subscribe, status, invite, revoke, route nor trace"
                    .to_string();
            reply(write, &Message::Refused { reason }).await
        }
    }
}

/// Writes an answer, which the program is to read.
async fn reply(write: &mut Out, answer: &Message) -> io::Result<()> {
    tokio::time::timeout(ANSWER_MAX, frame::write_message(write, answer)).await?
}

/// Returns what says no.
const fn no(is_unknown: bool, reason: String) -> Message {
    if is_unknown {
        Message::Unknown { reason }
    } else {
        Message::Refused { reason }
    }
}

/// How a program came to the end of what it gives.
enum Left {
    /// It has ended its stream.
    Finished,
    /// It is gone, or the node stops.
    Gone,
    /// It said something that makes no sense.
    Wrong(String),
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
        name: request.name,
        needs: request.needs,
        layers: request.layers,
        pack_ratio: request.pack_ratio,
        planner,
    };
    let mut publisher = match handle.publish(publication).await {
        Ok(publisher) => publisher,
        Err(error) => {
            let reason = error.to_string();
            let answer = if error.is_taken() {
                Message::Taken { reason }
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
    // However the program ended, what it gave before is brought to its sinks.
    match carried {
        Ok(Left::Finished) => {
            let summary = finish(&read, publisher).await;
            let summary = serde_json::to_value(summary)?;
            frame::write_message(&mut write, &Message::Summary { summary }).await
        }
        Ok(Left::Wrong(reason)) => {
            // Both halves are closed before the stream ends, so that the program does not go on writing
            // meanwhile.
            refuse(write, reason).await;
            drop(read);
            publisher.cut_off().await;
            Ok(())
        }
        Ok(Left::Gone) => {
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

/// Ends a stream; its name is free as soon as its program waits for that no more.
async fn finish(read: &In, publisher: Publisher) -> PublishSummary {
    let release = publisher.release();
    let finished = publisher.finish();
    tokio::pin!(finished);
    tokio::select! {
        summary = &mut finished => return summary,
        () = closed(read.get_ref()) => {}
    }
    release.await;
    finished.await
}

/// Puts the client's ADUs on the stream until it finishes, goes away, or the node stops.
async fn carry(
    read: &mut In,
    write: &mut Out,
    publisher: &mut Publisher,
    handle: &Handle,
    mut stopping: watch::Receiver<bool>,
) -> io::Result<Left> {
    let mut plans = publisher.plans();
    let (mut sendable, mut losses) = (publisher.sendable(), publisher.losses());
    let mut wanted = false;
    let (mut settled, mut look) = (0, Instant::now() + SETTLED_EVERY);
    loop {
        tell_wanted(write, &mut plans, &mut wanted).await?;
        let next = {
            // A frame that is half read when another arm is ready would be lost: the read is pinned across the others.
            let next = frame::read(read, Expected::Stream, || handle.now());
            tokio::pin!(next);
            loop {
                tokio::select! {
                    biased;
                    () = tokio::time::sleep_until(look) => {
                        look = Instant::now() + SETTLED_EVERY;
                        tell_settled(write, publisher.settled(), &mut settled).await?;
                    }
                    next = &mut next => break next,
                    changed = plans.changed() => {
                        if changed.is_err() {
                            return Ok(Left::Gone);
                        }
                        tell_wanted(write, &mut plans, &mut wanted).await?;
                    }
                    rate = sendable.changed() => {
                        let Ok(rate) = rate else {
                            return Ok(Left::Gone);
                        };
                        let bits_per_second = rate.map(Bitrate::as_bps);
                        frame::write_message(write, &Message::Sendable { bits_per_second }).await?;
                    }
                    sums = losses.changed() => {
                        let Ok(sums) = sums else {
                            return Ok(Left::Gone);
                        };
                        let losses = serde_json::to_value(sums)?;
                        frame::write_message(write, &Message::Losses { losses }).await?;
                    }
                    () = stopped(&mut stopping) => return Ok(Left::Gone),
                }
            }
        };
        let given = match next {
            Ok(Some(Frame::Adu(adu))) => {
                let gone = gone(read.get_ref(), publisher.release());
                tokio::select! {
                    given = give(publisher, adu) => given,
                    // A sink that reads nothing holds it up for as long as it likes.
                    () = gone => return Ok(Left::Gone),
                    () = stopped(&mut stopping) => return Ok(Left::Gone),
                }
            }
            Ok(Some(Frame::Message(Message::Finish))) => return Ok(Left::Finished),
            Ok(Some(Frame::Message(_))) => {
                let why = "a publisher gives ADUs and says that its stream ends, nothing else";
                return Ok(Left::Wrong(why.into()));
            }
            Ok(None) => return Ok(Left::Gone),
            Err(error) if is_wrong(&error) => return Ok(Left::Wrong(error.to_string())),
            Err(error) => return Err(error),
        };
        match given {
            Ok(()) => {}
            Err(PublishError::Stopped) => return Ok(Left::Gone),
            Err(error) => return Ok(Left::Wrong(error.to_string())),
        }
    }
}

/// Frees the name of a stream as soon as its program is gone, and waits for as long as the end of a stream is
/// waited for.
async fn gone(read: &OwnedReadHalf, release: impl Future<Output = ()>) {
    closed(read).await;
    release.await;
    tokio::time::sleep(FINISH_MAX).await;
}

/// Puts an ADU of the client's on the stream.
async fn give(publisher: &mut Publisher, adu: Adu) -> Result<(), PublishError> {
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

/// Tells the client how much of its stream need not be given again, when that is more than it was told last.
async fn tell_settled(write: &mut Out, adus: u64, told: &mut u64) -> io::Result<()> {
    if adus <= *told {
        return Ok(());
    }
    *told = adus;
    frame::write_message(write, &Message::Settled { adus }).await
}

/// Tells the client whether anybody receives its stream, when that is another than it was told last.
async fn tell_wanted(
    write: &mut Out,
    plans: &mut watch::Receiver<Vec<Epoch>>,
    told: &mut bool,
) -> io::Result<()> {
    let wanted = !plans.borrow_and_update().is_empty();
    if wanted == *told {
        return Ok(());
    }
    *told = wanted;
    frame::write_message(write, &Message::Wanted { wanted }).await
}

async fn subscribe(
    read: &mut In,
    write: &mut Out,
    handle: &Handle,
    options: SubscribeOptions,
    mut stopping: watch::Receiver<bool>,
) -> io::Result<()> {
    if handle.is_stopped() {
        return frame::write_message(write, &no(false, STOPPED.into())).await;
    }
    let peer = read.get_ref().as_ref().peer_cred().ok();
    let pid = peer.and_then(|peer| peer.pid());
    let program = pid.map_or_else(|| "a program".into(), |pid| format!("pid {pid}"));
    let mut subscriber = handle.subscribe_as(options, program).await;
    frame::write_message(write, &Message::Accepted).await?;
    let mut told = None;
    let gone = frame::read(read, Expected::Requests, || handle.now());
    tokio::pin!(gone);
    loop {
        tokio::select! {
            biased;
            // A subscriber says nothing more; whatever comes, it has gone.
            _ = &mut gone => return Ok(()),
            event = subscriber.recv() => match event {
                Some(SubscriberEvent::Adu(adu)) => {
                    if let Some(node) = subscriber.source().filter(|node| told != Some(*node)) {
                        told = Some(node);
                        frame::write_message(write, &Message::Source { node }).await?;
                    }
                    frame::write_adu(write, &adu, handle.now()).await?;
                }
                Some(SubscriberEvent::Notice(text)) => {
                    frame::write_message(write, &Message::Notice { text }).await?;
                }
                None if subscriber.has_ended() => break,
                // The stream has not ended: the program sees its node go, and asks again when it is back.
                None => return Ok(()),
            },
            () = stopped(&mut stopping) => {
                let text = "the node stops".to_string();
                return frame::write_message(write, &Message::Notice { text }).await;
            }
        }
    }
    frame::write_message(
        write,
        &Message::End {
            skipped: subscriber.skipped(),
            discarded: subscriber.discarded(),
        },
    )
    .await
}

/// Tells a client what hops cost a stream's ADUs, until it goes away, the node stops or there is nothing to tell.
async fn trace(
    read: &mut In,
    write: &mut Out,
    handle: &Handle,
    (name, every): (StreamName, Duration),
    mut stopping: watch::Receiver<bool>,
) -> io::Result<()> {
    let refused = |error: TraceError| Message::Refused {
        reason: error.to_string(),
    };
    let mut tracer = match handle.trace(name, every).await {
        Ok(tracer) => tracer,
        Err(error) => return frame::write_message(write, &refused(error)).await,
    };
    let source = tracer.source().to_string();
    frame::write_message(write, &Message::Tracing { source }).await?;
    let gone = frame::read(read, Expected::Requests, || handle.now());
    tokio::pin!(gone);
    loop {
        let event = tokio::select! {
            biased;
            // A client says nothing more; whatever comes, it has gone.
            _ = &mut gone => return Ok(()),
            event = tracer.recv() => event,
            () = stopped(&mut stopping) => Err(TraceError::Stopped),
        };
        match event {
            Ok(event) => frame::write_message(write, &Message::Traced(event)).await?,
            Err(error) => return frame::write_message(write, &refused(error)).await,
        }
    }
}
