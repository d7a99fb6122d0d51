//! BM-D2: the cost of each module, and whether a cost model fitted to single modules predicts whole chains.
//!
//! Each module stands alone in a lift and gets copies of text of several lengths; in turns in the same
//! round, an empty lift gets the same copies. The difference is the module's own cost, and a straight
//! line through it is the model. The lines of a round predict the chains of that round; the ratio is
//! prediction over measurement.
//!
//! ```text
//! t(ADU) = a + b · bytes                     for the empty lift, and for each module on top of it
//! t(chain) = t(lift) + Σ t(module)           bytes of each module: of the form in which the ADU is there
//! ```
//!
//! The original has the same model: 9 µs per ADU, 0.4 µs per module, 5 µs for memory (EQ 3, corrected),
//! and for ciphers a cost per byte and per packet (Table 10). Replay protection is no module here: it
//! is part of `open`, and in its figure. Key exchange is not included, unlike in Table 10.
//!
//! *Sources.* spec §5(b), B4.3 to B4.5; §5(c), EQ 3, Tables 3 and 5 to 10; §5(e), errata 1 and 2.

mod model;

use thalweg_dataplane::packet::Pool;

use self::model::{CHAINS, Costs, Line};
use crate::feed::{self, Inputs};
use crate::report::{Figure, Report};
use crate::sample::{Summary, line, nanos_each};
use crate::{Settings, progress};

/// The benchmark's id.
pub(crate) const ID: &str = "BM-D2";

/// Its metrics' names.
pub(crate) const METRICS: &[&str] = &[
    "module_ns_per_adu",
    "module_mb_per_s",
    "model_ns_per_adu",
    "model_ns_per_byte",
    "model_chain_ns_per_adu",
    "model_transfer_ms",
];

const LIFT: &str = "empty lift, same run";
const MEASURED: &str = "measured, same run";

/// The length of the original's packets. It is predicted, and not used for the fit.
const LENGTH_BYTES: usize = 1_000;
/// The lengths that lines are fitted to.
const FITTED_BYTES: [usize; 6] = [64, 250, 500, 2_000, 4_000, 8_000];
/// A sample takes 5 µs to 4 ms: above the clock's 30 ns, and mostly within a scheduler's time slice.
const ADUS_A_SAMPLE: u64 = 100;
/// Packets of the original's transfer, Table 3; a quick run sends fewer.
const ADUS_A_TRANSFER: u64 = 10_000;
/// Samples of the other benchmarks that take as long as one round here.
const SAMPLES_A_ROUND: usize = 4;

/// A module, and the modules that make its input.
struct Module {
    name: &'static str,
    word: &'static str,
    made_by: &'static [&'static str],
}

const fn module(
    name: &'static str,
    word: &'static str,
    made_by: &'static [&'static str],
) -> Module {
    Module {
        name,
        word,
        made_by,
    }
}

const MODULES: [Module; 10] = [
    module("null", "null", &[]),
    module("keep", "keep:1", &[]),
    module("pack_lz4", "pack:lz4", &[]),
    module("pack_zstd", "pack:zstd", &[]),
    module("unpack_lz4", "unpack", &["pack:lz4"]),
    module("unpack_zstd", "unpack", &["pack:zstd"]),
    module("seal_aes256", "seal:aes256", &[]),
    module("seal_chacha20", "seal:chacha20", &[]),
    module("open_aes256", "open", &["seal:aes256"]),
    module("open_chacha20", "open", &["seal:chacha20"]),
];

/// Nanoseconds per ADU of one module in every round, and of the empty lift with the same input.
#[derive(Clone, Default)]
struct Typical {
    with: Vec<f64>,
    without: Vec<f64>,
}

