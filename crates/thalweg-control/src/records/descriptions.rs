//! What streams carry: the signed descriptions that go beside the records.
//!
//! *The idea.* A description holds as long as its stream is announced, and never changes, so each is
//! verified, kept and passed on once. It follows the record that announces its stream: on the same
//! link, behind it. A node that has a record and lacks a description (an earlier version between
//! them passes on none) requests it when it meets a neighbour.
//!
//! ```text
//! news  ── Record ──► ── Description … ──►        meeting  ◄── Summary ──  ── Lack, Undescribed ──►
//! ```
//!
//! *What it does not do.* Nothing depends on a description: a stream without one is carried alike.
//!
//! *Sources.* docs/reference/protocol.md §5.1.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use thalweg_base::description::Description;
use thalweg_base::id::{NodeId, StreamId};
use thalweg_base::limits::{DESCRIPTIONS_MAX, UNDESCRIBED_MAX};
use thalweg_base::wire::control::Message;
use thalweg_base::wire::description::{self as wire, Described};
use thalweg_base::wire::record::Record;
use thalweg_base::wire::summary::Prefix;

use super::Records;
use crate::effect::{Effect, Note, Turn};
use crate::facts::{Keys, Local};
use crate::routing::Signed;

/// Domain separator in front of a description under its signature.
const DESCRIPTION_CONTEXT: &[u8] = b"thalweg description v1";

/// The descriptions of announced streams.
#[derive(Debug, Default)]
pub(super) struct Descriptions(BTreeMap<(NodeId, StreamId), Kept>);

#[derive(Debug)]
struct Kept {
    description: Description,
    signed: Signed,
}

impl Descriptions {
    fn of(&self, node: NodeId) -> impl Iterator<Item = (StreamId, &Kept)> {
        let all = (node, StreamId(0))..=(node, StreamId(u64::MAX));
        self.0.range(all).map(|((_, stream), kept)| (*stream, kept))
    }

    /// Handles a newer record: the descriptions of streams that it does not announce go.
    pub(super) fn handle_record(&mut self, node: NodeId, streams: &BTreeSet<StreamId>) {
        let over: Vec<StreamId> = self
            .of(node)
            .filter_map(|(stream, _)| (!streams.contains(&stream)).then_some(stream))
            .collect();
        for stream in over {
            self.0.remove(&(node, stream));
        }
    }

    /// Keeps what the nodes with a record say; the others are forgotten.
    fn retain(&mut self, nodes: &BTreeSet<NodeId>) {
        self.0.retain(|(node, _), _| nodes.contains(node));
    }
}

impl Records {
    /// Returns what a stream carries, as far as its source has described it.
    pub(crate) fn description(&self, node: NodeId, stream: StreamId) -> Option<&Description> {
        let kept = self.descriptions.0.get(&(node, stream));
        kept.map(|kept| &kept.description)
    }

    /// Signs and floods the descriptions of this node's streams that have none yet.
    pub(super) fn describe(
        &mut self,
        turn: &mut Turn<'_>,
        local: &Local<'_>,
        described: Vec<(StreamId, Description)>,
        keys: &mut dyn Keys,
    ) {
        let node = local.id();
        for (stream, description) in described {
            let is_known = self.descriptions.0.contains_key(&(node, stream));
            if is_known || description.is_empty() || !self.announces(node, stream) {
                continue;
            }
            let described = Described {
                node,
                stream,
                description,
            };
            let record = wire::encode(&described);
            let signature = keys.sign(&[DESCRIPTION_CONTEXT, &record].concat());
            let signed = Signed { record, signature };
            self.keep(turn, None, described, signed);
        }
    }

