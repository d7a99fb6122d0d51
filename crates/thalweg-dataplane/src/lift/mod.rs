//! The loop that passes packets through a node's modules, forward and back.
//!
//! *The idea.* The modules are an array, fixed when the plan is deployed, and a packet walks along
//! it. Modules with more packets to emit are drained before the next input, the one nearest the
//! exit first, so that order is kept and nothing piles up. Control messages run between packets.
//!
//! ```text
//! poll(direction):
//! a module returned "more" and is not drained?  → poll the one nearest the exit, pass on its
//! packet
//!   control messages queued?                       → run them
//!   paused?                                        → nothing
//!   take the next input                            → pass it on
//! pass on: for each module: pass | discard → count, stop | hold → keep, stop | more → note | pause
//! → note
//! ```
//!
//! One [`Lift`] is a flow: the spec's forward and backward lift over the same modules, so that
//! feedback that a module sees on its way back affects the next packet on its way forward. It
//! follows the contract of `thalweg_base`: inputs by `handle_*`, outputs by `poll_*`, the next deadline
//! by `poll_timeout`. One exception is intended: control messages are out of band and overtake
//! queued packets.
//!
//! *What it does not do.* It has no thread and never waits: its driver calls it when there is data.
//!
//! *Sources.* spec DC-3, DC-4, DC-17, DC-19 and §5(d) "Lift skeleton".

use std::collections::VecDeque;

use thalweg_base::event::DropCause;
use thalweg_base::limits::MODULES_PER_LIFT_MAX;
use thalweg_base::time::Instant;

use crate::module::{Context, Control, ControlError, Direction, Held, Module, Verdict};
use crate::packet::{Packet, Pool};

mod counters;
mod spec;
#[cfg(test)]
mod tests;

pub use counters::Counters;
pub use spec::{Materials, SpecError, module_from_spec};

/// Maximum number of packets queued at a lift's input, in each direction.
pub const INPUT_PACKETS_MAX: usize = 64;

/// Maximum number of packets that modules may emit for one input before the lift takes the next.
pub const MORE_PACKETS_MAX: u32 = 4096;

/// Maximum number of control messages queued while a packet's parts are still coming out.
const CONTROLS_MAX: usize = 64;

/// The modules of one stream on this node, and the loop along them.
pub struct Lift {
    stages: Vec<Stage>,
    pool: Pool,
    forward: Path,
    backward: Path,
    now: Instant,
    controls: VecDeque<(ControlId, Target, Control)>,
    outcomes: VecDeque<Outcome>,
    next_control: u64,
}

/// The modules that a control message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// All modules that understand it.
    All,
    /// The module at this index of the chain.
    Module(usize),
}

/// The number of a control message, unique within its lift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ControlId(pub u64);

/// The result of a control message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The message.
    pub id: ControlId,
    /// Number of modules that carried it out.
    pub done: usize,
    /// Refusals by index in the chain; modules that do not understand it are not listed.
    pub refused: Vec<(usize, ControlError)>,
}

/// The chain exceeds [`MODULES_PER_LIFT_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} modules are more than a lift can have, {MODULES_PER_LIFT_MAX}")]
pub struct TooManyModules(pub usize);

/// A module with its state in the lift.
struct Stage {
    module: Box<dyn Module>,
    forward: Side,
    backward: Side,
}

/// The lift's state for a module in one direction.
#[derive(Default)]
struct Side {
    held: Held,
    counters: Counters,
}

/// The lift's state for a direction.
#[derive(Default)]
struct Path {
    input: VecDeque<Packet>,
    /// One bit per module that is still to be polled for more.
    more: u32,
    /// Whether a packet was split and not all of its parts are out.
    is_splitting: bool,
    /// Number of packets emitted beyond the present input.
    more_count: u32,
    /// The module that requested a pause.
    paused_by: Option<usize>,
}

