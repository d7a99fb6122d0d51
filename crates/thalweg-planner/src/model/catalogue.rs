//! The adapters that a stream can pass, standard and declared, and what they do to it.
//!
//! *Sources.* docs/concepts/planner.md §2.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use thalweg_base::limits::{LAYERS_MAX, PLAN_STATES_MAX};
use thalweg_base::time::Duration;

use super::{Adapter, AdapterName, Declaration, Profile, Role, Stream, Table, Transform, Weights};

/// The transform of `pack` and `unpack` in [`Catalogue::standard`].
pub const PACK: usize = 0;
/// The transform of `seal` and `open` in [`Catalogue::standard`].
pub const SEAL: usize = 1;

/// The transforms and tables of a stream's state, and the adapters that work on them.
#[derive(Clone, Debug, PartialEq)]
pub struct Catalogue {
    /// The bits of the state, at most [`Catalogue::TRANSFORMS_MAX`].
    pub transforms: Vec<Transform>,
    /// The layers that transcoders make, without the stream's own.
    pub tables: Vec<Table>,
    /// The adapters, at most [`Catalogue::PROFILES_MAX`].
    pub profiles: Vec<Profile>,
}

impl Catalogue {
    /// Further transforms are ignored: there are layers × 2^transforms states.
    pub const TRANSFORMS_MAX: usize = 6;

    /// Further profiles are ignored: the adapters that a node holds are a bit set of this size.
    pub const PROFILES_MAX: usize = 64;

    /// Returns `keep`, `pack`/`unpack` and `seal`/`open` with the weights' costs, the stream's
    /// ratios and no delays.
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
    /// An invalid declaration is left out or cut short: [`super::World::faults`] reports it.
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

    /// Returns the first mistake in the catalogue for a stream of `layers` layers.
    ///
    /// The catalogue of a world without faults has none; this is for catalogues from other sources.
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

    /// Returns the number of states of a stream of `layers` layers.
    pub fn states(&self, layers: usize) -> usize {
        let made = self.tables.iter().map(|table| table.layers.len());
        let rungs = layers.saturating_add(made.sum());
        rungs << self.transforms.len().min(Self::TRANSFORMS_MAX)
    }
}
