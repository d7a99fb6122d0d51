//! Computes the figures: the headlines, and each side at each size.

use super::bare::Bare;
use super::play::Played;
use super::taken::Taken;
use super::thalweg::Over;
use super::{HEADLINE, ID, LENGTH_BYTES, Legend, Measured};
use crate::report::{Figure, Report, short, table};
use crate::sample::Summary;

/// The metrics' names: the headlines, then those of each side and size.
pub(super) const METRICS: &[&str] = &[
    "mbps_per_core_quic",
    "mbps_per_core_plain",
    "us_per_adu_sink_quic",
    "us_per_adu_sink_engine",
    "us_per_adu_sink_plain",
    "quic_vs_zenoh_quic",
    "engine_vs_zenoh_quic",
    "engine_vs_bare",
    "quic_vs_moq",
    "plain_vs_zenoh_tcp",
    "plain_vs_nats",
    "quic_vs_bare",
    "plain_vs_bare",
    "mbps_per_core",
    "relay_cores",
    "sinks_cores",
    "latency_p50_ms",
    "latency_p99_ms",
    "delivered_share",
    "kib_per_sink",
    "held_delivered_share",
    "held_least_share",
    "held_most_share",
    "held_latency_p50_ms",
    "held_latency_p99_ms",
];

/// One quantity of a run.
type Of = fn(&Played) -> Option<f64>;

/// The quantities of each side and size, in the order of [`METRICS`] after the headlines.
const EACH: [(&str, &str, Of); 12] = [
    ("mbps_per_core", "Mbit/s", |p| Some(p.free.mbps_per_core())),
    ("relay_cores", "cores", |p| Some(p.free.relay_cores)),
    ("sinks_cores", "cores", |p| Some(p.free.sinks_cores)),
    ("latency_p50_ms", "ms", |p| Some(p.free.latency_ms(0.5))),
    ("latency_p99_ms", "ms", |p| Some(p.free.latency_ms(0.99))),
    ("delivered_share", "share", |p| Some(p.free.share())),
    ("kib_per_sink", "KiB", |p| Some(p.bytes_per_sink / 1_024.0)),
    ("held_delivered_share", "share", |p| {
        p.limited.as_ref().map(Taken::share)
    }),
    ("held_least_share", "share", |p| {
        p.limited.as_ref().map(|limited| limited.extremes()[0])
    }),
    ("held_most_share", "share", |p| {
        p.limited.as_ref().map(|limited| limited.extremes()[1])
    }),
    ("held_latency_p50_ms", "ms", |p| {
        p.limited.as_ref().map(|limited| limited.latency_ms(0.5))
    }),
    ("held_latency_p99_ms", "ms", |p| {
        p.limited.as_ref().map(|limited| limited.latency_ms(0.99))
    }),
];

/// The ratio headlines: metric, our transport, and the name of the peer's side or bare transport.
const RATIOS: [(&str, Over, &str); 8] = [
    ("quic_vs_zenoh_quic", Over::Quic, "zenoh_quic"),
    ("engine_vs_zenoh_quic", Over::Engine, "zenoh_quic"),
    ("engine_vs_bare", Over::Engine, Bare::Quic.name()),
    ("quic_vs_moq", Over::Quic, "moq_quic"),
    ("plain_vs_zenoh_tcp", Over::Plain, "zenoh_tcp"),
    ("plain_vs_nats", Over::Plain, "nats_tcp"),
    ("quic_vs_bare", Over::Quic, Bare::Quic.name()),
    ("plain_vs_bare", Over::Plain, Bare::Tcp.name()),
];

/// Our sides with a headline of their own.
const ALONE: [(&str, Over); 2] = [
    ("mbps_per_core_quic", Over::Quic),
    ("mbps_per_core_plain", Over::Plain),
];

/// Our sides with what an ADU costs for each sink.
const COSTS: [(&str, Over); 3] = [
    ("us_per_adu_sink_quic", Over::Quic),
    ("us_per_adu_sink_engine", Over::Engine),
    ("us_per_adu_sink_plain", Over::Plain),
];

/// Bits of an ADU's payload: over megabits a second and core these are microseconds an ADU and sink.
const ADU_BITS: f64 = LENGTH_BYTES as f64 * 8.0;

