//! Control messages: between neighbours, and source-routed between the ends of a stream.
//!
//! *The idea.* Neighbours flood changed [`Message::Record`]s. Towards the source of a plan, each
//! node sends the one before it [`Message::Account`]s of what became of a stream,
//! [`Message::Receipt`]s of what the sink has, and [`Message::Advice`] about a node that does not
//! answer. Towards the sinks, [`Message::Silence`] reports that the source does not answer.
//! [`Message::Routed`] envelopes follow the list of nodes written on them. An envelope's content is
//! signed by its sender: a relay can drop it but cannot change it. Its body deploys plans:
//!
//! ```text
//! sink ── Subscribe ──────────────► source        source plans, numbers the plan, and
//! source ── Prepare ──► each node of the path ──► Ready | Refuse
//! source stamps ADUs with the epoch once all are ready, and releases the epoch before
//! ```
//!
//! *What it does not do.* It decides nothing, and it checks no signature.
//!
//! *Sources.* docs/reference/protocol.md §4–6; spec PA-20…PA-29 (gather, prepare, ready, switch-over).

mod body;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use super::account::{self, Report};
use super::admission::{self, Credential, Warrant};
use super::description;
use super::receipt::{self, Advice, Receipt, Silence};
use super::summary::{self, Lack, Summary};
use super::{Reader, SIGNATURE_BYTES, WireError, Write};
use crate::id::{Epoch, NodeId, StreamId};
use crate::limits::{CONTROL_BYTES_MAX, DESCRIPTION_BYTES_MAX, PATH_NODES_MAX};

pub use body::{Body, Prepare, decode_body, encode_body};

/// The frame kind of an account.
const ACCOUNT: u8 = 3;

/// The frame kind of a grant; the numbers below are for plans and streams.
const GRANT: u8 = 16;

/// The frame kind of a revocation.
const REVOCATION: u8 = 17;

/// The frame kind of a receipt.
const RECEIPT: u8 = 5;

/// The frame kind of an advice.
const ADVICE: u8 = 6;

/// The frame kind of an advice that is a doubt: a kind of its own, which earlier versions ignore.
const DOUBT: u8 = 11;

/// The frame kind of a message about a grafted plan.
const BRANCH: u8 = 7;

/// The frame kind of a report that the source is silent.
const SILENCE: u8 = 8;

/// The frame kind of a summary of records.
const SUMMARY: u8 = 9;

/// The frame kind of the answer to a summary.
const LACK: u8 = 10;

/// The frame kind of a stream's description.
const DESCRIPTION: u8 = 12;

/// The frame kind of a request for descriptions.
const UNDESCRIBED: u8 = 13;

/// A message between neighbours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A record and its node's signature over exactly these bytes.
    Record {
        /// As encoded by [`super::record::encode`].
        record: Vec<u8>,
        /// By the record's node.
        signature: [u8; SIGNATURE_BYTES],
    },
    /// An envelope on its way along a list of nodes.
    Routed(Routed),
    /// What became of a stream's ADUs here and behind.
    Account(Report),
    /// A node's rights.
    Grant(Credential),
    /// The end of a node's rights.
    Revocation(Warrant),
    /// What the sink of a plan has.
    Receipt(Receipt),
    /// The next node of a plan does not answer, or may not.
    Advice(Advice),
    /// One of the last three, about a plan that is grafted on another, which carries it further.
    Branch(Branch),
    /// The source of a plan does not answer.
    Silence(Silence),
    /// The records that the sender has.
    Summary(Summary),
    /// Those of a summary that the sender lacks.
    Lack(Lack),
    /// What a stream carries, and its source's signature over exactly these bytes.
    Description {
        /// As encoded by [`super::description::encode`].
        description: Vec<u8>,
        /// By the node that publishes the stream.
        signature: [u8; SIGNATURE_BYTES],
    },
    /// The announced streams whose description the sender lacks, in ascending order.
    Undescribed(Vec<StreamId>),
}

/// A message about a plan that is grafted on the sender; the nodes before that have no part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The stream.
    pub stream: StreamId,
    /// The plan along which the message travels.
    pub via: Epoch,
    /// The message.
    pub said: Said,
}

/// A message towards the source of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// What became of its ADUs from that node on.
    Account(Report),
    /// What its sink has.
    Receipt(Receipt),
    /// A node behind that one does not answer, or may not.
    Advice(Advice),
}

impl Said {
    /// Returns the plan that it concerns.
    pub const fn plan(&self) -> (StreamId, Epoch) {
        match self {
            Self::Account(report) => (report.stream, report.epoch),
            Self::Receipt(receipt) => (receipt.stream, receipt.epoch),
            Self::Advice(advice) => (advice.stream, advice.epoch),
        }
    }
}

impl From<Said> for Message {
    fn from(said: Said) -> Self {
        match said {
            Said::Account(report) => Self::Account(report),
            Said::Receipt(receipt) => Self::Receipt(receipt),
            Said::Advice(advice) => Self::Advice(advice),
        }
    }
}

/// A signed message for a node that need not be a neighbour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routed {
    /// The nodes to pass, the sender first, the addressee last.
    pub route: Vec<NodeId>,
    /// The position in `route` of the node that this copy goes to.
    pub position: usize,
    /// As encoded by [`encode_body`].
    pub body: Vec<u8>,
    /// By `route[0]`, over the addressee's key and the body.
    pub signature: [u8; SIGNATURE_BYTES],
}

