//! Mistakes in a world's declared adapters, and in the adapters that its nodes hold.
//!
//! *The idea.* The allowed keys of a declaration depend on its kind (see [`Declaration`]). A key
//! without meaning for its kind is rejected, because its author expects an effect.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use thalweg_base::limits::{LAYERS_MAX, PLAN_STATES_MAX, WORLD_ADAPTERS_MAX};
use thalweg_base::units::Bitrate;

use crate::model::fault::Faults;
use crate::model::{
    AdapterName, Catalogue, Declaration, Layer, Node, NodeName, Stream, UTILITY_TOLERANCE, World,
};

/// The kind of a declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Standard,
    Transcoder,
    Do,
    Undo,
    OneWay,
}

impl World {
    pub(super) fn check_adapters(&self, faults: &mut Faults) {
        let count = self.adapters.len();
        if count > WORLD_ADAPTERS_MAX {
            let message = format!("{count} are more than {WORLD_ADAPTERS_MAX}");
            return faults.add("adapter".to_string(), message);
        }
        let mut transforms = 2;
        for (name, declaration) in &self.adapters {
            let path = format!("adapter.{name}");
            let kind = self.kind_of(*name, declaration);
            transforms += usize::from(matches!(kind, Kind::Do | Kind::OneWay));
            check_keys(faults, &path, *name, kind, declaration);
            check_values(faults, &path, declaration);
            if let (Kind::Do, Some(pair)) = (kind, &declaration.pair) {
                self.check_pair(faults, &path, *name, *pair);
            }
        }
        let most = Catalogue::TRANSFORMS_MAX;
        if transforms > most {
            let message = format!(
                "{transforms} transforms with pack and seal are more than {most}: states double with each"
            );
            faults.add("adapter".to_string(), message);
        }
    }

    fn kind_of(&self, name: AdapterName, declaration: &Declaration) -> Kind {
        let mut others = self.adapters.iter().filter(|(other, _)| **other != name);
        if name.is_standard() {
            Kind::Standard
        } else if declaration.layers.is_some() {
            Kind::Transcoder
        } else if declaration.pair.is_some() {
            Kind::Do
        } else if others.any(|(_, other)| other.pair == Some(name)) {
            Kind::Undo
        } else {
            Kind::OneWay
        }
    }

    fn check_pair(&self, faults: &mut Faults, path: &str, name: AdapterName, pair: AdapterName) {
        let path = format!("{path}.pair");
        let mut others = self.adapters.iter().filter(|(other, _)| **other != name);
        let rival = others.find(|(_, other)| other.pair == Some(pair));
        let message = match self.adapters.get(&pair) {
            _ if pair == name => format!("`{name}` cannot undo itself: name another adapter"),
            _ if pair.is_standard() => format!("`{pair}` is a standard adapter and undoes its own"),
            None => format!("there is no adapter `{pair}`: declare `[adapter.{pair}]`"),
            Some(undo) if undo.layers.is_some() || undo.pair.is_some() => {
                format!("`{pair}` has its own effect and cannot undo `{name}`")
            }
            Some(_) => match rival {
                Some((rival, _)) => format!("`{pair}` undoes `{rival}` already"),
                None => return,
            },
        };
        faults.add(path, message);
    }

    /// Checks that a planner can number a stream's states.
    pub(super) fn check_states(&self, faults: &mut Faults, path: &str, stream: &Stream) {
        // Without declared adapters any valid number of layers fits, and too many declared ones are
        // reported already.
        if !(1..=WORLD_ADAPTERS_MAX).contains(&self.adapters.len()) {
            return;
        }
        let catalogue = Catalogue::declared(&self.weights, stream, &self.adapters);
        let states = catalogue.states(stream.layers.len());
        if states > PLAN_STATES_MAX {
            let message = format!(
                "with the declared adapters the stream has {states} states, the maximum is {PLAN_STATES_MAX}: declare fewer layers or transforms"
            );
            faults.add(format!("{path}.layers"), message);
        }
    }

    /// Checks a node's adapter resources.
    pub(super) fn check_place(&self, faults: &mut Faults, name: &NodeName, node: &Node) {
        if let Some(cores) = node.cpu_cores {
            faults.check_not_negative(format!("node.{name}.cpu"), cores);
        }
        for (at, held) in node.adapters.iter().flatten().enumerate() {
            if !held.is_standard() && !self.adapters.contains_key(held) {
                let message = format!("there is no adapter `{held}` ({})", known(&self.adapters));
                faults.add(format!("node.{name}.adapters[{at}]"), message);
            }
        }
    }
}

