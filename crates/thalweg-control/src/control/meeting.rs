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
use thalweg_base::wire::summary::{Lack, Prefix, Summary};

use super::{Controller, Note, Output};

/// Up to this many records (some 6 kB) are sent without a summary, which saves a round trip.
pub(super) const RECORDS_FEW: usize = 16;

/// How long an answer is awaited.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(2);

/// New neighbours that were sent a summary.
#[derive(Debug, Default)]
pub(super) struct Meetings(BTreeMap<NodeId, Meeting>);

#[derive(Debug)]
struct Meeting {
    /// The number of answers still awaited.
    summaries: usize,
    due: Instant,
}

impl Meetings {
    pub(super) fn poll_timeout(&self) -> Instant {
        let dues = self.0.values().map(|meeting| meeting.due);
        dues.min().unwrap_or(Instant::NEVER)
    }

    /// Handles the loss of a link.
    pub(super) fn remove(&mut self, peer: NodeId) {
        self.0.remove(&peer);
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

impl Controller {
    /// Sends a new neighbour the records, or their summary.
    pub(super) fn send_directory(&mut self, peer: NodeId, now: Instant) {
        let records = self.directory.sequences();
        let mut records: Vec<(Prefix, u64)> = records
            .map(|(node, sequence)| (Prefix::from(node), sequence))
            .collect();
        // If two keys share a prefix, both records are sent when one is lacking.
        records.dedup_by_key(|(prefix, _)| *prefix);
        if records.len() <= RECORDS_FEW {
            return self.send_all_records(peer);
        }
        let summaries = records.chunks(SUMMARY_NODES_MAX);
        let meeting = Meeting {
            summaries: summaries.len(),
            due: now + ANSWER_MAX,
        };
        self.meetings.0.insert(peer, meeting);
        for records in summaries {
            let records = records.to_vec();
            self.send(peer, &Message::Summary(Summary { records }));
        }
    }

    fn send_all_records(&mut self, peer: NodeId) {
        let known = self.directory.signed().map(super::neighbour::frame);
        let sends = known.map(|frame| Output::Send { to: peer, frame });
        self.outputs.extend(sends);
    }

    /// Sends all records to the neighbours that did not answer.
    pub(super) fn handle_meeting_timeout(&mut self, now: Instant) {
        let due = self
            .meetings
            .0
            .extract_if(.., |_, meeting| meeting.due <= now);
        let due: Vec<NodeId> = due.map(|(peer, _)| peer).collect();
        for peer in due {
            self.send_all_records(peer);
        }
    }

    pub(super) fn handle_summary(&mut self, from: NodeId, summary: &Summary) {
        let lacks = |(prefix, sequence): &&(Prefix, u64)| {
            let mut known = self.directory.signed_of(*prefix);
            !known.any(|(_, known)| known >= *sequence)
        };
        let lacking = summary.records.iter().filter(lacks);
        let nodes = lacking.map(|(prefix, _)| *prefix).collect();
        self.send(from, &Message::Lack(Lack { nodes }));
    }

    pub(super) fn handle_lack(&mut self, from: NodeId, lack: &Lack) {
        if !self.meetings.handle_answer(from) {
            return self.note(Note::LackAstray { from });
        }
        let known = lack.nodes.iter();
        let known = known.flat_map(|prefix| self.directory.signed_of(*prefix));
        let frames = known.map(|(signed, _)| super::neighbour::frame(signed));
        let sends = frames.map(|frame| Output::Send { to: from, frame });
        self.outputs.extend(sends);
    }
}
