//! Reports as tables for people, within 80 columns.

use std::fmt::Write as _;

use thalweg_sim::report::{Report, StreamReport};

use super::Timed;
use crate::table;
use crate::terminal::{Colour, Paint};

/// Describes one run.
pub(super) fn one(timed: &Timed, colour: Colour) -> String {
    let report = &timed.report;
    let mut text = String::new();
    let world = colour.paint(Paint::Bold, &report.world);
    let hash = report.trace_hash.as_deref().unwrap_or("none");
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{world}  {} s  seed {}  trace {hash}",
        report.seconds, report.seed
    );
    if let Some(ms) = timed.cpu_ms_per_second {
        let _ = writeln!(text, "{ms:.2} ms of one core for each simulated second");
    }
    text.push('\n');
    if report.streams.is_empty() {
        text.push_str("the world has no streams, so nothing was sent\n");
    } else {
        text.push_str(&streams(report, colour));
    }
    let drops = drops(report, colour);
    if !drops.is_empty() {
        text.push('\n');
        text.push_str(&drops);
    }
    if !report.links.is_empty() {
        text.push('\n');
        text.push_str(&links(report, colour));
    }
    let verdict = match report.violations.len() {
        0 => colour.paint(
            Paint::Green,
            "every ADU is accounted for, no law was broken",
        ),
        count => colour.paint(Paint::Red, &format!("{count} violations")),
    };
    let _ = writeln!(text, "\n{verdict}");
    text
}

fn streams(report: &Report, colour: Colour) -> String {
    let heading = [
        "stream",
        "sink",
        "sent",
        "delivered",
        "in time",
        "cancelled",
        "lost",
        "p50 ms",
        "p99 ms",
        "Y dB",
        "Cb dB",
    ];
    let mut rows = vec![heading.map(String::from)];
    for stream in &report.streams {
        let psnr = |db: fn(&thalweg_sim::report::PsnrReport) -> f64| {
            stream
                .psnr
                .as_ref()
                .map(|psnr| format!("{:.1}", db(psnr)))
                .unwrap_or_default()
        };
        rows.push([
            short(&stream.stream, 16),
            short(&stream.sink, 12),
            stream.sent.to_string(),
            stream.delivered.to_string(),
            percent(stream.in_time, stream.sent),
            stream.cancelled.to_string(),
            stream.lost.to_string(),
            millis(stream.latency_ms.p50),
            millis(stream.latency_ms.p99),
            psnr(|psnr| psnr.y_db),
            psnr(|psnr| psnr.cb_db),
        ]);
    }
    table::lay_out(&rows, colour)
}

/// Why and where ADUs were lost.
fn drops(report: &Report, colour: Colour) -> String {
    let mut rows = vec![["stream", "sink", "ended at", "cause", "ADUs"].map(String::from)];
    for stream in &report.streams {
        for (place, causes) in &stream.by_hop {
            for (cause, count) in causes {
                rows.push([
                    short(&stream.stream, 16),
                    short(&stream.sink, 12),
                    short(place, 28),
                    cause.clone(),
                    count.to_string(),
                ]);
            }
        }
    }
    if rows.len() == 1 {
        return String::new();
    }
    table::lay_out(&rows, colour)
}

fn links(report: &Report, colour: Colour) -> String {
    let mut rows = vec![["link", "packets", "kbit/s", "lost", "queue full"].map(String::from)];
    for link in &report.links {
        rows.push([
            short(&format!("{}->{}", link.from, link.to), 28),
            link.packets.to_string(),
            format!("{:.1}", link.bytes as f64 * 8.0 / 1e3 / report.seconds),
            link.lost.to_string(),
            link.overflowed.to_string(),
        ]);
    }
    table::lay_out(&rows, colour)
}

/// Describes a range of seeds: for each stream and sink, the minimum and the median over the seeds.
pub(super) fn many(reports: &[Report], colour: Colour) -> String {
    let Some(first) = reports.first() else {
        return String::new();
    };
    let is_one_world = reports
        .iter()
        .all(|report| report.streams.len() == first.streams.len() && report.world == first.world);
    if !is_one_world {
        return String::new();
    }
    let heading = [
        "stream",
        "sink",
        "delivered least",
        "median",
        "p50 ms",
        "p99 ms",
        "Y dB",
        "Cb dB",
    ];
    let mut rows = vec![heading.map(String::from)];
    for (at, stream) in first.streams.iter().enumerate() {
        let all: Vec<&StreamReport> = reports
            .iter()
            .filter_map(|report| report.streams.get(at))
            .collect();
        let over = |value: &dyn Fn(&StreamReport) -> Option<f64>| {
            let mut values: Vec<f64> = all.iter().filter_map(|stream| value(stream)).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let shares = over(&|stream| Some(stream.delivered_share()));
        let share = |share: Option<f64>| {
            share
                .map(|share| format!("{:.1} %", share * 100.0))
                .unwrap_or_default()
        };
        let decibel = |db: Option<f64>| db.map(|db| format!("{db:.1}")).unwrap_or_default();
        rows.push([
            short(&stream.stream, 16),
            short(&stream.sink, 12),
            share(shares.first().copied()),
            share(median(&shares)),
            millis(median(&over(&|stream| stream.latency_ms.p50))),
            millis(median(&over(&|stream| stream.latency_ms.p99))),
            decibel(median(&over(&|stream| Some(stream.psnr?.y_db)))),
            decibel(median(&over(&|stream| Some(stream.psnr?.cb_db)))),
        ]);
    }
    table::lay_out(&rows, colour)
}

/// Returns the lower median of sorted values.
fn median(sorted: &[f64]) -> Option<f64> {
    sorted.get(sorted.len().saturating_sub(1) / 2).copied()
}

fn millis(ms: Option<f64>) -> String {
    ms.map(|ms| format!("{ms:.1}")).unwrap_or_default()
}

fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return String::new();
    }
    format!("{:.1} %", part as f64 * 100.0 / whole as f64)
}

/// Cuts a name so that the table fits a terminal.
fn short(name: &str, most: usize) -> String {
    if name.chars().count() <= most {
        return name.to_owned();
    }
    let cut: String = name.chars().take(most - 1).collect();
    cut + "…"
}
