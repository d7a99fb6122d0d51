//! Dialling a peer over TCP, and keeping standby connections.
//!
//! *The idea.* The first connection begins a session with a random id; the others join it by that
//! id. One task dials the standbys that the session lacks, with growing pauses while that fails. If
//! a peer has several addresses, connections use them in turn, so that a standby takes another path
//! than the active connection. A restarted peer does not know the session and refuses the standby:
//! the session is over then.
//!
//! *What it does not do.* It does not redial a session that is over.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::{AlertDescription, CertificateError};
use thalweg_base::id::NodeId;
use thalweg_base::time::Duration;
use thalweg_link::hop::CloseCode;
use thalweg_link::hop::settings::GREETING_WAIT;
use thalweg_link::tcp_mux::{CarrierNumber, Decoder, Frame, Pacing, Session, SessionId};
use tokio::time::{sleep, timeout};

use super::connection::{Connection, begin};
use super::events::Events;
use super::line::{Line, LineError};
use super::shared::Shared;
use super::socket::Segments;
use super::tls::Tls;
use super::{ALPN, ALPN_PLAIN, Options, carrier, socket};
use crate::error::Unreachable;
use crate::task;

/// First pause between attempts for a standby: the minimum interval between fail-overs.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// Longest pause between attempts.
const PAUSE_MAX: Duration = Duration::from_secs(16);

/// The number of the connection that begins a session.
const FIRST: CarrierNumber = CarrierNumber(0);

/// Dials one peer with one protocol.
#[derive(Clone)]
pub(super) struct Dialler {
    pub(super) tls: Tls,
    pub(super) congestion: Option<String>,
    pub(super) peer: NodeId,
    /// The protocol name to negotiate (ALPN).
    pub(super) alpn: &'static str,
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) segments: Segments,
}

/// A connection after the exchange of first frames, with the peer's.
type Greeted = (Line, Decoder, Frame);

/// Begins a session with a peer, at the first of these addresses that answers.
///
/// Fails   if none answers, another node does, or the peer does not admit this node
pub async fn dial(
    options: &Options,
    peer: NodeId,
    addresses: &[SocketAddr],
) -> Result<(Connection, Events), Unreachable> {
    if peer == options.identity.id() {
        return Err(Unreachable::OwnKey(peer));
    }
    let broken = |error: rustls::Error| Unreachable::Other {
        peer,
        reason: error.to_string(),
    };
    let is_plain = options.plain.contains(&peer);
    let tls = Tls::new(&options.identity, &[]).map_err(broken)?;
    let session = tls.draw_session_id().map_err(broken)?;
    let mut dialler = Dialler {
        tls,
        congestion: options.congestion.clone(),
        peer,
        alpn: if is_plain { ALPN_PLAIN } else { ALPN },
        addresses: addresses.to_vec(),
        segments: options.segments,
    };
    let (line, decoder, _) = dialler.begin(&hello(session, FIRST)).await?;
    let pacing = pacing(options.pacing, &line);
    let now = options.clock.now();
    let machine = Session::new(pacing, options.standbys, now);
    let clear = options.clear.clone().filter(|_| line.is_plain());
    let (shared, connection, events) = begin(machine, peer, options.clock, clear);
    carrier::join(&shared, FIRST, line, decoder);
    let dialling = dial_standbys(shared.clone(), dialler, session);
    tokio::spawn(task::alone_or(dialling, move || shared.fail_internally()));
    Ok((connection, events))
}

/// Returns the first frame of a session's connection.
const fn hello(session: SessionId, number: CarrierNumber) -> Frame {
    Frame::Hello {
        session,
        carrier: number.0,
    }
}

/// Returns the source of credit: the peer's acknowledgements if the kernel reports nothing.
pub(super) fn pacing(configured: Pacing, line: &Line) -> Pacing {
    match socket::path(line.socket()) {
        Ok(_) => configured,
        Err(error) => {
            tracing::debug!(%error, "no TCP_INFO from the kernel: credit comes from the peer");
            Pacing::Acked
        }
    }
}

