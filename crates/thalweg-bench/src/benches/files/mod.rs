//! BM-R1: files over one, two and three slow hops, by block length, against the bound that `iperf3`
//! measures; and over two fast hops, beside common tools (`gigabit`).
//!
//! A chain of real nodes in namespaces with lines of 2 Mbit/s between them; `thalweg send` at one end,
//! `thalweg receive` at the other. The bound is the line's goodput over TCP, measured on the first line
//! of the same chain in turns with the files; relaying can only add to it.
//!
//! ```text
//! bound             = bytes / goodput of TCP on one hop, of the seconds in which it fills the line
//! time              = from the first part of the manifest given, to every file in its place at the receiver
//! time_vs_bound     = time / bound                          10 MiB: at most 1.02 is aimed at
//! over_bound_in_rtt = (time − bound) / (hops · round trip)  100 KiB: at most 1 is aimed at
//! ```
//!
//! The first two metrics without a block in their name use the block length that the path chooses. The
//! time excludes the set-up of the stream and its return stream, as `iperf3` excludes connecting;
//! `set_up_s` reports it. The lines are not lossy, as the original's was a cable.
//!
//! *Sources.* spec RA-5, BM-R1; docs/concepts/files.md §4.

mod chain;
mod gigabit;
#[cfg(test)]
mod tests;

use thalweg_testbed::system::privilege;

use self::chain::{Chain, Transfer};
use crate::report::{Figure, Report};
use crate::sample::Summary;
use crate::{Settings, progress};

/// The benchmark's id.
pub(crate) const ID: &str = "BM-R1";

/// Its metrics' names.
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
    "gigabit_s",
    "gigabit_vs_rsync",
    "gigabit_vs_wormhole",
    "many_vs_one",
];

/// Numbers of hops in a full run.
const HOPS: [usize; 3] = [1, 2, 3];

/// Bytes of the file that is compared with the bound.
const LARGE: u64 = 10 << 20;

/// The same in a quick run.
const LARGE_QUICK: u64 = 256 << 10;

/// Bytes of the file with its time counted in round trips.
const SMALL: u64 = 100 << 10;

/// Block lengths beside the chosen one in a full run: from the largest header overhead to a tenth of
/// the file.
const BLOCKS: [u64; 5] = [1 << 10, 4 << 10, 64 << 10, 256 << 10, 1 << 20];

/// Bytes of the file that goes to one receiver and to all in a full run, and the number of rounds.
const SHARED: u64 = 2 << 20;
const SHARED_ROUNDS: usize = 2;

/// Rounds with the chosen block in a full run.
const ROUNDS: usize = 3;

/// Measures and reports BM-R1.
///
/// Fails   this user or machine cannot build the lines, or a node does not carry the file
pub(crate) fn run(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    if settings.instructions_only {
        return Ok(());
    }
    super::live::prepare(privilege::TO_MEASURE_TCP)?;
    progress::show(format_args!("{ID}: nodes for 1 Gbit/s"));
    let network = chain::build_network(gigabit::HOPS, gigabit::LINE)?;
    let chain = Chain::start(&network)?;
    let measured = gigabit::measure(&chain, &network, settings, report);
    chain.stop();
    network.tear_down()?;
    measured?;
    let hops: &[usize] = if settings.is_quick {
        &HOPS[1..2]
    } else {
        &HOPS
    };
    for hops in hops {
        progress::show(format_args!("{ID}: nodes for {hops} hops"));
        let network = chain::build_network(*hops, chain::SLOW)?;
        let chain = Chain::start(&network)?;
        let measured = measure(&chain, settings.is_quick, report);
        chain.stop();
        network.tear_down()?;
        measured?;
    }
    Ok(())
}

/// Measures everything over one chain: the line's goodput and the chosen block in turns, then other blocks.
fn measure(chain: &Chain<'_>, is_quick: bool, report: &mut Report) -> anyhow::Result<()> {
    let (large, rounds) = if is_quick {
        (LARGE_QUICK, 1)
    } else {
        (LARGE, ROUNDS)
    };
    let mut chosen = Chosen::default();
    for round in 0..rounds {
        let hops = chain.hops();
        progress::show(format_args!("{ID}: {hops} hops, round {round}: TCP"));
        chosen.goodputs.push(chain.goodput_bps()?);
        progress::show(format_args!("{ID}: {hops} hops, round {round}: files"));
        chosen.larges.push(chain.send(large, None)?);
        chosen.smalls.push(chain.send(SMALL, None)?);
    }
    chosen.report(chain.hops(), large, report)?;
    if is_quick {
        return many(chain, LARGE_QUICK, 1, report);
    }
    if chain.hops() == HOPS[HOPS.len() - 1] {
        many(chain, SHARED, SHARED_ROUNDS, report)?;
    }
    let goodput = Summary::of(chosen.goodputs).median;
    for block in BLOCKS {
        given(chain, block, goodput, report)?;
    }
    Ok(())
}

