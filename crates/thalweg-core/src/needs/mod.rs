//! What a stream requires of the way it travels.
//!
//! *The idea.* The producer states needs, never mechanisms: the planner, the transport and the sender's queue derive
//! theirs from these few words. The world file and `thalweg publish` use the same names.
//!
//! *Sources.* design.md, "Words"; the world file of docs/planner.md.

use alloc::format;
use alloc::string::String;
use core::num::NonZeroU8;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limits::{HOLD_AGE_MAX, HOLD_BYTES_MAX};
use crate::time::Duration;
use crate::units::{DataSize, Ratio, parse_duration, read_unit};

/// The weight of a stream that says nothing of it.
pub const WEIGHT_USUAL: NonZeroU8 = NonZeroU8::new(16).expect("it is not zero");

/// How long a stream without a deadline waits for a sink: as long as a subscriber waits for what is missing
/// ([`PATIENCE_MAX`](crate::mailbox::PATIENCE_MAX)).
pub const WAIT_USUAL: Duration = crate::mailbox::PATIENCE_MAX;

/// How much of a stream is held that says for how long, and not how much.
pub const HOLD_USUAL: DataSize = DataSize::from_kib(16 << 10);

/// What a stream requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Needs {
    /// Nodes and links that may not see plaintext must not: the plan seals there.
    pub confidential: bool,
    /// After this long from the producer an ADU is of no use; `NEVER` if it always is. Written `"300 ms"`.
    #[serde(deserialize_with = "read_deadline", serialize_with = "write_deadline")]
    pub deadline: Duration,
    /// The fewest layers that are worth delivering.
    pub least_layers: u8,
    /// The share of packets lost on a link that it bears; over a link that loses more it goes only with what repairs
    /// that. Omitted: any.
    #[serde(skip_serializing_if = "bears_all")]
    pub loss_max: Ratio,
    /// What happens to an ADU that is lost or late.
    pub reliability: Reliability,
    /// In which order ADUs reach the subscriber, and leave a sender that cannot send all.
    pub order: Order,
    /// How much of a full link it gets beside other streams: twice the weight, twice as much. 1 to 255.
    pub weight: NonZeroU8,
    /// How long the session is expected to last, if that is known: a short one is not worth a costly plan.
    #[serde(deserialize_with = "read_deadline", serialize_with = "write_deadline")]
    pub session: Duration,
    /// How long the source holds an ADU for a sink to which there is no way; zero if it does not. Written `"10 min"`.
    #[serde(
        deserialize_with = "read_deadline",
        serialize_with = "write_deadline",
        skip_serializing_if = "is_none"
    )]
    pub hold: Duration,
    /// How much payload it holds at most; what matters least, and of that the oldest, goes first.
    #[serde(skip_serializing_if = "is_usual")]
    pub hold_size: DataSize,
    /// How long a stream without a deadline waits for a sink that takes nothing or cannot be reached; then it goes on without that
    /// sink. Written `"30 s"`.
    #[serde(
        deserialize_with = "read_deadline",
        serialize_with = "write_deadline",
        skip_serializing_if = "is_usual_wait"
    )]
    pub wait_at_most: Duration,
}

/// What happens to an ADU that is lost or late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reliability {
    /// Sent once, as a datagram where it fits one.
    None,
    /// Sent again until its deadline, then given up.
    #[default]
    UntilDeadline,
    /// Sent again until it arrives, but for this: where ways to several sinks part, none waits for one that is slower, which
    /// misses what it cannot take. Its sinks have that repaired: they tell the producer what they lack, as those of a
    /// transfer of files do.
    Repaired,
    /// Sent again until it arrives.
    Full,
}

impl Reliability {
    /// Returns whether the ADUs of a plan follow each other over a hop in one sequence, none without the one before.
    pub const fn is_ordered(self) -> bool {
        matches!(self, Self::Repaired | Self::Full)
    }

    /// Returns whether what is lost is sent again, by whomever.
    pub const fn is_sent_again(self) -> bool {
        !matches!(self, Self::None)
    }
}

/// In which order ADUs leave a sender that cannot send all at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// By importance, then deadline, then sequence.
    #[default]
    Importance,
    /// First in, first out.
    Sequence,
}

impl Default for Needs {
    fn default() -> Self {
        Self {
            confidential: false,
            deadline: Duration::NEVER,
            least_layers: 1,
            loss_max: Ratio::ONE,
            reliability: Reliability::default(),
            order: Order::default(),
            weight: WEIGHT_USUAL,
            session: Duration::NEVER,
            hold: Duration::ZERO,
            hold_size: HOLD_USUAL,
            wait_at_most: WAIT_USUAL,
        }
    }
}

impl Needs {
    /// Returns how long the stream waits for a sink that takes nothing; `None` if it does not, for what is late or lost is given up.
    pub fn waits(&self) -> Option<Duration> {
        let is_promised = match self.reliability {
            Reliability::UntilDeadline => self.deadline.is_never(),
            Reliability::Full => true,
            Reliability::None | Reliability::Repaired => false,
        };
        is_promised.then_some(self.wait_at_most)
    }

    /// Returns whether the source holds what it cannot send.
    pub const fn is_held(&self) -> bool {
        !is_none(&self.hold)
    }

    /// Returns which key makes no sense, and why.
    pub fn fault(&self) -> Option<(&'static str, String)> {
        if self.deadline == Duration::ZERO {
            let why = "nothing arrives in no time: write how long an ADU is of use, or \"never\"";
            return Some(("deadline", why.into()));
        }
        self.hold_fault()
    }

    /// Returns which key is wrong about what is to be held, and why.
    fn hold_fault(&self) -> Option<(&'static str, String)> {
        if !self.is_held() {
            return None;
        }
        let what = match self.reliability {
            Reliability::None => Some("that is sent once"),
            Reliability::Repaired => Some("of which sinks say what they lack"),
            Reliability::UntilDeadline | Reliability::Full => None,
        };
        if let Some(what) = what {
            let why = format!(
                "a stream {what} is not held: write `reliability` as \"until-deadline\" or \"full\""
            );
            return Some(("hold", why));
        }
        if self.hold > HOLD_AGE_MAX {
            let why = format!(
                "{} is more than the {HOLD_AGE_MAX} that a node holds ADUs",
                self.hold
            );
            return Some(("hold", why));
        }
        let size = self.hold_size;
        if size == DataSize::ZERO || size > HOLD_BYTES_MAX {
            let why = format!("{size} cannot be held: write 1 B to {HOLD_BYTES_MAX}");
            return Some(("hold_size", why));
        }
        None
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature is serde's"
)]
const fn is_none(time: &Duration) -> bool {
    time.as_nanos() == 0
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature is serde's"
)]
fn is_usual(size: &DataSize) -> bool {
    *size == HOLD_USUAL
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature is serde's"
)]
fn is_usual_wait(wait: &Duration) -> bool {
    *wait == WAIT_USUAL
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature is serde's"
)]
fn bears_all(loss: &Ratio) -> bool {
    *loss == Ratio::ONE
}

fn read_deadline<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let expecting = "a length of time in quotes, such as \"300 ms\", or \"never\"";
    read_unit(deserializer, expecting, |text| match text {
        "never" => Ok(Duration::NEVER),
        _ => parse_duration(text),
    })
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature is serde's"
)]
fn write_deadline<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(duration)
}
