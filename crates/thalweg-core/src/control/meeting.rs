//! Two nodes that become neighbours: each tells the other what of the map it lacks.
//!
//! *The idea.* Who knows few records sends them. Who knows many says which, and is asked for those that are missing or older: a
//! link that comes back after a minute costs some records, not all that there are.
//!
//! ```text
//! link up ── Summary: whose records, their numbers ──► ── Lack: of whom ──► ── Record … ──►      both ways at once
//! ```
//!
//! Who does not answer within [`ANSWER_MAX`] is sent all: it may be of an earlier version, which knows no summary.
//!
//! *What it does not do.* It compares no maps afterwards: what is new is flooded.
//!
//! *Sources.* docs/protocol.md §5, "Meeting"; docs/routing.md §2.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::{Controller, Note, Output};
use crate::id::NodeId;
use crate::limits::SUMMARY_NODES_MAX;
use crate::time::{Duration, Instant};
use crate::wire::control::Message;
use crate::wire::summary::{Lack, Prefix, Summary};

/// Up to so many records are sent as they are, a round trip sooner: some 6 kB.
pub(super) const FEW: usize = 16;

/// How long an answer is waited for.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(2);

/// New neighbours that were told what is known.
#[derive(Debug, Default)]
pub(super) struct Meetings(BTreeMap<NodeId, Meeting>);

#[derive(Debug)]
struct Meeting {
    /// How many answers are still to come.
    summaries: usize,
    due: Instant,
}

impl Meetings {
    pub(super) fn poll_timeout(&self) -> Instant {
        let dues = self.0.values().map(|meeting| meeting.due);
        dues.min().unwrap_or(Instant::NEVER)
    }

    /// Takes in that there is no link any more.
    pub(super) fn remove(&mut self, peer: NodeId) {
        self.0.remove(&peer);
    }

    /// Takes in an answer; returns whether one was to come.
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
    /// Tells a new neighbour what is known.
    pub(super) fn meet(&mut self, peer: NodeId, now: Instant) {
        let records = self.directory.sequences();
        let mut records: Vec<(Prefix, u64)> = records
            .map(|(node, sequence)| (Prefix::from(node), sequence))
            .collect();
        // Of two whose keys begin alike both are sent, if the first is lacked.
        records.dedup_by_key(|(prefix, _)| *prefix);
        if records.len() <= FEW {
            return self.tell_all(peer);
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

    fn tell_all(&mut self, peer: NodeId) {
        let known = self.directory.signed().map(super::neighbour::frame);
        let sends = known.map(|frame| Output::Send { to: peer, frame });
        self.outputs.extend(sends);
    }

    /// Sends all to those that do not answer.
    pub(super) fn time_meetings(&mut self, now: Instant) {
        let due = self
            .meetings
            .0
            .extract_if(.., |_, meeting| meeting.due <= now);
        let due: Vec<NodeId> = due.map(|(peer, _)| peer).collect();
        for peer in due {
            self.tell_all(peer);
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
