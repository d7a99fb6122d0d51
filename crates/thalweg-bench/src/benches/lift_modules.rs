//! What each module costs at 1 kB, within BM-D1: packing, unpacking, sealing, opening.
//!
//! *The idea.* Each module stands alone in a lift and gets copies of the same thousand bytes of readable text; the
//! baseline, in turns in the same run, is the same copies through `null`. So the ratio is the module against the lift
//! itself, and the value includes both.

use std::hint::black_box;

use bytes::Bytes;
use thalweg_core::adu::Header;
use thalweg_core::id::{Sequence, StreamId};
use thalweg_core::time::Instant;
use thalweg_lift::keys::{KeyEpoch, KeyRing, SealInstance, StreamKey};
use thalweg_lift::lift::{Lift, Materials};
use thalweg_lift::packet::{Packet, Pool};

use super::lift_cost::ID;
use crate::Settings;
use crate::report::{Figure, Report};
use crate::sample::{Summary, nanos_each};

const LENGTH_BYTES: usize = 1_000;
/// A sample takes 0.1 to 2 ms, by the module: within a scheduler's time slice.
const ADUS_PER_SAMPLE: u64 = 300;
const STREAM: StreamId = StreamId(1);
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
    let inputs = inputs(made_by, &pool)?;
    let mut null = lift(&["null"], &pool)?;
    let (mut ours, mut nulls) = (Vec::new(), Vec::new());
    for sample in 0..=settings.samples {
        // A new module for each sample: an opener opens nothing twice. Its first ADU, which derives the key, is untimed.
        let mut module = lift(&[word], &pool)?;
        carry(&mut module, &pool, &inputs[..1]);
        let rest = &inputs[1..];
        let our = nanos_each(rest.len() as u64, |_| carry(&mut module, &pool, rest));
        let null = nanos_each(rest.len() as u64, |_| carry(&mut null, &pool, rest));
        if sample > 0 {
            ours.push(our);
            nulls.push(null);
        }
    }
    let null = Summary::of(nulls).median;
    let per_byte: Vec<_> = ours.iter().map(|ns| ns / LENGTH_BYTES as f64).collect();
    let rate: Vec<_> = per_byte.iter().map(|ns| 1_000.0 / ns).collect();
    let figure = |metric: &str, unit, samples| {
        Figure::new(
            ID,
            format!("lift_module_{name}_{metric}"),
            unit,
            Summary::of(samples),
        )
    };
    report.add(&figure("ns_per_adu", "ns", ours).beside(NULL, null))?;
    report
        .add(&figure("ns_per_byte", "ns/B", per_byte).beside(NULL, null / LENGTH_BYTES as f64))?;
    report.add(&figure("mb_per_s", "MB/s", rate).beside(NULL, 1_000.0 * LENGTH_BYTES as f64 / null))
}

/// Returns a sample's ADUs: text, or what the other half makes of it.
fn inputs(made_by: Option<&str>, pool: &Pool) -> anyhow::Result<Vec<(Header, Bytes)>> {
    let mut maker = lift(made_by.as_slice(), pool)?;
    let text = text();
    let mut inputs = Vec::new();
    for sequence in 0..ADUS_PER_SAMPLE {
        let header = Header::new(STREAM, Sequence(sequence));
        maker
            .handle_forward(Packet::copied(header, &text, pool)?, Instant::ZERO)
            .expect("each packet is taken out before the next");
        let packet = maker.poll_forward().expect("text packs and seals");
        inputs.push((packet.header, Bytes::copy_from_slice(packet.payload())));
    }
    Ok(inputs)
}

/// A thousand bytes that pack about as well as telemetry in text does.
fn text() -> Vec<u8> {
    (0..)
        .flat_map(|n: u32| {
            format!(
                "t={} lat=46.{} lon=7.{};",
                n * 40,
                n * 7919 % 10_000,
                n * 104_729 % 10_000
            )
            .into_bytes()
        })
        .take(LENGTH_BYTES)
        .collect()
}

fn lift(words: &[&str], pool: &Pool) -> anyhow::Result<Lift> {
    let mut materials = Materials {
        stream: STREAM,
        keys: KeyRing::with_key(KeyEpoch(0), StreamKey::new([7; 32])),
        instance: SealInstance::from_random(1),
    };
    Ok(Lift::from_spec(
        words.iter().copied(),
        &mut materials,
        pool.clone(),
    )?)
}

fn carry(lift: &mut Lift, pool: &Pool, inputs: &[(Header, Bytes)]) {
    for (header, payload) in inputs {
        let packet = Packet::copied(*header, payload, pool)
            .expect("one packet at a time is within any pool");
        lift.handle_forward(packet, Instant::ZERO)
            .expect("each packet is taken out before the next");
        let out = lift.poll_forward();
        drop(black_box(out.expect("what is well made goes through")));
    }
}
