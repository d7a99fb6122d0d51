//! The states a stream can be in, and the steps that adapters make between them.
//!
//! *The idea.* A state is how many layers are kept and which transforms are on: `state = (q − 1)·2^B + bits`. All that
//! the search asks of an adapter (from where to where, at what cost and delay) is tabulated once per stream.
//!
//! ```text
//! R(q, bits) = (Σ_{ℓ≤q} r_ℓ) · Π_{b on} factor_b
//! ```
//!
//! Dropping layers is charged at once with the quality that it gives up, so a label's cost already holds every loss
//! it cannot undo.
//!
//! *Sources.* docs/planner.md §2, §3.

use alloc::vec::Vec;

use super::cost::Cost;
use crate::model::{Adapter, Catalogue, Profile, Role, Snapshot};
use crate::time::Duration;
use crate::units::Bitrate;

/// How far a rate may exceed a link's, relatively: products of decimal ratios miss whole numbers by less than this.
pub(super) const RATE_TOLERANCE: f64 = 1e-9;

/// Returns whether a stream of this rate fits a link.
pub(super) fn fits(rate_bps: f64, link: Bitrate) -> bool {
    rate_bps <= link.as_bps() as f64 * (1.0 + RATE_TOLERANCE)
}

/// One adapter applied in one state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) adapter: Adapter,
    /// The state after it.
    pub(super) to: u16,
    /// κ · input rate.
    pub(super) run_cost: Cost,
    /// The same and the quality given up.
    pub(super) cost: Cost,
    pub(super) delay: Duration,
}

/// The same seen from the state after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct BackStep {
    pub(super) from: u16,
    pub(super) run_cost: Cost,
    pub(super) cost: Cost,
    pub(super) delay: Duration,
}

/// All states of one stream.
#[derive(Debug)]
pub(super) struct States {
    bits: u32,
    layers: u8,
    least_layers: u8,
    /// By state: R in bit/s.
    rates: Vec<f64>,
    /// By transform bits: whether the payload is hidden.
    hidden: Vec<bool>,
    /// By state: the cost of what delivery in it would lack.
    quality: Vec<Cost>,
    /// By layers, 0 to all: the lowest rate of any state with so many.
    least_rates: Vec<f64>,
    /// The steps of state `s` are `steps[first[s]..first[s + 1]]`.
    steps: Vec<Step>,
    first: Vec<u32>,
    /// The steps to state `s` are `back_steps[first_back[s]..first_back[s + 1]]`.
    back_steps: Vec<BackStep>,
    first_back: Vec<u32>,
}

impl States {
    /// Tabulates the states of a stream of which so many layers are worth delivering.
    pub(super) fn new(snapshot: &Snapshot, least_layers: u8) -> Self {
        let stream = &snapshot.stream;
        let catalogue = &snapshot.catalogue;
        let transforms = catalogue.transforms.len().min(Catalogue::TRANSFORMS_MAX);
        let transforms = &catalogue.transforms[..transforms];
        let patterns = 1usize << transforms.len();
        let is_on = |pattern: usize, bit: usize| pattern >> bit & 1 == 1;

        let mut utility = 0.0;
        let mut plain_bps = 0.0;
        let mut states = Self {
            bits: transforms.len() as u32,
            layers: stream.layers.len() as u8,
            least_layers,
            rates: Vec::with_capacity(stream.layers.len() * patterns),
            hidden: (0..patterns)
                .map(|pattern| {
                    let mut on = transforms.iter().enumerate();
                    on.any(|(bit, transform)| transform.hides && is_on(pattern, bit))
                })
                .collect(),
            quality: Vec::with_capacity(stream.layers.len() * patterns),
            least_rates: alloc::vec![0.0],
            steps: Vec::new(),
            first: Vec::with_capacity(stream.layers.len() * patterns + 1),
            back_steps: Vec::new(),
            first_back: Vec::new(),
        };
        for layer in &stream.layers {
            utility += layer.utility;
            plain_bps += layer.rate.as_bps() as f64;
            let mut least = plain_bps;
            for pattern in 0..patterns {
                let mut rate = plain_bps;
                for (bit, transform) in transforms.iter().enumerate() {
                    if is_on(pattern, bit) {
                        rate *= transform.rate_factor;
                    }
                }
                least = if rate < least { rate } else { least };
                states.rates.push(rate);
                let lost = Cost::from_f64(snapshot.weights.quality * (1.0 - utility));
                states.quality.push(lost);
            }
            states.least_rates.push(least);
        }
        states.tabulate_steps(catalogue);
        states.tabulate_back_steps();
        states
    }

    fn tabulate_steps(&mut self, catalogue: &Catalogue) {
        let mut steps = Vec::new();
        for state in 0..self.rates.len() as u16 {
            self.first.push(steps.len() as u32);
            let hidden = self.is_hidden(state);
            let able = |profile: &&Profile| !(profile.needs_plaintext && hidden);
            for profile in catalogue.profiles.iter().filter(able) {
                self.push_steps(&mut steps, state, profile);
            }
        }
        self.first.push(steps.len() as u32);
        self.steps = steps;
    }

