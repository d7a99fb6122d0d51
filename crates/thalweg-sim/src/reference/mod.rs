//! A reference model of delivery, simple enough to be evidently right, run beside the machine.
//!
//! The model learns what is installed and what arrives where, and nothing of queues, lifts, sockets and
//! sessions. From these it derives what the machine must do:
//!
//! * an ADU that fits the node's part of its plan goes on to the next node, unless the
//!   part keeps fewer layers; everything else goes no further;
//! * at its sink it is delivered once, as it was sent;
//! * in sequence, if the stream's order says so: a gap is waited for no longer than the deadline of the
//!   first ADU behind it, or than the patience of the mailbox, and an ADU that comes after its place
//!   was given up is not delivered.
//!
//! The machine must deliver exactly that, in that order, before its clock moves on. Losses and delays
//! are inputs of the model; it does not predict them.
//!
//! *Sources.* docs/reference/protocol.md §7; `thalweg_dataplane::mailbox`: the same constants, other code.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use thalweg_base::adu::{Flags, Header};
use thalweg_base::id::{Epoch, NodeId, Sequence, StreamId};
use thalweg_base::limits::KEEP_ADUS_MAX;
use thalweg_base::needs::Reliability;
use thalweg_base::time::Instant;
use thalweg_control::control::Installation;
use thalweg_dataplane::mailbox::{
    BACKLOG_BYTES, BEGIN_ADUS, BEGIN_PATIENCE, END_PATIENCE, FIRST_PLAN, OVERTAKEN_LEAST,
    OVERTAKEN_PATIENCE, PATIENCE, PATIENCE_MAX, PATIENCE_ONCE, START_PATIENCE,
};

/// A subscriber: the node's index, and the stream's index in the world.
pub type ReaderId = (usize, usize);

/// The model's next step for an ADU at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It goes on to this node, if there is a link.
    Onward(NodeId),
    /// It is for a subscriber here.
    Here,
    /// It goes no further.
    Nowhere,
}

/// The model.
#[derive(Clone, Debug, Default)]
pub struct Model {
    parts: BTreeMap<(usize, StreamId, Epoch), Installation>,
    readers: BTreeMap<ReaderId, Reader>,
}

/// One subscriber.
#[derive(Clone, Debug, Default)]
struct Reader {
    in_sequence: bool,
    stream: Option<StreamId>,
    turns: Turns,
    /// Unless in sequence: what has arrived, how many ADUs there are, and until when the rest is waited
    /// for at least.
    arrived: BTreeSet<u64>,
    ending: Option<(u64, Instant)>,
    /// The sequence numbers due for delivery.
    expected: Vec<u64>,
}

/// The in-sequence order of one stream's ADUs.
#[derive(Clone, Debug, Default)]
struct Turns {
    /// ADUs that have come and wait for a gap before them.
    waiting: BTreeMap<u64, Arrived>,
    /// The plan of the ADU released last, and the newest plan of any ADU.
    last: Epoch,
    newest: Epoch,
    /// Payload bytes that have come, and when the last ADU came.
    bytes: u64,
    came: Instant,
    /// When an ADU last came that had been overtaken by at least `OVERTAKEN_LEAST`.
    overtaken: Option<Instant>,
    /// Sequence numbers that were released.
    given: BTreeSet<u64>,
    /// Below this sequence number nothing more comes.
    given_up: u64,
    /// Until when a subscriber that joins in the middle waits for earlier ADUs.
    start: Option<Instant>,
    has_ended: bool,
}

/// An ADU waiting to be released.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    is_end: bool,
    epoch: Epoch,
    is_sent_again: bool,
    came: Instant,
    deadline: Instant,
    /// Payload bytes of the stream that had come by then.
    bytes: u64,
}

impl Model {
    /// Records that a node has installed a part.
    pub fn handle_installed(&mut self, node: usize, part: Installation) {
        self.parts.insert((node, part.stream, part.epoch), part);
    }

    /// Records that a node has removed a part.
    pub fn handle_removed(&mut self, node: usize, stream: StreamId, epoch: Epoch) {
        self.parts.remove(&(node, stream, epoch));
    }

    /// Records a subscription.
    pub fn handle_subscribed(&mut self, reader: ReaderId, in_sequence: bool) {
        let reader = self.readers.entry(reader).or_default();
        reader.in_sequence = in_sequence;
    }

    /// Records which publication a subscriber reads from now on; its sequence numbers start over.
    pub fn handle_found(&mut self, reader: ReaderId, stream: StreamId) {
        let reader = self.readers.entry(reader).or_default();
        *reader = Reader {
            in_sequence: reader.in_sequence,
            stream: Some(stream),
            ..Reader::default()
        };
    }

    /// Records below which sequence number nothing more comes to a subscriber.
    pub fn handle_given_up(&mut self, reader: ReaderId, below: Sequence) {
        let reader = self.readers.entry(reader).or_default();
        reader.turns.given_up = reader.turns.given_up.max(below.0);
    }

    /// Records that a node is gone, with its parts and its subscribers.
    pub fn handle_gone(&mut self, node: usize) {
        self.parts.retain(|(at, _, _), _| *at != node);
        self.readers.retain(|(at, _), _| *at != node);
    }

