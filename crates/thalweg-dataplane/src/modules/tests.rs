//! Proves the modules' guarantees: opening inverts sealing, nothing tampered or replayed opens, no
//! nonce repeats.

use bytes::Bytes;
use thalweg_base::adu::{Flags, Header, Importance, MediaTime};
use thalweg_base::event::DropCause;
use thalweg_base::id::{Epoch, Sequence, StreamId};
use thalweg_base::limits::ADU_PAYLOAD_BYTES_MAX;
use thalweg_base::time::Instant;

use super::replay::ReplayWindow;
use super::sealed::Trailer;
use super::{
    Cipher, OPEN_INSTANCES_MAX, Open, Pack, Packer, REPLAY_WINDOW_ADUS, SEAL_OVERHEAD_BYTES_MAX,
    SEAL_OVERHEAD_BYTES_MIN, Seal, Unpack,
};
use crate::keys::{KeyEpoch, KeyRing, SealInstance, StreamKey};
use crate::module::{Context, Control, Held, Module, Verdict};
use crate::packet::{Packet, Pool};

const STREAM: StreamId = StreamId(0xABCD);
const HEADER: Header = Header::new(STREAM, Sequence(3));

fn run(module: &mut dyn Module, packet: &mut Packet) -> Verdict {
    let mut cx = Context {
        now: Instant::ZERO,
        pool: &Pool::default(),
        held: &mut Held::default(),
    };
    module.forward(packet, &mut cx)
}

fn shared(payload: &[u8]) -> Packet {
    Packet::shared(HEADER, Bytes::copy_from_slice(payload))
}

fn ring(epoch: u32) -> KeyRing {
    KeyRing::with_key(KeyEpoch(epoch), StreamKey::new([epoch as u8; 32]))
}

fn sealer(instance: u64, epoch: u32) -> Seal {
    let instance = SealInstance::from_random(instance);
    Seal::new(Cipher::Aes256Gcm, STREAM, ring(epoch), instance).expect("the ring has a key")
}

fn sealed(seal: &mut Seal, payload: &[u8]) -> (Header, Bytes) {
    let mut packet = shared(payload);
    assert_eq!(run(seal, &mut packet), Verdict::Pass);
    (packet.header, packet.into_bytes())
}

fn open_verdict(open: &mut Open, (header, bytes): &(Header, Bytes)) -> Verdict {
    run(open, &mut Packet::shared(*header, bytes.clone()))
}

/// Knuth's linear congruential generator: enough to look unordered, and the same in every run.
fn next_random(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// Returns the bytes that hexadecimal digits write.
fn bytes_of(digits: &str) -> Vec<u8> {
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("two hexadecimal digits"))
        .collect()
}

fn noise(len_bytes: usize) -> Vec<u8> {
    let mut state = 1;
    (0..len_bytes)
        .map(|_| next_random(&mut state) as u8)
        .collect()
}

/// The expected bytes are computed from docs/reference/protocol.md with Python's `cryptography` 48, an
/// independent implementation.
#[test]
fn seal_matches_known_vectors() {
    let header = Header {
        stream: StreamId(0x1122_3344_5566_7788),
        sequence: Sequence(3),
        media_time: MediaTime::from_micros(40_000),
        importance: Importance(200),
        layer: 2,
        depends_on: 1,
        flags: Flags::PACKED.with(Flags::KEY),
        ..HEADER
    };
    let secret = core::array::from_fn(|at| at as u8);
    let ring = KeyRing::with_key(KeyEpoch(0x0102), StreamKey::new(secret));
    for (cipher, expected) in [
        (
            Cipher::Aes256Gcm,
            "ac9f1341d2e28ede632a989c622f8424b75fefaa1620503e60416e56d9753311528fb46f66cb8ccc\
             a0a1a2a3a4a5a6a70102123429",
        ),
        (
            Cipher::ChaCha20Poly1305,
            "277bcc0b10a361fbb52b5bcc45276485ce1c6cd4e0ab15eb7766a060ee071d0accc82f95433d0f13\
             a0a1a2a3a4a5a6a70102123449",
        ),
    ] {
        let instance = SealInstance::from_random(0xA0A1_A2A3_A4A5_A6A7);
        let mut seal = Seal::new(cipher, header.stream, ring.clone(), instance)
            .expect("the ring has a key")
            .with_counter(0x1234);
        let payload = Bytes::from_static(b"the line of deepest flow");
        let mut packet = Packet::shared(header, payload);
        assert_eq!(run(&mut seal, &mut packet), Verdict::Pass);
        assert_eq!(packet.payload(), bytes_of(expected));
    }
}

