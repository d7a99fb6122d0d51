//! The worlds: a diamond in which the upper path breaks.

use thalweg_base::time::Duration;

/// The nodes in the order of their names, which is that of their logs; the source is the first.
pub(super) const NAMES: [&str; 4] = ["cam", "desk", "lower", "upper"];

/// When the first picture is due: late enough for its plan to be in force.
pub(super) const START: Duration = Duration::from_secs(3);

/// When the path breaks: between two pictures.
pub(in crate::benches) const BREAK: Duration = Duration::from_millis(7_009);

/// The interval between two pictures.
pub(in crate::benches) const INTERVAL: Duration = Duration::from_millis(40);

/// The failure mode of the upper path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// Its far link is cut, out of sight of the source.
    Far,
    /// Its near link is cut.
    Near,
    /// Its relay is killed, with what it had acknowledged.
    Crash,
}

impl Manner {
    pub(super) const ALL: [Self; 3] = [Self::Far, Self::Near, Self::Crash];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Far => "far",
            Self::Near => "near",
            Self::Crash => "crash",
        }
    }

    const fn event(self) -> &'static str {
        match self {
            Self::Far => "link = [\"upper\", \"desk\"]\nset = { up = false }",
            Self::Near => "link = [\"cam\", \"upper\"]\nset = { up = false }",
            Self::Crash => "node = \"upper\"\ndo = \"crash\"",
        }
    }
}

/// Returns the world of a mode. The upper path has an RTT of 20 ms and a higher rate than the lower, so
/// the plan takes it.
pub(super) fn text(manner: Manner, is_kept: bool) -> String {
    let reliability = if is_kept { "until-deadline" } else { "none" };
    let (start, at) = (START.as_millis(), BREAK.as_millis());
    let (event, diamond) = (manner.event(), diamond("upper", Duration::from_millis(15)));
    format!(
        r#"length = "12 s"

{diamond}
[[stream]]
name = "cam/video"
from = "cam"
to = ["desk"]
pack_ratio = 1.0
layers = [{{ rate = "800 kbit/s", utility = 1.0 }}]
needs = {{ deadline = "1 s", reliability = "{reliability}" }}
traffic = {{ frames = 25.0, start = "{start} ms", stop = "10 s" }}

[[at]]
time = "{at} ms"
{event}
"#
    )
}

/// Returns the nodes and links of two paths from `cam` to `desk`. The one through `upper` has a higher
/// rate than the one through `lower`, which has this delay per line.
pub(in super::super) fn diamond(upper: &str, lower: Duration) -> String {
    let lower_us = lower.as_micros();
    format!(
        r#"[node.cam]
[node.{upper}]
[node.lower]
[node.desk]

[[link]]
ends = ["cam", "{upper}"]
rate = "10 Mbit/s"
delay = "5 ms"

[[link]]
ends = ["{upper}", "desk"]
rate = "5 Mbit/s"
delay = "5 ms"

[[link]]
ends = ["cam", "lower"]
rate = "3 Mbit/s"
delay = "{lower_us} us"

[[link]]
ends = ["lower", "desk"]
rate = "3 Mbit/s"
delay = "{lower_us} us"
"#
    )
}
