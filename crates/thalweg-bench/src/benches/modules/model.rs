//! Chains of modules: the prediction of the fitted lines, and the measurement.

use std::collections::BTreeMap;

use thalweg_dataplane::packet::Pool;

use super::{ID, LENGTH_BYTES, MEASURED, nanos};
use crate::feed;
use crate::report::{Figure, Report};
use crate::sample::Summary;

/// `a + b · bytes`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) a_ns: f64,
    pub(super) b_ns: f64,
}

/// The lines of one round, by name of the module; the empty lift's is called `lift`.
#[derive(Debug, Default)]
pub(super) struct Costs(BTreeMap<&'static str, Line>);

/// The form of an ADU at a module, which determines that module's bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    Plain,
    /// After this packer.
    Packed(&'static str),
}

/// Modules in one lift.
pub(super) struct Chain {
    name: &'static str,
    words: &'static [&'static str],
    made_by: &'static [&'static str],
    /// The modules by the names of their lines, each with the form of its input, or of its output if it
    /// unpacks.
    steps: &'static [(&'static str, Form)],
    /// Whether it stands for the whole path of the original's transfer, sender and receiver.
    is_transfer: bool,
}

/// The measurement of a chain in one round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    ns_per_adu: f64,
    /// The byte counts of this input for the prediction.
    input_bytes: f64,
    packed_bytes: [f64; 2],
}

const PACKERS: [&str; 2] = ["pack:lz4", "pack:zstd"];

use Form::{Packed, Plain};

/// Every chain: those of one node, and those of a whole transfer.
pub(super) const CHAINS: [Chain; 9] = [
    Chain {
        name: "seal_aes256",
        words: &["seal:aes256"],
        made_by: &[],
        steps: &[("seal_aes256", Plain)],
        is_transfer: false,
    },
    Chain {
        name: "pack_lz4_seal_aes256",
        words: &["pack:lz4", "seal:aes256"],
        made_by: &[],
        steps: &[("pack_lz4", Plain), ("seal_aes256", Packed("pack:lz4"))],
        is_transfer: false,
    },
    Chain {
        name: "pack_zstd_seal_chacha20",
        words: &["pack:zstd", "seal:chacha20"],
        made_by: &[],
        steps: &[("pack_zstd", Plain), ("seal_chacha20", Packed("pack:zstd"))],
        is_transfer: false,
    },
    Chain {
        name: "open_unpack_lz4",
        words: &["open", "unpack"],
        made_by: &["pack:lz4", "seal:aes256"],
        steps: &[("open_aes256", Packed("pack:lz4")), ("unpack_lz4", Plain)],
        is_transfer: false,
    },
    Chain {
        name: "open_unpack_zstd",
        words: &["open", "unpack"],
        made_by: &["pack:zstd", "seal:chacha20"],
        steps: &[
            ("open_chacha20", Packed("pack:zstd")),
            ("unpack_zstd", Plain),
        ],
        is_transfer: false,
    },
    Chain {
        name: "none",
        words: &["null", "null"],
        made_by: &[],
        steps: &[("null", Plain), ("null", Plain)],
        is_transfer: true,
    },
    Chain {
        name: "aes256",
        words: &["seal:aes256", "open"],
        made_by: &[],
        steps: &[("seal_aes256", Plain), ("open_aes256", Plain)],
        is_transfer: true,
    },
    Chain {
        name: "chacha20",
        words: &["seal:chacha20", "open"],
        made_by: &[],
        steps: &[("seal_chacha20", Plain), ("open_chacha20", Plain)],
        is_transfer: true,
    },
    Chain {
        name: "pack_lz4_aes256",
        words: &["pack:lz4", "seal:aes256", "open", "unpack"],
        made_by: &[],
        steps: &[
            ("pack_lz4", Plain),
            ("seal_aes256", Packed("pack:lz4")),
            ("open_aes256", Packed("pack:lz4")),
            ("unpack_lz4", Plain),
        ],
        is_transfer: true,
    },
];

impl Costs {
    pub(super) fn set(&mut self, name: &'static str, line: Line) {
        self.0.insert(name, line);
    }

    /// Returns the line of a module, or of the lift.
    pub(super) fn of(&self, name: &str) -> Line {
        *self
            .0
            .get(name)
            .expect("every module of the table is fitted in every round")
    }

