//! Grants, revocations and tickets as bytes, and the messages at a node's door.
//!
//! *The idea.* The owner of a fabric signs what each node may do. A delegate may sign for others,
//! and encloses the grant that makes it a delegate. Both are in one value, which can be checked by
//! itself:
//!
//! ```text
//! credential = the node's grant, and its issuer's own grant if the issuer is not the owner
//! warrant    = a revocation,     and its issuer's own grant if the issuer is not the owner
//! ```
//!
//! The signature covers the encoding itself, and only the shortest form is accepted: a value has
//! one encoding, so the signed bytes need not be stored beside it.
//!
//! *What it does not do.* It checks no signature and no time; `thalweg_control::admission` does.
//!
//! *Sources.* docs/reference/protocol.md §12; docs/concepts/admission.md.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::record::flag;
use super::{Reader, SIGNATURE_BYTES, WireError, Write, truncated};
use crate::id::NodeId;
use crate::limits::{
    GRANT_BYTES_MAX, RELAY_URL_BYTES_MAX, TEXT_BYTES_MAX, TICKET_ADDRESSES_MAX, TICKET_RELAYS_MAX,
    TICKET_TCP_MAX,
};
use crate::rights::{Rights, UnixTime};

#[cfg(test)]
pub(super) mod tests;

/// The version of tickets, their first byte: people keep and forward tickets outside of any connection.
const TICKET_VERSION: u8 = 1;

/// The version of a ticket with relays: an older program reports an unknown version instead of a
/// damaged ticket.
const TICKET_VERSION_RELAYS: u8 = 2;

/// The version of a ticket with TCP addresses, and perhaps relays.
const TICKET_VERSION_TCP: u8 = 3;

/// Bytes of a ticket's secret: too many to guess online, few enough to copy.
pub const SECRET_BYTES: usize = 16;

/// A node's rights in a fabric, for a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The fabric, identified by its owner's key.
    pub fabric: NodeId,
    /// The issuer: the owner or a delegate.
    pub issuer: NodeId,
    /// The node that is granted the rights.
    pub node: NodeId,
    /// The rights.
    pub rights: Rights,
    /// Grows from grant to grant of an issuer; a revocation reaches up to a serial.
    pub serial: u64,
    /// The first second at which it holds.
    pub not_before: UnixTime,
    /// The first second at which it no longer holds.
    pub expiry: UnixTime,
}

/// The end of all grants of a node up to a serial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revocation {
    /// The fabric, identified by its owner's key.
    pub fabric: NodeId,
    /// The issuer: the owner revokes any grant, a delegate its own.
    pub issuer: NodeId,
    /// The node that loses the grants.
    pub node: NodeId,
    /// The largest serial that is revoked.
    pub serial: u64,
}

/// Content with the signature of its issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed<T> {
    /// The signed content.
    pub content: T,
    /// Its issuer's signature.
    pub signature: [u8; SIGNATURE_BYTES],
}

/// A node's grant with everything needed to check it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// The node's grant.
    pub grant: Signed<Grant>,
    /// The grant of its issuer, unless that is the owner.
    pub delegation: Option<Signed<Grant>>,
}

/// A revocation with everything needed to check it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warrant {
    /// The revocation.
    pub revocation: Signed<Revocation>,
    /// The grant of its issuer, unless that is the owner.
    pub delegation: Option<Signed<Grant>>,
}

/// An invitation into a fabric, handed to the person who is to join a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The fabric, identified by its owner's key.
    pub fabric: NodeId,
    /// The node that redeems it.
    pub inviter: NodeId,
    /// The inviter's QUIC addresses.
    pub addresses: Vec<SocketAddr>,
    /// The inviter's TCP addresses.
    pub tcp_addresses: Vec<SocketAddr>,
    /// URLs of relays that reach the inviter, as unchecked text.
    pub relays: Vec<String>,
    /// The proof of the invitation.
    pub secret: [u8; SECRET_BYTES],
    /// The rights that the inviter will grant.
    pub rights: Rights,
    /// The first second at which it is no longer redeemed.
    pub expiry: UnixTime,
}

/// A request at the door of another node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "one lives at a time, between a stream and its handling"
)]
pub enum Knock {
    /// Shows a grant; the owner has none to show.
    Present {
        /// The fabric.
        fabric: NodeId,
        /// The grant.
        credential: Option<Credential>,
    },
    /// Redeems a ticket.
    Redeem {
        /// The fabric.
        fabric: NodeId,
        /// The ticket's secret.
        secret: [u8; SECRET_BYTES],
    },
}

