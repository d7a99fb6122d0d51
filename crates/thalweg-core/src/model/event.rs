//! What changes in a world while it runs: `[[at]]`.

use serde::{Deserialize, Serialize};

use super::{NodeName, text};
use crate::time::Duration;
use crate::units::{Bitrate, Ratio};

/// A change of a link at a point in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// How long after the start.
    #[serde(
        deserialize_with = "text::read_duration",
        serialize_with = "text::write_duration"
    )]
    pub time: Duration,
    /// The ends of the link, in either order; parallel links between them change together.
    pub link: [NodeName; 2],
    /// What becomes of it.
    pub set: LinkChange,
}

/// New values of a link's properties; what is absent stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkChange {
    /// The new rate, each way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Bitrate>,
    /// The new delay, one way.
    #[serde(
        default,
        with = "text::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub delay: Option<Duration>,
    /// The new loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Ratio>,
    /// Whether the link works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<bool>,
}

impl LinkChange {
    /// Returns whether nothing is to change.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
