//! The worlds of the cases: the demo's chain, its slow link at a rate, and the rate that the planner
//! believes.

/// The rates of the slow link.
pub(super) const RATES_KBPS: [u32; 4] = [150, 800, 2_000, 5_000];

/// The believed rate of a link that the planner takes for fast.
const BELIEVED_KBPS: u32 = 10_000;

/// The treatment of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    Nothing,
    Drop,
    DropSeal,
    Seal,
    Incremental,
}

impl Case {
    pub(super) const ALL: [Self; 5] = [
        Self::Nothing,
        Self::Drop,
        Self::DropSeal,
        Self::Seal,
        Self::Incremental,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Drop => "drop",
            Self::DropSeal => "drop_seal",
            Self::Seal => "seal",
            Self::Incremental => "incremental",
        }
    }

    /// Returns its baseline; the first case is its own.
    pub(super) const fn baseline(self) -> Self {
        match self {
            Self::Incremental => Self::DropSeal,
            _ => Self::Nothing,
        }
    }

    const fn is_confidential(self) -> bool {
        !matches!(self, Self::Nothing | Self::Drop)
    }

    const fn knows_the_rate(self) -> bool {
        !matches!(self, Self::Nothing | Self::Seal)
    }
}

/// Returns the world of a case. The planner's belief is the rate at the start; an event sets the real one.
pub(super) fn text(case: Case, kbps: u32, is_quick: bool) -> String {
    let believed = if case.knows_the_rate() {
        kbps
    } else {
        BELIEVED_KBPS
    };
    let planner = match case {
        Case::Incremental => "incremental",
        _ => "exact",
    };
    let confidential = case.is_confidential();
    let seconds = if is_quick { 3 } else { 7 };
    format!(
        r#"length = "{seconds} s"

[node.camera]
slots = 4
[node.relay]
slots = 4
[node.base]
slots = 4
[node.viewer]
slots = 4

[[link]]
ends = ["camera", "relay"]
rate = "2 Mbit/s"
delay = "20 ms"
secure = false

[[link]]
ends = ["relay", "base"]
rate = "{believed} kbit/s"
delay = "30 ms"

[[link]]
ends = ["base", "viewer"]
rate = "10 Mbit/s"
delay = "5 ms"

[[at]]
time = "0 s"
link = ["relay", "base"]
set = {{ rate = "{kbps} kbit/s" }}

[[stream]]
name = "scene"
from = "camera"
to = ["viewer"]
pack_ratio = 1.0
layers = [
  {{ rate = "56 kbit/s", utility = 0.40 }},
  {{ rate = "64 kbit/s", utility = 0.20 }},
  {{ rate = "80 kbit/s", utility = 0.12 }},
  {{ rate = "120 kbit/s", utility = 0.09 }},
  {{ rate = "160 kbit/s", utility = 0.07 }},
  {{ rate = "200 kbit/s", utility = 0.05 }},
  {{ rate = "240 kbit/s", utility = 0.04 }},
  {{ rate = "280 kbit/s", utility = 0.03 }},
]
needs = {{ confidential = {confidential}, deadline = "500 ms", least_layers = 1 }}
traffic = {{ frames = 12, video = true, planner = "{planner}", start = "1 s" }}
"#
    )
}
