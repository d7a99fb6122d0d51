//! One node's account of one plan: what it counts itself, what the nodes behind it say, and when to tell the node before.
//!
//! *The idea.* The driver gives the node's own [`Counts`]; the next node's reports come by the control plane. From both
//! follows what got lost between the two (`hop`).
//!
//! *When.* A mark that ends at the node before is to be told of soon, once all that bore it has come: a sink reports
//! [`SETTLE`] after it has seen the next mark, and says nothing yet of that. If marked ADUs stop coming, it says after
//! [`QUIET`] that it has told all; and once it has said so, it says soon that ADUs come again. Without marks it reports what
//! has grown [`EVERY`] after its last report. A relay waits as long as the word of the nodes behind it took of late; what
//! they say is passed on at once with its own, unless something was passed on within [`AGAIN`]. So one report runs up the
//! path for each mark and collects what all have to say. What was delivered is told with every few of them, and when there is
//! a pause.
//!
//! ```text
//! known after ≤ 600 ms until the mark ends + way there + 80 ms + round trips of the hops behind + way back
//!       before a pause     250 to 375 ms + round trip of the hop and of those behind + way back
//! ```
//!
//! Who is silent, and what is missing, is looked at on a common [`GRID`] of time, so that a node with many streams wakes for
//! all of them at once.
//!
//! The first report says that the node counts, and perhaps nothing else: of one that was never heard nothing is concluded,
//! for it may speak an earlier version.
//!
//! *What is believed:* what the plan's next node says over its authenticated link; but not that more arrived there than were
//! sent, nor, at the source, that a node lost or delivered more than were given.

use alloc::vec::Vec;

use super::disbelief::Disbelief;
use super::entries::Entries;
use super::hop::{Hop, Turn, Word};
use super::passage::Passage;
use super::{ALL_COPIED, BANDS, Band, Counts, Marked, What};
use crate::adu::Mark;
use crate::event::DropCause;
use crate::id::{Epoch, StreamId};
use crate::limits::{LEDGER_BEHIND_MAX, PATH_NODES_MAX};
use crate::time::{Duration, Instant};
use crate::wire::account::{Made, Report, Statement};

/// How long after another mark was seen what bears the one before may still come.
pub const SETTLE: Duration = Duration::from_millis(80);

/// How often a node reports at most while no mark ends; a little later than if one does.
pub const EVERY: Duration = Duration::from_millis(730);

/// How much longer a relay waits for the nodes behind it to speak, while it does not know how long they take.
pub const SLACK: Duration = Duration::from_millis(150);

/// By how much longer than the nodes behind it took of late a relay waits for them.
const MARGIN: Duration = Duration::from_millis(40);

/// How long a relay waits for the nodes behind it at most.
const PATIENCE_MAX: Duration = Duration::from_millis(400);

/// How long no marked ADU comes until a node says that it has told all: longer than five a second are apart.
pub const QUIET: Duration = Duration::from_millis(250);

/// How far apart looks at what has come and what is missing are; all accounts look at once.
pub const GRID: Duration = Duration::from_millis(125);

/// How soon after its last report a node says that it has told all, or that ADUs come again.
pub(super) const TELL_ALL: Duration = Duration::from_millis(500);

/// How soon after it has passed on what others say a node does so again, and how soon after
/// a word of silence it speaks of a mark.
const AGAIN: Duration = Duration::from_millis(300);

/// How often it is told at most what was delivered, while there is more to come.
const DELIVERED_EVERY: Duration = Duration::from_millis(1_500);

const _: () = assert!(
    EVERY.as_nanos() > Mark::PERIOD.as_nanos() + SETTLE.as_nanos(),
    "a mark that ends is not waited for in vain"
);

/// Where a node is on the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The source of a path of so many nodes.
    Source(usize),
    /// The source of a plan that is grafted on another, of which it counts nothing itself: it was given as many ADUs as the
    /// node where it is grafted says that it copied. So many nodes have it, this one counted with them.
    Graft(usize),
    /// Between source and sink.
    Relay,
    /// The sink.
    Sink,
}

/// By what it is known what came to the sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Basis {
    /// By what the nodes tell.
    Reports,
    /// By what the sink says that it has as well: the way of the plan is broken or the plan is over, and nodes behind may have no way to
    /// tell what they counted.
    Receipts,
}