    /// Handles a description from a neighbour.
    pub(crate) fn handle_description(
        &mut self,
        turn: &mut Turn<'_>,
        local: &Local<'_>,
        from: NodeId,
        signed: Signed,
        keys: &dyn Keys,
    ) {
        let described = match wire::decode(&signed.record) {
            Ok(described) => described,
            Err(error) => return turn.note(Note::DescriptionRefused { from, error }),
        };
        let (node, stream) = (described.node, described.stream);
        let is_known = self.descriptions.0.contains_key(&(node, stream));
        // A node that announces the stream no more, or was never allowed to, needs no description.
        if is_known || node == local.id() || !self.announces(node, stream) {
            return;
        }
        let message = [DESCRIPTION_CONTEXT, &signed.record].concat();
        if !keys.verify(node, &message, &signed.signature) {
            return turn.note(Note::DescriptionForged { from, node });
        }
        self.keep(turn, Some(from), described, signed);
    }

    fn announces(&self, node: NodeId, stream: StreamId) -> bool {
        let record = self.directory.known_record(node);
        record.is_some_and(|record| record.streams.iter().any(|one| one.id == stream))
    }

    /// Keeps a description that is in order, and passes it on.
    fn keep(
        &mut self,
        turn: &mut Turn<'_>,
        from: Option<NodeId>,
        described: Described,
        signed: Signed,
    ) {
        if self.descriptions.0.len() >= DESCRIPTIONS_MAX {
            let nodes = self
                .directory
                .kept()
                .map(|(record, _)| record.node)
                .collect();
            self.descriptions.retain(&nodes);
        }
        if self.descriptions.0.len() >= DESCRIPTIONS_MAX {
            return;
        }
        turn.push(Effect::Broadcast(message(&signed), from));
        let kept = Kept {
            description: described.description,
            signed,
        };
        let key = (described.node, described.stream);
        self.descriptions.0.insert(key, kept);
    }

    /// Sends a neighbour the descriptions of these nodes' streams.
    pub(super) fn send_descriptions(
        &self,
        turn: &mut Turn<'_>,
        peer: NodeId,
        nodes: impl Iterator<Item = NodeId>,
    ) {
        for (_, kept) in nodes.flat_map(|node| self.descriptions.of(node)) {
            turn.send(peer, message(&kept.signed));
        }
    }

    /// Requests, from a neighbour that was sent a summary's answer, the descriptions that are lacking
    /// here of nodes whose records are not: those of the others follow their records.
    pub(super) fn request_descriptions(
        &self,
        turn: &mut Turn<'_>,
        peer: NodeId,
        own: NodeId,
        lacking: &[Prefix],
    ) {
        let others = self.directory.records().filter(|record| record.node != own);
        let others = others.filter(|record| !lacking.contains(&Prefix::from(record.node)));
        let lacks =
            |record: &Record, stream| !self.descriptions.0.contains_key(&(record.node, stream));
        let streams = others.flat_map(|record| {
            let streams = record.streams.iter().map(|stream| stream.id);
            streams.filter(move |stream| lacks(record, *stream))
        });
        let streams: BTreeSet<u64> = streams.map(|stream| stream.0).collect();
        if streams.is_empty() {
            return;
        }
        let streams = streams.into_iter().take(UNDESCRIBED_MAX).map(StreamId);
        turn.send(peer, Message::Undescribed(streams.collect()));
    }

    /// Handles a neighbour's request for descriptions: sends those that are known here.
    ///
    /// Cost    O(descriptions kept · log streams)
    pub(crate) fn handle_undescribed(
        &self,
        turn: &mut Turn<'_>,
        from: NodeId,
        streams: &[StreamId],
    ) {
        let known = self.descriptions.0.iter();
        let asked = known.filter(|((_, stream), _)| {
            let found = streams.binary_search_by_key(&stream.0, |one| one.0);
            found.is_ok()
        });
        for (_, kept) in asked {
            turn.send(from, message(&kept.signed));
        }
    }
}

fn message(signed: &Signed) -> Message {
    Message::Description {
        description: signed.record.clone(),
        signature: signed.signature,
    }
}
