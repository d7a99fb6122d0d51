//! The node's side of the local socket.

use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration as StdDuration;

use thalweg_core::admission::Rights;
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
use tracing::debug;

use super::frame::{self, Frame, Message, PublishRequest, TicketRequest};
use crate::control::{InviteRequest, RouteError, TraceError};
use crate::handle::{
    FINISH_MAX, Handle, Outgoing, Publication, Publisher, SubscribeOptions, SubscriberEvent,
};
use crate::node::NodeError;

/// How long nobody is let in after that failed; and how often it is looked whether a program is gone that has written more than is
/// read.
const PAUSE: StdDuration = StdDuration::from_millis(100);

/// What a program is answered when the node's control part is gone.
const STOPPED: &str = "the node has stopped";

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
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        let serving = serve(stream, self.handle.clone(), stopping.clone());
                        connections.spawn(alone(serving));
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

/// Waits until the program at the other end has been gone for so long as the end of its stream is waited for.
async fn gone(read: &OwnedReadHalf) {
    loop {
        match read.ready(Interest::READABLE).await {
            Ok(ready) if !ready.is_read_closed() => tokio::time::sleep(PAUSE).await,
            Ok(_) | Err(_) => return tokio::time::sleep(FINISH_MAX).await,
        }
    }
}

/// Waits until the node is told to stop, or is gone.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stop| *stop).await;
}

async fn serve(stream: UnixStream, handle: Handle, stopping: watch::Receiver<bool>) {
    let (read, write) = stream.into_split();
    let (mut read, mut write) = (BufReader::new(read), BufWriter::new(write));
    if let Err(error) = answer(&mut read, &mut write, handle, stopping).await {
        debug!(%error, "local connection ended");
    }
}

async fn answer(
    read: &mut In,
    write: &mut Out,
    handle: Handle,
    stopping: watch::Receiver<bool>,
) -> io::Result<()> {
    match frame::read(read, || handle.now()).await? {
        None => Ok(()),
        Some(Frame::Message(Message::Publish(request))) => {
            publish(read, write, &handle, request, stopping).await
        }
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
            frame::write_message(write, &answer).await
        }
        Some(Frame::Message(Message::Invite(request))) => {
            let answer = match invite(&handle, request).await {
                Ok(ticket) => Message::Ticket { ticket },
                Err(reason) => Message::Refused { reason },
            };
            frame::write_message(write, &answer).await
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
            frame::write_message(write, &answer).await
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
            frame::write_message(write, &answer).await
        }
        Some(_) => {
            let reason =
                "the first frame is neither publish, subscribe, status, invite, revoke, route nor trace"
                    .to_string();
            frame::write_message(write, &Message::Refused { reason }).await
        }
    }
}

/// Returns what says no.
const fn no(is_unknown: bool, reason: String) -> Message {
    if is_unknown {
        Message::Unknown { reason }
    } else {
        Message::Refused { reason }
    }
}

async fn invite(handle: &Handle, request: TicketRequest) -> Result<String, String> {
    let rights = request.rights.parse::<Rights>();
    let seconds = request.lasts_seconds;
    let request = InviteRequest {
        rights: rights.map_err(|error| error.to_string())?,
        uses: request.uses,
        open_for: Duration::from_secs(request.open_for_seconds),
        lasts: seconds.map_or(Duration::NEVER, Duration::from_secs),
        addresses: request.addresses,
        tcp_addresses: request.tcp_addresses,
    };
    let ticket = handle.invite(request).await;
    ticket.map_err(|error| error.to_string())
}

async fn publish(
    read: &mut In,
    write: &mut Out,
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
        Err(error) => return frame::write_message(write, &refused(error.to_string())).await,
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
            return frame::write_message(write, &answer).await;
        }
    };
    frame::write_message(write, &Message::Accepted).await?;
    let carried = carry(read, write, &mut publisher, handle, stopping).await;
    // However the program ended, what it gave before is brought to its end.
    let summary = serde_json::to_value(publisher.finish().await)?;
    carried?;
    frame::write_message(write, &Message::Summary { summary }).await
}

/// Puts the client's ADUs on the stream until it finishes, goes away, or the node stops.
async fn carry(
    read: &mut In,
    write: &mut Out,
    publisher: &mut Publisher,
    handle: &Handle,
    mut stopping: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut plans = publisher.plans();
    let (mut sendable, mut losses) = (publisher.sendable(), publisher.losses());
    let mut wanted = false;
    loop {
        tell_wanted(write, &mut plans, &mut wanted).await?;
        let next = {
            // A frame that is half read when another arm is ready would be lost: the read is pinned across the others.
            let next = frame::read(read, || handle.now());
            tokio::pin!(next);
            loop {
                tokio::select! {
                    biased;
                    next = &mut next => break next?,
                    changed = plans.changed() => {
                        if changed.is_err() {
                            return Ok(());
                        }
                        tell_wanted(write, &mut plans, &mut wanted).await?;
                    }
                    rate = sendable.changed() => {
                        let Ok(rate) = rate else {
                            return Ok(());
                        };
                        let bits_per_second = rate.map(Bitrate::as_bps);
                        frame::write_message(write, &Message::Sendable { bits_per_second }).await?;
                    }
                    sums = losses.changed() => {
                        let Ok(sums) = sums else {
                            return Ok(());
                        };
                        let losses = serde_json::to_value(sums)?;
                        frame::write_message(write, &Message::Losses { losses }).await?;
                    }
                    () = stopped(&mut stopping) => return Ok(()),
                }
            }
        };
        match next {
            Some(Frame::Adu(adu)) => tokio::select! {
                given = give(publisher, adu) => given?,
                // A sink that reads nothing holds it up for as long as it likes.
                () = gone(read.get_ref()) => return Ok(()),
                () = stopped(&mut stopping) => return Ok(()),
            },
            Some(Frame::Message(_)) | None => return Ok(()),
        }
    }
}

/// Puts an ADU of the client's on the stream.
async fn give(publisher: &mut Publisher, adu: Adu) -> io::Result<()> {
    let outgoing = Outgoing {
        media_time: adu.header.media_time,
        importance: adu.header.importance,
        layer: adu.header.layer,
        flags: adu.header.flags,
        depends_on: adu.header.depends_on,
        payload: adu.payload,
    };
    publisher.send(outgoing).await.map_err(io::Error::other)?;
    Ok(())
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
    let gone = frame::read(read, || handle.now());
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
                None => break,
            },
            () = stopped(&mut stopping) => {
                let text = "the node stops".to_string();
                frame::write_message(write, &Message::Notice { text }).await?;
                break;
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
    let gone = frame::read(read, || handle.now());
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
