//! The worlds: three nodes, and around the middle one a path with a lower rate on which a picture takes
//! equally long.

use thalweg_base::time::Duration;
use thalweg_sim::report::{LinkReport, Report};

use crate::benches::continuity::diamond;
pub(super) use crate::benches::continuity::{BREAK, INTERVAL};

/// When the first picture is due: late enough for its plans to be in force.
pub(super) const START: Duration = Duration::from_secs(4);

/// How long pictures flow.
pub(super) const FLOWING: Duration = Duration::from_secs(6);

/// Delay of a line on the other path. A line through hub has 5 ms; the serialization delay of a picture
/// at 3 Mbit/s makes up for half of the rest. So a picture takes equally long on both paths, and
/// silence is caused by the switch alone.
const OTHER_DELAY: Duration = Duration::from_micros(2_500);

/// The subscribers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// None: the stream begins when the world is over, except for one picture.
    Nothing,
    /// The node behind.
    Desk,
    /// The node behind, and the one in the middle.
    Both,
}

/// How the middle node leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    /// It is asked to end.
    WithNotice,
    /// It is killed.
    WithoutNotice,
}

impl Wanted {
    pub(super) const ALL: [Self; 3] = [Self::Nothing, Self::Desk, Self::Both];

    /// Returns the original's number.
    pub(super) const fn interval(self) -> u8 {
        match self {
            Self::Nothing => 1,
            Self::Desk => 2,
            Self::Both => 4,
        }
    }
}

impl Leaving {
    pub(super) const ALL: [Self; 2] = [Self::WithNotice, Self::WithoutNotice];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::WithNotice => "with_notice",
            Self::WithoutNotice => "without_notice",
        }
    }
}

/// Returns the world of an interval.
pub(super) fn interval(wanted: Wanted) -> String {
    let end = START + FLOWING;
    let (to, traffic) = match wanted {
        Wanted::Nothing => ("\"desk\"", traffic(end.saturating_sub(INTERVAL), end)),
        Wanted::Desk => ("\"desk\"", traffic(START, end)),
        Wanted::Both => ("\"desk\", \"hub\"", traffic(START, end)),
    };
    text(to, &traffic, "")
}

/// Returns the world of a middle node that leaves while both nodes subscribe.
pub(super) fn leaving(leaving: Leaving) -> String {
    let action = match leaving {
        Leaving::WithNotice => "stop",
        Leaving::WithoutNotice => "crash",
    };
    let at = BREAK.as_millis();
    let event = format!("[[at]]\ntime = \"{at} ms\"\nnode = \"hub\"\ndo = \"{action}\"\n");
    text(
        "\"desk\", \"hub\"",
        &traffic(START, START + FLOWING),
        &event,
    )
}

/// Returns the counters of the line from the source to the middle node.
pub(super) fn upstream(report: &Report) -> Option<&LinkReport> {
    let mut links = report.links.iter();
    links.find(|link| link.from == "cam" && link.to == "hub")
}

fn traffic(start: Duration, stop: Duration) -> String {
    let (start, stop) = (start.as_millis(), stop.as_millis());
    format!("{{ frames = 25.0, start = \"{start} ms\", stop = \"{stop} ms\" }}")
}

/// Returns a world's text. The path through hub has a higher rate, so plans take it.
fn text(to: &str, traffic: &str, event: &str) -> String {
    let diamond = diamond("hub", OTHER_DELAY);
    format!(
        r#"length = "12 s"

{diamond}
[[stream]]
name = "cam/video"
from = "cam"
to = [{to}]
pack_ratio = 1.0
layers = [{{ rate = "800 kbit/s", utility = 1.0 }}]
needs = {{ deadline = "1 s", reliability = "until-deadline" }}
traffic = {traffic}

{event}"#
    )
}
