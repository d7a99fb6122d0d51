//! The door: where a node that is not admitted yet shows its grant or redeems a ticket.
//!
//! *The idea.* A connection of its own, with a protocol name of its own, on which each side says one thing and which then
//! ends: so the gate of links stays as narrow as it is (who is not admitted gets nowhere), and whoever knocks holds a
//! place for a moment only, on a bench with few places.
//!
//! ```text
//! caller ── connect, `thalweg-door/1` ──► keeper          both keys proved by TLS
//!        ── one stream: what it says ───►         at most DOOR_BYTES_MAX bytes
//!        ◄── one stream: the answer ─────
//! ```
//!
//! Where no packet of UDP gets through and the node has an address of TCP, the same two things are said there. The bench is
//! one for both ways.
//!
//! *What it does not do.* It understands neither what is said nor the answer: whoever keeps the door ([`Doorkeeper`])
//! does.
//!
//! *Sources.* docs/protocol.md §12.

use bytes::Bytes;
use iroh::endpoint::{Connection, PortmapperConfig, presets};
use iroh::{PublicKey, TransportAddr};
use thalweg_core::congestion::Algorithm;
use thalweg_core::hop::settings::{GREETING_WAIT, IDLE_TIMEOUT};
use thalweg_core::id::NodeId;
use thalweg_core::limits::DOOR_BYTES_MAX;
use thalweg_core::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit, mpsc, oneshot};
use tokio::time::timeout;

use crate::close::{CloseCode, ToVarInt as _};
use crate::endpoint::{Addresses, Endpoint, HEAD_START, Udp, address, reason, transport};
use crate::error::Unreachable;
use crate::identity::Identity;
use crate::tcp;

/// The protocol of the door and its version, as the TLS handshake names it.
pub const DOOR_ALPN: &str = "thalweg-door/1";

/// Callers who are heard at once; more are turned away, so that they do not take the places of links.
pub(crate) const CALLERS_MAX: usize = 16;

/// What a caller is told for whom there is no place.
pub(crate) const NO_PLACE: &str = "nobody is heard at the door now";

/// What one is told that says nothing, or too much.
pub(crate) const NOTHING_SAID: &str = "nothing to answer was said in time";

/// Whoever is asked about callers, and about what to say at others' doors.
pub type Doorkeeper = mpsc::Sender<AtDoor>;

/// Something that happens at a door.
#[derive(Debug)]
pub enum AtDoor {
    /// A node with this key says something at our door.
    Asked {
        /// Who, proved.
        caller: NodeId,
        /// What it says.
        knock: Bytes,
        /// What it is answered; nothing is a closed door.
        answer: oneshot::Sender<Bytes>,
    },
    /// A kept peer does not admit us, or we not it: what is to be said at its door?
    Introduce {
        /// Nothing if there is nothing to say.
        knock: oneshot::Sender<Option<Bytes>>,
    },
    /// What a kept peer answered at its door.
    Answered {
        /// Who, proved.
        keeper: NodeId,
        /// What it said.
        answer: Bytes,
        /// Whether it lets us in; else its reason, as a sentence.
        heeded: oneshot::Sender<Result<(), String>>,
    },
}

/// A door that is kept, with the places of those that are heard, whichever way they have come.
#[derive(Debug)]
pub(crate) struct Door {
    keeper: Doorkeeper,
    places: Semaphore,
}

impl Door {
    pub(crate) fn new(keeper: Doorkeeper) -> Self {
        Self {
            keeper,
            places: Semaphore::new(CALLERS_MAX),
        }
    }

    /// Takes a place, if one is free.
    pub(crate) fn place(&self) -> Option<SemaphorePermit<'_>> {
        self.places.try_acquire().ok()
    }

    /// Has the keeper answer; none if nobody keeps the door any more.
    pub(crate) async fn ask(&self, caller: NodeId, knock: Bytes) -> Option<Bytes> {
        let (answer, answered) = oneshot::channel();
        let asked = AtDoor::Asked {
            caller,
            knock,
            answer,
        };
        self.keeper.send(asked).await.ok()?;
        answered.await.ok()
    }
}

