//! The tables of BM-P3 for people.

use super::figures::{cores_busy, cpu_ns_per_byte, goodput_mbps, lost};
use super::{ADAPTERS_MAX, Cell, HOPS_MAX, HOPS_OF_ADAPTERS, LENGTHS_BYTES, Line, Measured, Side};
use crate::report;
use crate::sample::Summary;

const SIDES: [Side; 5] = [
    Side::UntilDeadline,
    Side::Full,
    Side::Unreliable,
    Side::Quic,
    Side::Udp,
];
const NAMES: [&str; 5] = [
    "until-deadline",
    "full",
    "unreliable",
    "plain QUIC",
    "plain UDP",
];

/// Prints latency by size and hops, latency by adapters, and throughput.
pub(super) fn print(measured: &Measured) {
    let header: Vec<&str> = ["bytes / hops"].into_iter().chain(NAMES).collect();
    report::table(
        "delivery latency, p50 / p99 in us, at 500 ADUs/s",
        &header,
        &rows(&|cell| latency(measured, cell)),
    );
    adapters(measured);
    report::table(
        "goodput in Mbit/s; and the lost share, if any",
        &header,
        &rows(&|cell| goodput(measured, cell)),
    );
    report::table(
        "CPU: busy cores of two / ns per delivered byte, at that goodput",
        &header,
        &rows(&|cell| cores(measured, cell)),
    );
}

/// Prints the cost of a hop, and goodput over plain QUIC's, with their spreads; then the tables of this
/// length.
pub(super) fn print_hop(measured: &Measured, length_bytes: usize) {
    for (side, name) in SIDES.into_iter().zip(NAMES) {
        let line = Line {
            hops: 1,
            adapters: 0,
            side,
        };
        let cell = Cell { length_bytes, line };
        if measured.full.contains_key(&cell) {
            let added = measured.added_us(side, length_bytes);
            let ratio = Summary::of(measured.ratio_to_quic(cell));
            println!(
                "{name}: a hop adds {:.1} us (spread {:.1}); {:.2} of plain QUIC's goodput (spread {:.2})",
                added.median, added.spread, ratio.median, ratio.spread
            );
        }
    }
    let header: Vec<&str> = ["bytes / hops"].into_iter().chain(NAMES).collect();
    let tables: [(&str, Of); 3] = [
        ("p50 / p99 in us", latency),
        ("goodput in Mbit/s", goodput),
        ("busy cores / ns per byte", cores),
    ];
    for (title, of) in tables {
        report::table(title, &header, &rows(&|cell| of(measured, cell)));
    }
}

type Of = fn(&Measured, Cell) -> Option<String>;

fn rows(of: &dyn Fn(Cell) -> Option<String>) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for length_bytes in LENGTHS_BYTES {
        for hops in 0..=HOPS_MAX {
            let texts: Vec<Option<String>> = SIDES
                .into_iter()
                .map(|side| {
                    let line = Line {
                        hops,
                        adapters: 0,
                        side,
                    };
                    of(Cell { length_bytes, line })
                })
                .collect();
            if texts.iter().any(Option::is_some) {
                let name = format!("{length_bytes} / {hops}");
                let texts = texts
                    .into_iter()
                    .map(|text| text.unwrap_or_else(|| "-".to_owned()));
                rows.push([name].into_iter().chain(texts).collect());
            }
        }
    }
    rows
}

fn latency(measured: &Measured, cell: Cell) -> Option<String> {
    measured.paced.get(&cell)?;
    let [p50, p99] = [0.5, 0.99].map(|share| measured.latency_us(cell, share).median);
    Some(format!("{p50:.0} / {p99:.0}"))
}

fn goodput(measured: &Measured, cell: Cell) -> Option<String> {
    let rounds = measured.full.get(&cell)?;
    let goodput = Summary::of(measured.full_by(cell, goodput_mbps)).median;
    let lost = Summary::of(rounds.iter().map(lost).collect()).median;
    Some(if lost > 0.0 {
        format!("{goodput:.0} ({:.0} % lost)", lost * 100.0)
    } else {
        format!("{goodput:.0}")
    })
}

fn cores(measured: &Measured, cell: Cell) -> Option<String> {
    let rounds = measured.full.get(&cell)?;
    let busy = Summary::of(rounds.iter().map(cores_busy).collect()).median;
    let each = measured.full_by(cell, cpu_ns_per_byte);
    Some(format!("{busy:.1} / {:.1}", Summary::of(each).median))
}

fn adapters(measured: &Measured) {
    let columns: Vec<String> = (0..=ADAPTERS_MAX).map(|count| count.to_string()).collect();
    let header: Vec<&str> = ["bytes"]
        .into_iter()
        .chain(columns.iter().map(String::as_str))
        .collect();
    let row = |length_bytes: usize| {
        let texts = (0..=ADAPTERS_MAX).map(|adapters| {
            let line = Line {
                hops: HOPS_OF_ADAPTERS,
                adapters,
                side: Side::UntilDeadline,
            };
            latency(measured, Cell { length_bytes, line }).unwrap_or_default()
        });
        [length_bytes.to_string()]
            .into_iter()
            .chain(texts)
            .collect()
    };
    let rows: Vec<Vec<String>> = LENGTHS_BYTES.into_iter().map(row).collect();
    let title = format!(
        "delivery latency over {HOPS_OF_ADAPTERS} hops, p50 / p99 in us, by null adapters on the relay"
    );
    report::table(&title, &header, &rows);
}
