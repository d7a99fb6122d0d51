//! The engine as its host holds it; the thread's start and end.
//!
//! *The idea.* The host owns the thread: dropping the engine ends it. Nothing that the host calls
//! waits for the thread, except the futures that say so.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use thalweg_base::id::NodeId;
use tokio::sync::{Mutex, mpsc, oneshot};

use super::config::{Config, Options};
use super::connection::Connection;
use super::counters::{Counters, EngineCounters};
use super::dial::{self, DialError};
use super::inbox::{Inbox, Request};
use super::marks::Marks;
use super::socket::Socket;
use super::turn::Turn;
use super::udp::Udp as _;

/// An engine; dropping it closes its connections and ends its thread.
pub struct Engine {
    local: SocketAddr,
    inbox: Arc<Inbox>,
    counters: Arc<Counters>,
    accepted: Mutex<mpsc::UnboundedReceiver<Connection>>,
    /// Resolves when the thread has ended.
    ended: Mutex<Option<oneshot::Receiver<()>>>,
}

impl Engine {
    /// Binds the port and starts the thread.
    ///
    /// Fails   if the address cannot be bound, or the system gives no thread or `eventfd`
    pub fn start(options: Options) -> io::Result<Self> {
        let config = Config::new(&options).map_err(io::Error::other)?;
        let socket = Socket::bind(options.listen)?;
        let local = socket.local()?;
        let marks = Arc::new(Marks::new()?);
        let inbox = Arc::new(Inbox::new(marks.clone()));
        let counters = Arc::<Counters>::default();
        let (accepting, accepted) = mpsc::unbounded_channel();
        let (ending, ended) = oneshot::channel::<()>();
        let asked = (marks, inbox.clone());
        let turn = Turn::new(options, config, socket, asked, counters.clone(), accepting);
        let thread = std::thread::Builder::new().name("engine".into());
        thread.spawn(move || {
            // Dropped at the end, also by a panic.
            let _ending = ending;
            turn.run();
        })?;
        Ok(Self {
            local,
            inbox,
            counters,
            accepted: Mutex::new(accepted),
            ended: Mutex::new(Some(ended)),
        })
    }

    /// Returns the address that the port is bound to.
    pub const fn listening(&self) -> SocketAddr {
        self.local
    }

    /// Returns whether the port can send to an address of this family.
    pub fn reaches(&self, address: IpAddr) -> bool {
        dial::reaches(self.local.ip(), address)
    }

    /// Returns the next connection that a peer has begun; `None` once the engine has ended.
    pub async fn accept(&self) -> Option<Connection> {
        self.accepted.lock().await.recv().await
    }

    /// Begins a connection with a peer that holds this key.
    ///
    /// Fails   if nobody answers in time, another key does, or this node does not admit the peer
    pub async fn dial(&self, peer: NodeId, address: SocketAddr) -> Result<Connection, DialError> {
        let (reply, dialled) = oneshot::channel();
        self.inbox.push(Request::Dial {
            peer,
            address,
            reply,
        });
        dialled.await.unwrap_or(Err(DialError::Stopped))
    }

    /// Returns the counters since the start.
    pub fn counters(&self) -> EngineCounters {
        self.counters.read()
    }

    /// Ends the thread at once; peers are told nothing.
    pub(crate) fn abort(&self) {
        self.inbox.push(Request::Abort);
    }

    /// Closes all connections and waits until the thread has ended.
    pub async fn shutdown(&self) {
        self.inbox.push(Request::Stop);
        if let Some(ended) = self.ended.lock().await.take() {
            // The thread sends nothing; its end drops the sender.
            let _ = ended.await;
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("local", &self.local)
            .finish_non_exhaustive()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.inbox.push(Request::Stop);
    }
}