/// The answer at the door.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "one lives at a time, between a stream and its handling"
)]
pub enum Answer {
    /// The node is not admitted.
    Refused {
        /// The reason, as a sentence for people.
        reason: String,
    },
    /// The node may connect.
    Welcome {
        /// The grant of the answering node; the owner has none.
        credential: Option<Credential>,
        /// The grant that a ticket was redeemed for.
        granted: Option<Credential>,
    },
}

/// A value with one encoding, signed under a context of its own.
pub trait Sign: Sized {
    /// Precedes the encoding under the signature, so that it cannot be taken for another kind of value.
    const CONTEXT: &'static [u8];

    /// Appends the encoding.
    fn encode(&self, out: &mut Vec<u8>);

    /// Returns the bytes that are signed.
    fn signed_bytes(&self) -> Vec<u8> {
        let mut out = Self::CONTEXT.to_vec();
        self.encode(&mut out);
        out
    }
}

impl Sign for Grant {
    const CONTEXT: &'static [u8] = b"thalweg grant v1";

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.fabric.0);
        out.extend_from_slice(&self.issuer.0);
        out.extend_from_slice(&self.node.0);
        out.push(self.rights.bits());
        out.varint(self.serial);
        out.varint(self.not_before.seconds());
        out.varint(self.expiry.seconds());
    }
}

impl Sign for Revocation {
    const CONTEXT: &'static [u8] = b"thalweg revocation v1";

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.fabric.0);
        out.extend_from_slice(&self.issuer.0);
        out.extend_from_slice(&self.node.0);
        out.varint(self.serial);
    }
}

impl Sign for Ticket {
    const CONTEXT: &'static [u8] = b"thalweg ticket v1";

    fn encode(&self, out: &mut Vec<u8>) {
        assert!(
            self.addresses.len() <= TICKET_ADDRESSES_MAX
                && self.tcp_addresses.len() <= TICKET_TCP_MAX,
            "addresses above the limit"
        );
        assert!(
            self.relays.len() <= TICKET_RELAYS_MAX
                && (self.relays.iter()).all(|relay| relay.len() <= RELAY_URL_BYTES_MAX),
            "relays above the limit"
        );
        let version = match (self.tcp_addresses.is_empty(), self.relays.is_empty()) {
            (true, true) => TICKET_VERSION,
            (true, false) => TICKET_VERSION_RELAYS,
            (false, _) => TICKET_VERSION_TCP,
        };
        out.push(version);
        out.extend_from_slice(&self.fabric.0);
        let is_another = self.inviter != self.fabric;
        out.push(u8::from(is_another));
        if is_another {
            out.extend_from_slice(&self.inviter.0);
        }
        encode_addresses(&self.addresses, out);
        if version != TICKET_VERSION {
            out.varint(self.relays.len() as u64);
            for relay in &self.relays {
                out.blob(relay.as_bytes());
            }
        }
        if version == TICKET_VERSION_TCP {
            encode_addresses(&self.tcp_addresses, out);
        }
        out.extend_from_slice(&self.secret);
        out.push(self.rights.bits());
        out.varint(self.expiry.seconds());
    }
}

fn encode_addresses(addresses: &[SocketAddr], out: &mut Vec<u8>) {
    out.varint(addresses.len() as u64);
    for address in addresses {
        match address.ip() {
            IpAddr::V4(ip) => {
                out.push(4);
                out.extend_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                out.push(6);
                out.extend_from_slice(&ip.octets());
            }
        }
        out.extend_from_slice(&address.port().to_be_bytes());
    }
}

/// Appends a credential.
pub fn encode_credential(credential: &Credential, out: &mut Vec<u8>) {
    encode_proof(credential.delegation.as_ref(), out);
    encode_signed(&credential.grant, out);
}

/// Appends a warrant.
pub fn encode_warrant(warrant: &Warrant, out: &mut Vec<u8>) {
    encode_proof(warrant.delegation.as_ref(), out);
    encode_signed(&warrant.revocation, out);
}

fn encode_proof(delegation: Option<&Signed<Grant>>, out: &mut Vec<u8>) {
    out.push(u8::from(delegation.is_some()));
    if let Some(delegation) = delegation {
        encode_signed(delegation, out);
    }
}