impl Lift {
    /// Returns a lift with these modules, the first one nearest the producer.
    pub fn new(modules: Vec<Box<dyn Module>>, pool: Pool) -> Result<Self, TooManyModules> {
        if modules.len() > MODULES_PER_LIFT_MAX {
            return Err(TooManyModules(modules.len()));
        }
        let stage = |module| Stage {
            module,
            forward: Side::default(),
            backward: Side::default(),
        };
        Ok(Self {
            stages: modules.into_iter().map(stage).collect(),
            pool,
            forward: Path::new(),
            backward: Path::new(),
            now: Instant::ZERO,
            controls: VecDeque::new(),
            outcomes: VecDeque::new(),
            next_control: 0,
        })
    }

    /// Returns a lift built from a plan's words, in order.
    pub fn from_spec<'a>(
        words: impl IntoIterator<Item = &'a str>,
        materials: &mut Materials,
        pool: Pool,
    ) -> Result<Self, SpecError> {
        spec::lift_from_spec(words, materials, pool)
    }

    /// Accepts a packet from the producer's side, or returns it if [`INPUT_PACKETS_MAX`] are
    /// queued.
    pub fn handle_forward(&mut self, packet: Packet, now: Instant) -> Result<(), Packet> {
        self.now = now;
        self.forward.push_input(packet)
    }

    /// Accepts a feedback packet, or returns it if [`INPUT_PACKETS_MAX`] are queued.
    pub fn handle_backward(&mut self, packet: Packet, now: Instant) -> Result<(), Packet> {
        self.now = now;
        self.backward.push_input(packet)
    }

    /// Marks the modules with an expired timeout to be polled.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        for (index, stage) in self.stages.iter().enumerate() {
            if stage.module.poll_timeout() <= now {
                self.forward.mark_more(index);
                self.backward.mark_more(index);
            }
        }
    }

    /// Accepts a control message; it runs at once, or after the packet in progress.
    ///
    /// Fails   never: its result is an [`Outcome`]
    pub fn handle_control(&mut self, target: Target, control: Control) -> ControlId {
        let id = ControlId(self.next_control);
        self.next_control += 1;
        if self.controls.len() < CONTROLS_MAX {
            self.controls.push_back((id, target, control));
            if self.is_between_packets() {
                self.run_controls();
            }
        } else {
            let full = ControlError::Other(format!("{CONTROLS_MAX} control messages wait already"));
            self.queue_outcome(Outcome {
                id,
                done: 0,
                refused: vec![(0, full)],
            });
        }
        id
    }

    /// Returns the next packet for the subscriber's side, if there is one.
    pub fn poll_forward(&mut self) -> Option<Packet> {
        loop {
            if let Some(index) = self.forward.more_downstream() {
                let polled =
                    self.stages[index].poll_module(Direction::Forward, self.now, &self.pool);
                let Some(packet) = self.forward.record_polled(index, polled) else {
                    continue;
                };
                if let Some(out) = self.pass_forward(packet, index + 1) {
                    return Some(out);
                }
                continue;
            }
            if !self.controls.is_empty() && self.is_between_packets() {
                self.run_controls();
                continue;
            }
            if self.is_paused(Direction::Forward) {
                return None;
            }
            let packet = self.forward.input.pop_front()?;
            if let Some(out) = self.pass_forward(packet, 0) {
                return Some(out);
            }
        }
    }

    /// Returns the next packet of feedback for the producer's side, if there is one.
    pub fn poll_backward(&mut self) -> Option<Packet> {
        loop {
            if let Some(index) = self.backward.more_upstream() {
                let polled =
                    self.stages[index].poll_module(Direction::Backward, self.now, &self.pool);
                let Some(packet) = self.backward.record_polled(index, polled) else {
                    continue;
                };
                if let Some(out) = self.pass_backward(packet, index) {
                    return Some(out);
                }
                continue;
            }
            if !self.controls.is_empty() && self.is_between_packets() {
                self.run_controls();
                continue;
            }
            if self.is_paused(Direction::Backward) {
                return None;
            }
            let packet = self.backward.input.pop_front()?;
            if let Some(out) = self.pass_backward(packet, self.stages.len()) {
                return Some(out);
            }
        }
    }

    /// Returns the result of a control message, oldest first.
    pub fn poll_outcome(&mut self) -> Option<Outcome> {
        self.outcomes.pop_front()
    }

    /// Returns when to call [`Lift::handle_timeout`]; `NEVER` if no module has a timeout.
    pub fn poll_timeout(&self) -> Instant {
        let due = self.stages.iter().map(|stage| stage.module.poll_timeout());
        due.min().unwrap_or(Instant::NEVER)
    }

    /// Returns whether a module has paused the lift in this direction.
    pub fn is_paused(&mut self, direction: Direction) -> bool {
        let path = match direction {
            Direction::Forward => &mut self.forward,
            Direction::Backward => &mut self.backward,
        };
        let Some(index) = path.paused_by else {
            return false;
        };
        if self.stages[index].module.is_ready(self.now) {
            path.paused_by = None;
        }
        path.paused_by.is_some()
    }

    /// Returns the number of modules.
    pub fn len(&self) -> usize {
        self.stages.len()
    }

    /// Returns whether there are no modules; such a lift passes everything unchanged.
    pub fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    /// Returns the number of queued and held packets; at zero the lift can be dropped without loss.
    pub fn packets_inside(&self) -> usize {
        let held = |stage: &Stage| stage.forward.held.len() + stage.backward.held.len();
        let waiting = self.forward.input.len() + self.backward.input.len();
        waiting + self.stages.iter().map(held).sum::<usize>()
    }

    /// Returns each module's name and counters in this direction, in the order of the chain.
    pub fn counters(&self, direction: Direction) -> impl Iterator<Item = (&'static str, Counters)> {
        self.stages.iter().map(move |stage| {
            let side = match direction {
                Direction::Forward => &stage.forward,
                Direction::Backward => &stage.backward,
            };
            let mut counters = side.counters;
            counters.packets_held = side.held.len();
            (stage.module.name(), counters)
        })
    }

    fn pass_forward(&mut self, mut packet: Packet, from: usize) -> Option<Packet> {
        for (index, stage) in self.stages.iter_mut().enumerate().skip(from) {
            let Stage {
                module, forward, ..
            } = stage;
            forward.counters.count_in(&packet);
            let mut cx = Context {
                now: self.now,
                pool: &self.pool,
                held: &mut forward.held,
            };
            match module.forward(&mut packet, &mut cx) {
                Verdict::Pass => {}
                verdict => {
                    if !forward.apply(verdict, &mut packet, &mut self.forward, index) {
                        return None;
                    }
                }
            }
            forward.counters.count_out(&packet);
        }
        Some(packet)
    }

    fn pass_backward(&mut self, mut packet: Packet, before: usize) -> Option<Packet> {
        for (index, stage) in self.stages[..before].iter_mut().enumerate().rev() {
            let Stage {
                module, backward, ..
            } = stage;
            backward.counters.count_in(&packet);
            let mut cx = Context {
                now: self.now,
                pool: &self.pool,
                held: &mut backward.held,
            };
            match module.backward(&mut packet, &mut cx) {
                Verdict::Pass => {}
                verdict => {
                    if !backward.apply(verdict, &mut packet, &mut self.backward, index) {
                        return None;
                    }
                }
            }
            backward.counters.count_out(&packet);
        }
        Some(packet)
    }

    const fn is_between_packets(&self) -> bool {
        !self.forward.is_splitting && !self.backward.is_splitting
    }

    #[cold]
    fn run_controls(&mut self) {
        while let Some((id, target, control)) = self.controls.pop_front() {
            let outcome = self.run_control(id, target, &control);
            self.queue_outcome(outcome);
            if !self.is_between_packets() {
                return;
            }
        }
    }

    fn queue_outcome(&mut self, outcome: Outcome) {
        // A caller that never reads outcomes must not grow the queue: the oldest go.
        if self.outcomes.len() >= CONTROLS_MAX {
            self.outcomes.pop_front();
        }
        self.outcomes.push_back(outcome);
    }

    fn run_control(&mut self, id: ControlId, target: Target, control: &Control) -> Outcome {
        let mut outcome = Outcome {
            id,
            done: 0,
            refused: Vec::new(),
        };
        if matches!(control, Control::Resume) {
            self.forward.paused_by = None;
            self.backward.paused_by = None;
            outcome.done = 1;
            return outcome;
        }
        for (index, stage) in self.stages.iter_mut().enumerate() {
            if target != Target::All && target != Target::Module(index) {
                continue;
            }
            match stage.module.control(control) {
                Ok(()) => {
                    outcome.done += 1;
                    self.forward.mark_more(index);
                    self.backward.mark_more(index);
                }
                Err(ControlError::NotMine) => {}
                Err(refusal) => outcome.refused.push((index, refusal)),
            }
        }
        outcome
    }
}