/// One node's account of one plan.
#[derive(Clone, Debug)]
pub struct Account {
    pub(super) place: Place,
    pub(super) counts: Counts,
    pub(super) own: Entries,
    /// The next node and those behind it.
    pub(super) behind: Vec<Entries>,
    hop: Hop,
    /// The next node has said something.
    is_heard: bool,
    /// Which mark still came there by its last report.
    heard: Mark,
    /// What the clock there is behind the one here when a report is not late, as far as is known: the way is counted with it.
    behind_by: Option<Made>,
    /// Which mark the ADUs that come bear.
    turn: Turn,
    /// When marked ADUs were seen to come last, and when to look whether more have: never, once none has for [`QUIET`].
    came: Instant,
    look: Instant,
    /// When the end of the stream had come; from then on all is told, and at once.
    over: Instant,
    /// When the end of the stream was copied here.
    end_copied: Instant,
    /// By the last report all was told; that ADUs come again is told soon.
    has_told_all: bool,
    told: Option<Instant>,
    /// When it said last that it had told all, or that ADUs come again.
    worded: Option<Instant>,
    /// When it passed on last what others say.
    passed: Option<Instant>,
    /// How long after a mark had come to rest here the nodes behind had spoken of it: the longest of late.
    lag: Option<Duration>,
    /// The next report says that this node counts, even if it has nothing to say.
    is_greeting: bool,
    due: Instant,
    /// When it was told last what was delivered.
    delivered_told: Instant,
    pub(super) basis: Basis,
    /// How many were lost when that was last asked.
    pub(super) lost: u64,
    pub(super) passage: Passage,
}

impl Account {
    /// Returns the account of a node that begins to count now; `since` is larger than that of each of its lives before.
    pub fn new(place: Place, since: u64, now: Instant) -> Self {
        Self {
            place,
            counts: Counts::default(),
            own: Entries::new(since),
            behind: Vec::new(),
            hop: Hop::new(now),
            is_heard: false,
            heard: Mark::NONE,
            behind_by: None,
            turn: Turn::new(),
            came: now,
            look: Instant::NEVER,
            over: Instant::NEVER,
            end_copied: Instant::NEVER,
            has_told_all: false,
            told: None,
            worded: None,
            passed: None,
            lag: None,
            is_greeting: true,
            due: now,
            delivered_told: now,
            basis: Basis::Reports,
            lost: 0,
            passage: Passage::new(now),
        }
    }

    /// Takes in the round trip of the link to the next node.
    pub fn handle_rtt(&mut self, rtt: Duration) {
        self.hop.handle_rtt(rtt);
    }

    /// Takes in that the next node does not answer, or answers again.
    ///
    /// While it does not, no word of it is waited for: what leaves is lost, as far as can be known, and is told soon.
    pub fn handle_silence(&mut self, is_silent: bool, now: Instant) {
        let arrived = arrived_at(self.behind.first());
        self.hop
            .handle_silence((is_silent && self.is_heard).then_some(&arrived), now);
    }

    /// Takes in that nodes behind may have no way to tell more, at the source: the way of the plan is broken, or the plan is over. From
    /// now on it goes by what its sink says that it has, and what is given again under another plan, where they tell of less.
    pub const fn go_by_receipts(&mut self) {
        self.basis = Basis::Receipts;
    }

    /// Takes in what this node has counted so far.
    ///
    /// A driver gives it soon after it has counted something, at once if that bears another mark than what was counted before,
    /// and always before anything else is called: what is said here is as new as the saying.
    pub fn handle_counts(&mut self, counts: &Counts, now: Instant) {
        self.hop.handle_left(&self.counts, counts, now);
        let turned = self.turn.handle(&self.counts.arrived, &counts.arrived, now);
        let marked = Mark::NONE.index() + 1..;
        let has_come = self.counts.arrived[marked.clone()] != counts.arrived[marked];
        self.counts.clone_from(counts);
        if has_come {
            self.come(now);
        }
        if counts.is_end_copied && self.end_copied.is_never() {
            // What left before it may come a little later.
            (self.over, self.end_copied) = (now, now);
            self.due = self.due.min(now + SETTLE);
        }
        self.reckon(None, now);
        self.state(turned, now);
    }

    /// Marked ADUs have come.
    fn come(&mut self, now: Instant) {
        (self.came, self.look) = (now, grid(now));
        if self.over <= now {
            self.due = self.due.min(now + SETTLE);
        } else if self.has_told_all {
            let due = self.after_all(now + SETTLE) + self.patience();
            self.due = self.due.min(due);
        }
    }

