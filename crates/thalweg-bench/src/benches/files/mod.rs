//! BM-R1: files over one, two and three slow hops, by the length of a block, against the bound that `iperf3` measures.
//!
//! *The idea.* A chain of real nodes in namespaces, lines of 2 Mbit/s between them; `thalweg send` at one end, `thalweg
//! receive` at the other. What a line of this rate can do for a file is its goodput by TCP, measured on the first line of
//! the same chain in turns with the files; relaying can only add to that.
//!
//! ```text
//! bound             = bytes / goodput of TCP on one hop, of the seconds in which it fills the line
//! time              = from the first part of the manifest given, to every file in its place at the receiver
//! time_vs_bound     = time / bound                          10 MiB: at most 1.02 is aimed at
//! over_bound_in_rtt = (time − bound) / (hops · round trip)  100 KiB: at most 1 is aimed at
//! ```
//!
//! The first two metrics without a block in their name are of the block that is chosen by the path. Setting up the stream
//! and its way back is not in the time, as `iperf3`'s connecting is not in its; `set_up_s` tells it.
//!
//! *What it does not do.* It plays no lossy line: the original's was a cable.
//!
//! *Sources.* spec RA-5, BM-R1; docs/files.md §4.

mod chain;
#[cfg(test)]
mod tests;

use self::chain::{Chain, Transfer};
use crate::report::{Figure, Report};
use crate::sample::Summary;
use crate::{Settings, progress};

/// The benchmark's id.
pub(crate) const ID: &str = "BM-R1";

/// What its metrics are called.
pub(crate) const METRICS: &[&str] = &[
    "time_vs_bound_1_hop",
    "time_vs_bound_2_hops",
    "time_vs_bound_3_hops",
    "over_bound_in_rtt_1_hop",
    "over_bound_in_rtt_2_hops",
    "over_bound_in_rtt_3_hops",
    "tcp_goodput_bps",
    "set_up_s",
    "given_again",
];

/// Hops, in full.
const HOPS: [usize; 3] = [1, 2, 3];

/// The file whose time is set against the bound.
const LARGE: u64 = 10 << 20;

/// The same in a quick run.
const LARGE_QUICK: u64 = 256 << 10;

/// The file whose time is counted in round trips.
const SMALL: u64 = 100 << 10;

/// Blocks beside the chosen one, in full: from headers that cost most to a tenth of the file at once.
const BLOCKS: [u64; 5] = [1 << 10, 4 << 10, 64 << 10, 256 << 10, 1 << 20];

/// Rounds with the chosen block, in full.
const ROUNDS: usize = 3;

/// Sends, and reports everything of BM-R1.
///
/// Fails   this user or this machine cannot build the lines, or a node does not carry
pub(crate) fn run(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    if settings.instructions_only {
        return Ok(());
    }
    super::live::prepare()?;
    let hops: &[usize] = if settings.is_quick {
        &HOPS[1..2]
    } else {
        &HOPS
    };
    for hops in hops {
        progress::show(format_args!("{ID}: nodes for {hops} hops"));
        let network = chain::lay(*hops)?;
        let chain = Chain::start(&network)?;
        let measured = measure(&chain, settings.is_quick, report);
        chain.stop();
        network.take_down()?;
        measured?;
    }
    Ok(())
}

/// Measures everything over one chain; the line's goodput and the chosen block in turns, other blocks after them.
fn measure(chain: &Chain, is_quick: bool, report: &mut Report) -> anyhow::Result<()> {
    let hops = chain.hops();
    let (large, rounds) = if is_quick {
        (LARGE_QUICK, 1)
    } else {
        (LARGE, ROUNDS)
    };
    let mut goodputs = Vec::new();
    let mut chosen = [const { Vec::new() }; 2];
    for round in 0..rounds {
        progress::show(format_args!("{ID}: {hops} hops, round {round}: TCP"));
        goodputs.push(chain.goodput_bps()?);
        for (times, bytes) in chosen.iter_mut().zip([large, SMALL]) {
            progress::show(format_args!(
                "{ID}: {hops} hops, round {round}: {bytes} bytes"
            ));
            times.push(chain.send(bytes, None)?);
        }
    }
    let goodput = Summary::of(goodputs.clone());
    report.add(&Figure::new(
        ID,
        format!("{}.hops_{hops}", METRICS[6]),
        "bit/s",
        goodput,
    ))?;
    let place = hops - 1;
    let [larges, smalls] = &chosen;
    // A round's file against the same round's line.
    let ratios = larges
        .iter()
        .zip(&goodputs)
        .map(|(sent, bps)| sent.seconds / bound_s(large, *bps));
    report.add(&Figure::new(
        ID,
        METRICS[place],
        "1",
        Summary::of(ratios.collect()),
    ))?;
    let rtts = smalls
        .iter()
        .zip(&goodputs)
        .map(|(sent, bps)| over_bound_in_rtt(sent.seconds, bound_s(SMALL, *bps), hops));
    report.add(&Figure::new(
        ID,
        METRICS[3 + place],
        "1",
        Summary::of(rtts.collect()),
    ))?;
    let all = || larges.iter().chain(smalls);
    let set_up = all().map(|sent| sent.set_up_seconds).collect();
    report.add(&Figure::new(
        ID,
        format!("{}.hops_{hops}", METRICS[7]),
        "s",
        Summary::of(set_up),
    ))?;
    let again = all().map(Transfer::again).collect();
    report.add(&Figure::new(
        ID,
        format!("{}.hops_{hops}", METRICS[8]),
        "1",
        Summary::of(again),
    ))?;
    if is_quick {
        return Ok(());
    }
    for block in BLOCKS {
        for (bytes, metric) in [(large, METRICS[place]), (SMALL, METRICS[3 + place])] {
            progress::show(format_args!(
                "{ID}: {hops} hops, {bytes} bytes in blocks of {block}"
            ));
            let sent = chain.send(bytes, Some(block))?;
            let bound = bound_s(bytes, goodput.median);
            let value = if bytes == SMALL {
                over_bound_in_rtt(sent.seconds, bound, hops)
            } else {
                sent.seconds / bound
            };
            report.add(&Figure::new(
                ID,
                format!("{metric}.block_{block}"),
                "1",
                Summary::of(vec![value]),
            ))?;
        }
    }
    Ok(())
}

/// Returns what a line of this goodput takes for so many bytes.
fn bound_s(bytes: u64, goodput_bps: f64) -> f64 {
    bytes as f64 * 8.0 / goodput_bps
}

/// Returns how many round trips a hop a time is above its bound.
fn over_bound_in_rtt(seconds: f64, bound_s: f64, hops: usize) -> f64 {
    (seconds - bound_s) / (hops as f64 * chain::RTT.as_secs_f64())
}