impl Stage {
    fn poll_module(&mut self, direction: Direction, now: Instant, pool: &Pool) -> Option<Packet> {
        let side = match direction {
            Direction::Forward => &mut self.forward,
            Direction::Backward => &mut self.backward,
        };
        let mut cx = Context {
            now,
            pool,
            held: &mut side.held,
        };
        let packet = self.module.poll(direction, &mut cx)?;
        side.counters.count_out(&packet);
        Some(packet)
    }
}

impl Side {
    /// Applies a verdict and returns whether the packet goes on.
    #[inline]
    fn apply(
        &mut self,
        verdict: Verdict,
        packet: &mut Packet,
        path: &mut Path,
        index: usize,
    ) -> bool {
        match verdict {
            Verdict::Pass => true,
            Verdict::More => {
                path.mark_more(index);
                path.is_splitting = true;
                true
            }
            Verdict::Pause => {
                path.paused_by = Some(index);
                true
            }
            Verdict::Discard(cause) => {
                self.counters.dropped.add(cause);
                false
            }
            Verdict::Hold => {
                if self.held.push(packet.take()).is_err() {
                    self.counters.dropped.add(DropCause::Overflow);
                }
                false
            }
        }
    }
}

impl Path {
    fn new() -> Self {
        Self {
            // Reserved at once, so that the first packets do not allocate either.
            input: VecDeque::with_capacity(INPUT_PACKETS_MAX),
            ..Self::default()
        }
    }

