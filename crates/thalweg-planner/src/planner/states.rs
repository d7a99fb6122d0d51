//! The states of a stream, and the steps that adapters make between them.
//!
//! *The idea.* A state is a *rung* and a *pattern*: how many layers are kept of which table (the
//! stream's own, then those of transcoders), and which transforms are on: `state = rung·2^B +
//! pattern`. Everything the search needs of an adapter (source and target state, cost, delay and
//! CPU) is tabulated once per stream.
//!
//! ```text
//! R(rung, pattern) = (Σ_{ℓ≤q} r_ℓ) · Π_{b on} factor_b
//! ```
//!
//! A step that lowers the utility is charged for the lost quality at once, so a label's cost
//! includes every loss that it cannot undo. Adapters are ranked by the order of their texts, which
//! is the order that ties are broken by.
//!
//! *Sources.* docs/concepts/planner.md §2, §3.

use alloc::vec::Vec;

use thalweg_base::limits::LAYERS_MAX;
use thalweg_base::time::Duration;
use thalweg_base::units::Bitrate;

use super::cost::Cost;
use crate::model::{Adapter, Catalogue, Layer, Profile, Role, Snapshot, Transform};

/// Relative tolerance of a rate against a link's: products of decimal ratios miss whole numbers by
/// less.
pub(super) const RATE_TOLERANCE: f64 = 1e-9;

/// Utilities within this are equal: sums of decimals miss each other by less.
pub(super) const UTILITY_TIE: f64 = 1e-12;

/// Returns whether a stream of this rate fits a link.
pub(super) fn fits(rate_bps: f64, link: Bitrate) -> bool {
    rate_bps <= link.as_bps() as f64 * (1.0 + RATE_TOLERANCE)
}

/// Returns cores in units of 10⁻¹²: whole numbers, so that sums do not depend on their order.
pub(super) fn picocores(cores: f64) -> u64 {
    // `as` saturates and maps NaN to zero.
    (cores * 1e12 + 0.5) as u64
}

/// One adapter applied in one state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// The adapter's rank.
    pub(super) adapter: u16,
    /// Its profile's index in the catalogue.
    pub(super) profile: u8,
    /// The state after it.
    pub(super) to: u16,
    /// κ · input rate.
    pub(super) run_cost: Cost,
    /// `run_cost` plus the quality given up.
    pub(super) cost: Cost,
    pub(super) delay: Duration,
    /// CPU taken, in units of 10⁻¹² cores.
    pub(super) picocores: u64,
}

/// A step seen from its target state.
#[derive(Clone, Copy, Debug)]
pub(super) struct BackStep {
    pub(super) from: u16,
    pub(super) profile: u8,
    pub(super) run_cost: Cost,
    pub(super) cost: Cost,
    pub(super) delay: Duration,
}

/// A number of layers of one table.
#[derive(Clone, Copy, Debug)]
struct Rung {
    /// 0: the stream's own; else one more than the catalogue index.
    table: u8,
    layers: u8,
    plain_bps: f64,
    utility: f64,
    /// Whether it is worth delivering.
    is_enough: bool,
    /// The lowest rate over all patterns.
    least_bps: f64,
    /// The lowest rate that a stream on this rung has or had before.
    past_min_bps: f64,
}

/// All states of one stream.
#[derive(Clone, Debug)]
pub(super) struct States {
    bits: u32,
    layers: u8,
    least_layers: u8,
    rungs: Vec<Rung>,
    /// By state: R in bit/s.
    rates: Vec<f64>,
    /// The patterns in which the payload is hidden, as a bit mask.
    hidden: u64,
    /// The transforms that must be off at delivery, as a bit mask.
    must_be_off: usize,
    /// By state: the cost of the quality missing at delivery.
    quality: Vec<Cost>,
    /// The lowest rate of all rungs worth delivering.
    least_bps: f64,
    /// By rank.
    adapters: Vec<Adapter>,
    /// The steps of state `s` are `steps[first[s]..first[s + 1]]`.
    steps: Vec<Step>,
    first: Vec<u32>,
    /// The steps to state `s` are `back_steps[first_back[s]..first_back[s + 1]]`.
    back_steps: Vec<BackStep>,
    first_back: Vec<u32>,
}

/// A profile with what is the same in all states.
struct Tool<'a> {
    profile: &'a Profile,
    place: u8,
    rank: u16,
    /// Bit mask of the transforms that must be off, as they cover the layer that it works on.
    above: usize,
}

