//! The events of a run, as one hash and optionally as text.
//!
//! Two runs are the same if the same things happened at the same times in the same order. Each
//! [`Happening`] enters the hash as bytes in a fixed big-endian form, so the hash depends neither on
//! the machine nor on the wording of the text nor on whether the text is kept:
//!
//! ```text
//! time ns u64 │ kind u8 │ node u16 │ peer u16 or ffff │ stream u16 or ffff │ a u64 │ b u64
//! ```
//!
//! The text has the time in seconds, the node, the kind, and the same numbers. Floats, addresses and
//! hash-map orders, which differ between machines, do not enter the trace.

use std::fmt::Write as _;

use thalweg_base::time::Instant;
use thalweg_planner::model::NodeName;

#[cfg(test)]
mod tests;

/// Stands for no peer or no stream.
const NONE: u16 = u16::MAX;

/// The kind of an event. The numbers are part of the hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A node starts.
    Start = 1,
    /// A node is asked to stop.
    Stop = 2,
    /// A node crashes.
    Crash = 3,
    /// A link changes: `a` is its index, `b` the rate in bit/s, 0 if it is down.
    Weather = 4,
    /// The link with the peer is up.
    LinkUp = 5,
    /// The link with the peer is down.
    LinkDown = 6,
    /// A control frame goes to the peer: `a` is its digest, `b` its length in bytes.
    Control = 7,
    /// A part of a plan is installed: `a` is the epoch, `b` the number of adapters.
    Install = 8,
    /// A part of a plan is removed: `a` is the epoch.
    Remove = 9,
    /// The publisher sends under `b` plans from now on, the last being `a`.
    Active = 10,
    /// The producer gives an ADU: `a` is its sequence number, `b` its payload bytes.
    Sent = 11,
    /// An ADU is handed to the link with the peer: `a` sequence, `b` epoch.
    Handed = 12,
    /// An ADU has arrived from the peer: `a` sequence, `b` epoch.
    Arrived = 13,
    /// An ADU is dropped: `a` sequence, `b` index of the cause.
    Dropped = 14,
    /// The subscriber receives an ADU: `a` sequence, `b` payload bytes.
    Delivered = 15,
    /// A link's outcome for an ADU: `a` sequence, `b` 0 if it left, else 1 + cause.
    Outcome = 16,
    /// The stream has ended: `a` is how many ADUs it had.
    End = 17,
    /// A subscriber learns the current publication of its stream.
    Found = 18,
    /// A node that was asked to stop has stopped.
    Gone = 19,
    /// Copying for a plan grafted here begins or ends: `a` is the epoch, `b` 1 or 0.
    Cast = 20,
    /// A node begins to withhold what it should forward.
    Withhold = 21,
    /// A node freezes.
    Freeze = 22,
    /// A node thaws.
    Thaw = 23,
    /// An additional program on a node stalls, or takes what comes: `a` is 0 or 1.
    Stall = 24,
    /// The programs that publish on a node are killed and started again.
    Republish = 25,
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Happening {
    /// Its kind.
    pub kind: Kind,
    /// The node's index in the world.
    pub node: usize,
    /// The other node's index, if one takes part.
    pub peer: Option<usize>,
    /// The stream's index in the world, if any.
    pub stream: Option<usize>,
    /// The first number; its meaning depends on [`Kind`].
    pub a: u64,
    /// The second number.
    pub b: u64,
}

/// The hash so far, and the text if wanted.
#[derive(Debug)]
pub struct Trace {
    hasher: blake3::Hasher,
    text: Option<String>,
    happenings: u64,
}

impl Happening {
    /// Returns an event at a node, without peer, stream and numbers.
    pub const fn at(kind: Kind, node: usize) -> Self {
        Self {
            kind,
            node,
            peer: None,
            stream: None,
            a: 0,
            b: 0,
        }
    }

    /// Returns the event with a peer.
    #[must_use]
    pub const fn with(mut self, peer: usize) -> Self {
        self.peer = Some(peer);
        self
    }

    /// Returns the event with a stream.
    #[must_use]
    pub const fn of(mut self, stream: usize) -> Self {
        self.stream = Some(stream);
        self
    }

