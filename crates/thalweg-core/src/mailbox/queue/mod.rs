//! The mailbox of one subscriber: what its node puts in, until the subscriber takes it, bounded in ADUs, bytes and time.
//!
//! *The idea.* Putting an ADU in never waits, so a subscriber that takes nothing costs the others of its stream nothing. What
//! happens in a full mailbox depends on what the stream promises:
//!
//! | ADU | in a full mailbox |
//! |---|---|
//! | with a deadline | refused; what waits is dropped once its deadline has passed |
//! | sent once, without a deadline | the oldest makes room |
//! | sent again until it arrives | goes in all the same: the mailbox is *pressed*, and its node acknowledges nothing more of the stream until it is not |
//!
//! A source that hears no acknowledgement stops when it keeps all that it may ([`Keep`](crate::session::Keep)), so the excess is
//! bounded; a source that does not stop is dropped from at a bound of its own. In sequence, an ADU is put in its place when it arrives,
//! and not when the subscriber gets round to reading. So whether it comes too late is known while its node can still account for it.
//!
//! ```text
//! put ─► in sequence ─► take          in sequence: the next leaves, or waits behind a gap
//!    └──► as they come ──┘            as they come: the first; so do notices, and what is left of the stream before
//! ```
//!
//! *What it does not do.* It reads no clock, wakes nobody, and counts nothing: each ADU has a token of its driver's, which comes back
//! with it or with the cause by which it was dropped.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use core::ops::Range;

#[cfg(test)]
mod tests;

use super::{Coming, Ending, Resequencer};
use crate::adu::{Adu, Flags, Header};
use crate::event::DropCause;
use crate::id::NodeId;
use crate::limits::{
    MAILBOX_ADUS_MAX, MAILBOX_BYTES_MAX, MAILBOX_EXCESS_ADUS_MAX, MAILBOX_EXCESS_BYTES_MAX,
};
use crate::needs::Reliability;
use crate::time::{Duration, Instant};

/// How long after its deadline an ADU may still be taken: a subscriber that waits for it is woken a moment late on a busy machine.
pub const TAKE_GRACE: Duration = Duration::from_millis(100);

/// What a subscriber finds in its mailbox.
#[derive(Debug)]
pub enum Mail<T> {
    /// An ADU of the stream, with its driver's token.
    Adu(Adu, T),
    /// A sentence about the subscription.
    Notice(String),
    /// The stream is now another one of the same name, which this node publishes: sequences start again.
    Restarted(NodeId),
}

/// Why an ADU is not in the mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no room.
    Full,
    /// It came too late or twice; never `InTime`.
    Out(Coming),
}

/// The mailbox of one subscriber; `T` is what its driver knows an ADU by.
#[derive(Debug)]
pub struct Mailbox<T> {
    /// What leaves first.
    items: VecDeque<Item<T>>,
    /// The stream's ADUs, if they are to come in sequence, and what is known of those that wait there.
    resequencer: Option<Resequencer>,
    waiting: BTreeMap<u64, Waiting<T>>,
    /// When the stream is at its end, if they are not.
    ending: Ending,
    /// ADUs and their payload, in both.
    adus: usize,
    bytes: u64,
    /// What was skipped and discarded of streams before the present one, and how many ADUs were dropped here.
    skipped_before: u64,
    discarded_before: u64,
    dropped_here: u64,
    /// It is waited for no longer: what finds no room is dropped, until there is some.
    is_given_up: bool,
    dropped: VecDeque<(T, DropCause)>,
}

#[derive(Debug)]
enum Item<T> {
    Adu(Adu, Waiting<T>),
    Notice(String),
    Restarted(NodeId),
}

/// What is known of an ADU that waits.
#[derive(Debug)]
struct Waiting<T> {
    token: T,
    /// When it is too late to be taken.
    expires: Instant,
}

impl<T> Mailbox<T> {
    /// Returns an empty mailbox.
    pub fn new(in_sequence: bool) -> Self {
        Self {
            items: VecDeque::new(),
            resequencer: in_sequence.then(Resequencer::default),
            waiting: BTreeMap::new(),
            ending: Ending::default(),
            adus: 0,
            bytes: 0,
            skipped_before: 0,
            discarded_before: 0,
            dropped_here: 0,
            is_given_up: false,
            dropped: VecDeque::new(),
        }
    }

