//! NET-CTRL: what each node says at rest, by the number of nodes.
//!
//! Networks of about four links a node come up, and are then left alone for twice the time in which everybody repeats his
//! record. `bytes_per_second_N` is what a node sends of control frames in the mean, `messages_per_second` how many,
//! `link_share` what the busiest direction of a link bears, as a share of 150 kbit/s: below 0.01 is the aim. The baseline of the
//! same network and the same records is plain flooding where everybody repeats his record each 15 s, which is what this
//! program did before; its frames are counted, two a link less one a node for each record.
//!
//! Under `noise` all links are measured four times a second, rates and round trips a fifth off either way, and all of them are
//! full. Its baseline is a node that tells what it has measured as often as OSPF lets it, each 5 s (RFC 2328, `MinLSInterval`).

use thalweg_core::random::SplitMix;
use thalweg_core::routing::cadence;
use thalweg_core::routing::gauge::{SAMPLE_EVERY, Sample};
use thalweg_core::time::Duration;
use thalweg_core::units::{DataSize, Ratio};
use thalweg_sim::flood::{Flood, Shape};

use super::network::{RATE, SLOW, frames_of_flood};
use super::{sizes, wide};
use crate::report::{Figure, Report};
use crate::sample::Summary;
use crate::{Settings, progress};

/// The benchmark's id.
pub(crate) const ID: &str = "NET-CTRL";

/// What its metrics are called.
pub(crate) const METRICS: &[&str] = &[
    "bytes_per_second_10",
    "bytes_per_second_100",
    "bytes_per_second_1000",
    "bytes_per_second_10000",
    "messages_per_second",
    "link_share",
];

/// How often plain flooding repeats a record.
const PLAIN_EVERY: f64 = 15.0;

/// How often plain flooding may tell what it has measured.
const LSA_MIN_EVERY: f64 = 5.0;

/// How long after the start nobody has anything new to say.
const COME_UP: Duration = Duration::from_secs(120);

/// How long links tremble.
const NOISE: Duration = Duration::from_secs(120);

/// What a network said over a time.
struct Said {
    seconds: f64,
    frames: f64,
    bytes: f64,
    busiest_bytes: f64,
}

/// Counts, network by network.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    for nodes in sizes(settings.is_quick) {
        progress::show(format_args!("{ID}: {nodes} nodes"));
        let shape = Shape::grown(*nodes, RATE, 1);
        let mut flood = Flood::start(&shape, 1);
        flood.pass(COME_UP);
        let records = size_of_records(&flood);
        let every = cadence::interval(records);
        let said = said_while(&mut flood, |flood| flood.pass(every + every));
        add(&shape, records, &said, "", PLAIN_EVERY, report)?;
        if *nodes <= 100 {
            let said = said_while(&mut flood, |flood| tremble(flood, &shape));
            add(&shape, records, &said, ".noise", LSA_MIN_EVERY, report)?;
        }
    }
    wide::control(ID, report)
}

/// Returns what the records of all take on the wire, as a node has them.
fn size_of_records(flood: &Flood) -> DataSize {
    let first = flood.controller(0);
    first.map_or(DataSize::ZERO, |control| control.directory().size())
}

fn said_while(flood: &mut Flood, what: impl FnOnce(&mut Flood)) -> Said {
    let (now, traffic, busiest) = (
        flood.now(),
        flood.traffic_of_all(),
        flood.busiest_link_bytes(),
    );
    what(flood);
    let after = flood.traffic_of_all();
    Said {
        seconds: flood.now().saturating_since(now).as_secs_f64(),
        frames: (after.frames - traffic.frames) as f64,
        bytes: (after.bytes - traffic.bytes) as f64,
        busiest_bytes: (flood.busiest_link_bytes() - busiest) as f64,
    }
}

fn add(
    shape: &Shape,
    records: DataSize,
    said: &Said,
    case: &str,
    plain_every: f64,
    report: &mut Report,
) -> anyhow::Result<()> {
    let nodes = shape.nodes as f64;
    let baseline = match case {
        "" => "plain flooding each 15 s",
        _ => "plain flooding each 5 s",
    };
    let frames = frames_of_flood(shape) as f64;
    let plain_bytes = frames * records.as_bytes() as f64 / plain_every / nodes;
    let plain_frames = frames / plain_every;
    let rate = |count: f64| Summary::exact(count / said.seconds / nodes);
    let metric = format!("bytes_per_second_{}{case}", shape.nodes);
    report.add(&Figure::new(ID, metric, "B/s", rate(said.bytes)).beside(baseline, plain_bytes))?;
    let metric = format!("messages_per_second.nodes_{}{case}", shape.nodes);
    report
        .add(&Figure::new(ID, metric, "1/s", rate(said.frames)).beside(baseline, plain_frames))?;
    let share = said.busiest_bytes * 8.0 / said.seconds / SLOW.as_bps() as f64;
    let metric = format!("link_share.nodes_{}{case}", shape.nodes);
    let share = Figure::new(ID, metric, "1", Summary::exact(share));
    report.add(&share.beside("a hundredth", 0.01))
}

/// Has all links measured while they tremble by a fifth around what their operators say.
fn tremble(flood: &mut Flood, shape: &Shape) {
    let mut dice = SplitMix::new(20);
    let mut sent = vec![[0_u64; 2]; shape.wires.len()];
    let per_sample = shape
        .wires
        .first()
        .map_or(0, |wire| wire.rate.as_bps() / 8 / 4);
    for _ in 0..NOISE.as_nanos() / SAMPLE_EVERY.as_nanos() {
        for (wire, sent) in shape.wires.iter().zip(&mut sent) {
            let ways = [wire.ends, [wire.ends[1], wire.ends[0]]];
            for ([near, far], sent) in ways.into_iter().zip(sent) {
                let mut noisy = |value: u64| value * (80 + dice.next_below(41)) / 100;
                *sent += noisy(per_sample);
                let rtt = Duration::from_micros(noisy(2 * wire.delay.as_micros()));
                let sample = Sample {
                    rtt,
                    latest: rtt,
                    loss: Ratio::ZERO,
                    sent: DataSize::from_bytes(*sent),
                    waiting: DataSize::from_kib(200),
                    heard: *sent,
                };
                let peer = flood.id(far);
                flood.at(near, |control, now, keys| {
                    control.handle_link_sample(peer, (now, sample), now, keys);
                });
            }
        }
        flood.pass(SAMPLE_EVERY);
    }
}
