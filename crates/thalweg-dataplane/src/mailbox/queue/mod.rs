//! The mailbox of one subscriber: its node puts ADUs in until the subscriber takes them, bounded in
//! ADUs, bytes and time.
//!
//! *The idea.* Putting an ADU in never blocks, so a slow subscriber costs the others of its stream
//! nothing. What happens in a full mailbox depends on what the stream promises:
//!
//! | ADU | in a full mailbox |
//! |---|---|
//! | with a deadline | refused; waiting ADUs are dropped once their deadlines have passed |
//! | sent once, without a deadline | the oldest makes room |
//! | resent until it arrives | accepted: the mailbox is *pressed*, and its node stops acknowledging |
//!
//! A source without acknowledgements stops when its store is full (`Keep`),
//! so the excess is bounded (backpressure); for a source that does not stop there is a second
//! bound. In sequence, an ADU takes its place when it arrives, not when the subscriber reads. So it
//! is known to be too late while its node can still account for it.
//!
//! ```text
//! put ─► in sequence ──► take          in sequence: the next leaves, or waits behind a gap
//!    └──► as they come ──┘             as they come: the first; also notices and the rest of a former stream
//! ```
//!
//! *What it does not do.* It reads no clock, wakes no task and counts nothing: each ADU has a token
//! of the driver, which is returned with the ADU or with the cause of its drop.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use core::ops::Range;

#[cfg(test)]
mod tests;

use thalweg_base::adu::{Adu, Flags, Header};
use thalweg_base::event::DropCause;
use thalweg_base::id::NodeId;
use thalweg_base::limits::{
    MAILBOX_ADUS_MAX, MAILBOX_BYTES_MAX, MAILBOX_EXCESS_ADUS_MAX, MAILBOX_EXCESS_BYTES_MAX,
};
use thalweg_base::needs::Reliability;
use thalweg_base::time::{Duration, Instant};

use super::{Coming, Ending, Resequencer};

/// How long after its deadline an ADU may still be taken: a busy machine may wake the subscriber late.
pub const TAKE_GRACE: Duration = Duration::from_millis(100);

/// An item in the mailbox of a subscriber.
#[derive(Debug)]
pub enum Mail<T> {
    /// An ADU of the stream, with its driver's token.
    Adu(Adu, T),
    /// A notice about the subscription.
    Notice(String),
    /// From here on, the stream is another one of the same name, which this node publishes:
    /// sequences restart.
    Restarted(NodeId),
}

/// Why an ADU is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no room.
    Full,
    /// It came too late or twice; never `InTime`.
    Out(Coming),
}

/// The mailbox of one subscriber; `T` is the token by which the driver knows an ADU.
#[derive(Debug)]
pub struct Mailbox<T> {
    /// Items in order of arrival; they leave first.
    items: VecDeque<Item<T>>,
    /// For a subscriber in sequence: the stream's ADUs, and the tokens of those that wait there.
    resequencer: Option<Resequencer>,
    waiting: BTreeMap<u64, Waiting<T>>,
    /// For a subscriber in order of arrival: the end of the stream.
    ending: Ending,
    /// ADUs and payload bytes in both.
    adus: usize,
    bytes: u64,
    /// ADUs skipped and discarded of former streams, and ADUs dropped here.
    skipped_before: u64,
    discarded_before: u64,
    dropped_here: u64,
    /// The stream no longer waits for it: ADUs without room are dropped until there is some.
    is_abandoned: bool,
    dropped: VecDeque<(T, DropCause)>,
}

#[derive(Debug)]
enum Item<T> {
    Adu(Adu, Waiting<T>),
    Notice(String),
    Restarted(NodeId),
}