/// Lists the existing adapters.
fn known(declarations: &BTreeMap<AdapterName, Declaration>) -> String {
    let declared = declarations.keys().filter(|name| !name.is_standard());
    let names = AdapterName::STANDARD.iter().chain(declared);
    let names: Vec<&str> = names.map(AdapterName::as_str).collect();
    format!("there are {}", names.join(", "))
}

/// Rejects keys without meaning for this kind of adapter.
fn check_keys(
    faults: &mut Faults,
    path: &str,
    name: AdapterName,
    kind: Kind,
    declaration: &Declaration,
) {
    let hidden_for_good = kind == Kind::OneWay && declaration.hides == Some(true);
    let blind = kind == Kind::Transcoder && declaration.needs_plaintext == Some(false);
    let why = match kind {
        Kind::Standard if name == AdapterName::PACK || name == AdapterName::SEAL => format!(
            "`{name}` is a standard adapter: its cost is `weights.{name}`, its factor is there and with the stream; only delay and cpu_per_mbps are declared"
        ),
        Kind::Standard => format!(
            "`{name}` is a standard adapter: its cost is `weights.{name}`; only delay and cpu_per_mbps are declared"
        ),
        Kind::Transcoder => {
            format!("`{name}` makes other layers, from plaintext with nothing else done to it")
        }
        Kind::Do => format!("`{name}` has a pair that restores the whole utility"),
        Kind::Undo => format!("`{name}` undoes another adapter, which declares the effect"),
        Kind::OneWay => format!("nothing undoes `{name}`, so the sink could not read it"),
    };
    let own_cost = kind == Kind::Standard;
    let has_transform = matches!(kind, Kind::Do | Kind::OneWay);
    let refused = [
        (
            "cost_per_mbps",
            own_cost && declaration.cost_per_mbps.is_some(),
        ),
        (
            "rate_factor",
            !has_transform && declaration.rate_factor.is_some(),
        ),
        (
            "quality_factor",
            kind != Kind::OneWay && declaration.quality_factor.is_some(),
        ),
        (
            "hides",
            hidden_for_good || !has_transform && declaration.hides.is_some(),
        ),
        ("order", !has_transform && declaration.order.is_some()),
        ("repairs", !has_transform && declaration.repairs.is_some()),
        ("pair", kind != Kind::Do && declaration.pair.is_some()),
        ("layers", own_cost && declaration.layers.is_some()),
        (
            "needs_plaintext",
            blind || own_cost && declaration.needs_plaintext.is_some(),
        ),
    ];
    for (key, is_refused) in refused {
        if is_refused {
            faults.add(format!("{path}.{key}"), why.clone());
        }
    }
}

/// Checks the numbers of a declaration.
fn check_values(faults: &mut Faults, path: &str, declaration: &Declaration) {
    if let Some(factor) = declaration.rate_factor {
        faults.check_positive(format!("{path}.rate_factor"), factor);
    }
    if let Some(factor) = declaration.quality_factor {
        let path = format!("{path}.quality_factor");
        if factor > 1.0 && factor.is_finite() {
            let message = format!("{factor} is above 1: no adapter raises the utility");
            faults.add(path, message);
        } else {
            faults.check_positive(path, factor);
        }
    }
    for (key, value) in [
        ("cost_per_mbps", declaration.cost_per_mbps),
        ("cpu_per_mbps", declaration.cpu_per_mbps),
    ] {
        if let Some(value) = value {
            faults.check_not_negative(format!("{path}.{key}"), value);
        }
    }
    if let Some(layers) = &declaration.layers {
        check_table(faults, &format!("{path}.layers"), layers);
    }
}

fn check_table(faults: &mut Faults, path: &str, layers: &[Layer]) {
    let count = layers.len();
    if count == 0 || count > LAYERS_MAX {
        let message = format!("a transcoder makes 1 to {LAYERS_MAX} layers, this one {count}");
        return faults.add(path.to_string(), message);
    }
    for (at, layer) in layers.iter().enumerate() {
        if layer.rate == Bitrate::ZERO {
            faults.add(format!("{path}[{at}].rate"), "the rate is zero".to_string());
        }
        faults.check_not_negative(format!("{path}[{at}].utility"), layer.utility);
    }
    let sum: f64 = layers.iter().map(|layer| layer.utility).sum();
    if sum > 1.0 + UTILITY_TOLERANCE {
        let message = format!(
            "the utilities sum to {sum}: they are shares of the whole stream's, at most 1 together"
        );
        faults.add(path.to_string(), message);
    }
}