/// Who calls, and by what means.
struct Caller<'a> {
    identity: &'a Identity,
    /// None where nothing can be reached over QUIC.
    iroh: Option<(&'a iroh::Endpoint, Udp)>,
    /// The kernel's congestion control for TCP; none: its default.
    congestion: Option<&'a str>,
    /// How long QUIC is tried alone, if there is TCP too.
    head_start: Duration,
}

/// Says one thing at a node's door and returns the answer, from an endpoint of its own.
///
/// It uses the relays among the addresses. Those of TCP it dials when nobody answers over QUIC.
///
/// Fails   with the reason as a sentence, after 10 s at the latest, or 14 s if both are tried
pub async fn call(
    identity: &Identity,
    keeper: NodeId,
    addresses: impl Into<Addresses>,
    knock: &[u8],
) -> Result<Bytes, Unreachable> {
    let addresses = addresses.into();
    if keeper == identity.id() {
        return Err(Unreachable::OwnKey(keeper));
    }
    let mut caller = Caller {
        identity,
        iroh: None,
        congestion: None,
        head_start: HEAD_START,
    };
    if addresses.is_tcp_alone() {
        return Box::pin(caller.call(keeper, &addresses, knock)).await;
    }
    let binding = iroh::Endpoint::builder(presets::Minimal)
        .secret_key(identity.secret())
        .transport_config(transport::config(IDLE_TIMEOUT, Algorithm::default()))
        .portmapper_config(PortmapperConfig::Disabled)
        .relay_mode(address::relay_mode(&addresses.relays))
        .bind();
    // Tens of kilobytes, which whoever calls need not hold.
    let endpoint = Box::pin(binding)
        .await
        .map_err(|error| other(keeper, &error))?;
    caller.iroh = Some((&endpoint, TransportAddr::Ip));
    let answer = Box::pin(caller.call(keeper, &addresses, knock)).await;
    endpoint.close().await;
    answer
}

impl Caller<'_> {
    /// Calls over QUIC, and over TCP when nobody answers there.
    async fn call(
        &self,
        keeper: NodeId,
        addresses: &Addresses,
        knock: &[u8],
    ) -> Result<Bytes, Unreachable> {
        let over_tcp = tcp::knock(
            self.identity,
            self.congestion,
            keeper,
            &addresses.tcp,
            knock,
        );
        let Some((iroh, udp)) = self.iroh else {
            return over_tcp.await;
        };
        let has_tcp = !addresses.tcp.is_empty();
        let wait = if has_tcp {
            self.head_start
        } else {
            GREETING_WAIT
        };
        match converse((iroh, udp), keeper, addresses, knock, wait).await {
            Err(udp) if has_tcp && !udp.is_answer() => over_tcp.await.map_err(|tcp| {
                let (udp, tcp) = (Box::new(udp), Box::new(tcp));
                Unreachable::Both { udp, tcp }
            }),
            said => said,
        }
    }
}

/// Introduces this node at the door of a kept peer; returns whether there was anything to say, and it was let in.
pub(crate) async fn introduce(
    endpoint: &Endpoint,
    peer: NodeId,
    addresses: &Addresses,
    door: &Door,
) -> Result<bool, Unreachable> {
    let keeper = &door.keeper;
    let unheard = || Unreachable::ShuttingDown;
    let (knock, said) = oneshot::channel();
    let introduce = AtDoor::Introduce { knock };
    keeper.send(introduce).await.map_err(|_| unheard())?;
    let Some(knock) = said.await.map_err(|_| unheard())? else {
        return Ok(false);
    };
    let caller = Caller {
        identity: &endpoint.tcp().session.identity,
        iroh: endpoint
            .may_try_quic(addresses)
            .then(|| (endpoint.iroh(), endpoint.udp())),
        congestion: endpoint.tcp().session.congestion.as_deref(),
        head_start: endpoint.tcp().head_start,
    };
    let answer = Box::pin(caller.call(peer, addresses, &knock)).await?;
    let (heeded, result) = oneshot::channel();
    let answered = AtDoor::Answered {
        keeper: peer,
        answer,
        heeded,
    };
    keeper.send(answered).await.map_err(|_| unheard())?;
    let result = result.await.map_err(|_| unheard())?;
    result
        .map(|()| true)
        .map_err(|reason| Unreachable::NotAdmitted { peer, reason })
}

