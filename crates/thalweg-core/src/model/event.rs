//! What changes in a world while it runs: `[[at]]`.

use alloc::string::String;

use serde::{Deserialize, Serialize};

use super::{NodeName, text};
use crate::time::Duration;
use crate::units::{Bitrate, Ratio};

/// A change at a point in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Event {
    /// How long after the start.
    pub time: Duration,
    /// What happens.
    pub change: Change,
}

/// What happens at a point in time.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A link becomes another.
    Link {
        /// Its ends, in either order; parallel links between them change together.
        ends: [NodeName; 2],
        /// What becomes of it.
        set: LinkChange,
    },
    /// Something is done to a node.
    Node {
        /// Which.
        name: NodeName,
        /// What.
        action: NodeAction,
    },
}

/// What is done to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeAction {
    /// It is told to stop, and drains its links first.
    Stop,
    /// It is gone without a word.
    Crash,
    /// It comes back, with nothing that it had in memory.
    Start,
    /// It stands still: it runs nothing, and what comes for it fills its sockets.
    Freeze,
    /// It goes on from there.
    Thaw,
    /// A further program on it begins to receive every stream that ends there, and takes nothing.
    Stall,
    /// That program takes what comes, from now on.
    Resume,
    /// The programs on it that publish are killed, and started again at once under the same names.
    Republish,
    /// From now on it takes what it is to pass on, ADUs and control, and does nothing with it; or with this share of the ADUs,
    /// and passes on the rest and all control.
    Withhold(Ratio),
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
    /// The new jitter.
    #[serde(
        default,
        with = "text::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub jitter: Option<Duration>,
    /// The new share of packets that are held back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reorder: Option<Ratio>,
    /// The new loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Ratio>,
    /// The new mean length of a burst of losses, in packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<f64>,
    /// Whether the link works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<bool>,
}

/// What is done to a node, as it is written.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Deed {
    Stop,
    Crash,
    Start,
    Freeze,
    Thaw,
    Stall,
    Resume,
    Republish,
    Withhold,
}

/// An event as it is written: a link and what is set, or a node and what is done.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(
        deserialize_with = "text::read_duration",
        serialize_with = "text::write_duration"
    )]
    time: Duration,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    link: Option<[NodeName; 2]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    set: Option<LinkChange>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<NodeName>,
    #[serde(default, rename = "do", skip_serializing_if = "Option::is_none")]
    deed: Option<Deed>,
    /// Of the ADUs that a node withholds; all if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    share: Option<Ratio>,
}

impl LinkChange {
    /// Returns whether nothing is to change.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Deed {
    /// Returns what is done, to a share of the ADUs if one is named.
    fn action(self, share: Option<Ratio>) -> Result<NodeAction, String> {
        let action = match (self, share) {
            (Self::Withhold, share) => NodeAction::Withhold(share.unwrap_or(Ratio::ONE)),
            (_, Some(_)) => {
                return Err(String::from(
                    "a `share` is that of the ADUs which a node withholds, and goes with `do = \"withhold\"` alone",
                ));
            }
            (Self::Stop, None) => NodeAction::Stop,
            (Self::Crash, None) => NodeAction::Crash,
            (Self::Start, None) => NodeAction::Start,
            (Self::Freeze, None) => NodeAction::Freeze,
            (Self::Thaw, None) => NodeAction::Thaw,
            (Self::Stall, None) => NodeAction::Stall,
            (Self::Resume, None) => NodeAction::Resume,
            (Self::Republish, None) => NodeAction::Republish,
        };
        if action == NodeAction::Withhold(Ratio::ZERO) {
            return Err(String::from(
                "a node that withholds a `share` of 0 withholds nothing: write one above 0, up to 1",
            ));
        }
        Ok(action)
    }

    /// Returns how an action is written.
    fn of(action: NodeAction) -> (Self, Option<Ratio>) {
        match action {
            NodeAction::Stop => (Self::Stop, None),
            NodeAction::Crash => (Self::Crash, None),
            NodeAction::Start => (Self::Start, None),
            NodeAction::Freeze => (Self::Freeze, None),
            NodeAction::Thaw => (Self::Thaw, None),
            NodeAction::Stall => (Self::Stall, None),
            NodeAction::Resume => (Self::Resume, None),
            NodeAction::Republish => (Self::Republish, None),
            NodeAction::Withhold(share) => (
                Self::Withhold,
                Some(share).filter(|share| *share < Ratio::ONE),
            ),
        }
    }
}

impl TryFrom<Written> for Event {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let Written {
            time,
            link,
            set,
            node,
            deed,
            share,
        } = written;
        let change = match (link, set, node, deed, share) {
            (Some(ends), Some(set), None, None, None) => Change::Link { ends, set },
            (None, None, Some(name), Some(deed), share) => {
                let action = deed.action(share)?;
                Change::Node { name, action }
            }
            _ => {
                return Err(String::from(
                    "an event is a `link` and what is `set`, or a `node` and what to `do` (stop, crash, start, freeze, thaw, stall, resume, withhold), not a mixture",
                ));
            }
        };
        Ok(Self { time, change })
    }
}

impl From<Event> for Written {
    fn from(event: Event) -> Self {
        let none = Self {
            time: event.time,
            link: None,
            set: None,
            node: None,
            deed: None,
            share: None,
        };
        match event.change {
            Change::Link { ends, set } => Self {
                link: Some(ends),
                set: Some(set),
                ..none
            },
            Change::Node { name, action } => {
                let (deed, share) = Deed::of(action);
                Self {
                    node: Some(name),
                    deed: Some(deed),
                    share,
                    ..none
                }
            }
        }
    }
}