/// Dials standbys until the session is over.
async fn dial_standbys(shared: Arc<Shared>, dialler: Dialler, session: SessionId) {
    let mut pause = PAUSE_MIN;
    while !shared.is_over() {
        let (missing, from) = shared.act(|state| {
            let session = &state.session;
            (session.carriers_missing(), session.dial_at())
        });
        if missing == 0 {
            shared.standby_needed.notified().await;
            continue;
        }
        let wait_time = from.saturating_since(shared.clock.now());
        if wait_time > Duration::ZERO {
            // Waits in steps: a carrier lost meanwhile is replaced at once, a stalled one soon.
            let _ = timeout(
                wait_time.min(PAUSE_MIN).into(),
                shared.standby_needed.notified(),
            )
            .await;
            continue;
        }
        let number = shared.act(super::shared::State::number);
        let hello = hello(session, number);
        let address = dialler.address(number);
        match dialler.connect(address, &hello, GREETING_WAIT).await {
            Ok((line, decoder, _)) => {
                carrier::join(&shared, number, line, decoder);
                // A standby that fails at once is not redialled at once.
                sleep(PAUSE_MIN.into()).await;
                pause = PAUSE_MIN;
            }
            // If a carrier is left, the peer's own close will arrive on it soon, with a better
            // reason.
            Err(Unreachable::Closed {
                code: code @ CloseCode::Shutdown,
                reason,
                ..
            }) if shared.lock().session.carriers() == 0 => shared.end_with_peer(code, reason),
            Err(error) => {
                tracing::debug!(peer = %dialler.peer.short(), %error, "no tcp standby");
                sleep(pause.into()).await;
                pause = (pause + pause).min(PAUSE_MAX);
            }
        }
    }
}

/// Returns whether the peer's first frame answers this end's: a greeting is repeated, a door
/// request gets another frame.
fn is_answered(sent: &Frame, received: &Frame) -> bool {
    match sent {
        Frame::Hello { .. } => received == sent,
        _ => !matches!(received, Frame::Hello { .. }),
    }
}

impl Dialler {
    /// Makes the first connection, with `first` as its first frame; moves the address that answers
    /// to the front.
    pub(super) async fn begin(&mut self, first: &Frame) -> Result<Greeted, Unreachable> {
        let mut failed = Unreachable::NoAddress(self.peer);
        let count = self.addresses.len();
        let wait = Duration::from_nanos(GREETING_WAIT.as_nanos() / count.max(1) as u64);
        for turn in 0..count {
            match self.connect(self.addresses[0], first, wait).await {
                Ok(connected) => return Ok(connected),
                // An answer of the node is worth more than the silence of another address.
                Err(error) if turn == 0 || error.is_answer() => failed = error,
                Err(_) => {}
            }
            self.addresses.rotate_left(1);
        }
        Err(failed)
    }

    /// Returns the address for a connection of the session.
    fn address(&self, number: CarrierNumber) -> SocketAddr {
        self.addresses[number.0 as usize % self.addresses.len()]
    }

    /// Makes one connection, including the exchange of first frames.
    async fn connect(
        &self,
        address: SocketAddr,
        first: &Frame,
        wait: Duration,
    ) -> Result<Greeted, Unreachable> {
        match timeout(wait.into(), self.greet(address, first)).await {
            Ok(greeted) => greeted.map_err(|error| self.unreachable(address, error)),
            Err(_) => Err(Unreachable::TimedOut {
                addresses: address.to_string(),
            }),
        }
    }

    async fn greet(&self, address: SocketAddr, first: &Frame) -> Result<Greeted, LineError> {
        let socket = socket::open(address, self.segments)?;
        socket::set_options(&socket, self.congestion.as_deref())?;
        let stream = socket.connect(address).await?;
        let tls = self.tls.client(self.peer, self.alpn)?;
        let (mut line, mut decoder) = Line::establish(stream, tls).await?;
        // A peer that refuses may have closed already, so its reason is read before the write error
        // is reported.
        let sent = line.send_frame(first).await;
        let received = line.receive_frame(&mut decoder).await?;
        sent?;
        if is_answered(first, &received) {
            Ok((line, decoder, received))
        } else {
            Err(LineError::Greeting)
        }
    }

    fn unreachable(&self, address: SocketAddr, error: LineError) -> Unreachable {
        let peer = self.peer;
        match error {
            LineError::Tls(rustls::Error::InvalidCertificate(
                CertificateError::ApplicationVerificationFailure,
            )) => Unreachable::WrongKey {
                addresses: address.to_string(),
                peer,
            },
            LineError::Protocol
            | LineError::Tls(rustls::Error::AlertReceived(
                AlertDescription::NoApplicationProtocol,
            )) => Unreachable::Version {
                peer,
                alpn: self.alpn,
            },
            LineError::Closed(CloseCode::NotAdmitted, reason) => {
                Unreachable::NotAdmitted { peer, reason }
            }
            LineError::Closed(code, reason) => Unreachable::Closed { peer, code, reason },
            error => Unreachable::Other {
                peer,
                reason: format!("{address}: {error}"),
            },
        }
    }
}
