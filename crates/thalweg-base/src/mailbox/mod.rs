//! What a subscriber asks of its mailbox: how much waits there, what goes when that is too much, and
//! whether it is given only what it asks for.
//!
//! *The idea.* A slow subscriber loses from its own mailbox alone, and says itself what it would rather
//! lose. The same few words stand in a program's options, on the local socket, in a configuration and
//! behind `thalweg subscribe`.
//!
//! *What it does not do.* It drops nothing: `thalweg-dataplane`'s mailbox does.
//!
//! *Sources.* docs/concepts/mailbox.md; spec SO-4 (credit), SO-11 (drops), SO-12 (priority).

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limits::{MAILBOX_ADUS_MAX, MAILBOX_BYTES_MAX};
use crate::time::Duration;
use crate::units::{DataSize, parse_duration};

#[cfg(test)]
mod tests;

/// The priority of a subscriber that states none: the middle of the scale.
pub const PRIORITY_USUAL: u8 = 128;

/// What a subscriber asks of its mailbox.
///
/// ```
/// use thalweg_base::mailbox::{MailboxOptions, Policy};
///
/// // A display that would rather see the last two seconds than all of it.
/// let display = MailboxOptions {
///     policy: Some(Policy::DropOld),
///     depth: Some("2 s".parse()?),
///     ..MailboxOptions::default()
/// };
/// assert_eq!(display.fault(), None);
/// # Ok::<(), thalweg_base::mailbox::MailboxError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MailboxOptions {
    /// What happens when it is full; `None`: what the stream promises ([`Policy`]).
    pub policy: Option<Policy>,
    /// How much may wait; `None`: 4,096 ADUs and 16 MiB, which bound any other depth too.
    pub depth: Option<Depth>,
    /// Whether an ADU leaves only when the subscriber has asked for it.
    pub pull: bool,
    /// Among the subscribers of a node, the higher is served first and keeps more when their mailboxes
    /// together take too much memory.
    pub priority: u8,
}

/// What happens to an ADU for which a mailbox has no room.
///
/// Without one, the stream decides: an ADU with a deadline is refused, a stream that is sent once loses
/// its oldest, and a stream that promises every ADU waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The node acknowledges no more of a stream that promises every ADU, so that its source keeps
    /// the rest and its producer waits. Any other stream has nowhere to wait, and ADUs are refused.
    Wait,
    /// Only the newest ADU waits.
    Newest,
    /// The oldest makes room.
    DropOld,
    /// The arriving ADU is refused.
    DropNew,
    /// The least important makes room, the oldest of those; if that is the arriving ADU, it is refused.
    ByImportance,
}

/// How much may wait in a mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// So many ADUs.
    Adus(usize),
    /// So much payload; a single ADU may be larger.
    Bytes(DataSize),
    /// What arrived within this time.
    Time(Duration),
}

/// The text is no depth, or no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MailboxError(String);

impl Default for MailboxOptions {
    fn default() -> Self {
        Self {
            policy: None,
            depth: None,
            pull: false,
            priority: PRIORITY_USUAL,
        }
    }
}

impl MailboxOptions {
    /// Returns the first key that contradicts another, and why.
    pub fn fault(&self) -> Option<(&'static str, String)> {
        let why = match (self.policy, self.depth) {
            (Some(Policy::Newest), Some(_)) => {
                "with the policy `newest` one ADU waits: leave the depth out"
            }
            (Some(Policy::ByImportance), Some(Depth::Time(_))) => {
                "of what came within a time the oldest goes, not the least important: with the policy \
                 `by-importance` give a depth in ADUs or bytes"
            }
            _ => return None,
        };
        Some(("depth", why.into()))
    }

    /// Returns whether these are the options of a subscriber that states none.
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

impl Policy {
    /// Every policy.
    pub const ALL: [Self; 5] = [
        Self::Wait,
        Self::Newest,
        Self::DropOld,
        Self::DropNew,
        Self::ByImportance,
    ];

    /// Returns its name on the command line and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Newest => "newest",
            Self::DropOld => "drop-old",
            Self::DropNew => "drop-new",
            Self::ByImportance => "by-importance",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Policy {
    type Err = MailboxError;

    fn from_str(text: &str) -> Result<Self, MailboxError> {
        let known = Self::ALL.into_iter().find(|policy| policy.name() == text);
        known.ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            MailboxError(format!("`{text}` is no policy of a mailbox: {known}"))
        })
    }
}

impl fmt::Display for Depth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Adus(adus) => write!(f, "{adus}"),
            Self::Bytes(size) => size.fmt(f),
            Self::Time(time) => time.fmt(f),
        }
    }
}

impl FromStr for Depth {
    type Err = MailboxError;

    fn from_str(text: &str) -> Result<Self, MailboxError> {
        let text = text.trim();
        let depth = if let Ok(adus) = text.parse::<usize>() {
            Self::Adus(adus)
        } else if let Ok(size) = text.parse::<DataSize>() {
            Self::Bytes(size)
        } else if let Ok(time) = parse_duration(text) {
            Self::Time(time)
        } else {
            return Err(MailboxError(format!(
                "`{text}` is no depth of a mailbox: write ADUs, bytes or a time, such as `100`, `4 MiB` or `2 s`"
            )));
        };
        let is_nothing = match depth {
            Self::Adus(adus) => adus == 0,
            Self::Bytes(size) => size == DataSize::ZERO,
            Self::Time(time) => time == Duration::ZERO,
        };
        if is_nothing {
            let why = "a mailbox without room would lose everything: give a depth above 0, or the policy `newest`";
            return Err(MailboxError(why.to_string()));
        }
        let most = match depth {
            Self::Adus(adus) if adus > MAILBOX_ADUS_MAX => format!("{MAILBOX_ADUS_MAX} ADUs"),
            Self::Bytes(size) if size > MAILBOX_BYTES_MAX => MAILBOX_BYTES_MAX.to_string(),
            _ => return Ok(depth),
        };
        Err(MailboxError(format!(
            "a mailbox has room for {most} at most"
        )))
    }
}

impl Serialize for Depth {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Adus(adus) => serializer.serialize_u64(*adus as u64),
            // Exactly, unlike in a sentence.
            Self::Bytes(size) => size.serialize(serializer),
            Self::Time(time) => serializer.collect_str(time),
        }
    }
}

impl<'de> Deserialize<'de> for Depth {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Text;

        impl serde::de::Visitor<'_> for Text {
            type Value = Depth;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a depth such as 100, \"4 MiB\" or \"2 s\"")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Depth, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_u64<E: serde::de::Error>(self, adus: u64) -> Result<Depth, E> {
                self.visit_str(&adus.to_string())
            }

            fn visit_i64<E: serde::de::Error>(self, adus: i64) -> Result<Depth, E> {
                self.visit_str(&adus.to_string())
            }
        }

        from.deserialize_any(Text)
    }
}
