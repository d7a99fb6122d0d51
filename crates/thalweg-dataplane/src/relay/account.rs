//! The counts of a plan on a node: the node's part of a stream's ledger.
//!
//! *The idea.* The last node that had an ADU whole accounts for it. So an ADU that is passed on
//! while it arrives belongs to the node before if its rest never comes, and to this node once it
//! has come, or once this node refuses the rest.
//!
//! An ADU in a datagram carries a [`Mark`] that alternates with time. The source sets it, and each
//! node sends it on unchanged, unless the next hop acknowledges ADUs. When the mark changes, the
//! counts are due for a report at once.
//!
//! The counts of a plan are large, and a relay has many plans. What is counted for nearly each ADU
//! (it came, was sent and has left, without a mark) is first counted in a small [`Tally`], and
//! added to the counts when they are read.
//!
//! *What it does not do.* It reports nothing. The end of a stream is no ADU and is not counted.
//!
//! *Sources.* docs/concepts/ledger.md.

use core::mem;

use thalweg_base::adu::{Flags, Header, Mark};
use thalweg_base::count::{BANDS, Band, Counts};
use thalweg_base::event::DropCause;
use thalweg_base::time::{Duration, Instant};

/// How long counts may go unreported.
pub const REPORT_TICK: Duration = Duration::from_millis(250);

/// How an ADU that was handed to a link ended: it left, so the next node accounts for it, or this
/// node does, under a cause.
pub type Ended = Result<(), DropCause>;

/// The counts of one plan, to look at.
#[derive(Clone, Copy, Debug)]
pub struct Account<'a> {
    counts: &'a Counts,
    bytes: u64,
}

/// What a plan has counted since its counts were last read, and what else each ADU changes.
#[derive(Debug)]
pub(super) struct Tally {
    /// ADUs without a mark, by band: those that came, were handed to the next link, and have left.
    arrived: [u16; BANDS],
    sent: [u16; BANDS],
    left: [u16; BANDS],
    /// Payload bytes handed to the next link, ever.
    bytes: u64,
    /// The mark that arrived last.
    mark: Mark,
    /// The counts have changed since they were last taken.
    pub(super) has_changed: bool,
}

/// When the counts of a machine are due for a report.
#[derive(Debug)]
pub(super) struct Due {
    at: Instant,
    is_urgent: bool,
}

/// The account of one plan, to be written in.
pub(super) struct Book<'a> {
    pub(super) tally: &'a mut Tally,
    pub(super) counts: &'a mut Counts,
    pub(super) due: &'a mut Due,
}

/// Returns the band in which an ADU is counted; `None` for the end of a stream.
pub(super) fn band_of(header: &Header) -> Option<Band> {
    (!header.flags.contains(Flags::END)).then(|| Band::of(header.importance))
}

impl<'a> Account<'a> {
    /// Returns the counts of a plan with this tally, which is added to them.
    pub(super) fn of(tally: &mut Tally, counts: &'a mut Counts) -> Self {
        tally.drain(counts);
        Self {
            counts,
            bytes: tally.bytes,
        }
    }

    /// Returns the counts.
    pub const fn counts(&self) -> &Counts {
        self.counts
    }

    /// Returns the payload bytes that were handed to the next link.
    pub const fn sent_bytes(&self) -> u64 {
        self.bytes
    }
}

impl Tally {
    pub(super) const EMPTY: Self = Self {
        arrived: [0; BANDS],
        sent: [0; BANDS],
        left: [0; BANDS],
        bytes: 0,
        mark: Mark::NONE,
        has_changed: false,
    };

    /// Adds what was counted to the counts.
    pub(super) fn drain(&mut self, counts: &mut Counts) {
        let none = Mark::NONE.index();
        let rows = [
            (&mut self.arrived, &mut counts.arrived[none]),
            (&mut self.sent, &mut counts.sent[none]),
            (&mut self.left, &mut counts.left[none]),
        ];
        for (own, all) in rows {
            for (all, own) in all.iter_mut().zip(mem::take(own)) {
                *all += u64::from(own);
            }
        }
    }

    /// Counts an ADU that is here whole, or refused; returns whether its mark is a new one.
    pub(super) fn arrive(&mut self, came: Mark, band: Option<Band>, counts: &mut Counts) -> bool {
        if let Some(band) = band {
            if !add(&mut self.arrived, came, band) {
                counts.arrive(came, band);
            }
            self.has_changed = true;
        }
        mem::replace(&mut self.mark, came) != came
    }

