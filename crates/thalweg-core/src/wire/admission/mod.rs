//! Grants, revocations and tickets as bytes, and what is said at a node's door.
//!
//! *The idea.* Whoever owns a fabric signs what each node may do; a delegate may sign for others, and encloses the grant
//! that makes it one. Both stand in one value, so that whoever has it can check it alone:
//!
//! ```text
//! credential = the node's grant, and its issuer's own grant if the issuer is not the owner
//! warrant    = a revocation,     and its issuer's own grant if the issuer is not the owner
//! ```
//!
//! What is signed is the encoding itself, and only its shortest form is read: a value has one encoding, so none is kept
//! beside it.
//!
//! *What it does not do.* It checks no signature and knows no time; [`crate::admission`] does.
//!
//! *Sources.* docs/protocol.md §12; docs/admission.md.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::control::SIGNATURE_BYTES;
use super::record::flag;
use super::{Reader, WireError, Write};
use crate::admission::{Rights, UnixTime};
use crate::id::NodeId;
use crate::limits::{
    GRANT_BYTES_MAX, RELAY_URL_BYTES_MAX, TEXT_BYTES_MAX, TICKET_ADDRESSES_MAX, TICKET_RELAYS_MAX,
    TICKET_TCP_MAX,
};

#[cfg(test)]
pub(super) mod tests;

/// The version of tickets, their first byte: a ticket is kept and passed on by people, beside all connections.
const TICKET_VERSION: u8 = 1;

/// That of a ticket which names relays: who knows the first alone says so, instead of taking it for damaged.
const TICKET_VERSION_RELAYS: u8 = 2;

/// That of a ticket which names addresses of TCP, and perhaps relays.
const TICKET_VERSION_TCP: u8 = 3;

/// Bytes of a ticket's secret: too many to be guessed by knocking, few enough to be copied.
pub const SECRET_BYTES: usize = 16;

/// What a node may do in a fabric, for a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The fabric, named by its owner's key.
    pub fabric: NodeId,
    /// Who grants: the owner or a delegate.
    pub issuer: NodeId,
    /// To whom.
    pub node: NodeId,
    /// What.
    pub rights: Rights,
    /// Grows from grant to grant of an issuer; a revocation reaches up to a serial.
    pub serial: u64,
    /// Before this it does not hold.
    pub not_before: UnixTime,
    /// From this on it does not hold any more.
    pub expiry: UnixTime,
}

/// The end of all grants of a node up to a serial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revocation {
    /// The fabric, named by its owner's key.
    pub fabric: NodeId,
    /// Who revokes: the owner whatever was granted, a delegate what it granted itself.
    pub issuer: NodeId,
    /// Whose grants.
    pub node: NodeId,
    /// The largest serial that is revoked.
    pub serial: u64,
}

/// Something with the signature of its issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed<T> {
    /// What is signed.
    pub content: T,
    /// Its issuer's signature.
    pub signature: [u8; SIGNATURE_BYTES],
}

/// A node's grant with all that is needed to check it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// The node's grant.
    pub grant: Signed<Grant>,
    /// The grant of its issuer, if that is not the owner.
    pub delegation: Option<Signed<Grant>>,
}

/// A revocation with all that is needed to check it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warrant {
    /// The revocation.
    pub revocation: Signed<Revocation>,
    /// The grant of its issuer, if that is not the owner.
    pub delegation: Option<Signed<Grant>>,
}

/// An invitation into a fabric, as it is handed to whoever is to join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The fabric, named by its owner's key.
    pub fabric: NodeId,
    /// The node that redeems it.
    pub inviter: NodeId,
    /// Where the inviter can be dialled over QUIC.
    pub addresses: Vec<SocketAddr>,
    /// Where over TCP.
    pub tcp_addresses: Vec<SocketAddr>,
    /// URLs of relays by which it can be reached, as text that nobody has checked.
    pub relays: Vec<String>,
    /// What proves that one was invited.
    pub secret: [u8; SECRET_BYTES],
    /// What the inviter will grant.
    pub rights: Rights,
    /// From this on it is not redeemed any more.
    pub expiry: UnixTime,
}

/// What a node says at the door of another.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "one lives at a time, between a stream and its handling"
)]
pub enum Knock {
    /// It shows its grant; the owner has none to show.
    Present {
        /// The fabric.
        fabric: NodeId,
        /// Its grant.
        credential: Option<Credential>,
    },
    /// It redeems a ticket.
    Redeem {
        /// The fabric.
        fabric: NodeId,
        /// The ticket's secret.
        secret: [u8; SECRET_BYTES],
    },
}

/// What it is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "one lives at a time, between a stream and its handling"
)]
pub enum Answer {
    /// It is not let in.
    Refused {
        /// Why, as a sentence for people.
        reason: String,
    },
    /// It may connect.
    Welcome {
        /// The grant of the node that answers; the owner has none.
        credential: Option<Credential>,
        /// The grant that a ticket was redeemed for.
        granted: Option<Credential>,
    },
}

/// What has one encoding, which is signed under a context of its own.
pub trait Sign: Sized {
    /// What precedes the encoding under the signature, so that it can be taken for nothing else.
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

/// Returns what is said at a door as bytes.
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

/// Returns what is answered at a door as bytes.
pub fn encode_answer(answer: &Answer) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    match answer {
        Answer::Refused { reason } => {
            out.push(0);
            out.blob(super::control::truncated(reason).as_bytes());
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

/// Reads a credential that is all there is.
pub fn decode_credential(bytes: &[u8]) -> Result<Credential, WireError> {
    whole(bytes, credential)
}

/// Reads a warrant that is all there is.
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

/// Reads what is said at a door.
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

/// Reads what is answered at a door.
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

/// Reads what is signed, and refuses it unless it is written as this node would write it.
fn canonical<T: Sign>(
    reader: &mut Reader<'_>,
    read: fn(&mut Reader<'_>) -> Result<T, WireError>,
) -> Result<T, WireError> {
    let before = reader.clone();
    let content = read(reader)?;
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