/// Measures and reports BM-D2.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    if settings.instructions_only {
        return Ok(());
    }
    let rounds = (settings.samples / SAMPLES_A_ROUND).max(5);
    let adus_a_transfer = if settings.is_quick {
        1_000
    } else {
        ADUS_A_TRANSFER
    };
    let pool = Pool::default();
    let mut typical = vec![Typical::default(); MODULES.len()];
    let mut lines: Vec<Costs> = Vec::new();
    let mut chains = Vec::new();
    // One round more than asked for: the first warms up and is not counted.
    for round in 0..=rounds {
        progress::show(format_args!("{ID}: round {round} of {rounds}"));
        let is_forth = round % 2 == 0;
        let mut order: Vec<usize> = (0..MODULES.len()).collect();
        if !is_forth {
            order.reverse();
        }
        let mut costs = Costs::default();
        let mut lift_points = Vec::new();
        for at in order {
            let points = measure_module(&MODULES[at], is_forth, &pool)?;
            let own = |(x, (with, without)): &(f64, (f64, f64))| (*x, with - without);
            let (fitted, asked) = points.split_at(FITTED_BYTES.len());
            let (a_ns, b_ns) = line(&fitted.iter().map(own).collect::<Vec<_>>());
            costs.set(MODULES[at].name, Line { a_ns, b_ns });
            if MODULES[at].made_by.is_empty() {
                lift_points.extend(fitted.iter().map(|(x, (_, without))| (*x, *without)));
            }
            if round > 0 {
                typical[at].with.push(asked[0].1.0);
                typical[at].without.push(asked[0].1.1);
            }
        }
        let (a_ns, b_ns) = line(&lift_points);
        costs.set("lift", Line { a_ns, b_ns });
        let taken = CHAINS
            .iter()
            .map(|chain| chain.measure(adus_a_transfer, &pool));
        let taken = taken.collect::<anyhow::Result<Vec<_>>>()?;
        if round > 0 {
            lines.push(costs);
            chains.push(taken);
        }
    }
    report_modules(typical, report)?;
    report_lines(&lines, report)?;
    model::report_chains(&lines, &chains, adus_a_transfer, report)
}

/// Returns the times of an ADU with and without a module, by length: the fitted lengths, then the
/// typical one.
fn measure_module(
    module: &Module,
    is_forth: bool,
    pool: &Pool,
) -> anyhow::Result<Vec<(f64, (f64, f64))>> {
    let lengths = FITTED_BYTES.into_iter().chain([LENGTH_BYTES]);
    let point = |length_bytes: usize| {
        let inputs = feed::inputs(module.made_by, length_bytes, ADUS_A_SAMPLE, pool)?;
        let (with, without) = if is_forth {
            let with = nanos(&[module.word], &inputs, pool)?;
            (with, nanos(&[], &inputs, pool)?)
        } else {
            let without = nanos(&[], &inputs, pool)?;
            (nanos(&[module.word], &inputs, pool)?, without)
        };
        Ok((length_bytes as f64, (with, without)))
    };
    lengths.map(point).collect()
}

/// Returns the nanoseconds that an ADU takes through a new lift; the first, which derives the key, is
/// not timed.
fn nanos(words: &[&str], inputs: &Inputs, pool: &Pool) -> anyhow::Result<f64> {
    // `open` refuses replays, so each sample has new modules.
    let mut lift = feed::lift(words, pool)?;
    let (first, rest) = inputs.split_at(1);
    feed::carry(&mut lift, pool, first);
    Ok(nanos_each(rest.len() as u64, |_| {
        feed::carry(&mut lift, pool, rest);
    }))
}

fn report_modules(typical: Vec<Typical>, report: &mut Report) -> anyhow::Result<()> {
    for (module, Typical { with, without }) in MODULES.iter().zip(typical) {
        let mb_per_s = |ns: &f64| 1_000.0 * LENGTH_BYTES as f64 / ns;
        let rates = |samples: &[f64]| Summary::of(samples.iter().map(mb_per_s).collect());
        let (our_rate, lift_rate) = (rates(&with), rates(&without).median);
        let figure = |metric: &str, unit, summary| {
            Figure::new(ID, format!("{metric}.{}", module.name), unit, summary)
        };
        let lift = Summary::of(without).median;
        let nanos = figure("module_ns_per_adu", "ns", Summary::of(with));
        report.add(&nanos.with_baseline(LIFT, lift))?;
        let rate = figure("module_mb_per_s", "MB/s", our_rate);
        report.add(&rate.with_baseline(LIFT, lift_rate))?;
    }
    Ok(())
}

fn report_lines(lines: &[Costs], report: &mut Report) -> anyhow::Result<()> {
    for name in ["lift"].into_iter().chain(MODULES.iter().map(|m| m.name)) {
        for (metric, unit, of) in [
            (
                "model_ns_per_adu",
                "ns",
                (|line| line.a_ns) as fn(Line) -> f64,
            ),
            ("model_ns_per_byte", "ns/B", |line| line.b_ns),
        ] {
            let samples = lines.iter().map(|costs| of(costs.of(name)));
            let summary = Summary::of(samples.collect());
            report.add(&Figure::new(ID, format!("{metric}.{name}"), unit, summary))?;
        }
    }
    Ok(())
}
