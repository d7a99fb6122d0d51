//! Converts errors of QUIC and TLS to [`Unreachable`], as sentences that a person can act on.
//!
//! *The idea.* The stack reports the same few causes in many forms; here they are mapped to those
//! causes.
//!
//! *Sources.* RFC 9001 §4.8 (TLS alerts as QUIC errors); RFC 8446 §6.2 (alerts); RFC 7301 §3.2 (ALPN).

use std::net::SocketAddr;

use iroh::endpoint::{
    ConnectError, ConnectWithOptsError, ConnectingError, ConnectionError, TransportErrorCode,
};
use thalweg_base::id::NodeId;

use crate::address::Addresses;
use crate::close::CloseCode;
use crate::error::Unreachable;
use crate::link::{ALPN, DownCause, text};

/// QUIC reports a TLS alert as this number plus the alert's (RFC 9001 §4.8).
const CRYPTO_ERRORS: u64 = 0x100;

/// The alert of a peer that knows none of our protocols.
const NO_APPLICATION_PROTOCOL: u64 = CRYPTO_ERRORS + 120;

/// The alerts about a certificate or a signature, `handshake_failure` to `unknown_ca` and
/// `decrypt_error`.
const CERTIFICATE_ALERTS: [u64; 9] = [40, 42, 43, 44, 45, 46, 47, 48, 51];

/// Converts the error of a dial.
pub(crate) fn of_dial(error: ConnectError, peer: NodeId, addresses: &Addresses) -> Unreachable {
    match error {
        ConnectError::Connection { source, .. }
        | ConnectError::Connecting {
            source: ConnectingError::ConnectionError { source, .. },
            ..
        } => of_end(source, peer, addresses),
        ConnectError::Connect {
            source: ConnectWithOptsError::NoAddress { .. },
            ..
        } => Unreachable::NoAddress(peer),
        ConnectError::Connect {
            source: ConnectWithOptsError::EndpointClosed { .. },
            ..
        } => Unreachable::ShuttingDown,
        ConnectError::Connect {
            source: ConnectWithOptsError::LocallyRejected { .. },
            ..
        }
        | ConnectError::Connecting {
            source: ConnectingError::LocallyRejected { .. },
            ..
        } => Unreachable::NotAdmittedHere(peer),
        ConnectError::Connecting {
            source: ConnectingError::HandshakeFailure { .. },
            ..
        } => Unreachable::WrongKey {
            addresses: list_quic(addresses),
            peer,
        },
        other => Unreachable::Other {
            peer,
            reason: format!("{other:#}"),
        },
    }
}

/// Converts the end of a connection that was not yet a link.
pub(crate) fn of_end(error: ConnectionError, peer: NodeId, addresses: &Addresses) -> Unreachable {
    match error {
        ConnectionError::TimedOut => Unreachable::TimedOut {
            addresses: list_quic(addresses),
        },
        ConnectionError::TransportError(error) => {
            of_code(error.code, peer, addresses, error.to_string())
        }
        ConnectionError::ConnectionClosed(close) => {
            of_code(close.error_code, peer, addresses, text(&close.reason))
        }
        ConnectionError::VersionMismatch => Unreachable::Version { peer, alpn: ALPN },
        ConnectionError::ApplicationClosed(close) => {
            let reason = text(&close.reason);
            match CloseCode::from_number(close.error_code.into_inner()) {
                CloseCode::NotAdmitted => Unreachable::NotAdmitted { peer, reason },
                CloseCode::Version => Unreachable::Version { peer, alpn: ALPN },
                code => Unreachable::Closed { peer, code, reason },
            }
        }
        other => Unreachable::Other {
            peer,
            reason: other.to_string(),
        },
    }
}

/// Converts the end of a TCP session that was not yet a link.
pub(crate) fn of_cause(cause: DownCause, peer: NodeId) -> Unreachable {
    match cause {
        DownCause::ByPeer {
            code: CloseCode::NotAdmitted,
            reason,
        } => Unreachable::NotAdmitted { peer, reason },
        DownCause::ByPeer { code, reason } => Unreachable::Closed { peer, code, reason },
        cause => Unreachable::Other {
            peer,
            reason: cause.to_string(),
        },
    }
}

fn of_code(
    code: TransportErrorCode,
    peer: NodeId,
    addresses: &Addresses,
    reason: String,
) -> Unreachable {
    let code = u64::from(code);
    if code == NO_APPLICATION_PROTOCOL {
        Unreachable::Version { peer, alpn: ALPN }
    } else if CERTIFICATE_ALERTS.contains(&code.wrapping_sub(CRYPTO_ERRORS)) {
        Unreachable::WrongKey {
            addresses: list_quic(addresses),
            peer,
        }
    } else {
        Unreachable::Other { peer, reason }
    }
}

/// Lists the addresses that QUIC tried, for a sentence.
pub(crate) fn list_quic(addresses: &Addresses) -> String {
    let relays = addresses.relays.iter();
    let relays: Vec<_> = relays.map(|relay| format!("the relay {relay}")).collect();
    match (relays.join(", "), addresses.udp.as_slice()) {
        (relays, udp) if relays.is_empty() => list(udp),
        (relays, []) => relays,
        (relays, udp) => format!("{}, {relays}", list(udp)),
    }
}

/// Lists addresses for a sentence.
pub(crate) fn list(addresses: &[SocketAddr]) -> String {
    match addresses {
        [] => "any known address".into(),
        addresses => addresses
            .iter()
            .map(SocketAddr::to_string)
            .collect::<Vec<_>>()
            .join(", "),
    }
}