impl States {
    /// Tabulates the states of a stream of which at least `least_layers` layers are worth
    /// delivering.
    pub(super) fn new(snapshot: &Snapshot, least_layers: u8) -> Self {
        let catalogue = &snapshot.catalogue;
        let transforms = transforms_of(catalogue);
        let mut rungs = rungs_of(snapshot, least_layers);
        let patterns = 1usize << transforms.len();
        let mut rates = Vec::with_capacity(rungs.len() * patterns);
        let mut quality = Vec::with_capacity(rungs.len() * patterns);
        for rung in &mut rungs {
            for pattern in 0..patterns {
                let (mut rate, mut utility) = (rung.plain_bps, rung.utility);
                for (bit, transform) in transforms.iter().enumerate() {
                    if pattern >> bit & 1 == 1 {
                        rate *= transform.rate_factor;
                        utility *= transform.quality_factor;
                    }
                }
                rung.least_bps = rung.least_bps.min(rate);
                rates.push(rate);
                quality.push(Cost::from_f64(snapshot.weights.quality * (1.0 - utility)));
            }
        }
        let mut states = Self {
            bits: transforms.len() as u32,
            layers: snapshot.stream.layers.len() as u8,
            least_layers,
            least_bps: set_past_minimums(&mut rungs),
            adapters: adapters_of(catalogue, &rungs),
            first: Vec::with_capacity(rates.len() + 1),
            rungs,
            rates,
            hidden: patterns_with(transforms, |transform| transform.hides),
            must_be_off: bits_with(transforms, |transform| !transform.stays),
            quality,
            steps: Vec::new(),
            back_steps: Vec::new(),
            first_back: Vec::new(),
        };
        states.tabulate_steps(catalogue);
        states.tabulate_back_steps();
        states
    }

    fn tabulate_steps(&mut self, catalogue: &Catalogue) {
        let tools = self.tools(catalogue);
        let mut keeps = [0; LAYERS_MAX];
        for (rank, adapter) in self.adapters.iter().enumerate() {
            if let Adapter::Keep(layers) = adapter {
                keeps[usize::from(*layers)] = rank as u16;
            }
        }
        let mut steps = Vec::new();
        for state in 0..self.rates.len() as u16 {
            self.first.push(steps.len() as u32);
            let hidden = self.is_hidden(state);
            let pattern = self.pattern_of(state);
            for tool in &tools {
                if !(tool.profile.needs_plaintext && hidden) && pattern & tool.above == 0 {
                    self.push_steps(&mut steps, state, tool, &keeps);
                }
            }
        }
        self.first.push(steps.len() as u32);
        self.steps = steps;
    }