#[test]
fn seal_overhead_is_as_declared() {
    let mut seal = sealer(1, 0);
    assert_eq!(sealed(&mut seal, b"").1.len(), SEAL_OVERHEAD_BYTES_MIN);
    assert_eq!(SEAL_OVERHEAD_BYTES_MIN, 27);
    let mut seal = sealer(1, 0).with_counter(256);
    assert_eq!(sealed(&mut seal, b"").1.len(), 28);
    let mut seal = sealer(1, 0).with_counter((1 << 48) - 1);
    assert_eq!(sealed(&mut seal, b"").1.len(), SEAL_OVERHEAD_BYTES_MAX);
}

#[test]
fn counter_never_wraps() {
    for (epoch, counter_max) in [
        (0, (1 << 48) - 1),
        (1 << 8, (1 << 40) - 1),
        (1 << 16, (1 << 32) - 1),
        (u32::MAX, (1 << 24) - 1),
    ] {
        let mut seal = sealer(1, epoch).with_counter(counter_max);
        assert_eq!(run(&mut seal, &mut shared(b"x")), Verdict::Pass);
        for _ in 0..2 {
            assert_eq!(
                run(&mut seal, &mut shared(b"x")),
                Verdict::Discard(DropCause::Exhausted)
            );
        }
    }
    let mut seal = sealer(1, 0).with_counter(u64::MAX);
    assert_eq!(
        run(&mut seal, &mut shared(b"x")),
        Verdict::Discard(DropCause::Exhausted)
    );
}

#[test]
fn nonce_is_never_reused() {
    let mut seal = sealer(1, 1);
    let next = Control::AddKey {
        epoch: KeyEpoch(2),
        key: StreamKey::new([2; 32]),
    };
    seal.control(&next).expect("epoch 2 is new");
    let mut used = Vec::new();
    for epoch in [1, 2, 1, 2] {
        seal.control(&Control::SealWith(KeyEpoch(epoch)))
            .expect("both are held");
        let (_, bytes) = sealed(&mut seal, b"x");
        let (trailer, _) = Trailer::decode(&bytes).expect("it is sealed");
        assert_eq!(trailer.key_epoch, KeyEpoch(epoch));
        used.push(trailer.counter);
    }
    assert_eq!(used, [0, 1, 2, 3]);
}

#[test]
fn mutable_fields_are_not_sealed() {
    let mut seal = sealer(1, 0);
    let (header, bytes) = sealed(&mut seal, b"payload");
    let changed = |change: &dyn Fn(&mut Header)| {
        let mut header = header;
        change(&mut header);
        open_verdict(&mut Open::new(STREAM, ring(0)), &(header, bytes.clone()))
    };
    assert_eq!(
        changed(&|h| h.deadline = Instant::from_nanos(5)),
        Verdict::Pass
    );
    assert_eq!(changed(&|h| h.epoch = Epoch(9)), Verdict::Pass);
    let refused = Verdict::Discard(DropCause::Unauthentic);
    assert_eq!(changed(&|h| h.stream = StreamId(1)), refused);
    assert_eq!(changed(&|h| h.sequence = Sequence(4)), refused);
    assert_eq!(changed(&|h| h.layer = 1), refused);
    assert_eq!(changed(&|h| h.importance.0 = 1), refused);
    assert_eq!(changed(&|h| h.depends_on = 1), refused);
    assert_eq!(
        changed(&|h| h.media_time = MediaTime::from_micros(1)),
        refused
    );
    for flag in [Flags::PACKED, Flags::KEY, Flags::DISCARDABLE, Flags::END] {
        assert_eq!(changed(&|h| h.flags = h.flags.with(flag)), refused);
    }
    assert_eq!(
        changed(&|h| h.flags = h.flags.without(Flags::SEALED)),
        refused
    );
}

