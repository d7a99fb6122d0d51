//! Calibrates the instrument: compares the testbed's links with their world.
//!
//! Links of different kinds, each between two separate nodes, are measured in parallel by external
//! programs: `ping` for the delay, `iperf3` for rate and loss. Their figures are converted:
//!
//! ```text
//! rate   received payload · (payload + 28) / payload   a link's rate includes IPv4 and UDP headers;
//!        the fast link by TCP, with 1,500 / 1,448
//! delay  median RTT / 2 − 84 B / rate                  84 B: an echo with its headers on the line
//! loss   lost / sent, at half the rate, so that no queue overflows
//! ```
//!
//! A quantity that is out of bounds or could not be measured is measured again, because the machine may
//! be busy, and `iperf3` hangs if its first packet is lost. Out of bounds in every round is a fault.
//! The bounds are properties of the instrument, not of the product.
//!
//! *Sources.* docs/guides/testbed.md; iperf3's JSON; iputils' `ping(8)`.

mod figure;
mod measure;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use thalweg_base::time::Duration;
use thalweg_base::units::{Bitrate, DataSize, Ratio};
use thalweg_planner::model::{Link, Node, NodeName, World};

pub use figure::{Figure, Quantity};

use crate::network::Network;

/// Rounds before a quantity out of bounds is a fault.
const ROUNDS: u32 = 4;

/// Quantities per link: its delay, and its rate or its loss.
const QUANTITIES: usize = 2;

/// A link under measurement.
struct Subject {
    name: &'static str,
    kbps: u64,
    delay_ms: u64,
    /// In thousandths.
    loss: u32,
    burst: f64,
}

/// Slow and fast, near and far links, without loss, with single losses and with bursts.
static SUBJECTS: [Subject; 5] = [
    Subject {
        name: "radio",
        kbps: 150,
        delay_ms: 50,
        loss: 0,
        burst: 1.0,
    },
    Subject {
        name: "lan",
        kbps: 100_000,
        delay_ms: 1,
        loss: 0,
        burst: 1.0,
    },
    Subject {
        name: "geo",
        kbps: 5_000,
        delay_ms: 300,
        loss: 0,
        burst: 1.0,
    },
    Subject {
        name: "wifi",
        kbps: 20_000,
        delay_ms: 3,
        loss: 50,
        burst: 1.0,
    },
    Subject {
        name: "leo",
        kbps: 20_000,
        delay_ms: 25,
        loss: 20,
        burst: 3.0,
    },
];

/// The results.
#[derive(Debug, Serialize)]
pub struct Calibration {
    /// One per quantity of each link.
    pub figures: Vec<Figure>,
    /// Lateness of the emulator that 99 of 100 packets did not exceed.
    pub late_ms_p99: f64,
    /// Maximum lateness of a packet.
    pub late_ms_max: f64,
}

/// Builds the links and measures them; what fails or is out of bounds is measured again, four rounds at most.
///
/// Of several measurements the one nearest to the world counts: a busy machine only makes a link look
/// worse, and wrong arithmetic is wrong in every round.
///
/// Fails   the links cannot be built, or a quantity could not be measured in any round; with the
///         program's output
/// Cost    25 s, and up to that for each further round
pub async fn run(seed: u64) -> anyhow::Result<Calibration> {
    let network = Network::build(&world(), seed)?;
    let mut left: Vec<&'static Subject> = SUBJECTS.iter().collect();
    let mut known = BTreeMap::new();
    let mut failures = Vec::new();
    for round in 1..=ROUNDS {
        failures.clear();
        for measured in measure::all(&network, &left).await? {
            match measured {
                Ok(figure) => keep_nearest(&mut known, Figure { round, ..figure }),
                Err(failure) => failures.push(failure),
            }
        }
        left.retain(|subject| !is_settled(&known, subject));
        if left.is_empty() {
            break;
        }
    }
    if let (Some(failure), Some(subject)) = (failures.pop(), left.first())
        && known_count(&known, subject) < QUANTITIES
    {
        return Err(failure);
    }
    let lateness = network.emulator().lateness();
    let calibration = Calibration {
        figures: known.into_values().collect(),
        late_ms_p99: lateness.within(0.99).as_millis_f64(),
        late_ms_max: lateness.most().as_millis_f64(),
    };
    network.tear_down()?;
    Ok(calibration)
}

/// The best figure of each quantity of each link.
type Known = BTreeMap<(&'static str, Quantity), Figure>;

fn keep_nearest(known: &mut Known, new: Figure) {
    let slot = known.entry((new.link, new.quantity));
    let figure = slot.or_insert_with(|| new.clone());
    // `total_cmp` orders a NaN, which is no measurement, after every number.
    if new.error().abs().total_cmp(&figure.error().abs()).is_lt() {
        *figure = new;
    }
}

/// Returns how many quantities of a link are known.
fn known_count(known: &Known, subject: &Subject) -> usize {
    let links = known.keys();
    links.filter(|(link, _)| *link == subject.name).count()
}

/// Returns whether all quantities of a link are known and within their bounds.
fn is_settled(known: &Known, subject: &Subject) -> bool {
    let mut figures = known.values().filter(|figure| figure.link == subject.name);
    known_count(known, subject) == QUANTITIES && figures.all(Figure::is_within)
}

fn world() -> World {
    let mut world = World::default();
    for subject in &SUBJECTS {
        let ends = subject.ends();
        for end in &ends {
            world.nodes.insert(end.clone(), Node::default());
        }
        world.links.push(Link {
            delay: Duration::from_millis(subject.delay_ms),
            loss: subject.loss(),
            burst: subject.burst,
            // Room for the burst of a program that slept for a moment.
            queue: DataSize::from_kib(512),
            ..Link::new(ends, subject.rate())
        });
    }
    world
}

impl Subject {
    fn ends(&self) -> [NodeName; 2] {
        ["a", "b"].map(|end| {
            let name = format!("{}-{end}", self.name);
            name.parse().expect("a valid name")
        })
    }

    const fn rate(&self) -> Bitrate {
        Bitrate::from_kbps(self.kbps)
    }

    fn loss(&self) -> Ratio {
        Ratio::new(f64::from(self.loss) / 1_000.0).expect("valid thousandths")
    }
}

impl Calibration {
    /// Returns whether all figures are within their bounds.
    pub fn is_within(&self) -> bool {
        self.figures.iter().all(Figure::is_within)
    }

    /// Returns the figures as a table for people.
    pub fn table(&self) -> String {
        let mut text = String::from("link   quantity     world  measured     error  bound\n");
        for figure in &self.figures {
            let _ = writeln!(text, "{figure}");
        }
        let _ = writeln!(
            text,
            "the emulator let 99 % of packets out within {:.2} ms of their moment, and all within {:.2} ms",
            self.late_ms_p99, self.late_ms_max
        );
        text
    }
}

#[cfg(test)]
mod tests;
