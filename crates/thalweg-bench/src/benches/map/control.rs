//! NET-CTRL: control traffic of a node at rest, by the number of nodes.
//!
//! Networks of about four links per node come up, and then idle for twice the renewal interval of
//! records. `bytes_per_second_N` is a node's mean rate of control frames, `messages_per_second` their
//! number, and `link_share` the load of the busiest direction of a link as a share of 150 kbit/s: the
//! target is below 0.01. The baseline on the same network is plain flooding with a renewal of each
//! record every 15 s, which is what this program once did; its frames are computed, two per link less
//! one per node for each record.
//!
//! Under `noise` all links are measured four times a second, with rates and round trips up to a fifth
//! off, and all of them are full. The baseline is a node that announces measurements as often as OSPF
//! lets it, every 5 s (RFC 2328, `MinLSInterval`).

use thalweg_base::random::SplitMix;
use thalweg_base::time::Duration;
use thalweg_base::units::{DataSize, Ratio};
use thalweg_control::routing::cadence;
use thalweg_link::gauge::{SAMPLE_EVERY, Sample};
use thalweg_sim::flood::{Flood, Shape};

use super::network::{RATE, SLOW, frames_of_flood};
use super::{sizes, wide};
use crate::report::{Figure, Report};
use crate::sample::Summary;
use crate::{Settings, progress};

/// The benchmark's id.
pub(crate) const ID: &str = "NET-CTRL";

/// Its metrics' names.
pub(crate) const METRICS: &[&str] = &[
    "bytes_per_second_10",
    "bytes_per_second_100",
    "bytes_per_second_1000",
    "bytes_per_second_10000",
    "messages_per_second",
    "link_share",
];

/// Renewal interval of plain flooding, s.
const PLAIN_EVERY: f64 = 15.0;

/// Minimum interval between announcements of plain flooding, s.
const LSA_MIN_EVERY: f64 = 5.0;

/// Time after which no node has news.
const COME_UP: Duration = Duration::from_secs(120);

/// Duration of the noise.
const NOISE: Duration = Duration::from_secs(120);

/// The control traffic of a network over a time.
struct Traffic {
    seconds: f64,
    frames: f64,
    bytes: f64,
    busiest_bytes: f64,
}

/// Measures network by network.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    for nodes in sizes(settings.is_quick) {
        progress::show(format_args!("{ID}: {nodes} nodes"));
        let shape = Shape::grown(*nodes, RATE, 1);
        let mut flood = Flood::start(&shape, 1);
        flood.pass(COME_UP);
        let records = size_of_records(&flood);
        let every = cadence::interval(records);
        let traffic = traffic_during(&mut flood, |flood| flood.pass(every + every));
        add(&shape, records, &traffic, "", PLAIN_EVERY, report)?;
        if *nodes <= 100 {
            let traffic = traffic_during(&mut flood, |flood| add_noise(flood, &shape));
            add(&shape, records, &traffic, ".noise", LSA_MIN_EVERY, report)?;
        }
    }
    wide::control(ID, report)
}

/// Returns the wire size of all records in a node's directory.
fn size_of_records(flood: &Flood) -> DataSize {
    let first = flood.controller(0);
    first.map_or(DataSize::ZERO, |control| control.directory().size())
}

fn traffic_during(flood: &mut Flood, what: impl FnOnce(&mut Flood)) -> Traffic {
    let (now, traffic, busiest) = (
        flood.now(),
        flood.traffic_of_all(),
        flood.busiest_link_bytes(),
    );
    what(flood);
    let after = flood.traffic_of_all();
    Traffic {
        seconds: flood.now().saturating_since(now).as_secs_f64(),
        frames: (after.frames - traffic.frames) as f64,
        bytes: (after.bytes - traffic.bytes) as f64,
        busiest_bytes: (flood.busiest_link_bytes() - busiest) as f64,
    }
}

fn add(
    shape: &Shape,
    records: DataSize,
    traffic: &Traffic,
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
    let rate = |count: f64| Summary::exact(count / traffic.seconds / nodes);
    let metric = format!("bytes_per_second_{}{case}", shape.nodes);
    report.add(
        &Figure::new(ID, metric, "B/s", rate(traffic.bytes)).with_baseline(baseline, plain_bytes),
    )?;
    let metric = format!("messages_per_second.nodes_{}{case}", shape.nodes);
    report.add(
        &Figure::new(ID, metric, "1/s", rate(traffic.frames)).with_baseline(baseline, plain_frames),
    )?;
    let share = traffic.busiest_bytes * 8.0 / traffic.seconds / SLOW.as_bps() as f64;
    let metric = format!("link_share.nodes_{}{case}", shape.nodes);
    let share = Figure::new(ID, metric, "1", Summary::exact(share));
    report.add(&share.with_baseline("a hundredth", 0.01))
}

/// Measures all links with noise of up to a fifth around their configured values.
fn add_noise(flood: &mut Flood, shape: &Shape) {
    let mut rng = SplitMix::new(20);
    let mut sent = vec![[0_u64; 2]; shape.wires.len()];
    let per_sample = shape
        .wires
        .first()
        .map_or(0, |wire| wire.rate.as_bps() / 8 / 4);
    for _ in 0..NOISE.as_nanos() / SAMPLE_EVERY.as_nanos() {
        for (wire, sent) in shape.wires.iter().zip(&mut sent) {
            let ways = [wire.ends, [wire.ends[1], wire.ends[0]]];
            for ([near, far], sent) in ways.into_iter().zip(sent) {
                let mut noisy = |value: u64| value * (80 + rng.next_below(41)) / 100;
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