    /// Returns the predicted time of an ADU.
    fn predicted_ns(&self, chain: &Chain, taken: &Taken) -> f64 {
        let at = |name: &str, bytes: f64| {
            let Line { a_ns, b_ns } = self.of(name);
            a_ns + b_ns * bytes
        };
        let steps = chain.steps.iter();
        let steps = steps.map(|(name, form)| at(name, taken.bytes(*form)));
        at("lift", taken.input_bytes) + steps.sum::<f64>()
    }
}

impl Taken {
    fn bytes(&self, form: Form) -> f64 {
        match form {
            Plain => LENGTH_BYTES as f64,
            Packed(by) => self.packed_bytes[usize::from(by == PACKERS[1])],
        }
    }
}

impl Chain {
    /// Sends a sample through it, or a transfer of this many ADUs.
    pub(super) fn measure(&self, adus_a_transfer: u64, pool: &Pool) -> anyhow::Result<Taken> {
        let adus = if self.is_transfer {
            adus_a_transfer
        } else {
            super::ADUS_A_SAMPLE
        };
        let inputs = feed::inputs(self.made_by, LENGTH_BYTES, adus, pool)?;
        let mut packed_bytes = [0.0; 2];
        for (bytes, packer) in packed_bytes.iter_mut().zip(PACKERS) {
            *bytes = feed::inputs(&[packer], LENGTH_BYTES, 1, pool)?[0].1.len() as f64;
        }
        Ok(Taken {
            ns_per_adu: nanos(self.words, &inputs, pool)?,
            input_bytes: inputs[0].1.len() as f64,
            packed_bytes,
        })
    }
}

/// Reports prediction beside measurement, both of the same rounds.
pub(super) fn report_chains(
    lines: &[Costs],
    rounds: &[Vec<Taken>],
    adus_a_transfer: u64,
    report: &mut Report,
) -> anyhow::Result<()> {
    for (at, chain) in CHAINS.iter().enumerate() {
        let taken = || rounds.iter().map(|round| &round[at]);
        let predicted = lines.iter().zip(taken());
        let predicted = predicted.map(|(costs, taken)| costs.predicted_ns(chain, taken));
        let measured = taken().map(|taken| taken.ns_per_adu);
        let (metric, unit, scale) = if chain.is_transfer {
            let metric = format!(
                "model_transfer_ms.{}.{adus_a_transfer}x{LENGTH_BYTES}",
                chain.name
            );
            (metric, "ms", adus_a_transfer as f64 / 1e6)
        } else {
            (format!("model_chain_ns_per_adu.{}", chain.name), "ns", 1.0)
        };
        let scaled =
            |samples: Vec<f64>| Summary::of(samples.into_iter().map(|ns| ns * scale).collect());
        let figure = Figure::new(ID, metric, unit, scaled(predicted.collect()));
        report.add(&figure.with_baseline(MEASURED, scaled(measured.collect()).median))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! Proves that every chain consists of measured modules, and checks a prediction by hand.

    use super::super::MODULES;
    use super::{CHAINS, Costs, LENGTH_BYTES, Line, Taken};

    #[test]
    fn chains_use_measured_modules() {
        for chain in &CHAINS {
            assert_eq!(chain.steps.len(), chain.words.len(), "{}", chain.name);
            for ((name, _), word) in chain.steps.iter().zip(chain.words) {
                let module = MODULES.iter().find(|module| module.name == *name);
                assert!(module.is_some_and(|module| module.word == *word), "{name}");
            }
        }
    }

    #[test]
    fn prediction_sums_lift_and_modules() {
        let mut costs = Costs::default();
        let line = |a_ns, b_ns| Line { a_ns, b_ns };
        costs.set("lift", line(50.0, 0.1));
        costs.set("pack_lz4", line(100.0, 2.0));
        costs.set("seal_aes256", line(200.0, 1.0));
        let taken = Taken {
            ns_per_adu: 0.0,
            input_bytes: LENGTH_BYTES as f64,
            packed_bytes: [400.0, 300.0],
        };
        let chain = CHAINS
            .iter()
            .find(|chain| chain.name == "pack_lz4_seal_aes256");
        let predicted = costs.predicted_ns(chain.expect("it is in the table"), &taken);
        let by_hand = (50.0 + 100.0) + (100.0 + 2_000.0) + (200.0 + 400.0);
        assert!((predicted - by_hand).abs() < 1e-9, "{predicted}");
    }
}