    #[inline]
    fn push_input(&mut self, packet: Packet) -> Result<(), Packet> {
        if self.input.len() >= INPUT_PACKETS_MAX {
            return Err(packet);
        }
        self.input.push_back(packet);
        Ok(())
    }

    const fn mark_more(&mut self, index: usize) {
        if self.more == 0 {
            self.more_count = 0;
        }
        self.more |= 1 << index;
    }

    /// Records a module's polled packet; a module that has no more, or never ends, is not polled
    /// again.
    fn record_polled(&mut self, index: usize, polled: Option<Packet>) -> Option<Packet> {
        self.more_count += 1;
        if polled.is_none() || self.more_count >= MORE_PACKETS_MAX {
            self.more &= !(1 << index);
            self.is_splitting &= self.more != 0;
        }
        polled
    }

    const fn more_downstream(&self) -> Option<usize> {
        match self.more {
            0 => None,
            more => Some(more.ilog2() as usize),
        }
    }

    const fn more_upstream(&self) -> Option<usize> {
        match self.more {
            0 => None,
            more => Some(more.trailing_zeros() as usize),
        }
    }
}

impl core::fmt::Debug for Lift {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let names: Vec<_> = self.stages.iter().map(|s| s.module.name()).collect();
        f.debug_struct("Lift")
            .field("modules", &names)
            .finish_non_exhaustive()
    }
}

const _: () = assert!(
    MODULES_PER_LIFT_MAX <= u32::BITS as usize,
    "each module has a bit in `Path::more`"
);