fn encode_signed<T: Sign>(signed: &Signed<T>, out: &mut Vec<u8>) {
    let mut content = Vec::with_capacity(GRANT_BYTES_MAX);
    signed.content.encode(&mut content);
    out.blob(&content);
    out.extend_from_slice(&signed.signature);
}

/// Returns a ticket with its signature as bytes.
pub fn encode_ticket(ticket: &Signed<Ticket>) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    ticket.content.encode(&mut out);
    out.extend_from_slice(&ticket.signature);
    out
}

/// Returns a request at a door as bytes.
pub fn encode_knock(knock: &Knock) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    match knock {
        Knock::Present { fabric, credential } => {
            out.push(0);
            out.extend_from_slice(&fabric.0);
            encode_optional(credential.as_ref(), &mut out);
        }
        Knock::Redeem { fabric, secret } => {
            out.push(1);
            out.extend_from_slice(&fabric.0);
            out.extend_from_slice(secret);
        }
    }
    out
}

/// Returns an answer at a door as bytes.
pub fn encode_answer(answer: &Answer) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    match answer {
        Answer::Refused { reason } => {
            out.push(0);
            out.blob(truncated(reason).as_bytes());
        }
        Answer::Welcome {
            credential,
            granted,
        } => {
            out.push(1);
            encode_optional(credential.as_ref(), &mut out);
            encode_optional(granted.as_ref(), &mut out);
        }
    }
    out
}

fn encode_optional(credential: Option<&Credential>, out: &mut Vec<u8>) {
    out.push(u8::from(credential.is_some()));
    if let Some(credential) = credential {
        encode_credential(credential, out);
    }
}

/// Reads a credential that fills `bytes`.
pub fn decode_credential(bytes: &[u8]) -> Result<Credential, WireError> {
    whole(bytes, credential)
}

/// Reads a warrant that fills `bytes`.
pub fn decode_warrant(bytes: &[u8]) -> Result<Warrant, WireError> {
    whole(bytes, warrant)
}

/// Reads a ticket with its signature.
pub fn decode_ticket(bytes: &[u8]) -> Result<Signed<Ticket>, WireError> {
    whole(bytes, |reader| {
        let content = canonical(reader, ticket)?;
        let signature = reader.array("signature")?;
        Ok(Signed { content, signature })
    })
}

/// Reads a request at a door.
pub fn decode_knock(bytes: &[u8]) -> Result<Knock, WireError> {
    whole(bytes, |reader| {
        let kind = reader.byte("kind")?;
        let fabric = NodeId(reader.array("fabric")?);
        match kind {
            0 => Ok(Knock::Present {
                fabric,
                credential: optional(reader)?,
            }),
            1 => Ok(Knock::Redeem {
                fabric,
                secret: reader.array("secret")?,
            }),
            kind => Err(WireError::Kind(u64::from(kind))),
        }
    })
}

/// Reads an answer at a door.
pub fn decode_answer(bytes: &[u8]) -> Result<Answer, WireError> {
    whole(bytes, |reader| match reader.byte("kind")? {
        0 => Ok(Answer::Refused {
            reason: reader.text("reason", TEXT_BYTES_MAX)?,
        }),
        1 => Ok(Answer::Welcome {
            credential: optional(reader)?,
            granted: optional(reader)?,
        }),
        kind => Err(WireError::Kind(u64::from(kind))),
    })
}