    /// Returns the next step of an ADU at a node: from its producer (`from` is `None`) or from a neighbour.
    pub fn step(&self, node: usize, from: Option<NodeId>, header: &Header) -> Step {
        let Some(part) = self.parts.get(&(node, header.stream, header.epoch)) else {
            return Step::Nowhere;
        };
        let is_sealed = header.flags.contains(Flags::SEALED);
        let is_stranger = from.is_some_and(|from| from != part.previous);
        let is_exposed = from.is_some() && !part.plaintext && !is_sealed;
        let layers = part
            .adapters
            .iter()
            .filter_map(|word| word.strip_prefix("keep:")?.parse::<u8>().ok());
        let is_filtered = layers.min().is_some_and(|layers| header.layer >= layers);
        match part.next {
            _ if is_stranger || is_exposed || is_filtered => Step::Nowhere,
            Some(next) => Step::Onward(next),
            None => Step::Here,
        }
    }

    /// Records that an ADU has reached its sink whole; `deadline` is on the clock of `now`.
    pub fn handle_arrived(
        &mut self,
        reader: ReaderId,
        (header, bytes): (&Header, usize),
        now: Instant,
    ) {
        let part = self.parts.get(&(reader.0, header.stream, header.epoch));
        let reliability = part.map_or(Reliability::UntilDeadline, |part| part.reliability);
        let Some(reader) = self.readers.get_mut(&reader) else {
            return;
        };
        let sequence = header.sequence.0;
        if reader.stream != Some(header.stream) || reader.arrived.contains(&sequence) {
            return;
        }
        if reader.in_sequence {
            let is_sent_again = reliability != Reliability::None;
            return reader
                .turns
                .handle_arrived(header, bytes, is_sent_again, now);
        }
        // A mailbox in sequence would wait this long, except for a stream that its sinks repair by asking.
        let is_sent_again = matches!(reliability, Reliability::UntilDeadline | Reliability::Full);
        reader.turns.release(now);
        let is_over = reader.ending.is_some_and(|(total, until)| {
            let is_given_up = until <= now && reader.turns.has_ended;
            reader.arrived.len() as u64 >= total || is_given_up
        });
        reader
            .turns
            .handle_arrived(header, bytes, is_sent_again, now);
        if header.flags.contains(Flags::END) {
            reader.ending = Some((sequence, now + END_PATIENCE));
        } else if !is_over {
            if let Some((_, until)) = &mut reader.ending {
                *until = now + END_PATIENCE;
            }
            reader.arrived.insert(sequence);
            reader.expected.push(sequence);
        }
    }

    /// Returns what a subscriber must have received since the last call.
    pub fn take_expected(&mut self, reader: ReaderId, now: Instant) -> Vec<u64> {
        let Some(reader) = self.readers.get_mut(&reader) else {
            return Vec::new();
        };
        let released = reader.turns.release(now);
        if reader.in_sequence {
            return released;
        }
        std::mem::take(&mut reader.expected)
    }
}

impl Turns {
    fn handle_arrived(&mut self, header: &Header, bytes: usize, is_sent_again: bool, now: Instant) {
        let sequence = header.sequence.0;
        let is_late = self.given.last().is_some_and(|last| *last >= sequence);
        if is_late || self.waiting.contains_key(&sequence) {
            return;
        }
        let mut after = self.waiting.iter().filter(|(at, _)| **at > sequence);
        if after
            .next()
            .is_some_and(|(_, next)| next.came + OVERTAKEN_LEAST <= now)
        {
            self.overtaken = Some(now);
        }
        self.bytes += bytes as u64;
        self.came = now;
        self.newest = self.newest.max(header.epoch);
        let arrived = Arrived {
            is_end: header.flags.contains(Flags::END),
            epoch: header.epoch,
            is_sent_again,
            came: now,
            deadline: header.deadline,
            bytes: self.bytes,
        };
        let has_begun = sequence < BEGIN_ADUS && header.epoch == FIRST_PLAN;
        let patience = match (has_begun, is_sent_again) {
            (true, true) => BEGIN_PATIENCE,
            (true, false) => PATIENCE_ONCE,
            (false, _) => START_PATIENCE,
        };
        self.start
            .get_or_insert(header.deadline.min(now + patience));
        self.waiting.insert(sequence, arrived);
    }

    /// Returns until when the gap before an ADU is waited for.
    fn until(&self, arrived: &Arrived) -> Instant {
        let is_one_plan = self.last == arrived.epoch && self.newest == arrived.epoch;
        if arrived.is_end {
            return self.came + END_PATIENCE;
        }
        if !arrived.is_sent_again {
            return arrived.deadline.min(arrived.came + PATIENCE_ONCE);
        }
        let usual = arrived.came + PATIENCE;
        let is_behind = is_one_plan && self.bytes < arrived.bytes + BACKLOG_BYTES;
        let behind = self.overtaken.filter(|_| is_behind).map_or(usual, |at| {
            let until = at + OVERTAKEN_PATIENCE;
            until.min(arrived.came + PATIENCE_MAX)
        });
        arrived.deadline.min(usual.max(behind))
    }

    /// Releases the ADUs that are due in sequence and returns their sequence numbers.
    fn release(&mut self, now: Instant) -> Vec<u64> {
        let mut released = Vec::new();
        while let Some((&sequence, &first)) = self.waiting.first_key_value() {
            if self.has_ended {
                break;
            }
            let is_next = match self.given.last() {
                Some(last) => sequence == last + 1,
                None => sequence == 0,
            };
            let is_joining = self.given.is_empty();
            let may_go = if is_next || self.waiting.len() > KEEP_ADUS_MAX && !is_joining {
                true
            } else if is_joining {
                self.start.is_some_and(|start| start <= now)
            } else {
                sequence <= self.given_up || self.until(&first) <= now
            };
            if !may_go {
                break;
            }
            self.waiting.pop_first();
            self.given.insert(sequence);
            self.last = first.epoch;
            if first.is_end {
                self.has_ended = true;
            } else {
                released.push(sequence);
            }
        }
        released
    }
}
