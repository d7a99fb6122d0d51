//! The mailbox of one subscriber: its node puts ADUs in until the subscriber takes them, bounded in
//! ADUs, bytes and time.
//!
//! *The idea.* Putting an ADU in never blocks, so a slow subscriber costs the others of its stream
//! nothing. What happens in a full mailbox is the subscriber's choice ([`Policy`]). If it makes none,
//! it depends on what the stream promises:
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
//! A subscriber that *pulls* has credit: nothing but notices and the end leaves that it has not asked for.
//!
//! *What it does not do.* It reads no clock, wakes no task and counts nothing: each ADU has a token
//! of the driver, which is returned with the ADU or with the cause of its drop.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use core::ops::Range;

mod gaps;
mod room;
mod rules;
#[cfg(test)]
mod tests;

use thalweg_base::adu::{Adu, Flags, Header, Importance};
use thalweg_base::event::DropCause;
use thalweg_base::id::NodeId;
use thalweg_base::limits::MAILBOX_ADUS_MAX;
use thalweg_base::mailbox::MailboxOptions;
#[cfg(doc)]
use thalweg_base::mailbox::Policy;
use thalweg_base::needs::Reliability;
use thalweg_base::time::{Duration, Instant};

use super::{Coming, Ending, Resequencer};
use gaps::Gaps;
use rules::{Rules, is_kept, must_deliver};

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
    /// There is no room, and what waits is more important.
    Outranked,
    /// A newer one is here, and the subscriber wants only the newest.
    Superseded,
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
    gaps: Gaps,
    rules: Rules,
    /// Where the least important may go: all ADUs but the end, by importance and place.
    ranks: BTreeSet<(Importance, Place)>,
    /// The number of the next item.
    next_item: u64,
    /// The newest sequence of the present stream, and when an ADU last came.
    newest: Option<u64>,
    last_arrived: Instant,
    /// How many ADUs may leave; `None` if the subscriber takes what comes.
    credit: Option<u64>,
}

/// Where an ADU waits; items leave before the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Item(u64),
    Sequence(u64),
}

#[derive(Debug)]
enum Item<T> {
    /// An ADU, with the number of the item.
    Adu(u64, Adu, Waiting<T>),
    Notice(String),
    Restarted(NodeId),
}

/// What is known of a waiting ADU.
#[derive(Debug)]
struct Waiting<T> {
    token: T,
    arrived: Instant,
    /// When it is too late to be taken.
    expires: Instant,
}

impl Refusal {
    /// Returns why the subscriber lacks the ADU; `None` if it does not, or began with a later one.
    pub const fn cause(self) -> Option<DropCause> {
        match self {
            Self::Full => Some(DropCause::Overflow),
            Self::Outranked => Some(DropCause::Preempted),
            Self::Superseded => Some(DropCause::Cancelled),
            Self::Out(Coming::Late) => Some(DropCause::Expired),
            Self::Out(Coming::InTime | Coming::BeforeFirst | Coming::Twice) => None,
        }
    }
}

impl<T> Item<T> {
    /// Returns the ADU, unless it is another item.
    const fn adu(&self) -> Option<(&Adu, &Waiting<T>)> {
        match self {
            Self::Adu(_, adu, waiting) => Some((adu, waiting)),
            Self::Notice(_) | Self::Restarted(_) => None,
        }
    }
}

impl<T> Mailbox<T> {
    /// Returns an empty mailbox of a subscriber that states no wishes.
    pub fn new(in_sequence: bool) -> Self {
        Self::with(in_sequence, &MailboxOptions::default())
    }

