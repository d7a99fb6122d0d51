//! What each module costs at 1 kB, BM-D2: packing, unpacking, sealing, opening.
//!
//! *The idea.* Each module stands alone in a lift and gets copies of the same thousand bytes of readable text; the
//! baseline, in turns in the same run, is the same copies through `null`. So the ratio is the module against the lift
//! itself, and the value includes both.

use thalweg_lift::packet::Pool;

use crate::Settings;
use crate::feed::{carry, inputs, lift};
use crate::report::{Figure, Report};
use crate::sample::{Summary, in_turns, nanos_each};

/// The benchmark's id.
pub(crate) const ID: &str = "BM-D2";

/// What its metrics are called.
pub(crate) const METRICS: &[&str] = &["module_ns_per_adu", "module_ns_per_byte", "module_mb_per_s"];

const LENGTH_BYTES: usize = 1_000;
/// A sample takes 0.1 to 2 ms, by the module: within a scheduler's time slice.
const ADUS_PER_SAMPLE: u64 = 300;
const NULL: &str = "null, same run";

/// Name of the figure, the module, and the one that makes its input.
const MODULES: [(&str, &str, Option<&str>); 8] = [
    ("pack_lz4", "pack:lz4", None),
    ("pack_zstd", "pack:zstd", None),
    ("unpack_lz4", "unpack", Some("pack:lz4")),
    ("unpack_zstd", "unpack", Some("pack:zstd")),
    ("seal_aes256", "seal:aes256", None),
    ("seal_chacha20", "seal:chacha20", None),
    ("open_aes256", "open", Some("seal:aes256")),
    ("open_chacha20", "open", Some("seal:chacha20")),
];

/// Measures and reports every module.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    if settings.instructions_only {
        return Ok(());
    }
    for (name, word, made_by) in MODULES {
        measure(name, word, made_by, settings, report)?;
    }
    Ok(())
}

fn measure(
    name: &str,
    word: &str,
    made_by: Option<&str>,
    settings: &Settings,
    report: &mut Report,
) -> anyhow::Result<()> {
    let pool = Pool::default();
    let inputs = inputs(made_by.as_slice(), LENGTH_BYTES, ADUS_PER_SAMPLE, &pool)?;
    let mut null = lift(&["null"], &pool)?;
    let (first, rest) = (&inputs[..1], &inputs[1..]);
    let our = || {
        // A new module for each sample: an opener opens nothing twice. Its first ADU, which derives the key, is untimed.
        let mut module = lift(&[word], &pool)?;
        carry(&mut module, &pool, first);
        Ok(nanos_each(rest.len() as u64, |_| {
            carry(&mut module, &pool, rest);
        }))
    };
    let idle = || {
        Ok(nanos_each(rest.len() as u64, |_| {
            carry(&mut null, &pool, rest);
        }))
    };
    let (ours, nulls) = in_turns(settings.samples, our, idle)?;
    let null = Summary::of(nulls).median;
    let per_byte: Vec<_> = ours.iter().map(|ns| ns / LENGTH_BYTES as f64).collect();
    let rate: Vec<_> = per_byte.iter().map(|ns| 1_000.0 / ns).collect();
    let figure = |metric: &str, unit, samples| {
        Figure::new(
            ID,
            format!("module_{metric}.{name}"),
            unit,
            Summary::of(samples),
        )
    };
    report.add(&figure("ns_per_adu", "ns", ours).beside(NULL, null))?;
    report
        .add(&figure("ns_per_byte", "ns/B", per_byte).beside(NULL, null / LENGTH_BYTES as f64))?;
    report.add(&figure("mb_per_s", "MB/s", rate).beside(NULL, 1_000.0 * LENGTH_BYTES as f64 / null))
}
