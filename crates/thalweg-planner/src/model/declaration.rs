//! An adapter as a world declares it: `[adapter.NAME]`.
//!
//! *The idea.* One table per adapter. Its keys make it one of four kinds:
//!
//! | kind | recognised by | what it is |
//! |---|---|---|
//! | transcoder | `layers` | makes other layers of the stream |
//! | DO | `pair` | switches a transform on; the pair switches it off |
//! | UNDO | another's `pair` | has only costs and demands |
//! | one-way | neither | switches a transform on for good, such as a blur |
//!
//! A table with the name of a standard adapter sets that adapter's delay and CPU demand, and
//! nothing else.
//!
//! *Sources.* docs/concepts/planner.md §2, docs/reference/worlds.md.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use thalweg_base::time::Duration;
use thalweg_base::units::Ratio;

use super::{Adapter, AdapterName, Layer, Profile, Role, Transform, text};

/// A world's declaration of one adapter; defaults of omitted keys depend on the kind of adapter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Declaration {
    /// Factor of the rate. Omitted: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_factor: Option<f64>,
    /// Factor of the utility, for one-way adapters. Omitted: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quality_factor: Option<f64>,
    /// Delay that it adds to the path. Omitted: none.
    #[serde(
        deserialize_with = "text::read_duration",
        serialize_with = "text::write_duration"
    )]
    pub delay: Duration,
    /// κ: cost per Mbit/s of input. Omitted: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_per_mbps: Option<f64>,
    /// CPU demand in cores per Mbit/s of input. Omitted: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_per_mbps: Option<f64>,
    /// Whether it needs plaintext. Omitted: true for a transcoder or one-way adapter only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs_plaintext: Option<bool>,
    /// Whether the transform hides the payload. Omitted: no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hides: Option<bool>,
    /// Order class of the transform. Omitted: [`Declaration::REPAIR_ORDER`] if it repairs losses,
    /// else 1 for a pair and 0 for a one-way adapter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<u8>,
    /// The adapter that undoes this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pair: Option<AdapterName>,
    /// The share of packets that may be lost on a link while the transform is on. Omitted: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repairs: Option<Ratio>,
    /// The layers that it makes of the stream; their utilities are shares of the whole stream's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layers: Option<Vec<Layer>>,
}

impl Declaration {
    /// Order class of `pack`.
    pub const PACK_ORDER: u8 = 1;
    /// Order class of `seal`: a sealed stream cannot be packed.
    pub const SEAL_ORDER: u8 = 2;
    /// Default order class of transforms that repair losses: they work on packets, sealed or not.
    pub const REPAIR_ORDER: u8 = 3;

    /// Returns the transform that it switches on.
    pub(super) fn transform(&self, name: AdapterName) -> Transform {
        let stays = self.pair.is_none();
        let beneath = if stays { 0 } else { Self::PACK_ORDER };
        let usual = self.repairs.map_or(beneath, |_| Self::REPAIR_ORDER);
        Transform {
            name,
            rate_factor: self.rate_factor.unwrap_or(1.0),
            quality_factor: self.quality_factor.filter(|_| stays).unwrap_or(1.0),
            hides: self.hides.unwrap_or(false),
            repairs: self.repairs.map_or(0.0, Ratio::as_f64),
            order: self.order.unwrap_or(usual),
            stays,
        }
    }

    /// Returns the profile of an adapter in a role.
    pub(super) fn profile(&self, name: AdapterName, role: Role) -> Profile {
        let changes_content = matches!(role, Role::Transcode(_))
            || matches!(role, Role::Do(_)) && self.pair.is_none();
        Profile {
            adapter: Adapter::Named(name),
            role,
            cost_per_mbps: self.cost_per_mbps.unwrap_or(0.0),
            cpu_per_mbps: self.cpu_per_mbps.unwrap_or(0.0),
            delay: self.delay,
            needs_plaintext: self.needs_plaintext.unwrap_or(changes_content),
        }
    }
}
