//! A report as text for people.

use std::fmt::Write as _;

use thalweg_sim::report::{LinkReport, Report, StreamReport};

/// Returns the results of a world's streams, a paragraph each.
pub fn of(report: &Report) -> String {
    let mut text = format!("{}: {} s on the testbed\n", report.world, report.seconds);
    for stream in &report.streams {
        text += &of_stream(stream);
    }
    for link in &report.links {
        text += &of_link(link);
    }
    for violation in &report.violations {
        let _ = writeln!(text, "NEVER: {violation}");
    }
    text
}

fn of_stream(stream: &StreamReport) -> String {
    let ms =
        |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"));
    let latency = &stream.latency_ms;
    let mut text = format!(
        "{} at {}: {} of {} ADUs delivered ({:.1} %), {} in time; {} cancelled, {} lost, {} unaccounted\n  \
         latency p50 {} ms, p99 {} ms, max {} ms\n",
        stream.stream,
        stream.sink,
        stream.delivered,
        stream.sent,
        stream.delivered_share() * 100.0,
        stream.in_time,
        stream.cancelled,
        stream.lost,
        stream.unaccounted,
        ms(latency.p50),
        ms(latency.p99),
        ms(latency.max),
    );
    for (place, causes) in &stream.by_hop {
        for (cause, count) in causes {
            let _ = writeln!(text, "  {cause} at {place}: {count}");
        }
    }
    if let Some(psnr) = &stream.psnr {
        let _ = writeln!(
            text,
            "  {} of {} frames shown in time, Y {:.2} dB, Cb {:.2} dB",
            psnr.shown, psnr.frames, psnr.y_db, psnr.cb_db
        );
    }
    text
}

fn of_link(link: &LinkReport) -> String {
    format!(
        "{} -> {}: {} packets, {} bytes; {} lost, {} found the queue full\n",
        link.from, link.to, link.packets, link.bytes, link.lost, link.overflowed
    )
}