    /// Counts an ADU that is handed to the next link.
    pub(super) fn send(
        &mut self,
        mark: Mark,
        band: Option<Band>,
        payload_bytes: usize,
        counts: &mut Counts,
    ) {
        self.bytes += payload_bytes as u64;
        if let Some(band) = band {
            if !add(&mut self.sent, mark, band) {
                counts.send(mark, band);
            }
            self.has_changed = true;
        }
    }

    /// Returns the mark for the next hop: none if the hop acknowledges ADUs; else the mark with
    /// which the ADU came, or the present one if it came without.
    pub(super) const fn outgoing_mark(&self, came: Mark, is_acknowledged: bool) -> Mark {
        match (is_acknowledged, came, self.mark) {
            (true, ..) => Mark::NONE,
            (false, Mark::NONE, Mark::NONE) => Mark::NONE.next(),
            (false, Mark::NONE, last) => last,
            (false, came, _) => came,
        }
    }
}

/// Counts an ADU in a tally's row; returns whether there was room.
fn add(row: &mut [u16; BANDS], mark: Mark, band: Band) -> bool {
    let count = &mut row[band.index()];
    let has_room = mark == Mark::NONE && *count < u16::MAX;
    *count += u16::from(has_room);
    has_room
}

impl Book<'_> {
    /// Adds to the counts, unless the ADU is the end of its stream.
    pub(super) fn count(
        &mut self,
        band: Option<Band>,
        now: Instant,
        what: impl FnOnce(&mut Counts, Band),
    ) {
        if let Some(band) = band {
            what(self.counts, band);
            self.tally.has_changed = true;
            self.due.wake(now + REPORT_TICK);
        }
    }

    /// Counts an ADU that came with a mark and is here whole, or refused.
    pub(super) fn handle_arrived(&mut self, came: Mark, band: Option<Band>, now: Instant) {
        let is_new = self.tally.arrive(came, band, self.counts);
        self.wake_after(band, is_new, now);
    }

    /// Notes that the end of the stream is copied here for this plan: the source waits for the count
    /// up to it.
    pub(super) fn handle_end_copied(&mut self, now: Instant) {
        self.counts.is_end_copied = true;
        self.tally.has_changed = true;
        self.due.hurry(now);
    }

    /// Counts an ADU that is refused here, or that no plan carries.
    pub(super) fn handle_refused(&mut self, header: &Header, cause: DropCause, now: Instant) {
        let band = band_of(header);
        self.handle_arrived(header.mark(), band, now);
        self.count(band, now, |counts, band| counts.give_up(band, cause));
    }

    /// Counts how an ADU ended that was sent with a mark.
    pub(super) fn handle_ended(
        &mut self,
        mark: Mark,
        band: Option<Band>,
        ended: Ended,
        now: Instant,
    ) {
        match (band, ended) {
            (Some(band), Ok(())) => {
                if !add(&mut self.tally.left, mark, band) {
                    self.counts.leave(mark, band);
                }
                self.tally.has_changed = true;
            }
            (Some(band), Err(cause)) => {
                self.counts.fail(mark, band, cause);
                self.tally.has_changed = true;
            }
            (None, _) => {}
        }
        self.wake_after(band, false, now);
    }

    /// Counts how an ADU ended that was passed on and never came whole. The node before accounts
    /// for it, unless the next node has it already.
    pub(super) fn handle_void(
        &mut self,
        [came, mark]: [Mark; 2],
        band: Option<Band>,
        ended: Ended,
        now: Instant,
    ) {
        if ended.is_err() {
            return self.count(band, now, |counts, band| counts.disown(mark, band));
        }
        self.handle_arrived(came, band, now);
        self.handle_ended(mark, band, ended, now);
    }

    fn wake_after(&mut self, band: Option<Band>, is_mark_new: bool, now: Instant) {
        if is_mark_new {
            self.due.hurry(now);
        } else if band.is_some() {
            self.due.wake(now + REPORT_TICK);
        }
    }
}

impl Due {
    pub(super) const NEVER: Self = Self {
        at: Instant::NEVER,
        is_urgent: false,
    };

    /// Makes a report due at `at`, if it is not due earlier.
    pub(super) fn wake(&mut self, at: Instant) {
        self.at = self.at.min(at);
    }

    /// Makes a report due at once.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.is_urgent = true;
        self.wake(now);
    }

    /// Returns whether a report is due at once.
    pub(super) const fn is_urgent(&self) -> bool {
        self.is_urgent
    }

    /// Returns when a report is due.
    pub(super) const fn poll_timeout(&self) -> Instant {
        self.at
    }
}
