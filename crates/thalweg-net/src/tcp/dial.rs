//! Dialling a peer, and keeping connections standing by.
//!
//! *The idea.* The first connection begins a session whose id is drawn here; the others join it by that id. One task dials
//! whatever the session says is missing, ever more slowly while that fails. Where a peer has several addresses its
//! connections take them in turn, so that a standby does not go where the active one goes. A peer that was restarted knows
//! no session of before, and says so to who would join it: it is over then.
//!
//! *What it does not do.* It dials no session again that is over.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::{AlertDescription, CertificateError};
use thalweg_core::hop::CloseCode;
use thalweg_core::hop::settings::GREETING_WAIT;
use thalweg_core::id::NodeId;
use thalweg_core::pace::{CarrierNumber, Decoder, Frame, Pacing, Session, SessionId};
use thalweg_core::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::connection::{Connection, begin};
use super::events::Events;
use super::line::{Line, LineError};
use super::shared::Shared;
use super::tls::Tls;
use super::{ALPN, ALPN_PLAIN, Options, socket};
use crate::error::Unreachable;
use crate::task;

/// Between two attempts for a standby at first: as long as fail-overs are apart.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// The longest time between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(16);

/// The connection that begins a session.
const FIRST: CarrierNumber = CarrierNumber(0);

/// Whom to dial, and as what.
#[derive(Clone)]
pub(super) struct Dialler {
    pub(super) tls: Tls,
    pub(super) congestion: Option<String>,
    pub(super) peer: NodeId,
    /// The protocol that is asked for.
    pub(super) alpn: &'static str,
    pub(super) addresses: Vec<SocketAddr>,
}

/// A connection on which each side has said its first word, with the peer's.
type Met = (Line, Decoder, Frame);

/// Begins a session with a peer, at the first of these addresses that answers.
///
/// Fails   nobody answers, somebody else does, the peer does not admit this node
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
    let session = tls.draw().map_err(broken)?;
    let mut dialler = Dialler {
        tls,
        congestion: options.congestion.clone(),
        peer,
        alpn: if is_plain { ALPN_PLAIN } else { ALPN },
        addresses: addresses.to_vec(),
    };
    let (line, decoder, _) = dialler.begin(&hello(session, FIRST)).await?;
    let pacing = pacing(options.pacing, &line);
    let now = options.clock.now();
    let machine = Session::new(pacing, options.standbys, now);
    let (shared, connection, events) = begin(machine, peer, options.clock);
    shared.join(FIRST, line, decoder);
    let keeping = keep(shared.clone(), dialler, session);
    tokio::spawn(task::alone_or(keeping, move || shared.fail_here()));
    Ok((connection, events))
}

/// Returns the first word of a connection of a session.
const fn hello(session: SessionId, number: CarrierNumber) -> Frame {
    Frame::Hello {
        session,
        carrier: number.0,
    }
}

/// Returns who is asked: the peer, if the kernel says nothing.
pub(super) fn pacing(wanted: Pacing, line: &Line) -> Pacing {
    match socket::path(line.socket()) {
        Ok(_) => wanted,
        Err(error) => {
            tracing::debug!(%error, "the kernel says nothing of tcp connections: the peer is asked");
            Pacing::Acked
        }
    }
}

/// Dials standbys until the session is over.
async fn keep(shared: Arc<Shared>, dialler: Dialler, session: SessionId) {
    let mut pause = PAUSE_MIN;
    while !shared.is_over() {
        let (missing, from) = shared.act(|state| {
            let session = &state.session;
            (session.carriers_missing(), session.dial_at())
        });
        if missing == 0 {
            shared.keeper.notified().await;
            continue;
        }
        let rest = from.saturating_since(shared.clock.now());
        if rest > Duration::ZERO {
            // One that is lost meanwhile is made up for at once, and a line that stalls soon.
            let _ = timeout(rest.min(PAUSE_MIN).into(), shared.keeper.notified()).await;
            continue;
        }
        let number = shared.act(super::shared::State::number);
        let hello = hello(session, number);
        let address = dialler.address(number);
        match dialler.connect(address, &hello, GREETING_WAIT).await {
            Ok((line, decoder, _)) => {
                shared.join(number, line, decoder);
                // A standby that goes at once is not dialled at once again.
                sleep(PAUSE_MIN.into()).await;
                pause = PAUSE_MIN;
            }
            // A carrier that is left would bring the peer's own word, and soon: it is worth more.
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

/// Returns whether the peer's first word answers one's own: a greeting is repeated, at the door something is said.
fn is_answered(said: &Frame, heard: &Frame) -> bool {
    match said {
        Frame::Hello { .. } => heard == said,
        _ => !matches!(heard, Frame::Hello { .. }),
    }
}

impl Dialler {
    /// Makes the first connection, with this for the first word; the address that answers is the first from then on.
    pub(super) async fn begin(&mut self, first: &Frame) -> Result<Met, Unreachable> {
        let mut failed = Unreachable::NoAddress(self.peer);
        let count = self.addresses.len();
        let wait = Duration::from_nanos(GREETING_WAIT.as_nanos() / count.max(1) as u64);
        for turn in 0..count {
            match self.connect(self.addresses[0], first, wait).await {
                Ok(connected) => return Ok(connected),
                // What a node says for itself is worth more than the silence of another address.
                Err(error) if turn == 0 || error.is_answer() => failed = error,
                Err(_) => {}
            }
            self.addresses.rotate_left(1);
        }
        Err(failed)
    }

    /// Returns where a connection of the session goes.
    fn address(&self, number: CarrierNumber) -> SocketAddr {
        self.addresses[number.0 as usize % self.addresses.len()]
    }

    /// Makes one connection, first words included.
    async fn connect(
        &self,
        address: SocketAddr,
        first: &Frame,
        wait: Duration,
    ) -> Result<Met, Unreachable> {
        match timeout(wait.into(), self.greet(address, first)).await {
            Ok(greeted) => greeted.map_err(|error| self.unreachable(address, error)),
            Err(_) => Err(Unreachable::TimedOut {
                addresses: address.to_string(),
            }),
        }
    }

    async fn greet(&self, address: SocketAddr, first: &Frame) -> Result<Met, LineError> {
        let stream = TcpStream::connect(address).await?;
        socket::set_options(&stream, self.congestion.as_deref())?;
        let tls = self.tls.client(self.peer, self.alpn)?;
        let (mut line, mut decoder) = Line::establish(stream, tls).await?;
        // A peer that refuses may have gone already; why, it said before.
        let said = line.say_frame(first).await;
        let heard = line.hear_frame(&mut decoder).await?;
        said?;
        if is_answered(first, &heard) {
            Ok((line, decoder, heard))
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