/// Hears a caller and answers; returns why it could not be heard.
pub(crate) async fn hear(connection: Connection, door: &Door) -> Result<(), String> {
    let caller = NodeId(*connection.remote_id().as_bytes());
    let heard = timeout(GREETING_WAIT.into(), answer(&connection, caller, door)).await;
    let result = heard.unwrap_or_else(|_| Err("timed out".into()));
    let (code, reason) = match &result {
        Ok(()) => (CloseCode::Shutdown, "all is said"),
        Err(_) => (CloseCode::Protocol, NOTHING_SAID),
    };
    connection.close(code.varint(), reason.as_bytes());
    result
}

async fn answer(connection: &Connection, caller: NodeId, door: &Door) -> Result<(), String> {
    let mut said = connection.accept_uni().await.map_err(text)?;
    let knock = said.read_to_end(DOOR_BYTES_MAX).await.map_err(text)?;
    let answer = door.ask(caller, knock.into()).await;
    let answer = answer.ok_or("the node shuts down")?;
    let mut reply = connection.open_uni().await.map_err(text)?;
    reply.write_all(&answer).await.map_err(text)?;
    reply.finish().map_err(text)?;
    // The caller closes when it has read; that it has gone is no fault.
    connection.closed().await;
    Ok(())
}

async fn converse(
    (endpoint, udp): (&iroh::Endpoint, Udp),
    keeper: NodeId,
    addresses: &Addresses,
    knock: &[u8],
    wait: Duration,
) -> Result<Bytes, Unreachable> {
    let key = PublicKey::from_bytes(&keeper.0).map_err(|error| other(keeper, &error))?;
    let target = addresses.target(key, udp);
    let said = async {
        let connection = endpoint
            .connect(target, DOOR_ALPN.as_bytes())
            .await
            .map_err(|error| reason::of_dial(error, keeper, addresses))?;
        let answer = say(&connection, knock).await;
        // Why the connection ended says more than that a stream could not be read.
        let answer = answer.map_err(|error| match connection.close_reason() {
            Some(ended) => reason::of_end(ended, keeper, addresses),
            None => other(keeper, &error),
        });
        connection.close(CloseCode::Shutdown.varint(), b"all is said");
        answer
    };
    let timed_out = |_| {
        Err(Unreachable::TimedOut {
            addresses: reason::list_quic(addresses),
        })
    };
    let said = timeout(wait.into(), said).await;
    said.unwrap_or_else(timed_out).map_err(|error| match error {
        // It is this protocol that the node does not know, not that of links.
        Unreachable::Version { peer, .. } => Unreachable::Version {
            peer,
            alpn: DOOR_ALPN,
        },
        error => error,
    })
}

async fn say(connection: &Connection, knock: &[u8]) -> Result<Bytes, String> {
    let mut stream = connection.open_uni().await.map_err(text)?;
    stream.write_all(knock).await.map_err(text)?;
    stream.finish().map_err(text)?;
    let mut reply = connection.accept_uni().await.map_err(text)?;
    let answer = reply.read_to_end(DOOR_BYTES_MAX).await.map_err(text)?;
    Ok(answer.into())
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn other(peer: NodeId, error: &impl std::fmt::Display) -> Unreachable {
    Unreachable::Other {
        peer,
        reason: format!("{error:#}"),
    }
}
