//! BM-L1: frames per second and their quality, by the maximum age of an ADU.
//!
//! Paceline's figure 5. Eight videos of 4 Mbit/s share 10 Mbit/s; each ADU is useful for 200 ms, and every
//! side that drops anything knows that budget. From one recording of each side the figures are computed for
//! viewers with a patience from 100 ms to 10 s. A patience of 10 s gains nothing from a producer that gives
//! up after 200 ms: the curves show what is late, not the effect of a larger budget.
//!
//! *Sources.* spec B2.1 and BM-L1; PL-18 to PL-21.

use thalweg_base::time::Duration;

use super::condition::Condition;
use super::recorded::{Recorded, recorded};
use super::recording::Recording;
use super::sides::{OURS, TCP};
use super::videos::Look;
use crate::Settings;
use crate::report::{Figure, Report, short, table};
use crate::sample::{Summary, quantile};

/// The benchmark's id.
pub(crate) const ID: &str = "BM-L1";

/// Its metrics' names.
pub(crate) const METRICS: &[&str] = &[
    "fps_at_200ms",
    "tcp_fps_at_200ms",
    "psnr_y_db_at_200ms",
    "fps",
    "psnr_y_db",
    "ms_for_29_fps",
    "delivered_mbps",
    "wire_mbps",
    "instrument_late_ms",
];

/// Maximum ages of an ADU.
const THRESHOLDS_MS: [u64; 9] = [100, 150, 200, 300, 500, 1_000, 2_000, 5_000, 10_000];

/// The threshold of the headline.
const HEADLINE_MS: u64 = 200;

/// Almost full temporal quality: a share of the frames of 30 per second.
const FPS_29: f64 = 29.0 / 30.0;

/// Runs what has not been run yet, and reports BM-L1.
///
/// Fails   as [`recorded`], or a side could not be run
pub(crate) fn run(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    if settings.instructions_only {
        return Ok(());
    }
    let recorded = recorded(ID, settings)?;
    headlines(recorded, report)?;
    for condition in &recorded.conditions {
        lines(recorded, *condition, report)?;
    }
    let late = Summary::exact(recorded.late().as_millis_f64());
    report.add(&Figure::new(ID, METRICS[8], "ms", late))?;
    if !report.is_json() {
        for condition in &recorded.conditions {
            tables(recorded, *condition)?;
        }
    }
    recorded.check()
}

/// Returns the videos' quality at a threshold, round by round.
fn looks(
    recorded: &Recorded,
    condition: Condition,
    side: &str,
    millis: u64,
) -> anyhow::Result<Vec<Look>> {
    let threshold = Duration::from_millis(millis);
    let recordings = recorded.of(condition, side);
    let looks = recordings.map(|recording| recorded.videos.look(recording, threshold));
    looks.collect()
}

fn headlines(recorded: &Recorded, report: &mut Report) -> anyhow::Result<()> {
    let at = |side: &str, conditions: &[Condition], of: fn(&Look) -> f64| {
        let mut all = Vec::new();
        for condition in conditions {
            let looks = looks(recorded, *condition, side, HEADLINE_MS)?;
            all.extend(looks.iter().map(of));
        }
        anyhow::Ok(Summary::of(all))
    };
    let cases = recorded.conditions.iter();
    let cases = cases.map(|condition| (format!(".{}", condition.name()), vec![*condition]));
    let all = (String::new(), recorded.conditions.clone());
    for (case, conditions) in std::iter::once(all).chain(cases) {
        for (ours, theirs, unit, of) in [
            (METRICS[0], Some(METRICS[1]), "fps", fps as fn(&Look) -> f64),
            (METRICS[2], None, "dB", psnr_y_db),
        ] {
            let tcp = at(TCP.name(), &conditions, of)?;
            let our = at(OURS.name(), &conditions, of)?;
            let figure = Figure::new(ID, format!("{ours}{case}"), unit, our);
            report.add(&figure.with_baseline(TCP.name(), tcp.median))?;
            if let Some(theirs) = theirs {
                report.add(&Figure::new(ID, format!("{theirs}{case}"), unit, tcp))?;
            }
        }
    }
    Ok(())
}

const fn fps(look: &Look) -> f64 {
    look.fps
}

const fn psnr_y_db(look: &Look) -> f64 {
    look.psnr_y_db
}

/// Reports each side over a line; the points of the curves are for programs only.
fn lines(recorded: &Recorded, condition: Condition, report: &mut Report) -> anyhow::Result<()> {
    let line = condition.name();
    for side in &recorded.sides {
        let name = side.name();
        let of_round = |of: &dyn Fn(&Recording) -> f64| {
            Summary::of(recorded.of(condition, name).map(of).collect())
        };
        for (metric, unit, value) in [
            (METRICS[5], "ms", of_round(&|r| for_29_fps_ms(recorded, r))),
            (
                METRICS[6],
                "Mbit/s",
                of_round(&|r| recorded.videos.delivered_bps(r) / 1e6),
            ),
            (METRICS[7], "Mbit/s", of_round(&|r| wire_mbps(recorded, r))),
        ] {
            report.add(&Figure::new(
                ID,
                format!("{metric}.{name}.{line}"),
                unit,
                value,
            ))?;
        }
        if !report.is_json() {
            continue;
        }
        for millis in THRESHOLDS_MS {
            let looks = looks(recorded, condition, name, millis)?;
            for (metric, unit, of) in [
                (METRICS[3], "fps", fps as fn(&Look) -> f64),
                (METRICS[4], "dB", psnr_y_db),
            ] {
                let metric = format!("{metric}.{name}.{line}.ms_{millis}");
                let value = Summary::of(looks.iter().map(of).collect());
                report.add(&Figure::new(ID, metric, unit, value))?;
            }
        }
    }
    Ok(())
}

/// Returns the threshold at which 29 frames per second are shown; NaN if there is none.
fn for_29_fps_ms(recorded: &Recorded, recording: &Recording) -> f64 {
    let bases = recorded.videos.judged().filter(|(_, due)| due.layer == 0);
    let latencies = bases.map(|(number, _)| recording.latency(number));
    let latencies = latencies.map(|came| came.map_or(f64::MAX, Duration::as_millis_f64));
    let needed = quantile(&latencies.collect::<Vec<_>>(), FPS_29);
    if needed < 1e9 { needed } else { f64::NAN }
}

/// Returns the line's output rate over the schedule, with headers and retransmissions.
fn wire_mbps(recorded: &Recorded, recording: &Recording) -> f64 {
    let seconds = recorded.videos.schedule().length().as_secs_f64();
    recording.meanwhile.bytes as f64 * 8.0 / 1e6 / seconds
}

/// Prints frames per second and quality of all sides over a line, for people.
fn tables(recorded: &Recorded, condition: Condition) -> anyhow::Result<()> {
    let mut header = vec!["threshold, ms".to_owned()];
    header.extend(THRESHOLDS_MS.map(|millis| millis.to_string()));
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    for (what, of) in [
        ("frames a second", fps as fn(&Look) -> f64),
        ("luma PSNR, dB", psnr_y_db),
    ] {
        let mut rows = Vec::new();
        for side in &recorded.sides {
            let mut row = vec![side.name().to_owned()];
            for millis in THRESHOLDS_MS {
                let looks = looks(recorded, condition, side.name(), millis)?;
                let value = Summary::of(looks.iter().map(of).collect());
                row.push(short(value.median));
            }
            rows.push(row);
        }
        table(&format!("{what}, {}", condition.name()), &header, &rows);
    }
    Ok(())
}