/// The token and expiry of a waiting ADU.
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
            is_abandoned: false,
            dropped: VecDeque::new(),
        }
    }

    /// Puts in an ADU of a stream with this reliability. `is_scarce` tells that the node has no
    /// room beyond each mailbox's share.
    ///
    /// Fails   returns the token with the reason
    /// Cost    O(log waiting)
    pub fn put(
        &mut self,
        adu: Adu,
        token: T,
        (reliability, is_scarce): (Reliability, bool),
        now: Instant,
    ) -> Result<(), (T, Refusal)> {
        self.expire(now);
        let header = adu.header;
        let coming = self.coming(&header);
        if coming != Coming::InTime {
            self.count_rejected(adu, reliability, now);
            return Err((token, Refusal::Out(coming)));
        }
        if !self.make_room(&header, adu.payload.len() as u64, (reliability, is_scarce)) {
            // The node has it and accepts no second copy, so it must not be waited for here.
            self.handle_gone(header.sequence.0..header.sequence.0 + 1);
            // In sequence it is counted as skipped later.
            self.dropped_here += u64::from(self.resequencer.is_none());
            return Err((token, Refusal::Full));
        }
        self.adus += 1;
        self.bytes += adu.payload.len() as u64;
        let expires = if must_deliver(&header, reliability) {
            Instant::NEVER
        } else {
            header.deadline + TAKE_GRACE
        };
        let waiting = Waiting { token, expires };
        if let Some(resequencer) = &mut self.resequencer {
            if is_kept(&header, reliability) {
                resequencer.wait_for_kept();
            }
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
    fn count_rejected(&mut self, adu: Adu, reliability: Reliability, now: Instant) {
        if let Some(resequencer) = &mut self.resequencer {
            resequencer.handle_adu(adu, reliability.is_sent_again(), now);
        }
    }

    /// Returns whether an ADU finds room, if necessary and permitted by dropping older ones.
    fn make_room(
        &mut self,
        header: &Header,
        bytes: u64,
        (reliability, is_scarce): (Reliability, bool),
    ) -> bool {
        if self.has_room(bytes, 0, is_scarce) {
            return true;
        }
        // An ADU that fills a gap lets others leave, so it has room of its own.
        let fills = |one: &Resequencer| one.lacks(header.sequence.0);
        if self.resequencer.as_ref().is_some_and(fills) && self.has_room(bytes, 1, false) {
            return true;
        }
        if must_deliver(header, reliability) {
            let excess = MAILBOX_EXCESS_BYTES_MAX.as_bytes();
            return !self.is_abandoned
                && self.adus < MAILBOX_ADUS_MAX + MAILBOX_EXCESS_ADUS_MAX
                && self.bytes + bytes <= MAILBOX_BYTES_MAX.as_bytes() + excess;
        }
        if !header.deadline.is_never() {
            return false;
        }
        while !self.has_room(bytes, 0, is_scarce) {
            if !self.drop_first() {
                return false;
            }
        }
        true
    }

    /// Returns whether there is room for this payload, with the bounds doubled this often.
    fn has_room(&self, bytes: u64, doubled: u32, is_scarce: bool) -> bool {
        let is_empty = self.adus == 0;
        let bytes_max = MAILBOX_BYTES_MAX.as_bytes() << doubled;
        let has_bytes = self.bytes + bytes <= bytes_max && !is_scarce;
        self.adus < MAILBOX_ADUS_MAX << doubled && (has_bytes || is_empty)
    }

    /// Drops the ADU that would leave first, for lack of room; returns whether there was one.
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

    /// Drops ADUs that were not taken in time.
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
        // Deadlines grow with the sequence.
        while let Some((_, waiting)) = self.waiting.first_key_value()
            && waiting.expires <= now
        {
            if let Some((adu, waiting)) = self.take_waiting() {
                self.drop_one(&adu, waiting, DropCause::Expired);
            }
        }
    }

    fn drop_one(&mut self, adu: &Adu, waiting: Waiting<T>, cause: DropCause) {
        self.count_removed(adu);
        self.dropped_here += 1;
        self.dropped.push_back((waiting.token, cause));
    }

    /// Removes and returns the first ADU in sequence, whatever is missing before it.
    fn take_waiting(&mut self) -> Option<(Adu, Waiting<T>)> {
        let adu = self.resequencer.as_mut()?.take_waiting()?;
        let waiting = self.waiting.remove(&adu.header.sequence.0)?;
        Some((adu, waiting))
    }

    const fn count_removed(&mut self, adu: &Adu) {
        self.adus -= 1;
        self.bytes -= adu.payload.len() as u64;
        self.is_abandoned &= self.is_overfull(false);
    }

    /// Handles sequences of the stream that never arrive: nothing waits for them any more.
    pub fn handle_gone(&mut self, gone: Range<u64>) {
        if let Some(resequencer) = &mut self.resequencer {
            resequencer.handle_gone(gone);
        }
    }

    /// Puts in a notice, if there is room.
    pub fn notify(&mut self, sentence: String) {
        if self.items.len() < MAILBOX_ADUS_MAX {
            self.items.push_back(Item::Notice(sentence));
        }
    }

    /// Switches to another stream, of this node: waiting ADUs leave as they are, and sequences restart.
    pub fn restart(&mut self, source: NodeId) {
        while let Some((adu, waiting)) = self.take_waiting() {
            if adu.header.flags.contains(Flags::END) {
                self.count_removed(&adu);
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

    /// Returns the next item; a gap before it is given up when its time is over.
    pub fn take(&mut self, now: Instant) -> Option<Mail<T>> {
        self.expire(now);
        if let Some(item) = self.items.pop_front() {
            return Some(match item {
                Item::Adu(adu, waiting) => {
                    self.count_removed(&adu);
                    Mail::Adu(adu, waiting.token)
                }
                Item::Notice(sentence) => Mail::Notice(sentence),
                Item::Restarted(source) => Mail::Restarted(source),
            });
        }
        let adu = self.resequencer.as_mut()?.poll_adu(now)?;
        let waiting = self.waiting.remove(&adu.header.sequence.0)?;
        self.count_removed(&adu);
        Some(Mail::Adu(adu, waiting.token))
    }

    /// Returns the next dropped token that has not been reported, with the cause.
    pub fn poll_dropped(&mut self) -> Option<(T, DropCause)> {
        self.dropped.pop_front()
    }

    /// Returns when an item may become available without a put; in order of arrival, when the end
    /// may be due.
    pub fn poll_timeout(&self) -> Instant {
        match &self.resequencer {
            Some(resequencer) => resequencer.poll_timeout(),
            None => self.ending.poll_timeout(),
        }
    }

    /// Returns, in order of arrival, whether the end has arrived and nothing missing before it is
    /// worth waiting for.
    pub fn poll_ended(&mut self, now: Instant) -> bool {
        self.ending.poll(now)
    }

    /// Returns whether it holds more than its bounds, so that it blocks its stream; `is_scarce` as
    /// in [`Mailbox::put`].
    pub const fn is_pressed(&self, is_scarce: bool) -> bool {
        !self.is_abandoned && self.is_overfull(is_scarce)
    }

    const fn is_overfull(&self, is_scarce: bool) -> bool {
        self.adus > MAILBOX_ADUS_MAX
            || self.bytes > MAILBOX_BYTES_MAX.as_bytes()
            || is_scarce && self.adus > 0
    }

    /// Stops to block its stream: until there is room again, ADUs without room are dropped.
    pub const fn give_up(&mut self) {
        self.is_abandoned = true;
    }

    /// Returns whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.adus == 0 && self.items.is_empty()
    }

    /// Returns the number of waiting ADUs and their payload bytes.
    pub const fn size(&self) -> (usize, u64) {
        (self.adus, self.bytes)
    }

    /// Returns how many ADUs the subscriber missed: they never arrived, or were dropped here.
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

/// Returns whether the source keeps the ADU until this sink has it.
fn is_kept(header: &Header, reliability: Reliability) -> bool {
    match reliability {
        Reliability::Full => true,
        Reliability::UntilDeadline => header.deadline.is_never(),
        Reliability::None | Reliability::Repaired => false,
    }
}

/// Returns whether an ADU must be delivered however late: its stream is slowed down rather than lose it.
fn must_deliver(header: &Header, reliability: Reliability) -> bool {
    let is_promised = header.deadline.is_never() && reliability.is_sent_again();
    is_promised || reliability.is_ordered() || header.flags.contains(Flags::END)
}