    /// Adds the steps that an adapter can make in a state.
    fn push_steps(&self, steps: &mut Vec<Step>, state: u16, profile: &Profile) {
        let mbps = self.rates[usize::from(state)] / 1e6;
        let run_cost = Cost::from_f64(profile.cost_per_mbps * mbps);
        let step = |adapter, to: u16| Step {
            adapter,
            to,
            run_cost,
            cost: run_cost + self.lost(state, to),
            delay: profile.delay,
        };
        let bit_of = |bit: usize| (bit < self.bits as usize).then_some(1u16 << bit);
        match profile.role {
            Role::Keep => {
                let layers = self.layers_of(state);
                for kept in self.least_layers..layers {
                    let to = state - (u16::from(layers - kept) << self.bits);
                    steps.push(step(Adapter::Keep(kept), to));
                }
            }
            Role::Do(bit) => {
                if let Some(mask) = bit_of(bit).filter(|mask| state & mask == 0) {
                    steps.push(step(profile.adapter, state | mask));
                }
            }
            Role::Undo(bit) => {
                if let Some(mask) = bit_of(bit).filter(|mask| state & mask != 0) {
                    steps.push(step(profile.adapter, state & !mask));
                }
            }
        }
    }

    fn tabulate_back_steps(&mut self) {
        let mut back: Vec<(u16, BackStep)> = Vec::with_capacity(self.steps.len());
        for from in 0..self.count() as u16 {
            back.extend(self.steps(from).iter().map(|step| {
                let back = BackStep {
                    from,
                    run_cost: step.run_cost,
                    cost: step.cost,
                    delay: step.delay,
                };
                (step.to, back)
            }));
        }
        back.sort_by_key(|(to, _)| *to);
        let ends = 0..=self.count() as u16;
        let first = ends.map(|state| back.partition_point(|(to, _)| *to < state) as u32);
        self.first_back = first.collect();
        self.back_steps = back.into_iter().map(|(_, step)| step).collect();
    }

    /// Returns how many states there are.
    pub(super) fn count(&self) -> usize {
        self.rates.len()
    }

    /// Returns the state a stream starts in: all layers, no transform on.
    pub(super) fn start(&self) -> u16 {
        u16::from(self.layers - 1) << self.bits
    }

    /// Returns the state of so many layers with these transforms on.
    pub(super) fn state(&self, layers: u8, bits: usize) -> u16 {
        (u16::from(layers - 1) << self.bits) | bits as u16
    }

    /// Returns whether a stream may be delivered in this state.
    pub(super) fn is_goal(&self, state: u16) -> bool {
        self.pattern_of(state) == 0 && self.layers_of(state) >= self.least_layers
    }

    pub(super) fn layers_of(&self, state: u16) -> u8 {
        (state >> self.bits) as u8 + 1
    }

    pub(super) fn layers(&self) -> u8 {
        self.layers
    }

    pub(super) fn least_layers(&self) -> u8 {
        self.least_layers
    }

    fn pattern_of(&self, state: u16) -> usize {
        usize::from(state) & ((1 << self.bits) - 1)
    }

    /// Returns whether a transform is on.
    pub(super) fn is_on(&self, state: u16, transform: usize) -> bool {
        transform < self.bits as usize && state >> transform & 1 == 1
    }

    pub(super) fn is_hidden(&self, state: u16) -> bool {
        self.hidden[self.pattern_of(state)]
    }

    /// Returns R in bit/s.
    pub(super) fn rate_bps(&self, state: u16) -> f64 {
        self.rates[usize::from(state)]
    }

    /// Returns the lowest R of any state with so many layers, in bit/s.
    pub(super) fn least_rate_bps(&self, layers: u8) -> f64 {
        self.least_rates[usize::from(layers)]
    }

    /// Returns the cost of what delivery in a state would lack.
    pub(super) fn quality(&self, state: u16) -> Cost {
        self.quality[usize::from(state)]
    }

    /// Returns what going from one state to another gives up.
    pub(super) fn lost(&self, from: u16, to: u16) -> Cost {
        self.quality(to).saturating_sub(self.quality(from))
    }

    /// Returns every adapter that leads to a state.
    pub(super) fn steps_to(&self, state: u16) -> &[BackStep] {
        let state = usize::from(state);
        let [first, end] = [state, state + 1].map(|at| self.first_back[at] as usize);
        &self.back_steps[first..end]
    }

    /// Returns every adapter that works in a state.
    pub(super) fn steps(&self, state: u16) -> &[Step] {
        let state = usize::from(state);
        &self.steps[self.first[state] as usize..self.first[state + 1] as usize]
    }

    /// Returns the step of an adapter in a state.
    pub(super) fn step(&self, state: u16, adapter: Adapter) -> Option<&Step> {
        self.steps(state)
            .iter()
            .find(|step| step.adapter == adapter)
    }
}