/// Returns the message as one control frame.
///
/// Fails   panics if a list is above its limit (a caller's bug)
pub fn encode(message: &Message) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    match message {
        Message::Record { record, signature } => encode_signed(1, record, signature, &mut out),
        Message::Routed(routed) => {
            assert!(
                routed.route.len() <= PATH_NODES_MAX,
                "a route above the limit"
            );
            out.push(2);
            out.varint(routed.route.len() as u64);
            routed
                .route
                .iter()
                .for_each(|node| out.extend_from_slice(&node.0));
            out.varint(routed.position as u64);
            out.blob(&routed.body);
            out.extend_from_slice(&routed.signature);
        }
        Message::Account(report) => {
            out.push(ACCOUNT);
            account::encode(report, &mut out);
        }
        Message::Grant(credential) => {
            out.push(GRANT);
            admission::encode_credential(credential, &mut out);
        }
        Message::Revocation(warrant) => {
            out.push(REVOCATION);
            admission::encode_warrant(warrant, &mut out);
        }
        Message::Receipt(receipt) => {
            out.push(RECEIPT);
            receipt::encode_receipt(receipt, &mut out);
        }
        Message::Advice(advice) => {
            out.push(if advice.is_doubt { DOUBT } else { ADVICE });
            receipt::encode_advice(advice, &mut out);
        }
        Message::Branch(branch) => {
            out.push(BRANCH);
            out.varint(u64::from(branch.via.0));
            out.extend_from_slice(&encode(&branch.said.clone().into()));
        }
        Message::Silence(silence) => {
            out.push(SILENCE);
            receipt::encode_silence(*silence, &mut out);
        }
        Message::Summary(summary) => {
            out.push(SUMMARY);
            summary::encode_summary(summary, &mut out);
        }
        Message::Lack(lack) => {
            out.push(LACK);
            summary::encode_lack(lack, &mut out);
        }
        Message::Description {
            description,
            signature,
        } => encode_signed(DESCRIPTION, description, signature, &mut out),
        Message::Undescribed(streams) => {
            out.push(UNDESCRIBED);
            description::encode_undescribed(streams, &mut out);
        }
    }
    out
}

fn encode_signed(kind: u8, signed: &[u8], signature: &[u8; SIGNATURE_BYTES], out: &mut Vec<u8>) {
    out.push(kind);
    out.blob(signed);
    out.extend_from_slice(signature);
}

/// Returns the plan that an account frame concerns, if it is one; its rest may be malformed.
pub fn accounted(frame: &[u8]) -> Option<(StreamId, Epoch)> {
    let mut reader = Reader::new(frame.strip_prefix(&[ACCOUNT])?);
    let stream = StreamId(u64::from_be_bytes(reader.array("stream").ok()?));
    Some((stream, epoch(&mut reader).ok()?))
}

/// Reads a control frame.
pub fn decode(frame: &[u8]) -> Result<Message, WireError> {
    let mut reader = Reader::new(frame);
    let message = match reader.byte("kind")? {
        1 => Message::Record {
            record: reader.blob("record", CONTROL_BYTES_MAX)?.to_vec(),
            signature: reader.array("signature")?,
        },
        2 => Message::Routed(routed(&mut reader)?),
        ACCOUNT => Message::Account(account::decode(&mut reader)?),
        GRANT => Message::Grant(admission::credential(&mut reader)?),
        REVOCATION => Message::Revocation(admission::warrant(&mut reader)?),
        RECEIPT => Message::Receipt(receipt::decode_receipt(&mut reader)?),
        ADVICE => Message::Advice(receipt::decode_advice(false, &mut reader)?),
        DOUBT => Message::Advice(receipt::decode_advice(true, &mut reader)?),
        BRANCH => Message::Branch(branch(&mut reader)?),
        SILENCE => Message::Silence(receipt::decode_silence(&mut reader)?),
        SUMMARY => Message::Summary(summary::decode_summary(&mut reader)?),
        LACK => Message::Lack(summary::decode_lack(&mut reader)?),
        DESCRIPTION => Message::Description {
            description: reader.blob("description", DESCRIPTION_BYTES_MAX)?.to_vec(),
            signature: reader.array("signature")?,
        },
        UNDESCRIBED => Message::Undescribed(description::decode_undescribed(&mut reader)?),
        kind => return Err(WireError::Kind(u64::from(kind))),
    };
    reader.finish()?;
    Ok(message)
}

fn branch(reader: &mut Reader<'_>) -> Result<Branch, WireError> {
    let via = epoch(reader)?;
    // Only the three messages that travel towards the source; anything else is unknown here.
    let said = match reader.byte("kind")? {
        ACCOUNT => Said::Account(account::decode(reader)?),
        RECEIPT => Said::Receipt(receipt::decode_receipt(reader)?),
        ADVICE => Said::Advice(receipt::decode_advice(false, reader)?),
        DOUBT => Said::Advice(receipt::decode_advice(true, reader)?),
        kind => return Err(WireError::Kind(u64::from(kind))),
    };
    let (stream, _) = said.plan();
    Ok(Branch { stream, via, said })
}

fn routed(reader: &mut Reader<'_>) -> Result<Routed, WireError> {
    let count = reader.count("route", PATH_NODES_MAX)?;
    let mut route = Vec::with_capacity(count);
    for _ in 0..count {
        route.push(NodeId(reader.array("route")?));
    }
    let position = reader.varint("position")? as usize;
    if position >= route.len() {
        return Err(WireError::Malformed("position"));
    }
    let body = reader.blob("body", CONTROL_BYTES_MAX)?.to_vec();
    Ok(Routed {
        route,
        position,
        body,
        signature: reader.array("signature")?,
    })
}

fn epoch(reader: &mut Reader<'_>) -> Result<Epoch, WireError> {
    reader
        .bounded("epoch", u64::from(u32::MAX))
        .map(|epoch| Epoch(epoch as u32))
}
