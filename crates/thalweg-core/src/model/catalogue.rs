//! What adapters do to a stream's state, and what they take.
//!
//! *The idea.* The search knows states and steps, not compression, ciphers or codecs. A *transform* is one bit of the
//! state: it multiplies the rate, and may hide the payload, repair losses, or lower the utility. A *table* is another set
//! of layers that a transcoder makes of the stream. A *profile* is an adapter: it lowers the layers, switches a transform
//! on (DO) or off (UNDO), or changes the table, and says what it costs, how long it takes, what it wants of a processor,
//! and whether it must see plaintext. A further adapter is a further profile.
//!
//! Transforms have an *order class*: what lies beneath another cannot be reached, so an adapter of a class works only
//! while no transform of a higher one is on. Compression is beneath encryption, encryption beneath error correction.
//!
//! *Sources.* docs/planner.md §2.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::{Adapter, AdapterName, Declaration, Layer, Stream, Weights};
use crate::limits::{LAYERS_MAX, PLAN_STATES_MAX};
use crate::time::Duration;

/// The transform of `pack` and `unpack` in [`Catalogue::standard`].
pub const PACK: usize = 0;
/// The transform of `seal` and `open` in [`Catalogue::standard`].
pub const SEAL: usize = 1;

/// One bit of a stream's state: something done to the payload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transform {
    /// The adapter that switches it on.
    pub name: AdapterName,
    /// What it multiplies the rate by.
    pub rate_factor: f64,
    /// What it multiplies the utility by; 1 for what can be undone.
    pub quality_factor: f64,
    /// Whether nobody can read the payload while it is on.
    pub hides: bool,
    /// The share of packets that may be lost on a link without harm while it is on.
    pub repairs: f64,
    /// What adapters of lower classes cannot reach through.
    pub order: u8,
    /// Whether the stream may be delivered with it: nothing undoes it.
    pub stays: bool,
}

/// Layers that a transcoder makes of the stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The transcoder.
    pub name: AdapterName,
    /// From the base upwards; utilities are shares of the whole stream's.
    pub layers: Vec<Layer>,
}

/// What an adapter does to the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Lowers the number of layers; one profile stands for all targets.
    Keep,
    /// Switches a transform on; it must be off.
    Do(usize),
    /// Switches a transform off; it must be on.
    Undo(usize),
    /// Makes all layers of a table out of layers of the stream that are worth as much at least.
    Transcode(usize),
}

/// An adapter as the planner knows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    /// Which adapter; for [`Role::Keep`] the number in it is of no meaning.
    pub adapter: Adapter,
    /// What it does to the state.
    pub role: Role,
    /// κ: cost per Mbit/s of its input.
    pub cost_per_mbps: f64,
    /// The share of a processor's core that it takes per Mbit/s of its input.
    pub cpu_per_mbps: f64,
    /// What it adds to the delay of the path.
    pub delay: Duration,
    /// Whether it works only while no transform hides the payload.
    pub needs_plaintext: bool,
}

/// The transforms and tables of a stream's state, and the adapters that work on them.
#[derive(Clone, Debug, PartialEq)]
pub struct Catalogue {
    /// The bits of the state, at most [`Catalogue::TRANSFORMS_MAX`].
    pub transforms: Vec<Transform>,
    /// The layers that transcoders make; the stream's own are not among them.
    pub tables: Vec<Table>,
    /// The adapters, at most [`Catalogue::PROFILES_MAX`].
    pub profiles: Vec<Profile>,
}

impl Catalogue {
    /// Transforms beyond this are ignored: states number layers × 2^transforms.
    pub const TRANSFORMS_MAX: usize = 6;

    /// Profiles beyond this are ignored: what a node holds is a set of so many bits.
    pub const PROFILES_MAX: usize = 64;