    /// Returns the usable profiles, with the transforms above each.
    fn tools<'a>(&self, catalogue: &'a Catalogue) -> Vec<Tool<'a>> {
        let transforms = transforms_of(catalogue);
        let profiles = catalogue.profiles.iter().take(Catalogue::PROFILES_MAX);
        let tool = |(place, profile): (usize, &'a Profile)| {
            let above = match profile.role {
                Role::Keep => 0,
                Role::Do(bit) | Role::Undo(bit) => {
                    let class = transforms.get(bit)?.order;
                    bits_with(transforms, |transform| transform.order > class)
                }
                Role::Transcode(_) => bits_with(transforms, |transform| {
                    transform.order > 0 || !transform.stays
                }),
            };
            Some(Tool {
                profile,
                place: place as u8,
                rank: self.rank(profile.adapter).unwrap_or(0),
                above,
            })
        };
        profiles.enumerate().filter_map(tool).collect()
    }

    /// Adds the steps that an adapter can make in a state.
    fn push_steps(
        &self,
        steps: &mut Vec<Step>,
        state: u16,
        tool: &Tool<'_>,
        keeps: &[u16; LAYERS_MAX],
    ) {
        let profile = tool.profile;
        let mbps = self.rates[usize::from(state)] / 1e6;
        let run_cost = Cost::from_f64(profile.cost_per_mbps * mbps);
        let mut push = |adapter, to: u16| {
            steps.push(Step {
                adapter,
                profile: tool.place,
                to,
                run_cost,
                cost: run_cost + self.lost(state, to),
                delay: profile.delay,
                picocores: picocores(profile.cpu_per_mbps * mbps),
            });
        };
        match profile.role {
            Role::Keep => {
                let layers = self.layers_of(state);
                for kept in 1..layers {
                    let to = state - (u16::from(layers - kept) << self.bits);
                    if self.rung(to).is_enough {
                        push(keeps[usize::from(kept)], to);
                    }
                }
            }
            Role::Do(bit) if state >> bit & 1 == 0 => push(tool.rank, state | 1 << bit),
            Role::Undo(bit) if state >> bit & 1 == 1 => push(tool.rank, state & !(1 << bit)),
            Role::Transcode(table) => {
                if let Some(to) = self.transcoded(state, table) {
                    push(tool.rank, to);
                }
            }
            Role::Do(_) | Role::Undo(_) => {}
        }
    }

    /// Returns the state with all layers of a table, if its utility is no higher than this state's.
    fn transcoded(&self, state: u16, table: usize) -> Option<u16> {
        let from = self.rung(state);
        let made = |rung: &Rung| usize::from(rung.table) == table + 1;
        let top = self.rungs.iter().rposition(made)?;
        let to = &self.rungs[top];
        let is_loss = from.utility >= to.utility - UTILITY_TIE;
        let able = from.table == 0 && to.is_enough && is_loss;
        able.then_some((top as u16) << self.bits | self.pattern_of(state) as u16)
    }

    fn tabulate_back_steps(&mut self) {
        let mut back: Vec<(u16, BackStep)> = Vec::with_capacity(self.steps.len());
        for from in 0..self.count() as u16 {
            back.extend(self.steps(from).iter().map(|step| {
                let back = BackStep {
                    from,
                    profile: step.profile,
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

    /// Returns the number of states.
    pub(super) fn count(&self) -> usize {
        self.rates.len()
    }

    /// Returns the initial state of a stream: all layers, no transform on.
    pub(super) fn start(&self) -> u16 {
        u16::from(self.layers - 1) << self.bits
    }

    /// Returns the state of `layers` layers with these transforms on.
    pub(super) fn state(&self, layers: u8, bits: usize) -> u16 {
        (u16::from(layers - 1) << self.bits) | bits as u16
    }

    /// Returns whether a stream may be delivered in this state.
    pub(super) fn is_goal(&self, state: u16) -> bool {
        self.pattern_of(state) & self.must_be_off == 0 && self.rung(state).is_enough
    }

    fn rung(&self, state: u16) -> &Rung {
        &self.rungs[usize::from(state >> self.bits)]
    }

    pub(super) fn layers_of(&self, state: u16) -> u8 {
        self.rung(state).layers
    }

    /// Returns the table of the layers: `None` for the stream's own, else a transcoder's catalogue
    /// index.
    pub(super) fn table_of(&self, state: u16) -> Option<usize> {
        usize::from(self.rung(state).table).checked_sub(1)
    }

    pub(super) fn layers(&self) -> u8 {
        self.layers
    }

    pub(super) fn least_layers(&self) -> u8 {
        self.least_layers
    }

    /// Returns a bit mask of the transforms that are on.
    pub(super) fn pattern_of(&self, state: u16) -> usize {
        usize::from(state) & ((1 << self.bits) - 1)
    }

    /// Returns the patterns in which the payload is hidden, as a bit mask.
    pub(super) fn hidden_patterns(&self) -> u64 {
        self.hidden
    }

    /// Returns whether a transform is on.
    pub(super) fn is_on(&self, state: u16, transform: usize) -> bool {
        transform < self.bits as usize && state >> transform & 1 == 1
    }

    pub(super) fn is_hidden(&self, state: u16) -> bool {
        self.hidden >> self.pattern_of(state) & 1 == 1
    }

    /// Returns R in bit/s.
    pub(super) fn rate_bps(&self, state: u16) -> f64 {
        self.rates[usize::from(state)]
    }

    /// Returns the lowest R that the stream can have on a path to delivery, in bit/s.
    pub(super) fn least_rate_bps(&self) -> f64 {
        self.least_bps
    }

    /// Returns the lowest R that a stream in this state can have had so far, in bit/s.
    pub(super) fn past_min_bps(&self, state: u16) -> f64 {
        self.rung(state).past_min_bps
    }

    /// Returns the cost of the quality missing if delivered in this state.
    pub(super) fn quality(&self, state: u16) -> Cost {
        self.quality[usize::from(state)]
    }

    /// Returns the cost of the quality given up from one state to another.
    pub(super) fn lost(&self, from: u16, to: u16) -> Cost {
        self.quality(to).saturating_sub(self.quality(from))
    }

    /// Returns every adapter step that leads to a state.
    pub(super) fn steps_to(&self, state: u16) -> &[BackStep] {
        let state = usize::from(state);
        let [first, end] = [state, state + 1].map(|at| self.first_back[at] as usize);
        &self.back_steps[first..end]
    }

    /// Returns every adapter step from a state.
    pub(super) fn steps(&self, state: u16) -> &[Step] {
        let state = usize::from(state);
        &self.steps[self.first[state] as usize..self.first[state + 1] as usize]
    }

    /// Returns an adapter's step from a state.
    pub(super) fn step(&self, state: u16, adapter: Adapter) -> Option<&Step> {
        let mut steps = self.steps(state).iter();
        steps.find(|step| self.adapter(step.adapter) == adapter)
    }

    /// Returns the adapter of a rank.
    pub(super) fn adapter(&self, rank: u16) -> Adapter {
        self.adapters[usize::from(rank)]
    }

    /// Returns an adapter's rank: the order of its text among all that the stream may pass.
    pub(super) fn rank(&self, adapter: Adapter) -> Option<u16> {
        let mut adapters = self.adapters.iter();
        let place = adapters.position(|other| *other == adapter);
        place.map(|place| place as u16)
    }
}

fn transforms_of(catalogue: &Catalogue) -> &[Transform] {
    let transforms = catalogue.transforms.len().min(Catalogue::TRANSFORMS_MAX);
    &catalogue.transforms[..transforms]
}

/// Returns a bit mask of the transforms that satisfy the predicate.
fn bits_with(transforms: &[Transform], predicate: impl Fn(&Transform) -> bool) -> usize {
    let bits = transforms.iter().enumerate();
    bits.fold(0, |set, (bit, transform)| {
        set | usize::from(predicate(transform)) << bit
    })
}

/// Returns a bit mask of the patterns in which some transform that satisfies the predicate is on.
pub(super) fn patterns_with(
    transforms: &[Transform],
    predicate: impl Fn(&Transform) -> bool,
) -> u64 {
    let bits = bits_with(transforms, predicate);
    let patterns = 0..1usize << transforms.len();
    patterns.fold(0, |set, pattern| {
        set | u64::from(pattern & bits != 0) << pattern
    })
}

/// Returns the rungs of the stream's own layers, then those of each table, each from one layer
/// upwards.
fn rungs_of(snapshot: &Snapshot, least_layers: u8) -> Vec<Rung> {
    let stream = &snapshot.stream;
    let tables = &snapshot.catalogue.tables;
    let mut rungs = Vec::with_capacity(stream.layers.len());
    // Any stream has at least one layer, so a requirement of one is no requirement.
    let least = stream.layers.iter().take(usize::from(least_layers));
    let least: f64 = least.map(|layer| layer.utility).sum();
    let least = if least_layers > 1 { least } else { 0.0 };
    let mut push = |table: usize, layers: &[Layer]| {
        let (mut plain_bps, mut utility) = (0.0, 0.0);
        for (at, layer) in layers.iter().enumerate() {
            plain_bps += layer.rate.as_bps() as f64;
            utility += layer.utility;
            let layers = at as u8 + 1;
            rungs.push(Rung {
                table: table as u8,
                layers,
                plain_bps,
                utility,
                is_enough: match table {
                    0 => layers >= least_layers,
                    _ => utility >= least - UTILITY_TIE,
                },
                least_bps: f64::INFINITY,
                past_min_bps: f64::INFINITY,
            });
        }
    };
    push(0, &stream.layers);
    for (at, table) in tables.iter().enumerate() {
        push(at + 1, &table.layers);
    }
    rungs
}

/// Sets each rung's toll, and returns the lowest rate of all rungs worth delivering.
///
/// A stream on one of its own rungs had more layers before, if anything. On a table's rung it was
/// at least on the lowest of its own rungs that reach the table's utility.
fn set_past_minimums(rungs: &mut [Rung]) -> f64 {
    for at in 0..rungs.len() {
        let rung = rungs[at];
        rungs[at].past_min_bps = rung.least_bps;
        if rung.table > 0 {
            let top = rungs[at..].iter().rfind(|other| other.table == rung.table);
            let worth = top.map_or(0.0, |top| top.utility) - UTILITY_TIE;
            let mut own = rungs.iter().take_while(|other| other.table == 0);
            let from = own.find(|other| other.utility >= worth);
            let before = from.map_or(f64::INFINITY, |from| from.least_bps);
            rungs[at].past_min_bps = rung.least_bps.min(before);
        }
    }
    let enough = rungs.iter().filter(|rung| rung.is_enough);
    enough.fold(f64::INFINITY, |least, rung| least.min(rung.least_bps))
}

/// Returns every adapter that a stream may pass, sorted by text.
fn adapters_of(catalogue: &Catalogue, rungs: &[Rung]) -> Vec<Adapter> {
    let most = rungs.iter().map(|rung| rung.layers).max().unwrap_or(0);
    let profiles = catalogue.profiles.iter().take(Catalogue::PROFILES_MAX);
    let others = profiles.filter(|profile| profile.role != Role::Keep);
    let others = others.map(|profile| profile.adapter);
    let mut adapters: Vec<Adapter> = (1..most).map(Adapter::Keep).chain(others).collect();
    adapters.sort_unstable();
    adapters.dedup();
    adapters
}