    /// Looks whether marked ADUs still come.
    fn look(&mut self, now: Instant) {
        if self.came + QUIET > now {
            self.look = grid(now);
            return;
        }
        self.look = Instant::NEVER;
        // After the end nothing may be left to say; but what had left shortly before it can be judged by a later word only.
        self.is_greeting |= self.over <= now;
        let due = self.after_all(now) + self.patience();
        self.due = self.due.min(due);
    }

    /// Whether nothing more is to come with the mark that is in use, as far as is known.
    fn is_quiet(&self, now: Instant) -> bool {
        self.look.is_never() || self.over <= now
    }

    /// Takes in that the end of the stream has come: what is known is told at once, once what was counted is given.
    pub fn handle_end(&mut self, now: Instant) {
        (self.over, self.due) = (now, now);
    }

    /// Returns when it may be said that all is told, or that it is not any more.
    fn after_all(&self, then: Instant) -> Instant {
        let last = match self.place {
            // What it passes on is said for others.
            Place::Relay => self.worded,
            _ if self.over <= then => None,
            _ => self.told,
        };
        last.map_or(then, |last| then.max(last + TELL_ALL))
    }

    /// Takes in what the next node says.
    ///
    /// Fails   if it cannot be; then nothing of it is kept
    pub fn handle_report(&mut self, report: &Report, now: Instant) -> Result<(), Disbelief> {
        let is_first = self.behind.first().is_none_or(Entries::is_unknown);
        let is_sequel = |first: &Statement| first.distance == 0 && first.since.is_none();
        let life = self.behind.first().map(Entries::since);
        if is_first && report.statements.first().is_some_and(is_sequel) {
            // It was said to an earlier life of this account; the next node tells all again with its lease.
            return Ok(());
        }
        let mut behind = self.behind.clone();
        for statement in &report.statements {
            let at = usize::from(statement.distance);
            if at + 1 >= self.nodes_max() {
                let distance = statement.distance;
                return Err(Disbelief::OffPath { distance });
            }
            if behind.len() <= at {
                behind.resize_with(at + 1, Entries::default);
            }
            behind[at].merge(statement);
        }
        let kept = behind.iter().map(Entries::len).sum();
        if kept > LEDGER_BEHIND_MAX {
            return Err(Disbelief::Many(kept));
        }
        if let (Place::Graft(_), Some(next)) = (self.place, behind.first()) {
            self.counts = copied(next);
        }
        let unrelated = self.check(&behind)?;
        self.hop.unrelated = unrelated;
        self.behind = behind;
        self.is_heard = true;
        let before = core::mem::replace(&mut self.heard, report.open);
        if ![Mark::NONE, report.open].contains(&before) && report.open != Mark::NONE {
            self.time_lag(report.open, now);
        }
        if life != self.behind.first().map(Entries::since) {
            self.behind_by = None;
        }
        let late = self.lateness(report.made, now);
        self.reckon(Some((report.open, late)), now);
        self.state(false, now);
        if self.own.is_fresh() || self.behind.iter().any(Entries::is_fresh) {
            let earliest = self.passed.map_or(now, |passed| passed + AGAIN);
            self.due = self.due.min(earliest.max(now));
            self.passed = Some(self.due);
        }
        Ok(())
    }

    /// Returns how many nodes there can be from this one to the sink, this one counted with them.
    pub(super) const fn nodes_max(&self) -> usize {
        match self.place {
            Place::Source(nodes) | Place::Graft(nodes) => nodes,
            // What is said of more could not be passed on: this node's own word is the first of its report, and the source is before it.
            Place::Relay => PATH_NODES_MAX - 1,
            Place::Sink => 1,
        }
    }

    /// Returns how much longer a report was on its way than others: it was lost, and is repeated.
    ///
    /// That which was the fastest counts, and is forgotten by a sixteenth each time.
    fn lateness(&mut self, made: Made, now: Instant) -> Duration {
        // Both clocks and the way in one number: it is only ever compared with itself.
        let apart = Made::at(now).less(made);
        let least = *self.behind_by.get_or_insert(apart);
        let late = apart.since(least);
        self.behind_by = Some(match late {
            ..=0 => apart,
            _ => least.plus((late / 16).max(1)),
        });
        Duration::from_millis(u64::try_from(late).unwrap_or(0))
    }