    /// Returns the event with its two numbers.
    #[must_use]
    pub const fn numbers(mut self, a: u64, b: u64) -> Self {
        self.a = a;
        self.b = b;
        self
    }

    fn bytes(&self, time: Instant) -> [u8; 31] {
        let short = |place: Option<usize>| place.map_or(NONE, |place| place as u16).to_be_bytes();
        let mut bytes = [0; 31];
        bytes[..8].copy_from_slice(&time.as_nanos().to_be_bytes());
        bytes[8] = self.kind as u8;
        bytes[9..11].copy_from_slice(&short(Some(self.node)));
        bytes[11..13].copy_from_slice(&short(self.peer));
        bytes[13..15].copy_from_slice(&short(self.stream));
        bytes[15..23].copy_from_slice(&self.a.to_be_bytes());
        bytes[23..].copy_from_slice(&self.b.to_be_bytes());
        bytes
    }
}

impl Trace {
    /// Begins a trace; the text is kept only if wanted.
    pub fn new(is_text_wanted: bool) -> Self {
        Self {
            hasher: blake3::Hasher::new(),
            text: is_text_wanted.then(String::new),
            happenings: 0,
        }
    }

    /// Adds an event.
    pub fn note(&mut self, time: Instant, happening: Happening, names: &[NodeName]) {
        self.hasher.update(&happening.bytes(time));
        self.happenings += 1;
        if let Some(text) = &mut self.text {
            write_line(text, time, happening, names);
        }
    }

    /// Adds a sentence to the text; it does not enter the hash.
    pub fn say(&mut self, time: Instant, node: &NodeName, sentence: impl FnOnce() -> String) {
        if let Some(text) = &mut self.text {
            let _ = writeln!(text, "{} {node}: {}", seconds(time), sentence());
        }
    }

    /// Returns the trace hash: the first 64 bits.
    pub fn hash(&self) -> u64 {
        let mut first = [0; 8];
        first.copy_from_slice(&self.hasher.finalize().as_bytes()[..8]);
        u64::from_be_bytes(first)
    }

    /// Returns the number of events.
    pub const fn happenings(&self) -> u64 {
        self.happenings
    }

    /// Takes the text, if it was wanted.
    pub fn take_text(&mut self) -> Option<String> {
        self.text.take()
    }
}

fn seconds(time: Instant) -> String {
    let nanos = time.as_nanos();
    format!("{:>3}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

fn write_line(text: &mut String, time: Instant, happening: Happening, names: &[NodeName]) {
    let name = |place: usize| names.get(place).map_or("?", NodeName::as_str);
    let kind = format!("{:?}", happening.kind).to_lowercase();
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "{} {:<8} {kind:<9}",
        seconds(time),
        name(happening.node)
    );
    if let Some(peer) = happening.peer {
        let _ = write!(text, " peer={}", name(peer));
    }
    if let Some(stream) = happening.stream {
        let _ = write!(text, " stream={stream}");
    }
    let labels = match happening.kind {
        Kind::Start
        | Kind::Stop
        | Kind::Crash
        | Kind::Withhold
        | Kind::Republish
        | Kind::Freeze
        | Kind::Thaw
        | Kind::LinkUp
        | Kind::LinkDown
        | Kind::Found
        | Kind::Gone => ["", ""],
        Kind::Weather => ["link", "bps"],
        Kind::Control => ["digest", "bytes"],
        Kind::Install => ["epoch", "adapters"],
        Kind::Remove => ["epoch", ""],
        Kind::Active => ["epoch", "plans"],
        Kind::Sent | Kind::Delivered => ["sequence", "bytes"],
        Kind::Handed | Kind::Arrived => ["sequence", "epoch"],
        Kind::Dropped => ["sequence", "cause"],
        Kind::Outcome => ["sequence", "ended"],
        Kind::End => ["adus", ""],
        Kind::Cast => ["epoch", "on"],
        Kind::Stall => ["takes", ""],
    };
    for (label, number) in labels.into_iter().zip([happening.a, happening.b]) {
        if label == "digest" {
            let _ = write!(text, " digest={number:016x}");
        } else if !label.is_empty() {
            let _ = write!(text, " {label}={number}");
        }
    }
    text.push('\n');
}
