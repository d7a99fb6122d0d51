//! New neighbours: each sends the other the records that it lacks.
//!
//! *The idea.* A node that knows few records sends them. Otherwise it sends a summary of their
//! numbers, and is asked for those that are missing or older: a link that returns after a minute
//! costs some records, not all.
//!
//! ```text
//! link up ── Summary: nodes, record numbers ──► ── Lack: nodes ──► ── Record … ──►    in both directions
//! ```
//!
//! A neighbour that does not answer within [`ANSWER_MAX`] is sent all records: it may run an
//! earlier version without summaries.
//!
//! *What it does not do.* It compares no maps later: new records are flooded.
//!
//! *Sources.* docs/reference/protocol.md §5, "Meeting"; docs/concepts/routing.md §2.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use thalweg_base::id::NodeId;
use thalweg_base::limits::SUMMARY_NODES_MAX;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::wire::control::Message;
use thalweg_base::wire::record::Record;
use thalweg_base::wire::summary::{Lack, Prefix, Summary};

use super::leaves::is_leaf;
use super::{Records, frame};
use crate::effect::{Note, Output, Turn};
use crate::facts::Local;

/// Up to this many records (some 6 kB) are sent without a summary, which saves a round trip.
pub(crate) const RECORDS_FEW: usize = 16;

/// The size of a record of usual size: that of a leaf.
const RECORD_BYTES: usize = 256;

/// How long an answer is awaited.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(2);

/// New neighbours that were sent a summary.
#[derive(Debug, Default)]
pub(crate) struct Meetings(BTreeMap<NodeId, Meeting>);

#[derive(Debug)]
struct Meeting {
    /// The number of answers still awaited.
    summaries: usize,
    due: Instant,
}

impl Meetings {
    pub(crate) fn poll_timeout(&self) -> Instant {
        let dues = self.0.values().map(|meeting| meeting.due);
        dues.min().unwrap_or(Instant::NEVER)
    }

    /// Handles the loss of a link.
    pub(crate) fn remove(&mut self, peer: NodeId) {
        self.0.remove(&peer);
    }

    /// Handles summaries that a neighbour was sent, to be answered by then.
    fn handle_sent(&mut self, peer: NodeId, summaries: usize, due: Instant) {
        let before = self.0.get(&peer).map_or(0, |meeting| meeting.summaries);
        let summaries = before + summaries;
        self.0.insert(peer, Meeting { summaries, due });
    }

    /// Handles an answer; returns whether one was awaited.
    fn handle_answer(&mut self, peer: NodeId) -> bool {
        let Some(meeting) = self.0.get_mut(&peer) else {
            return false;
        };
        meeting.summaries -= 1;
        if meeting.summaries == 0 {
            self.0.remove(&peer);
        }
        true
    }
}

impl Records {
    /// Sends a new neighbour the records, or their summary: of a leaf at a hub not those of other
    /// leaves.
    pub(crate) fn send_directory(&mut self, turn: &mut Turn<'_>, local: &Local<'_>, peer: NodeId) {
        if self.withholds_from(turn, local, peer) {
            self.send_kept(turn, peer, |record| !is_leaf(record));
        } else {
            self.send_kept(turn, peer, |_| true);
        }
    }

    /// Sends a new neighbour some of the records, or their summary.
    pub(super) fn send_kept(
        &mut self,
        turn: &mut Turn<'_>,
        peer: NodeId,
        is_wanted: impl Fn(&Record) -> bool,
    ) {
        let kept = self.directory.kept().map(|(record, _)| record);
        let kept = kept.filter(|record| is_wanted(record));
        let mut records: Vec<(Prefix, u64)> = kept
            .map(|record| (Prefix::from(record.node), record.sequence))
            .collect();
        // If two keys share a prefix, both records are sent when one is lacking.
        records.dedup_by_key(|(prefix, _)| *prefix);
        if records.len() <= RECORDS_FEW {
            return self.send_all(turn, peer, is_wanted);
        }
        let summaries = records.chunks(SUMMARY_NODES_MAX);
        self.meetings
            .handle_sent(peer, summaries.len(), turn.now + ANSWER_MAX);
        for records in summaries {
            let records = records.to_vec();
            turn.send(peer, Message::Summary(Summary { records }));
        }
    }

    fn send_all(&self, turn: &mut Turn<'_>, peer: NodeId, is_wanted: impl Fn(&Record) -> bool) {
        let kept = self.directory.kept();
        for (_, signed) in kept.filter(|(record, _)| is_wanted(record)) {
            let frame = frame(signed);
            turn.output(Output::Send { to: peer, frame });
        }
        let nodes = self.directory.kept().map(|(record, _)| record.node);
        self.send_descriptions(turn, peer, nodes);
    }

    /// Sends a neighbour the records of these nodes; returns what they amount to, in records of usual
    /// size.
    pub(super) fn send_of(&self, turn: &mut Turn<'_>, peer: NodeId, nodes: &[NodeId]) -> usize {
        let kept = nodes.iter().filter_map(|node| self.directory.newest(*node));
        let mut sent = 0;
        for (_, signed) in kept {
            let frame = frame(signed);
            sent += frame.len().div_ceil(RECORD_BYTES);
            turn.output(Output::Send { to: peer, frame });
        }
        sent
    }

    /// Sends all records to the neighbours that did not answer; to leaves not those of others.
    pub(crate) fn handle_meetings(&mut self, turn: &mut Turn<'_>) {
        let due = self
            .meetings
            .0
            .extract_if(.., |_, meeting| meeting.due <= turn.now);
        let due: Vec<NodeId> = due.map(|(peer, _)| peer).collect();
        for peer in due {
            let is_to_leaf = self.leaves.has(peer);
            self.send_all(turn, peer, |record| !is_to_leaf || !is_leaf(record));
        }
    }

    /// Handles the summary of a new neighbour's records: asks for those that are news here.
    pub(crate) fn handle_summary(
        &self,
        turn: &mut Turn<'_>,
        own: NodeId,
        from: NodeId,
        summary: &Summary,
    ) {
        let lacks = |(prefix, sequence): &&(Prefix, u64)| {
            let mut known = self.directory.signed_of(*prefix);
            !known.any(|(_, known)| known >= *sequence)
        };
        let lacking = summary.records.iter().filter(lacks);
        let nodes: Vec<Prefix> = lacking.map(|(prefix, _)| *prefix).collect();
        self.request_descriptions(turn, from, own, &nodes);
        turn.send(from, Message::Lack(Lack { nodes }));
    }

    /// Handles the answer to a summary: sends what a new neighbour lacks.
    pub(crate) fn handle_lack(&mut self, turn: &mut Turn<'_>, from: NodeId, lack: &Lack) {
        if !self.meetings.handle_answer(from) {
            return turn.note(Note::LackAstray { from });
        }
        if self.leaves.has(from) {
            self.leaves.handle_asked(lack.nodes.len());
        }
        let known = lack.nodes.iter();
        let known = known.flat_map(|prefix| self.directory.signed_of(*prefix));
        for (signed, _) in known {
            let frame = frame(signed);
            turn.output(Output::Send { to: from, frame });
        }
        let lacking = lack.nodes.iter();
        let lacking = lacking.flat_map(|prefix| self.directory.nodes_of(*prefix));
        self.send_descriptions(turn, from, lacking);
    }
}