/// Sends a file to the last node and to all behind the first, in turns; with one copy each, the ratio
/// would be their number.
fn many(chain: &Chain<'_>, bytes: u64, rounds: usize, report: &mut Report) -> anyhow::Result<()> {
    let hops = chain.hops();
    let [mut one, mut all] = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        progress::show(format_args!(
            "{ID}: one of {hops} hops and all, round {round}"
        ));
        one.push(chain.send(bytes, None)?.seconds);
        all.push(chain.send_to_all(bytes)?.seconds);
    }
    let metric = format!("{}.receivers_{hops}", METRICS[METRICS.len() - 1]);
    let figure = Figure::new(ID, metric, "s", Summary::of(all));
    report.add(&figure.with_baseline("one receiver", Summary::of(one).median))
}

/// The results of the block length that the path chooses, round by round.
#[derive(Default)]
struct Chosen {
    goodputs: Vec<f64>,
    larges: Vec<Transfer>,
    smalls: Vec<Transfer>,
}

impl Chosen {
    fn report(&self, hops: usize, large: u64, report: &mut Report) -> anyhow::Result<()> {
        // Compare a round's file with the same round's line.
        let rounds = |files: &[Transfer], of: &dyn Fn(f64, f64) -> f64| {
            let both = files.iter().zip(&self.goodputs);
            Summary::of(both.map(|(sent, bps)| of(sent.seconds, *bps)).collect())
        };
        let ratio = |seconds: f64, bps| seconds / bound_s(large, bps);
        let rtts = |seconds: f64, bps| over_bound_in_rtt(seconds, bound_s(SMALL, bps), hops);
        let all = || self.larges.iter().chain(&self.smalls);
        let case = |metric: usize| format!("{}.hops_{hops}", METRICS[metric]);
        let set_up = Summary::of(all().map(|sent| sent.set_up_seconds).collect());
        let resent_share = Summary::of(all().map(Transfer::resent_share).collect());
        let goodput = Summary::of(self.goodputs.clone());
        let figures = [
            (
                METRICS[hops - 1].to_string(),
                "1",
                rounds(&self.larges, &ratio),
            ),
            (
                METRICS[2 + hops].to_string(),
                "1",
                rounds(&self.smalls, &rtts),
            ),
            (case(6), "bit/s", goodput),
            (case(7), "s", set_up),
            (case(8), "1", resent_share),
        ];
        for (metric, unit, value) in figures {
            report.add(&Figure::new(ID, metric, unit, value))?;
        }
        Ok(())
    }
}

/// Measures with blocks of a given length.
fn given(
    chain: &Chain<'_>,
    block: u64,
    goodput_bps: f64,
    report: &mut Report,
) -> anyhow::Result<()> {
    let hops = chain.hops();
    progress::show(format_args!("{ID}: {hops} hops, blocks of {block}"));
    let large = chain.send(LARGE, Some(block))?.seconds / bound_s(LARGE, goodput_bps);
    let small = chain.send(SMALL, Some(block))?.seconds;
    let small = over_bound_in_rtt(small, bound_s(SMALL, goodput_bps), hops);
    for (metric, value) in [(METRICS[hops - 1], large), (METRICS[2 + hops], small)] {
        let metric = format!("{metric}.block_{block}");
        report.add(&Figure::new(ID, metric, "1", Summary::of(vec![value])))?;
    }
    Ok(())
}

/// Returns the time for this many bytes at this goodput.
fn bound_s(bytes: u64, goodput_bps: f64) -> f64 {
    bytes as f64 * 8.0 / goodput_bps
}

/// Returns a time's excess over its bound, in round trips per hop.
fn over_bound_in_rtt(seconds: f64, bound_s: f64, hops: usize) -> f64 {
    (seconds - bound_s) / (hops as f64 * chain::SLOW.rtt.as_secs_f64())
}
