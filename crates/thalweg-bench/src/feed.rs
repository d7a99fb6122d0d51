//! ADUs for a lift with modules, and the loop that carries them, shared by the timings and counts of modules.
//!
//! The payload is readable text, which packs about as well as textual telemetry; the input of an
//! unpacker or opener is made from it by its counterpart. Each ADU enters as a copy in a pooled buffer,
//! as from a link, so every cost includes that copy.

use std::hint::black_box;

use anyhow::Context as _;
use bytes::Bytes;
use thalweg_base::adu::Header;
use thalweg_base::id::{Sequence, StreamId};
use thalweg_base::time::Instant;
use thalweg_dataplane::keys::{KeyEpoch, KeyRing, SealInstance, StreamKey};
use thalweg_dataplane::lift::{Lift, Materials};
use thalweg_dataplane::packet::{Packet, Pool};

const STREAM: StreamId = StreamId(1);

/// Prepared ADUs.
pub(crate) type Inputs = Vec<(Header, Bytes)>;

/// Returns a lift of a plan's modules; an opener in it has opened nothing yet.
pub(crate) fn lift(words: &[&str], pool: &Pool) -> anyhow::Result<Lift> {
    let mut materials = Materials {
        stream: STREAM,
        keys: KeyRing::with_key(KeyEpoch(0), StreamKey::new([7; 32])),
        instance: SealInstance::from_random(1),
    };
    Lift::from_spec(words.iter().copied(), &mut materials, pool.clone())
        .with_context(|| format!("a lift of {words:?}"))
}

/// Returns this many ADUs of text, or what the modules `made_by` make of them.
pub(crate) fn inputs(
    made_by: &[&str],
    length_bytes: usize,
    adus: u64,
    pool: &Pool,
) -> anyhow::Result<Inputs> {
    let text = text(length_bytes);
    if made_by.is_empty() {
        // One payload for all, so that cache effects do not depend on its length.
        let payload = Bytes::from(text);
        let header = |sequence| Header::new(STREAM, Sequence(sequence));
        return Ok((0..adus).map(|at| (header(at), payload.clone())).collect());
    }
    let mut maker = lift(made_by, pool)?;
    let made = (0..adus).map(|sequence| {
        let header = Header::new(STREAM, Sequence(sequence));
        maker
            .handle_forward(Packet::copied(header, &text, pool)?, Instant::ZERO)
            .expect("each packet is taken out before the next");
        let packet = maker.poll_forward().context("text packs and seals")?;
        Ok((packet.header, Bytes::copy_from_slice(packet.payload())))
    });
    made.collect()
}

/// Carries every input through a lift.
pub(crate) fn carry(lift: &mut Lift, pool: &Pool, inputs: &[(Header, Bytes)]) {
    for (header, payload) in inputs {
        let packet = Packet::copied(*header, payload, pool)
            .expect("one packet at a time is within any pool");
        lift.handle_forward(packet, Instant::ZERO)
            .expect("each packet is taken out before the next");
        let out = lift.poll_forward();
        drop(black_box(out.expect("a valid packet passes")));
    }
}

fn text(length_bytes: usize) -> Vec<u8> {
    (0..)
        .flat_map(|n: u32| {
            format!(
                "t={} lat=46.{} lon=7.{};",
                n.wrapping_mul(40),
                n.wrapping_mul(7919) % 10_000,
                n.wrapping_mul(104_729) % 10_000
            )
            .into_bytes()
        })
        .take(length_bytes)
        .collect()
}
