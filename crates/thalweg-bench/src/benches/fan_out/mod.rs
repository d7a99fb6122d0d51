//! FAN-OUT: the forwarding rate of a relay's core with one source and many sinks, for ours and peers'
//! relays, and what the sinks receive when the relay cannot keep up.
//!
//! A source gives 1 Mbit/s, thirty ADUs a second, through a relay to an increasing number of sinks on
//! loopback, each with its own connection. Source, relay and sinks are three programs, so that the
//! processor time of each can be read. Sides take turns, each newly started. After the free window the
//! kernel limits the relay to a quarter of the processor time that it took there: that is past
//! saturation, wherever the load generators' own limits are.
//!
//! ```text
//! mbps_per_core = bits that came, all sinks together / processor time of the relay in the same window
//! latency       = came − due, so a source that is held back is late
//! ```
//!
//! | file | what it does |
//! |---|---|
//! | `play` | one tree: until all sinks receive, a free window, a window with a quarter of the processor |
//! | `taken` | evaluates the records of a window |
//! | `limit` | limits the processor time of one program |
//! | `thalweg`, `nats` | our ends and relay; NATS's ends |
//! | `bare` | the cost of the transport alone |
//! | `figures` | what is reported |
//! | `come_up` | a benchmark of its own: how long until all sinks receive |
//!
//! All programs run on the same cores: where the ends take most of them, more sinks saturate the
//! machine and not the relay. `sinks_cores` shows that, and the first size at which a side's free
//! window is not carried is its last.
//!
//! *Sources.* The project's reading of peers, "Fan-out relay"; docs/guides/measure.md.

pub(crate) mod bare;
pub(crate) mod come_up;
mod figures;
mod limit;
pub(crate) mod nats;
mod play;
mod taken;
#[cfg(test)]
mod tests;
pub(crate) mod thalweg;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::bail;

use self::bare::Bare;
use self::play::{Lasting, Played};
use self::thalweg::Over;
use crate::peers::tree::{Fan, Load, Tree};
use crate::peers::{Peer, Ready};
use crate::report::Report;
use crate::{Settings, progress};

/// The benchmark's id.
pub(crate) const ID: &str = "FAN-OUT";

/// Its metrics' names.
pub(crate) const METRICS: &[&str] = figures::METRICS;

/// Numbers of sinks in a full run; beyond [`HEADLINE`] a side goes on until it does not carry everything.
const SINKS: [u32; 5] = [50, 100, 200, 400, 800];

/// The number of sinks for the headlines, or else the largest that both sides carried.
const HEADLINE: u32 = 200;

/// Numbers of sinks in a quick run.
const SINKS_QUICK: [u32; 1] = [5];

const LENGTH_BYTES: usize = 4_167;

/// Interval between ADUs: 1 Mbit/s of payload exactly.
const PACE: Duration = Duration::from_micros(33_336);

/// The deadline of our stream, and the maximum age that moq-relay is given.
const AGE_MAX: Duration = Duration::from_millis(500);

/// Rounds of each side up to the headline's size.
const ROUNDS: usize = 3;

/// The minimum share of the deliveries that counts as everything.
const CARRIED_SHARE: f64 = 0.99;