#[test]
fn wrong_stream_or_key_fails_to_open() {
    let adu = sealed(&mut sealer(1, 0), b"payload");
    let other_key = KeyRing::with_key(KeyEpoch(0), StreamKey::new([1; 32]));
    let unauthentic = Verdict::Discard(DropCause::Unauthentic);
    assert_eq!(
        open_verdict(&mut Open::new(StreamId(1), ring(0)), &adu),
        unauthentic
    );
    assert_eq!(
        open_verdict(&mut Open::new(STREAM, other_key), &adu),
        unauthentic
    );
    assert_eq!(
        open_verdict(&mut Open::new(STREAM, ring(1)), &adu),
        Verdict::Discard(DropCause::NoKey)
    );
}

#[test]
fn replay_is_refused_in_any_order() {
    let mut seal = sealer(1, 0);
    let adus: Vec<_> = (0..200u8).map(|n| sealed(&mut seal, &[n])).collect();
    let mut open = Open::new(STREAM, ring(0));
    let replay = Verdict::Discard(DropCause::Replay);
    for adu in adus.iter().rev() {
        assert_eq!(open_verdict(&mut open, adu), Verdict::Pass);
        assert_eq!(open_verdict(&mut open, adu), replay);
    }
    let newest = sealed(
        &mut sealer(1, 0).with_counter(199 + REPLAY_WINDOW_ADUS),
        b"",
    );
    assert_eq!(open_verdict(&mut open, &newest), Verdict::Pass);
    for adu in &adus {
        assert_eq!(open_verdict(&mut open, adu), replay);
    }
}

#[test]
fn adu_late_by_30_s_still_opens() {
    let mut open = Open::new(STREAM, ring(0));
    let overtaken = sealed(&mut sealer(1, 0), b"least");
    let newest = sealed(&mut sealer(1, 0).with_counter(30 * 2_000), b"most");
    for adu in [&newest, &overtaken] {
        assert_eq!(open_verdict(&mut open, adu), Verdict::Pass);
    }
}

#[test]
fn forgery_changes_no_state() {
    let mut open = Open::new(STREAM, ring(0));
    let mut seal = sealer(1, 0);
    let first = sealed(&mut seal, b"first");
    let mut far = sealed(&mut sealer(1, 0).with_counter(1 << 40), b"far");
    far.0.layer = 1;
    let unauthentic = Verdict::Discard(DropCause::Unauthentic);
    assert_eq!(open_verdict(&mut open, &far), unauthentic);
    assert!(format!("{open:?}").contains("sealers: 0"));
    assert_eq!(open_verdict(&mut open, &first), Verdict::Pass);
    assert_eq!(open_verdict(&mut open, &far), unauthentic);
    assert_eq!(
        open_verdict(&mut open, &sealed(&mut seal, b"second")),
        Verdict::Pass
    );
}

#[test]
fn closed_sealer_cannot_replay() {
    let mut open = Open::new(STREAM, ring(0));
    let old = sealed(&mut sealer(0, 0), b"old");
    assert_eq!(open_verdict(&mut open, &old), Verdict::Pass);
    for instance in 1..=OPEN_INSTANCES_MAX as u64 {
        let adu = sealed(&mut sealer(instance, 0), b"x");
        assert_eq!(open_verdict(&mut open, &adu), Verdict::Pass);
    }
    assert_eq!(
        open_verdict(&mut open, &old),
        Verdict::Discard(DropCause::Replay)
    );
}

