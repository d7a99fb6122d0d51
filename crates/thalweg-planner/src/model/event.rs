//! Changes of a world while it runs: `[[at]]`.

use alloc::string::String;

use serde::{Deserialize, Serialize};
use thalweg_base::time::Duration;
use thalweg_base::units::{Bitrate, Ratio};

use super::{NodeName, text};

/// A change at a point in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Event {
    /// Time since the start.
    pub time: Duration,
    /// The change.
    pub change: Change,
}

/// A change at a point in time.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Properties of a link change.
    Link {
        /// The link's ends, in either order; parallel links between them change together.
        ends: [NodeName; 2],
        /// The new values.
        set: LinkChange,
    },
    /// A node is acted upon.
    Node {
        /// The node.
        name: NodeName,
        /// The action.
        action: NodeAction,
    },
}

/// An action on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeAction {
    /// Stops the node, which drains its links first.
    Stop,
    /// Kills the node without notice.
    Crash,
    /// Starts the node again, without its former memory.
    Start,
    /// Suspends the node: it runs nothing, and arriving data fills its sockets.
    Freeze,
    /// Resumes a suspended node.
    Thaw,
    /// Starts a further program on the node that subscribes to every stream that ends there, and
    /// reads nothing.
    Stall,
    /// Lets that program read from now on.
    Resume,
    /// The programs on it that publish are killed, and started again at once under the same names.
    Republish,
    /// From now on the node drops what it should forward: with 1, all ADUs and control messages;
    /// with less, this share of the ADUs only.
    Withhold(Ratio),
}

/// New values of a link's properties; absent ones stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkChange {
    /// The new rate, per direction.
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
    /// Whether the link is up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<bool>,
}

/// A node's action as written in a file.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ActionName {
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

/// An event as written in a file: a link and its new values, or a node and an action.
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
    action_name: Option<ActionName>,
    /// The share of ADUs that a node withholds; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    share: Option<Ratio>,
}

impl LinkChange {
    /// Returns whether nothing changes.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl ActionName {
    /// Returns the action, with its share of the ADUs if one is given.
    fn action(self, share: Option<Ratio>) -> Result<NodeAction, String> {
        let action = match (self, share) {
            (Self::Withhold, share) => NodeAction::Withhold(share.unwrap_or(Ratio::ONE)),
            (_, Some(_)) => {
                return Err(String::from(
                    "`share` is the part of the ADUs that a node withholds: use it with `do = \"withhold\"` only",
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

    /// Returns the written form of an action.
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
            action_name,
            share,
        } = written;
        let change = match (link, set, node, action_name, share) {
            (Some(ends), Some(set), None, None, None) => Change::Link { ends, set },
            (None, None, Some(name), Some(action_name), share) => {
                let action = action_name.action(share)?;
                Change::Node { name, action }
            }
            _ => {
                return Err(String::from(
                    "an event has either `link` and `set`, or `node` and `do` (stop, crash, start, freeze, thaw, stall, resume, withhold)",
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
            action_name: None,
            share: None,
        };
        match event.change {
            Change::Link { ends, set } => Self {
                link: Some(ends),
                set: Some(set),
                ..none
            },
            Change::Node { name, action } => {
                let (action_name, share) = ActionName::of(action);
                Self {
                    node: Some(name),
                    action_name: Some(action_name),
                    share,
                    ..none
                }
            }
        }
    }
}
