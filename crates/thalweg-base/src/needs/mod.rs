//! A stream's requirements.
//!
//! *The idea.* The producer states needs, never mechanisms: the planner, the transport and the
//! sender's queue derive theirs from these few keys. The world file and `thalweg publish` use the
//! same names.
//!
//! *Sources.* design.md, "Words"; docs/reference/worlds.md.

use alloc::format;
use alloc::string::String;
use core::num::NonZeroU8;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limits::{HOLD_AGE_MAX, HOLD_BYTES_MAX};
use crate::time::Duration;
use crate::units::{DataSize, Ratio, parse_duration, read_unit};

/// The default weight of a stream.
pub const WEIGHT_USUAL: NonZeroU8 = NonZeroU8::new(16).expect("it is not zero");

/// How long a stream without a deadline waits for a sink by default: as long as a subscriber waits
/// for missing ADUs ([`PATIENCE_MAX`](crate::limits::PATIENCE_MAX)).
pub const WAIT_DEFAULT: Duration = crate::limits::PATIENCE_MAX;

/// The default size limit of held ADUs, if only a time is given.
pub const HOLD_DEFAULT: DataSize = DataSize::from_kib(16 << 10);

/// A stream's requirements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Needs {
    /// Untrusted nodes and insecure links must not see plaintext: the plan seals the stream there.
    pub confidential: bool,
    /// Time from the producer after which an ADU is useless; `NEVER`: no deadline. Written `"300
    /// ms"`.
    #[serde(deserialize_with = "read_deadline", serialize_with = "write_deadline")]
    pub deadline: Duration,
    /// Minimum number of layers worth delivering.
    pub least_layers: u8,
    /// Tolerated share of packets lost on a link; over a link that loses more, the stream needs a
    /// repairing adapter. Omitted: any.
    #[serde(skip_serializing_if = "tolerates_all")]
    pub loss_max: Ratio,
    /// What happens to lost and late ADUs.
    pub reliability: Reliability,
    /// Order of ADUs at the subscriber, and at a sender that cannot send all.
    pub order: Order,
    /// Share of a saturated link relative to other streams, 1 to 255: twice the weight gets twice
    /// the rate.
    pub weight: NonZeroU8,
    /// Expected duration of the session, if known: a short one is not worth a costly plan.
    #[serde(deserialize_with = "read_deadline", serialize_with = "write_deadline")]
    pub session: Duration,
    /// How long the source holds ADUs for a sink without a path; zero: not at all. Written `"10
    /// min"`.
    #[serde(
        deserialize_with = "read_deadline",
        serialize_with = "write_deadline",
        skip_serializing_if = "is_zero"
    )]
    pub hold: Duration,
    /// Maximum payload held; the least important ADUs go first, and of those the oldest.
    #[serde(skip_serializing_if = "is_default_hold")]
    pub hold_size: DataSize,
    /// How long a stream without a deadline waits for a sink that accepts nothing or is
    /// unreachable; then it continues without that sink. Written `"30 s"`.
    #[serde(
        deserialize_with = "read_deadline",
        serialize_with = "write_deadline",
        skip_serializing_if = "is_default_wait"
    )]
    pub wait_at_most: Duration,
}

/// What happens to lost and late ADUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reliability {
    /// Sent once, as a datagram if it fits one.
    None,
    /// Retransmitted until its deadline, then dropped.
    #[default]
    UntilDeadline,
    /// Retransmitted until it arrives, except where the paths to several sinks diverge: there no
    /// sink waits for a slower one, which misses what it cannot take. Sinks request missing data
    /// from the producer, as in a file transfer.
    Repaired,
    /// Retransmitted until it arrives.
    Full,
}

impl Reliability {
    /// Returns whether the ADUs of a plan share one ordered sequence on a hop.
    pub const fn is_ordered(self) -> bool {
        matches!(self, Self::Repaired | Self::Full)
    }

    /// Returns whether lost ADUs are sent again, by the transport or the producer.
    pub const fn is_sent_again(self) -> bool {
        !matches!(self, Self::None)
    }
}

/// Order of ADUs at a sender that cannot send all at once.
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
            hold_size: HOLD_DEFAULT,
            wait_at_most: WAIT_DEFAULT,
        }
    }
}

impl Needs {
    /// Returns how long the stream waits for a sink that accepts nothing; `None` if late and lost
    /// ADUs are dropped instead.
    pub fn waits(&self) -> Option<Duration> {
        let is_promised = match self.reliability {
            Reliability::UntilDeadline => self.deadline.is_never(),
            Reliability::Full => true,
            Reliability::None | Reliability::Repaired => false,
        };
        is_promised.then_some(self.wait_at_most)
    }

    /// Returns whether the source holds ADUs that it cannot send.
    pub const fn is_held(&self) -> bool {
        !is_zero(&self.hold)
    }

    /// Returns the first invalid key, and why it is invalid.
    pub fn fault(&self) -> Option<(&'static str, String)> {
        if self.deadline == Duration::ZERO {
            let why =
                "a deadline of zero is impossible: write how long an ADU is useful, or \"never\"";
            return Some(("deadline", why.into()));
        }
        self.hold_fault()
    }

    /// Returns the invalid key about holding, and why it is invalid.
    fn hold_fault(&self) -> Option<(&'static str, String)> {
        if !self.is_held() {
            return None;
        }
        let what = match self.reliability {
            Reliability::None => Some("that is sent once"),
            Reliability::Repaired => Some("that its sinks repair"),
            Reliability::UntilDeadline | Reliability::Full => None,
        };
        if let Some(what) = what {
            let why = format!(
                "a stream {what} cannot be held: write `reliability` as \"until-deadline\" or \"full\""
            );
            return Some(("hold", why));
        }
        if self.hold > HOLD_AGE_MAX {
            let why = format!(
                "{} exceeds the {HOLD_AGE_MAX} for which a node holds ADUs",
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
const fn is_zero(time: &Duration) -> bool {
    time.as_nanos() == 0
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature is serde's"
)]
fn is_default_hold(size: &DataSize) -> bool {
    *size == HOLD_DEFAULT
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature is serde's"
)]
fn is_default_wait(wait: &Duration) -> bool {
    *wait == WAIT_DEFAULT
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature is serde's"
)]
fn tolerates_all(loss: &Ratio) -> bool {
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