    /// Puts in an ADU of a stream of this reliability; `is_short` says that the node has no more room than every mailbox's share.
    ///
    /// Fails   the token comes back with the reason
    /// Cost    O(log waiting)
    pub fn put(
        &mut self,
        adu: Adu,
        token: T,
        (reliability, is_short): (Reliability, bool),
        now: Instant,
    ) -> Result<(), (T, Refusal)> {
        self.expire(now);
        let header = adu.header;
        let coming = self.coming(&header);
        if coming != Coming::InTime {
            self.note_out(adu, reliability, now);
            return Err((token, Refusal::Out(coming)));
        }
        if !self.make_room(&header, adu.payload.len() as u64, (reliability, is_short)) {
            // Its node has it and takes it no second time, so nobody is to wait for it here.
            self.handle_gone(header.sequence.0..header.sequence.0 + 1);
            // In sequence it is counted with what is missing.
            self.dropped_here += u64::from(self.resequencer.is_none());
            return Err((token, Refusal::Full));
        }
        self.adus += 1;
        self.bytes += adu.payload.len() as u64;
        let expires = if is_lasting(&header, reliability) {
            Instant::NEVER
        } else {
            header.deadline + TAKE_GRACE
        };
        let waiting = Waiting { token, expires };
        if let Some(resequencer) = &mut self.resequencer {
            resequencer.handle_adu(adu, reliability.is_sent_again(), now);
            self.waiting.insert(header.sequence.0, waiting);
        } else {
            let payload_bytes = adu.payload.len();
            self.ending
                .handle_adu(header, payload_bytes, reliability, now);
            self.items.push_back(Item::Adu(adu, waiting));
        }
        Ok(())
    }

    fn coming(&self, header: &Header) -> Coming {
        let resequencer = self.resequencer.as_ref();
        resequencer.map_or(Coming::InTime, |one| one.coming(header.sequence.0))
    }

    /// Counts an ADU that came too late or twice.
    fn note_out(&mut self, adu: Adu, reliability: Reliability, now: Instant) {
        if let Some(resequencer) = &mut self.resequencer {
            resequencer.handle_adu(adu, reliability.is_sent_again(), now);
        }
    }

    /// Returns whether an ADU finds room, made by dropping what is older if that is how its stream wants it.
    fn make_room(
        &mut self,
        header: &Header,
        bytes: u64,
        (reliability, is_short): (Reliability, bool),
    ) -> bool {
        if self.has_room(bytes, 0, is_short) {
            return true;
        }
        // What fills a gap lets others leave, so it has room of its own.
        let fills = |one: &Resequencer| one.lacks(header.sequence.0);
        if self.resequencer.as_ref().is_some_and(fills) && self.has_room(bytes, 1, false) {
            return true;
        }
        if is_lasting(header, reliability) {
            let excess = MAILBOX_EXCESS_BYTES_MAX.as_bytes();
            return !self.is_given_up
                && self.adus < MAILBOX_ADUS_MAX + MAILBOX_EXCESS_ADUS_MAX
                && self.bytes + bytes <= MAILBOX_BYTES_MAX.as_bytes() + excess;
        }
        if !header.deadline.is_never() {
            return false;
        }
        while !self.has_room(bytes, 0, is_short) {
            if !self.drop_first() {
                return false;
            }
        }
        true
    }

    /// Returns whether there is room for so much payload, with the bounds doubled so often.
    fn has_room(&self, bytes: u64, doubled: u32, is_short: bool) -> bool {
        let is_empty = self.adus == 0;
        let bytes_max = MAILBOX_BYTES_MAX.as_bytes() << doubled;
        let has_bytes = self.bytes + bytes <= bytes_max && !is_short;
        self.adus < MAILBOX_ADUS_MAX << doubled && (has_bytes || is_empty)
    }

    /// Drops the ADU that would leave first, for want of room; returns whether there was one.
    fn drop_first(&mut self) -> bool {
        let first = self
            .items
            .iter()
            .position(|item| matches!(item, Item::Adu(..)));
        let first = first.and_then(|place| match self.items.remove(place) {
            Some(Item::Adu(adu, waiting)) => Some((adu, waiting)),
            _ => None,
        });
        let Some((adu, waiting)) = first.or_else(|| self.take_waiting()) else {
            return false;
        };
        self.drop_one(&adu, waiting, DropCause::Overflow);
        true
    }

    /// Drops what nobody has taken in time.
    ///
    /// Cost    O(log waiting) for each that is dropped
    pub fn expire(&mut self, now: Instant) {
        while let Some(Item::Adu(_, waiting)) = self.items.front()
            && waiting.expires <= now
        {
            if let Some(Item::Adu(adu, waiting)) = self.items.pop_front() {
                self.drop_one(&adu, waiting, DropCause::Expired);
            }
        }
        // Older sequences are due no later.
        while let Some((_, waiting)) = self.waiting.first_key_value()
            && waiting.expires <= now
        {
            if let Some((adu, waiting)) = self.take_waiting() {
                self.drop_one(&adu, waiting, DropCause::Expired);
            }
        }
    }

    fn drop_one(&mut self, adu: &Adu, waiting: Waiting<T>, cause: DropCause) {
        self.left(adu);
        self.dropped_here += 1;
        self.dropped.push_back((waiting.token, cause));
    }