    /// Returns an empty mailbox of a subscriber with these wishes. Their priority is the driver's matter.
    pub fn with(in_sequence: bool, options: &MailboxOptions) -> Self {
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
            gaps: Gaps::default(),
            rules: Rules::new(options),
            ranks: BTreeSet::new(),
            next_item: 0,
            newest: None,
            last_arrived: Instant::ZERO,
            credit: options.pull.then_some(0),
        }
    }

    /// Lets so many more ADUs leave. Without effect unless the subscriber pulls.
    pub fn request(&mut self, adus: u64) {
        self.credit = self.credit.map(|credit| credit.saturating_add(adus));
    }

    /// Puts in an ADU of a stream with this reliability. `is_scarce` tells that the node has no
    /// room beyond each mailbox's share.
    ///
    /// Fails   returns the token with the reason
    /// Cost    O(log waiting); with the policy `by-importance`, in order of arrival, also a move of the ADUs
    ///         before or behind the one that makes room
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
        let bytes = adu.payload.len() as u64;
        let room = self.make_room(&header, bytes, (reliability, is_scarce), now);
        // What was dropped may have been behind it, and its place is given up then.
        let room = match self.coming(&header) {
            Coming::InTime => room,
            _ => room.and(Err(Refusal::Full)),
        };
        if let Err(refusal) = room {
            // The node has it and accepts no second copy, so it must not be waited for here.
            self.handle_gone(header.sequence.0..header.sequence.0 + 1);
            if self.resequencer.is_some() {
                self.gaps.handle_refused(header.sequence.0);
            }
            // In sequence it is counted as skipped later.
            self.dropped_here += u64::from(self.resequencer.is_none());
            return Err((token, refusal));
        }
        if !header.flags.contains(Flags::END) {
            self.newest = self.newest.max(Some(header.sequence.0));
        }
        self.last_arrived = now;
        let waiting = Waiting {
            token,
            arrived: now,
            expires: if must_deliver(&header, reliability) {
                Instant::NEVER
            } else {
                header.deadline + TAKE_GRACE
            },
        };
        if let Some(resequencer) = &mut self.resequencer {
            if is_kept(&header, reliability) {
                resequencer.wait_for_kept();
            }
            resequencer.handle_adu(adu, reliability.is_sent_again(), now);
            self.waiting.insert(header.sequence.0, waiting);
            self.count_added((&header, bytes), Place::Sequence(header.sequence.0));
        } else {
            let payload_bytes = adu.payload.len();
            self.ending
                .handle_adu(header, payload_bytes, reliability, now);
            self.push_adu(adu, waiting);
        }
        Ok(())
    }

    /// Appends an ADU to the items.
    fn push_adu(&mut self, adu: Adu, waiting: Waiting<T>) {
        let number = self.next_item;
        self.next_item += 1;
        let size = adu.payload.len() as u64;
        self.count_added((&adu.header, size), Place::Item(number));
        self.items.push_back(Item::Adu(number, adu, waiting));
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

    /// Drops ADUs that were not taken in time.
    ///
    /// Cost    O(log waiting) for each that is dropped
    pub fn expire(&mut self, now: Instant) {
        while let Some(Item::Adu(_, _, waiting)) = self.items.front()
            && waiting.expires <= now
        {
            if let Some(Item::Adu(number, adu, waiting)) = self.items.pop_front() {
                self.drop_one(&adu, waiting, Place::Item(number), DropCause::Expired);
            }
        }
        // Deadlines grow with the sequence.
        while let Some((_, waiting)) = self.waiting.first_key_value()
            && waiting.expires <= now
        {
            if let Some((adu, waiting)) = self.take_waiting() {
                let place = Place::Sequence(adu.header.sequence.0);
                self.drop_one(&adu, waiting, place, DropCause::Expired);
            }
        }
    }

    fn drop_one(&mut self, adu: &Adu, waiting: Waiting<T>, place: Place, cause: DropCause) {
        self.count_removed(adu, place);
        self.dropped_here += 1;
        self.dropped.push_back((waiting.token, cause));
    }

    /// Removes and returns the first ADU in sequence, whatever is missing before it.
    fn take_waiting(&mut self) -> Option<(Adu, Waiting<T>)> {
        let resequencer = self.resequencer.as_mut()?;
        let next = resequencer.next_sequence();
        let adu = resequencer.take_waiting()?;
        self.gaps.handle_left(next, adu.header.sequence.0);
        let waiting = self.waiting.remove(&adu.header.sequence.0)?;
        Some((adu, waiting))
    }

    fn count_added(&mut self, (header, bytes): (&Header, u64), place: Place) {
        self.adus += 1;
        self.bytes += bytes;
        if self.rules.is_ranked() && !header.flags.contains(Flags::END) {
            self.ranks.insert((header.importance, place));
        }
    }

    fn count_removed(&mut self, adu: &Adu, place: Place) {
        self.adus -= 1;
        self.bytes -= adu.payload.len() as u64;
        if self.rules.is_ranked() {
            self.ranks.remove(&(adu.header.importance, place));
        }
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
            self.count_removed(&adu, Place::Sequence(adu.header.sequence.0));
            if !adu.header.flags.contains(Flags::END) {
                self.push_adu(adu, waiting);
            }
        }
        if let Some(resequencer) = &mut self.resequencer {
            self.gaps.restart();
            let before = core::mem::take(resequencer);
            self.skipped_before += before.skipped();
            self.discarded_before += before.late();
        }
        self.ending = Ending::default();
        self.newest = None;
        self.items.push_back(Item::Restarted(source));
    }

    /// Returns the next item; a gap before it is given up when its time is over.
    pub fn take(&mut self, now: Instant) -> Option<Mail<T>> {
        self.expire(now);
        match self.items.front() {
            Some(Item::Adu(_, adu, _)) if !self.may_leave(&adu.header) => return None,
            Some(_) => return self.take_item(),
            None => {}
        }
        let resequencer = self.resequencer.as_mut()?;
        let first = resequencer.first()?.header;
        let is_end = first.flags.contains(Flags::END);
        if self.credit == Some(0) && !is_end {
            return None;
        }
        let next = resequencer.next_sequence();
        let is_at_depth = self.adus >= self.rules.adus || self.bytes >= self.rules.bytes;
        let gives_up = self.rules.is_newest() || self.rules.gives_up_gaps() && is_at_depth;
        // The end may overtake the rest, which is waited for as ever.
        let adu = if gives_up && !is_end {
            resequencer.take_waiting()?
        } else {
            resequencer.poll_adu(now)?
        };
        self.gaps.handle_left(next, adu.header.sequence.0);
        let waiting = self.waiting.remove(&adu.header.sequence.0)?;
        self.count_left(&adu, Place::Sequence(adu.header.sequence.0));
        Some(Mail::Adu(adu, waiting.token))
    }

    fn take_item(&mut self) -> Option<Mail<T>> {
        Some(match self.items.pop_front()? {
            Item::Adu(number, adu, waiting) => {
                self.count_left(&adu, Place::Item(number));
                Mail::Adu(adu, waiting.token)
            }
            Item::Notice(sentence) => Mail::Notice(sentence),
            Item::Restarted(source) => Mail::Restarted(source),
        })
    }

    /// Returns whether the subscriber has asked for an ADU. The end leaves by itself.
    const fn may_leave(&self, header: &Header) -> bool {
        !matches!(self.credit, Some(0)) || header.flags.contains(Flags::END)
    }

    fn count_left(&mut self, adu: &Adu, place: Place) {
        self.count_removed(adu, place);
        if !adu.header.flags.contains(Flags::END) {
            self.credit = self.credit.map(|credit| credit.saturating_sub(1));
        }
    }

    /// Returns the next dropped token that has not been reported, with the cause.
    pub fn poll_dropped(&mut self) -> Option<(T, DropCause)> {
        self.dropped.pop_front()
    }

    /// Returns the next range of sequences that never came, and for which the subscriber no longer waits;
    /// in sequence only. A driver that asks late misses some.
    pub fn poll_missing(&mut self) -> Option<Range<u64>> {
        self.gaps.poll_missing()
    }

    /// Returns when an item may become available without a put; in order of arrival, when the end
    /// may be due.
    pub fn poll_timeout(&self) -> Instant {
        let Some(resequencer) = &self.resequencer else {
            return self.ending.poll_timeout();
        };
        let first = resequencer.first();
        if first.is_none_or(|first| self.may_leave(&first.header)) {
            resequencer.poll_timeout()
        } else {
            // The next request is what it waits for.
            Instant::NEVER
        }
    }

    /// Returns, in order of arrival, whether the end has arrived and nothing missing before it is
    /// worth waiting for.
    pub fn poll_ended(&mut self, now: Instant) -> bool {
        self.ending.poll(now)
    }

    /// Returns whether it holds more than its bounds, so that it blocks its stream; `is_scarce` as
    /// in [`Mailbox::put`].
    pub fn is_pressed(&self, is_scarce: bool) -> bool {
        !self.is_abandoned && self.rules.may_block() && self.is_overfull(is_scarce)
    }

    fn is_overfull(&self, is_scarce: bool) -> bool {
        self.adus > self.rules.adus
            || self.bytes > self.rules.bytes
            || is_scarce && self.adus > 0
            || self.is_too_old(self.last_arrived)
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
