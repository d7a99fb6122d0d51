//! COME-UP: how long until each of 800 sinks over QUIC, and of 2,000 in the clear, has its first ADU.
//!
//! The trees are FAN-OUT's: a relay, a source and all sinks on loopback, each sink a node with its own
//! key and link. All nodes are assembled before the clock starts; then all dial at once. So it covers
//! their handshakes, records, subscriptions, plans and the first ADU of each, of four a second to the
//! sinks that are up already. A tree that is not up after [`UP_MAX`] is reported with the share of its
//! sinks that are.
//!
//! *Sources.* docs/guides/measure.md.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::thalweg::{self, BEGUN, Over};
use super::{AGE_MAX, LENGTH_BYTES};
use crate::peers::tree::Load;
use crate::report::{Figure, Report};
use crate::sample::Summary;
use crate::{Settings, progress};

/// The benchmark's id.
pub(crate) const ID: &str = "COME-UP";

/// The metrics' names: those of full runs, then those of each tree.
pub(crate) const METRICS: &[&str] = &[
    "connect_800_s",
    "connect_2000_s",
    "up_s",
    "up_share",
    "relay_computed_s",
    "sinks_computed_s",
    "kib_per_sink",
];

/// The trees of a full run, each with its headline.
const TREES: [(&str, Over, u32); 2] = [
    ("connect_800_s", Over::Quic, 800),
    ("connect_2000_s", Over::Plain, 2_000),
];

/// The sinks of a quick run.
const SINKS_QUICK: u32 = 5;

const ROUNDS: usize = 3;

/// How long a tree may take; then what is up by then is reported.
const UP_MAX: Duration = Duration::from_mins(1);

/// Interval between ADUs. So few that a machine which cannot forward a video to all of these sinks can
/// bring them up: what forwarding costs is FAN-OUT's to say.
const PACE: Duration = Duration::from_millis(250);

/// Interval between two looks at the records.
const LOOK: Duration = Duration::from_millis(10);

/// How one tree came up.
struct Risen {
    up: Duration,
    share: f64,
    /// Processor time of the relay, and of all sinks.
    computed: [Duration; 2],
    bytes_per_sink: f64,
}

/// A quantity of a tree: its metric, unit and value.
type Of = (&'static str, &'static str, fn(&Risen) -> f64);

const EACH: [Of; 5] = [
    ("up_s", "s", |risen| risen.up.as_secs_f64()),
    ("up_share", "share", |risen| risen.share),
    ("relay_computed_s", "s", |risen| {
        risen.computed[0].as_secs_f64()
    }),
    ("sinks_computed_s", "s", |risen| {
        risen.computed[1].as_secs_f64()
    }),
    ("kib_per_sink", "KiB", |risen| {
        risen.bytes_per_sink / 1_024.0
    }),
];

/// Brings up each tree and reports.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    if settings.instructions_only {
        return Ok(());
    }
    let rounds = if settings.is_quick { 1 } else { ROUNDS };
    for (headline, over, sinks) in TREES {
        let sinks = if settings.is_quick {
            SINKS_QUICK
        } else {
            sinks
        };
        let name = over.name();
        let mut risen = Vec::new();
        for round in 0..rounds {
            progress::show(format_args!("{ID}: {name}, {sinks} sinks, round {round}"));
            risen.push(rise(over, sinks)?);
        }
        let summary = |of: fn(&Risen) -> f64| Summary::of(risen.iter().map(of).collect());
        let are_up = risen.iter().all(|risen| risen.share >= 1.0);
        if !settings.is_quick && are_up {
            report.add(&Figure::new(ID, headline, "s", summary(EACH[0].2)))?;
        }
        for (metric, unit, of) in EACH {
            let metric = format!("{metric}.{name}.sinks_{sinks}");
            report.add(&Figure::new(ID, metric, unit, summary(of)))?;
        }
    }
    Ok(())
}

/// Starts a tree and waits until each sink has an ADU, or for [`UP_MAX`].
fn rise(over: Over, sinks: u32) -> anyhow::Result<Risen> {
    let load = Load {
        sinks,
        length_bytes: LENGTH_BYTES,
        pace: PACE,
        age_max: AGE_MAX,
    };
    let mut tree = thalweg::grow(over, &load, true)?;
    let mut begun = Instant::now();
    let mut up = BTreeSet::new();
    while up.len() < sinks as usize && begun.elapsed() < UP_MAX {
        std::thread::sleep(LOOK);
        tree.check()?;
        for record in tree.records() {
            if record.sink == BEGUN {
                begun = Instant::now();
            } else {
                up.insert(record.sink);
            }
        }
    }
    Ok(Risen {
        up: begun.elapsed(),
        share: up.len() as f64 / f64::from(sinks),
        computed: tree.computed()?,
        bytes_per_sink: tree.grown_bytes()? / f64::from(sinks),
    })
}