/// The side under test.
enum Side {
    Thalweg(Over),
    /// The transport alone.
    Bare(Bare),
    Peer(Ready, &'static Fan),
}

/// A side's name and its description.
type Legend = (&'static str, String);

/// The results, by number of sinks and side.
type Measured = BTreeMap<(u32, &'static str), Vec<Played>>;

/// Runs every side at every size and reports.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    if settings.instructions_only {
        return Ok(());
    }
    let mut sides = chosen(sides(&settings.peers), &settings.sides)?;
    let legends: Vec<Legend> = sides.iter().map(Side::legend).collect();
    let (sizes, lasting) = if settings.is_quick {
        (&SINKS_QUICK[..], Lasting::QUICK)
    } else {
        (&SINKS[..], Lasting::FULL)
    };
    let sizes = match &settings.sinks[..] {
        [] => sizes,
        named => named,
    };
    let mut measured = Measured::new();
    let mut failed = Vec::new();
    for sinks in sizes {
        let rounds = match *sinks {
            _ if settings.is_quick => 1,
            sinks if sinks > HEADLINE => 1,
            _ => ROUNDS,
        };
        for round in 0..rounds {
            sides.retain(|side| {
                let name = side.name();
                progress::show(format_args!("{ID}: {name}, {sinks} sinks, round {round}"));
                match play::play(|| side.grow(*sinks), *sinks, lasting) {
                    Ok(played) => {
                        measured.entry((*sinks, name)).or_default().push(played);
                        true
                    }
                    Err(error) => {
                        progress::clear();
                        eprintln!(
                            "thalweg-bench: {name} is left out from {sinks} sinks on: {error:#}"
                        );
                        if *sinks == sizes[0] {
                            failed.push(format!("{name}: {error:#}"));
                        }
                        false
                    }
                }
            });
            sides.reverse();
        }
        sides.retain(|side| carries(&measured, *sinks, side.name()));
        figures::report_relay(&measured, *sinks, &legends, report)?;
    }
    figures::headlines(&measured, &legends, report)?;
    if !failed.is_empty() {
        bail!("not everything was measured: {}", failed.join("; "));
    }
    Ok(())
}

/// Returns whether a side carried everything in each round.
fn carries(measured: &Measured, sinks: u32, name: &'static str) -> bool {
    let played = measured.get(&(sinks, name));
    played.is_some_and(|rounds| {
        let shares = rounds.iter().map(|played| played.free.share());
        shares.fold(f64::INFINITY, f64::min) >= CARRIED_SHARE
    })
}

/// Returns the sides with these names, or all if none is named.
fn chosen(sides: Vec<Side>, names: &[String]) -> anyhow::Result<Vec<Side>> {
    if names.is_empty() {
        return Ok(sides);
    }
    let is_unknown = |name: &&String| sides.iter().all(|side| side.name() != name.as_str());
    if let Some(name) = names.iter().find(is_unknown) {
        let known: Vec<&str> = sides.iter().map(Side::name).collect();
        let known = known.join(", ");
        bail!("{ID} has no side '{name}' here; it has {known}");
    }
    let is_named = |side: &Side| names.iter().any(|name| name == side.name());
    Ok(sides.into_iter().filter(is_named).collect())
}

/// Returns our sides, the bare transports, and the peers that are installed.
fn sides(peers: &[&'static Peer]) -> Vec<Side> {
    let mut sides: Vec<Side> = Over::ALL.map(Side::Thalweg).into();
    sides.extend(Bare::ALL.map(Side::Bare));
    for peer in peers.iter().filter(|peer| !peer.fans().is_empty()) {
        if let Some(ready) = super::relay::find(peer) {
            let fans = peer.fans().iter();
            sides.extend(fans.map(|fan| Side::Peer(ready.clone(), fan)));
        }
    }
    sides
}

impl Side {
    fn name(&self) -> &'static str {
        match self {
            Self::Thalweg(over) => over.name(),
            Self::Bare(bare) => bare.name(),
            Self::Peer(_, fan) => fan.name,
        }
    }

    fn legend(&self) -> Legend {
        let text = match self {
            Self::Thalweg(over) => over.carries().to_owned(),
            Self::Bare(bare) => bare.carries().to_owned(),
            Self::Peer(ready, fan) => format!("{}, {}", ready.version(), fan.carries),
        };
        (self.name(), text)
    }

    fn grow(&self, sinks: u32) -> anyhow::Result<Tree> {
        let load = Load {
            sinks,
            length_bytes: LENGTH_BYTES,
            pace: PACE,
            age_max: AGE_MAX,
        };
        match self {
            Self::Thalweg(over) => thalweg::grow(*over, &load, false),
            Self::Bare(bare) => bare::grow(*bare, &load),
            Self::Peer(ready, fan) => ready.grow(fan, &load),
        }
    }
}