    /// Takes out of the sequence what is first in it, whatever is missing before.
    fn take_waiting(&mut self) -> Option<(Adu, Waiting<T>)> {
        let adu = self.resequencer.as_mut()?.take_waiting()?;
        let waiting = self.waiting.remove(&adu.header.sequence.0)?;
        Some((adu, waiting))
    }

    const fn left(&mut self, adu: &Adu) {
        self.adus -= 1;
        self.bytes -= adu.payload.len() as u64;
        self.is_given_up &= self.is_over(false);
    }

    /// Takes in that these sequences of the stream never come: nothing waits for them any more.
    pub fn handle_gone(&mut self, gone: Range<u64>) {
        if let Some(resequencer) = &mut self.resequencer {
            resequencer.handle_gone(gone);
        }
    }

    /// Puts in a sentence, if there is room.
    pub fn notify(&mut self, sentence: String) {
        if self.items.len() < MAILBOX_ADUS_MAX {
            self.items.push_back(Item::Notice(sentence));
        }
    }

    /// The stream is another from now on, of this node: all that waits leaves as it is, and sequences start again.
    pub fn restart(&mut self, source: NodeId) {
        while let Some((adu, waiting)) = self.take_waiting() {
            if adu.header.flags.contains(Flags::END) {
                self.left(&adu);
            } else {
                self.items.push_back(Item::Adu(adu, waiting));
            }
        }
        if let Some(resequencer) = &mut self.resequencer {
            let before = core::mem::take(resequencer);
            self.skipped_before += before.skipped();
            self.discarded_before += before.late();
        }
        self.ending = Ending::default();
        self.items.push_back(Item::Restarted(source));
    }

    /// Returns what is next; what is missing before it is given up when it is time.
    pub fn take(&mut self, now: Instant) -> Option<Mail<T>> {
        self.expire(now);
        if let Some(item) = self.items.pop_front() {
            return Some(match item {
                Item::Adu(adu, waiting) => {
                    self.left(&adu);
                    Mail::Adu(adu, waiting.token)
                }
                Item::Notice(sentence) => Mail::Notice(sentence),
                Item::Restarted(source) => Mail::Restarted(source),
            });
        }
        let adu = self.resequencer.as_mut()?.poll_adu(now)?;
        let waiting = self.waiting.remove(&adu.header.sequence.0)?;
        self.left(&adu);
        Some(Mail::Adu(adu, waiting.token))
    }

    /// Returns what was dropped since it was asked last, one by one.
    pub fn poll_dropped(&mut self) -> Option<(T, DropCause)> {
        self.dropped.pop_front()
    }

    /// Returns when something leaves though nothing is put in; as they come, when the stream may be at its end.
    pub fn poll_timeout(&self) -> Instant {
        match &self.resequencer {
            Some(resequencer) => resequencer.poll_timeout(),
            None => self.ending.poll_timeout(),
        }
    }

    /// Returns, as they come, whether the end of the stream has come, and nothing that is missing before it is worth waiting for.
    pub fn poll_ended(&mut self, now: Instant) -> bool {
        self.ending.poll(now)
    }

    /// Returns whether more waits than there is room for, so that its stream is held up by it; `is_short` as for [`Mailbox::put`].
    pub const fn is_pressed(&self, is_short: bool) -> bool {
        !self.is_given_up && self.is_over(is_short)
    }

    const fn is_over(&self, is_short: bool) -> bool {
        self.adus > MAILBOX_ADUS_MAX
            || self.bytes > MAILBOX_BYTES_MAX.as_bytes()
            || is_short && self.adus > 0
    }

    /// Lets its stream go on without it: until there is room again, what finds none is dropped.
    pub const fn give_up(&mut self) {
        self.is_given_up = true;
    }

    /// Returns whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.adus == 0 && self.items.is_empty()
    }

    /// Returns how many ADUs wait, and how many payload bytes.
    pub const fn size(&self) -> (usize, u64) {
        (self.adus, self.bytes)
    }

    /// Returns how many ADUs the subscriber was not given: they were missing, or were dropped here.
    pub fn skipped(&self) -> u64 {
        let resequencer = self.resequencer.as_ref();
        let skipped = resequencer.map_or(0, Resequencer::skipped);
        self.skipped_before + self.dropped_here + skipped
    }

    /// Returns how many ADUs came too late for their place, or twice.
    pub fn discarded(&self) -> u64 {
        let resequencer = self.resequencer.as_ref();
        self.discarded_before + resequencer.map_or(0, Resequencer::late)
    }
}

/// Returns whether an ADU is worth having however late it is taken: its stream is slowed down rather than anything of it lost.
fn is_lasting(header: &Header, reliability: Reliability) -> bool {
    let is_promised = header.deadline.is_never() && reliability.is_sent_again();
    is_promised || reliability.is_ordered() || header.flags.contains(Flags::END)
}