    /// Takes in that the nodes behind have spoken of the mark before this one.
    ///
    /// The longest holds, and falls by an eighth of what it is too long each time.
    fn time_lag(&mut self, open: Mark, now: Instant) {
        let turn = match self.place {
            Place::Source(_) => self.hop.turn(),
            _ => self.turn,
        };
        if turn.current != open {
            return;
        }
        let lag = now.saturating_since(turn.began + SETTLE).min(Mark::PERIOD);
        let long = self.lag.unwrap_or(lag);
        let fall = Duration::from_nanos(long.saturating_sub(lag).as_nanos() / 8);
        let lag = lag.max(long.saturating_sub(fall));
        self.lag = Some(lag);
        self.hop.handle_lag(lag + MARGIN);
    }

    /// Compares what is said with what was sent; returns what of it is from before this account.
    fn check(&self, behind: &[Entries]) -> Result<Marked, Disbelief> {
        let (said, known) = (arrived_at(behind.first()), arrived_at(self.behind.first()));
        let mut unrelated = self.hop.unrelated;
        for at in 0..BANDS {
            for mark in 0..Mark::COUNT {
                let (arrived, sent) = (said[mark][at], self.counts.sent[mark][at]);
                if known[mark][at] == 0 {
                    unrelated[mark][at] = arrived.saturating_sub(sent);
                }
                let arrived = arrived.saturating_sub(unrelated[mark][at]);
                if arrived > sent {
                    return Err(Disbelief::Arrived { arrived, sent });
                }
            }
        }
        // Only a source knows for certain that all it hears of was its own.
        if matches!(self.place, Place::Source(_)) {
            for ended in behind.iter().map(Entries::ended) {
                for band in Band::all() {
                    let (ended, given) = (ended[band.index()], self.counts.arrived(band));
                    if ended > given {
                        return Err(Disbelief::Ended { ended, given });
                    }
                }
            }
        }
        Ok(unrelated)
    }

    /// Concludes what got lost on the way to the next node, from what it has just said but for one mark, or said before.
    fn reckon(&mut self, fresh: Option<(Mark, Duration)>, now: Instant) {
        // No hop of its own leads to where a plan is grafted.
        if matches!(self.place, Place::Graft(_)) {
            return;
        }
        let arrived = arrived_at(self.behind.first());
        let word = Word {
            arrived: &arrived,
            fresh: fresh.map(|(open, _)| open),
            late: fresh.map_or(Duration::ZERO, |(_, late)| late),
            is_all: self.heard == Mark::NONE,
        };
        let word = self.is_heard.then_some(&word);
        self.hop.reckon(&self.counts, word, now);
    }

    /// Brings what this node says up to what it has counted and concluded.
    fn state(&mut self, turned: bool, now: Instant) {
        let mut has_grown = false;
        let mut say = |what: What, counts: &[u64; BANDS]| {
            // Most count nothing ever.
            if *counts != [0; BANDS] {
                for band in Band::all() {
                    has_grown |= self.own.raise(what.number(band), counts[band.index()]);
                }
            }
        };
        for cause in DropCause::ALL {
            let mut dropped = self.counts.dropped[cause.index()];
            if cause == DropCause::PathLost {
                let lost = self.hop.lost();
                dropped
                    .iter_mut()
                    .zip(lost)
                    .for_each(|(all, on_way)| *all += on_way);
            }
            say(What::Dropped(cause), &dropped);
        }
        for mark in Mark::all() {
            say(What::Arrived(mark), &self.counts.arrived[mark.index()]);
        }
        say(What::Delivered, &self.counts.delivered);
        say(What::Returned, &self.hop.returned());
        if has_grown {
            let earliest = if turned || self.hop.is_silent() {
                self.worded
                    .max(self.told.filter(|_| !turned))
                    .map(|last| last + AGAIN)
            } else {
                self.told.map(|told| told + EVERY)
            };
            let earliest = earliest.unwrap_or(now);
            let due = earliest.max(now + SETTLE) + self.patience();
            self.due = self.due.min(due);
        }
    }

    /// A relay lets the nodes behind speak first, so that it need not speak twice.
    fn patience(&self) -> Duration {
        match self.place {
            Place::Sink => Duration::ZERO,
            _ if self.hop.is_silent() => Duration::ZERO,
            Place::Source(_) | Place::Graft(_) | Place::Relay => self
                .lag
                .map_or(SLACK, |lag| (lag + MARGIN).min(PATIENCE_MAX)),
        }
    }

    /// Returns the mark that still comes, of which nothing is said yet; none if there is a pause.
    fn open(&self, now: Instant) -> Mark {
        let until = self.turn.began + Mark::PERIOD + SETTLE;
        if now < until && !self.is_quiet(now) {
            self.turn.current
        } else {
            Mark::NONE
        }
    }