    /// Returns `keep`, `pack`/`unpack` and `seal`/`open` with the weights' costs, the stream's ratios and no delays.
    pub fn standard(weights: &Weights, stream: &Stream) -> Self {
        let profile = |adapter, role, cost_per_mbps, needs_plaintext| Profile {
            adapter,
            role,
            cost_per_mbps,
            cpu_per_mbps: 0.0,
            delay: Duration::ZERO,
            needs_plaintext,
        };
        let transform = |name, rate_factor, order| Transform {
            name,
            rate_factor,
            quality_factor: 1.0,
            hides: name == AdapterName::SEAL,
            repairs: 0.0,
            order,
            stays: false,
        };
        let [packed, sealed] = [
            stream.pack_ratio(weights),
            1.0 + stream.seal_overhead(weights),
        ];
        Self {
            transforms: vec![
                transform(AdapterName::PACK, packed, Declaration::PACK_ORDER),
                transform(AdapterName::SEAL, sealed, Declaration::SEAL_ORDER),
            ],
            tables: Vec::new(),
            profiles: vec![
                profile(Adapter::Keep(0), Role::Keep, weights.keep, false),
                profile(Adapter::Pack, Role::Do(PACK), weights.pack, true),
                profile(Adapter::Unpack, Role::Undo(PACK), weights.unpack, true),
                profile(Adapter::Seal, Role::Do(SEAL), weights.seal, false),
                profile(Adapter::Open, Role::Undo(SEAL), weights.open, false),
            ],
        }
    }

    /// Returns the standard adapters and those that a world declares, in the order of their names.
    ///
    /// A declaration that makes no sense is left out or cut short: [`super::World::faults`] reports it.
    pub fn declared(
        weights: &Weights,
        stream: &Stream,
        declarations: &BTreeMap<AdapterName, Declaration>,
    ) -> Self {
        let mut catalogue = Self::standard(weights, stream);
        for profile in &mut catalogue.profiles {
            if let Some(declaration) = declarations.get(&profile.adapter.kind()) {
                profile.delay = declaration.delay;
                profile.cpu_per_mbps = declaration.cpu_per_mbps.unwrap_or(0.0);
            }
        }
        for (name, declaration) in declarations {
            let is_undo = (declarations.values()).any(|other| other.pair.as_ref() == Some(name));
            if !name.is_standard() && !is_undo {
                catalogue.add(*name, declaration, declarations);
            }
        }
        catalogue
    }

    /// Adds an adapter that is no UNDO, and the UNDO that it names.
    fn add(
        &mut self,
        name: AdapterName,
        declaration: &Declaration,
        declarations: &BTreeMap<AdapterName, Declaration>,
    ) {
        if let Some(layers) = &declaration.layers {
            self.profiles
                .push(declaration.profile(name, Role::Transcode(self.tables.len())));
            self.tables.push(Table {
                name,
                layers: layers.clone(),
            });
            return;
        }
        let bit = self.transforms.len();
        self.transforms.push(declaration.transform(name));
        self.profiles.push(declaration.profile(name, Role::Do(bit)));
        let undo = declaration.pair.as_ref();
        let undo = undo.and_then(|undo| declarations.get_key_value(undo));
        if let Some((undo, declaration)) = undo {
            self.profiles
                .push(declaration.profile(*undo, Role::Undo(bit)));
        }
    }

    /// Returns what makes no sense of it for a stream of so many layers.
    ///
    /// Those of worlds without faults make sense; this is for catalogues that come by other ways.
    pub fn fault(&self, layers: usize) -> Option<String> {
        let is_factor = |factor: f64| factor > 0.0 && factor.is_finite();
        for transform in &self.transforms {
            let [rate, quality] = [transform.rate_factor, transform.quality_factor];
            if !is_factor(rate) || !is_factor(quality) || quality > 1.0 {
                let name = transform.name;
                return Some(format!("the factors of {name} are {rate} and {quality}"));
            }
        }
        for table in &self.tables {
            let count = table.layers.len();
            if count == 0 || count > LAYERS_MAX {
                return Some(format!("{} makes {count} layers", table.name));
            }
        }
        let states = self.states(layers);
        let excess = states > PLAN_STATES_MAX;
        excess.then(|| format!("{states} states are more than {PLAN_STATES_MAX}"))
    }

    /// Returns how many states a stream of so many layers can be in.
    pub fn states(&self, layers: usize) -> usize {
        let made = self.tables.iter().map(|table| table.layers.len());
        let rungs = layers.saturating_add(made.sum());
        rungs << self.transforms.len().min(Self::TRANSFORMS_MAX)
    }
}