fn whole<T>(
    bytes: &[u8],
    read: impl FnOnce(&mut Reader<'_>) -> Result<T, WireError>,
) -> Result<T, WireError> {
    let mut reader = Reader::new(bytes);
    let value = read(&mut reader)?;
    reader.finish()?;
    Ok(value)
}

pub(super) fn credential(reader: &mut Reader<'_>) -> Result<Credential, WireError> {
    Ok(Credential {
        delegation: proof(reader)?,
        grant: signed(reader, grant)?,
    })
}

pub(super) fn warrant(reader: &mut Reader<'_>) -> Result<Warrant, WireError> {
    Ok(Warrant {
        delegation: proof(reader)?,
        revocation: signed(reader, revocation)?,
    })
}

fn optional(reader: &mut Reader<'_>) -> Result<Option<Credential>, WireError> {
    flag(reader, "credential")?
        .then(|| credential(reader))
        .transpose()
}

fn proof(reader: &mut Reader<'_>) -> Result<Option<Signed<Grant>>, WireError> {
    flag(reader, "delegation")?
        .then(|| signed(reader, grant))
        .transpose()
}

fn signed<T: Sign>(
    reader: &mut Reader<'_>,
    read: fn(&mut Reader<'_>) -> Result<T, WireError>,
) -> Result<Signed<T>, WireError> {
    let mut inner = Reader::new(reader.blob("signed content", GRANT_BYTES_MAX)?);
    let content = canonical(&mut inner, read)?;
    inner.finish()?;
    Ok(Signed {
        content,
        signature: reader.array("signature")?,
    })
}

/// Reads signed content, and rejects it unless it is encoded as this node would encode it.
fn canonical<T: Sign>(
    reader: &mut Reader<'_>,
    read: fn(&mut Reader<'_>) -> Result<T, WireError>,
) -> Result<T, WireError> {
    let before = reader.clone();
    let content = read(reader)?;
    // Encode it again: a longer form of a varint would be a second encoding of the same value.
    let mut again = Vec::with_capacity(GRANT_BYTES_MAX);
    content.encode(&mut again);
    let read = before.remaining() - reader.remaining();
    let mut before = before;
    if before.take(read, "signed content")? == again {
        Ok(content)
    } else {
        Err(WireError::Malformed(
            "signed content, not in shortest form,",
        ))
    }
}

fn grant(reader: &mut Reader<'_>) -> Result<Grant, WireError> {
    Ok(Grant {
        fabric: NodeId(reader.array("fabric")?),
        issuer: NodeId(reader.array("issuer")?),
        node: NodeId(reader.array("node")?),
        rights: rights(reader)?,
        serial: reader.varint("serial")?,
        not_before: time(reader)?,
        expiry: time(reader)?,
    })
}

fn revocation(reader: &mut Reader<'_>) -> Result<Revocation, WireError> {
    Ok(Revocation {
        fabric: NodeId(reader.array("fabric")?),
        issuer: NodeId(reader.array("issuer")?),
        node: NodeId(reader.array("node")?),
        serial: reader.varint("serial")?,
    })
}

fn ticket(reader: &mut Reader<'_>) -> Result<Ticket, WireError> {
    let version = reader.byte("version")?;
    if !(TICKET_VERSION..=TICKET_VERSION_TCP).contains(&version) {
        return Err(WireError::VersionOf {
            what: "the ticket",
            version,
            most: TICKET_VERSION_TCP,
        });
    }
    let fabric = NodeId(reader.array("fabric")?);
    let inviter = if flag(reader, "inviter")? {
        NodeId(reader.array("inviter")?)
    } else {
        fabric
    };
    let addresses = addresses(reader, TICKET_ADDRESSES_MAX)?;
    let count = match version {
        TICKET_VERSION => 0,
        _ => reader.count("relays", TICKET_RELAYS_MAX)?,
    };
    let relays = (0..count).map(|_| reader.text("relay", RELAY_URL_BYTES_MAX));
    let relays = relays.collect::<Result<_, _>>()?;
    let tcp_addresses = match version {
        TICKET_VERSION_TCP => self::addresses(reader, TICKET_TCP_MAX)?,
        _ => Vec::new(),
    };
    Ok(Ticket {
        fabric,
        inviter,
        addresses,
        tcp_addresses,
        relays,
        secret: reader.array("secret")?,
        rights: rights(reader)?,
        expiry: time(reader)?,
    })
}

fn addresses(reader: &mut Reader<'_>, limit: usize) -> Result<Vec<SocketAddr>, WireError> {
    let count = reader.count("addresses", limit)?;
    (0..count).map(|_| address(reader)).collect()
}

fn address(reader: &mut Reader<'_>) -> Result<SocketAddr, WireError> {
    let ip: IpAddr = match reader.byte("address family")? {
        4 => Ipv4Addr::from(reader.array::<4>("address")?).into(),
        6 => Ipv6Addr::from(reader.array::<16>("address")?).into(),
        _ => return Err(WireError::Malformed("address family")),
    };
    let port = u16::from_be_bytes(reader.array("port")?);
    Ok(SocketAddr::new(ip, port))
}

fn rights(reader: &mut Reader<'_>) -> Result<Rights, WireError> {
    Rights::from_bits(reader.byte("rights")?).ok_or(WireError::Malformed("rights"))
}

fn time(reader: &mut Reader<'_>) -> Result<UnixTime, WireError> {
    reader.varint("time").map(UnixTime::from_seconds)
}