/// Reports every side at a size: for people as a table.
pub(super) fn report_relay(
    measured: &Measured,
    sinks: u32,
    legends: &[Legend],
    report: &mut Report,
) -> anyhow::Result<()> {
    let names = legends.iter().map(|(name, _)| *name);
    let here = names.filter(|name| measured.contains_key(&(sinks, *name)));
    if !report.is_json() {
        show(measured, sinks, here);
        return Ok(());
    }
    for name in here {
        for (metric, unit, of) in EACH {
            let value = summary(measured, sinks, name, of);
            let metric = format!("{metric}.{name}.sinks_{sinks}");
            // Skip quantities without a value: nothing could be throttled, or nothing arrived.
            if value.median.is_finite() {
                report.add(&Figure::new(ID, metric, unit, value))?;
            }
        }
    }
    Ok(())
}

/// Reports the headlines, and for people what the sides are.
pub(super) fn headlines(
    measured: &Measured,
    legends: &[Legend],
    report: &mut Report,
) -> anyhow::Result<()> {
    for (metric, over) in ALONE {
        if let Some(sinks) = headline(measured, &[over.name()]) {
            let value = summary(measured, sinks, over.name(), EACH[0].2);
            let metric = format!("{metric}.sinks_{sinks}");
            report.add(&Figure::new(ID, metric, EACH[0].1, value))?;
        }
    }
    for (metric, over) in COSTS {
        if let Some(sinks) = headline(measured, &[over.name()]) {
            let cost: Of = |played| Some(ADU_BITS / played.free.mbps_per_core());
            let value = summary(measured, sinks, over.name(), cost);
            let metric = format!("{metric}.sinks_{sinks}");
            report.add(&Figure::new(ID, metric, "us", value))?;
        }
    }
    for (metric, over, peer) in RATIOS {
        if let Some(sinks) = headline(measured, &[over.name(), peer]) {
            let value = ratio(measured, sinks, over.name(), peer);
            let metric = format!("{metric}.sinks_{sinks}");
            report.add(&Figure::new(ID, metric, "1", value))?;
        }
    }
    if !report.is_json() {
        let line = |(name, text): &Legend| format!("  {name} {text}\n");
        let lines: String = legends.iter().map(line).collect();
        crate::report::print(&format!("\n{lines}"));
    }
    Ok(())
}

/// Returns the size to report first: the headline's, or the largest that all of these sides have.
pub(super) fn headline(measured: &Measured, names: &[&'static str]) -> Option<u32> {
    let has_all = |sinks: &u32| {
        names
            .iter()
            .all(|name| measured.contains_key(&(*sinks, *name)))
    };
    let sizes = measured.keys().map(|(sinks, _)| *sinks);
    sizes
        .filter(has_all)
        .filter(|sinks| *sinks <= HEADLINE)
        .max()
}

/// Returns the ratio of our forwarding rate per core to a peer's, round by round.
pub(super) fn ratio(
    measured: &Measured,
    sinks: u32,
    ours: &'static str,
    peer: &'static str,
) -> Summary {
    let of = |name| {
        measured
            .get(&(sinks, name))
            .map_or(&[][..], |rounds| rounds)
    };
    let pairs = of(ours).iter().zip(of(peer));
    let ratios = pairs.map(|(ours, peer)| ours.free.mbps_per_core() / peer.free.mbps_per_core());
    Summary::of(ratios.collect())
}

fn summary(measured: &Measured, sinks: u32, name: &'static str, of: Of) -> Summary {
    let rounds = measured.get(&(sinks, name)).into_iter().flatten();
    Summary::of(rounds.filter_map(of).collect())
}

fn show(measured: &Measured, sinks: u32, names: impl Iterator<Item = &'static str>) {
    let row = |name: &'static str| {
        let value = |(_, _, of): (&str, &str, Of)| {
            let Summary { median, spread, n } = summary(measured, sinks, name, of);
            match n {
                0 => "-".to_owned(),
                1 => short(median),
                _ => format!("{} ± {}", short(median), short(spread)),
            }
        };
        let first = std::iter::once(name.to_owned());
        first.chain(EACH.map(value)).collect()
    };
    let rows: Vec<Vec<String>> = names.map(row).collect();
    let header = [
        "relay",
        "Mbit/s a core",
        "its cores",
        "sinks' cores",
        "p50 ms",
        "p99 ms",
        "came",
        "KiB a sink",
        "limited: came",
        "least",
        "most",
        "p50 ms",
        "p99 ms",
    ];
    table(&format!("{sinks} sinks"), &header, &rows);
}