#[test]
fn keys_roll_over_without_gap() {
    let mut seal = sealer(1, 1);
    let mut open = Open::new(STREAM, ring(1));
    let before = sealed(&mut seal, b"before");
    let key = StreamKey::new([2; 32]);
    let epoch = KeyEpoch(2);
    for module in [&mut seal as &mut dyn Module, &mut open] {
        let key = key.clone();
        module
            .control(&Control::AddKey { epoch, key })
            .expect("new");
        module.control(&Control::SealWith(epoch)).expect("held");
    }
    let after = sealed(&mut seal, b"after");
    assert_eq!(open_verdict(&mut open, &after), Verdict::Pass);
    assert_eq!(open_verdict(&mut open, &before), Verdict::Pass);
    let through = KeyEpoch(1);
    open.control(&Control::RetireKeys { through })
        .expect("epoch 2 is in use");
    assert_eq!(
        open_verdict(&mut open, &before),
        Verdict::Discard(DropCause::NoKey)
    );
}

#[test]
fn oversized_seal_overflows() {
    let mut seal = sealer(1, 0);
    let longest = vec![0; ADU_PAYLOAD_BYTES_MAX - SEAL_OVERHEAD_BYTES_MIN];
    assert_eq!(run(&mut seal, &mut shared(&longest)), Verdict::Pass);
    let longer = vec![0; longest.len() + 1];
    assert_eq!(
        run(&mut seal, &mut shared(&longer)),
        Verdict::Discard(DropCause::Overflow)
    );
}

#[test]
fn replay_window_matches_a_set() {
    // A walk with jumps of every size, against a set of all that was accepted.
    let mut window = ReplayWindow::new();
    let mut seen = std::collections::BTreeSet::new();
    let (mut newest, mut state) = (0u64, 1u64);
    for _ in 0..100_000 {
        let random = next_random(&mut state);
        let counter = match random % 16 {
            0 => newest + random / 16 % (2 * REPLAY_WINDOW_ADUS),
            1..8 => newest + random / 16 % 3,
            _ => newest.saturating_sub(random / 16 % (REPLAY_WINDOW_ADUS + 2_000)),
        };
        let fresh = !seen.contains(&counter) && counter + REPLAY_WINDOW_ADUS > newest;
        assert_eq!(window.is_fresh(counter), fresh, "{counter} after {newest}");
        if fresh {
            window.record(counter);
            seen.insert(counter);
            newest = newest.max(counter);
        }
    }
}

#[test]
fn incompressible_grows_one_byte() {
    for packer in [Packer::Lz4, Packer::Zstd] {
        let noise = noise(1000);
        let mut packet = shared(&noise);
        assert_eq!(run(&mut Pack::new(packer), &mut packet), Verdict::Pass);
        assert_eq!(packet.payload().len(), 1001);
        let black = vec![0; 1 << 20];
        let mut packet = shared(&black);
        assert_eq!(run(&mut Pack::new(packer), &mut packet), Verdict::Pass);
        assert!(packet.payload().len() < black.len() / 200);
        assert_eq!(run(&mut Unpack::new(), &mut packet), Verdict::Pass);
        assert_eq!(packet.payload(), black);
    }
}

#[test]
fn bomb_is_refused_before_unpacking() {
    // 8 MiB − 1 promised by ten bytes; one byte more than the factor allows; longer than an ADU.
    let promises: [&[u8]; 3] = [
        &[1, 0x80, 0x7F, 0xFF, 0xFF, 0, 0, 0, 0, 0],
        &[2, 0x44, 0x01, 0],
        &[1, 0x80, 0x80, 0x00, 0x01, 0],
    ];
    for promise in promises {
        let mut packet = shared(promise);
        packet.header.flags = Flags::PACKED;
        let verdict = run(&mut Unpack::new(), &mut packet);
        assert_eq!(verdict, Verdict::Discard(DropCause::Malformed));
    }
}