    /// Has everything told again, for the node before may have forgotten it; but not before what was counted is given.
    pub fn refresh(&mut self, now: Instant) {
        self.own.refresh();
        self.behind.iter_mut().for_each(Entries::refresh);
        self.is_greeting = true;
        // Whoever begins to listen is told of every mark, or would take what it had before for new.
        self.turn.began = Instant::ZERO;
        self.due = now;
    }

    /// Does what is due but the report.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.look <= now {
            self.look(now);
        }
        if self.hop.poll_timeout() <= now {
            self.reckon(None, now);
            self.state(false, now);
        }
    }

    /// Returns when there is something to do.
    pub fn poll_timeout(&self) -> Instant {
        match self.place {
            Place::Source(_) | Place::Graft(_) => self.hop.poll_timeout().min(self.look),
            Place::Relay | Place::Sink => self.hop.poll_timeout().min(self.due).min(self.look),
        }
    }

    /// Waits with the report until [`Account::refresh`], for nobody can be told now.
    pub const fn hold(&mut self) {
        self.due = Instant::NEVER;
    }

    /// Returns what the node before is to be told now.
    pub fn poll_report(&mut self, stream: StreamId, epoch: Epoch, now: Instant) -> Option<Report> {
        if self.due > now || matches!(self.place, Place::Source(_) | Place::Graft(_)) {
            return None;
        }
        if self.turn.current != Mark::NONE && !self.is_quiet(now) && now < self.turn.began + SETTLE
        {
            // What bears the mark before may still come, and nothing more is said of it for as long as a mark lasts.
            self.due = self.turn.began + SETTLE;
            return None;
        }
        self.due = Instant::NEVER;
        let open = self.open(now);
        let is_pause = open == Mark::NONE;
        let is_delivered_told = is_pause || self.delivered_told + DELIVERED_EVERY <= now;
        if is_delivered_told {
            self.delivered_told = now;
        }
        if self.end_copied + SETTLE <= now {
            self.own.raise(ALL_COPIED, 1);
        }
        let own = self.own.take_fresh(0, |what| match what {
            What::Arrived(mark) => is_pause || mark != open,
            What::Delivered => is_delivered_told,
            What::Dropped(_) | What::Returned | What::AllCopied => true,
        });
        if self.own.is_fresh() {
            self.due = (self.turn.began + EVERY).max(now + SETTLE) + self.patience();
        }
        if self.end_copied + SETTLE > now {
            self.due = self.due.min(self.end_copied + SETTLE);
        }
        let is_greeting = core::mem::take(&mut self.is_greeting);
        // That ADUs come again, after all had been told, is worth a word of nothing else.
        let comes_again = core::mem::replace(&mut self.has_told_all, is_pause) && !is_pause;
        if comes_again || is_pause && self.is_quiet(now) {
            self.worded = Some(now);
        }
        let is_word = is_greeting || comes_again;
        let own = own.or_else(|| is_word.then(|| self.own.greeting()));
        // How many arrived is for the node before alone.
        let is_told = |what| !matches!(what, What::Arrived(_));
        let behind = self.behind.iter_mut().enumerate();
        let behind = behind.filter_map(|(at, node)| {
            let said = node.take_fresh(at + 1, is_told);
            node.settle();
            said
        });
        let statements: Vec<_> = own.into_iter().chain(behind).collect();
        if statements.is_empty() {
            return None;
        }
        // What is told again is no reason to wait with what is new.
        if !is_greeting {
            self.told = Some(now);
        }
        Some(Report {
            stream,
            epoch,
            open,
            made: Made::at(now),
            statements,
        })
    }
}

/// Returns when it is looked next.
pub(super) const fn grid(now: Instant) -> Instant {
    let step = GRID.as_nanos();
    Instant::from_nanos((now.as_nanos() / step + 1).saturating_mul(step))
}

/// Returns how many ADUs arrived at a node, by its own word; none if nothing was heard of it.
fn arrived_at(node: Option<&Entries>) -> Marked {
    node.map_or_else(Marked::default, Entries::arrived)
}

/// Returns what the source of a grafted plan would have counted, had it given what the node there copied.
fn copied(caster: &Entries) -> Counts {
    let mut counts = Counts::default();
    let said = caster.arrived();
    (counts.arrived, counts.sent, counts.left) = (said, said, said);
    counts
}
