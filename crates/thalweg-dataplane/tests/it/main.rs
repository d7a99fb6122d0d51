//! Proves, over any bytes and any header, that pairs of modules are identities and that hostile
//! input neither passes nor panics. Uses public functions only.

use bytes::Bytes;
use proptest::prelude::*;
use thalweg_base::adu::{Flags, Header, Importance, MediaTime};
use thalweg_base::event::DropCause;
use thalweg_base::id::{Epoch, Sequence, StreamId};
use thalweg_base::limits::UNPACK_FACTOR_MAX;
use thalweg_base::time::Instant;
use thalweg_dataplane::keys::{KeyEpoch, KeyRing, SealInstance, StreamKey};
use thalweg_dataplane::lift::{Lift, Materials};
use thalweg_dataplane::module::Direction;
use thalweg_dataplane::modules::{PACKED_PREFIX_BYTES_MAX, SEAL_OVERHEAD_BYTES_MAX};
use thalweg_dataplane::packet::{Packet, Pool};

const STREAM: StreamId = StreamId(0x1122_3344_5566_7788);

/// Returns a lift of these words, with the same key each time and this instance.
fn lift(words: &[&str], instance: u64, key_epoch: u32) -> Lift {
    let mut materials = Materials {
        stream: STREAM,
        keys: KeyRing::with_key(KeyEpoch(key_epoch), StreamKey::new([7; 32])),
        instance: SealInstance::from_random(instance),
    };
    Lift::from_spec(words.iter().copied(), &mut materials, Pool::default())
        .expect("all words are known")
}

/// Passes one packet and returns the output, or the cause of its drop.
fn carry(lift: &mut Lift, packet: Packet) -> Result<Packet, DropCause> {
    lift.handle_forward(packet, Instant::ZERO)
        .expect("nothing waits");
    if let Some(packet) = lift.poll_forward() {
        return Ok(packet);
    }
    let dropped = lift
        .counters(Direction::Forward)
        .find_map(|(_, counters)| counters.dropped.iter().next());
    Err(dropped.expect("what does not come out is counted").0)
}

fn headers() -> impl Strategy<Value = Header> {
    let numbers = (
        any::<u64>(),
        any::<u64>(),
        any::<u64>(),
        any::<u32>(),
        any::<u32>(),
    );
    let bytes = (any::<u8>(), any::<u8>(), 0u8..32);
    (numbers, bytes).prop_map(|(numbers, bytes)| Header {
        stream: STREAM,
        sequence: Sequence(numbers.0),
        epoch: Epoch(numbers.3),
        media_time: MediaTime::from_micros(numbers.1),
        importance: Importance(bytes.0),
        layer: bytes.1,
        depends_on: numbers.4,
        deadline: Instant::from_nanos(numbers.2),
        flags: Flags::from_bits(bytes.2)
            .expect("five flags are known")
            .without(Flags::SEALED)
            .without(Flags::PACKED),
    })
}

/// Payloads that pack well, badly and not at all.
fn payloads() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..4000),
        proptest::collection::vec(0u8..3, 0..70_000),
        (any::<u8>(), 0..100_000usize).prop_map(|(byte, len)| vec![byte; len]),
    ]
}

fn packet(header: Header, payload: &[u8]) -> Packet {
    Packet::shared(header, Bytes::copy_from_slice(payload))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn unpack_undoes_pack(header in headers(), payload in payloads(), zstd in any::<bool>()) {
        let word = if zstd { "pack:zstd" } else { "pack:lz4" };
        let packed = carry(&mut lift(&[word], 0, 0), packet(header, &payload)).expect("it fits");
        prop_assert!(packed.header.flags.contains(Flags::PACKED));
        prop_assert!(packed.payload().len() <= payload.len() + 1);
        let whole = carry(&mut lift(&["unpack"], 0, 0), packed).expect("it is whole");
        prop_assert_eq!(whole.header, header);
        prop_assert_eq!(whole.payload(), &payload[..]);
    }

    #[test]
    fn open_undoes_seal(
        header in headers(),
        payload in payloads(),
        chacha in any::<bool>(),
        instance in any::<u64>(),
        key_epoch in any::<u32>(),
    ) {
        let word = if chacha { "seal:chacha20" } else { "seal:aes256" };
        let mut seal = lift(&[word], instance, key_epoch);
        let sealed = carry(&mut seal, packet(header, &payload)).expect("it fits");
        prop_assert!(sealed.header.flags.contains(Flags::SEALED));
        prop_assert!(sealed.payload().len() <= payload.len() + SEAL_OVERHEAD_BYTES_MAX);
        let whole = carry(&mut lift(&["open"], 0, key_epoch), sealed).expect("it is authentic");
        prop_assert_eq!(whole.header, header);
        prop_assert_eq!(whole.payload(), &payload[..]);
    }

    #[test]
    fn tampered_byte_never_opens(
        header in headers(),
        payload in proptest::collection::vec(any::<u8>(), 0..100),
        chacha in any::<bool>(),
        key_epoch in prop_oneof![0u32..4, any::<u32>()],
        flip in 1u8..=255,
    ) {
        let word = if chacha { "seal:chacha20" } else { "seal" };
        let sealed = carry(&mut lift(&[word], 1, key_epoch), packet(header, &payload)).expect("it fits");
        let header = sealed.header;
        let bytes = sealed.into_bytes();
        let mut open = lift(&["open"], 0, key_epoch);
        for at in 0..bytes.len() {
            let mut tampered = bytes.to_vec();
            tampered[at] ^= flip;
            prop_assert!(carry(&mut open, packet(header, &tampered)).is_err(), "byte {}", at);
        }
        for len in 0..bytes.len() {
            prop_assert!(carry(&mut open, packet(header, &bytes[..len])).is_err(), "cut at {}", len);
        }
        prop_assert!(carry(&mut open, Packet::shared(header, bytes)).is_ok());
    }

    #[test]
    fn keep_passes_lower_layers(
        header in headers(),
        flags in 0u8..32,
        payload in proptest::collection::vec(any::<u8>(), 0..100),
        layers in 1u8..=16,
    ) {
        let header = Header { flags: Flags::from_bits(flags).expect("five flags are known"), ..header };
        let word = format!("keep:{layers}");
        match carry(&mut lift(&[&word], 0, 0), packet(header, &payload)) {
            Ok(kept) => {
                prop_assert!(header.layer < layers);
                prop_assert_eq!((kept.header, kept.payload()), (header, &payload[..]));
            }
            Err(cause) => {
                prop_assert!(header.layer >= layers);
                prop_assert_eq!(cause, DropCause::Filtered);
            }
        }
    }

    #[test]
    fn unpack_survives_any_bytes(
        header in headers(),
        first in 0u8..4,
        rest in proptest::collection::vec(any::<u8>(), 0..2000),
    ) {
        let mut bytes = vec![first];
        bytes.extend(rest);
        let header = Header { flags: header.flags.with(Flags::PACKED), ..header };
        match carry(&mut lift(&["unpack"], 0, 0), packet(header, &bytes)) {
            Ok(whole) => prop_assert!(whole.payload().len() <= bytes.len() * UNPACK_FACTOR_MAX),
            Err(cause) => prop_assert_eq!(cause, DropCause::Malformed),
        }
    }

    #[test]
    fn unpack_survives_any_damage(
        header in headers(),
        payload in payloads(),
        zstd in any::<bool>(),
        at in any::<prop::sample::Index>(),
        flip in 1u8..=255,
    ) {
        let word = if zstd { "pack:zstd" } else { "pack:lz4" };
        let packed = carry(&mut lift(&[word], 0, 0), packet(header, &payload)).expect("it fits");
        let mut bytes = packed.payload().to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        let most = bytes.len() * UNPACK_FACTOR_MAX;
        if let Ok(whole) = carry(&mut lift(&["unpack"], 0, 0), packet(packed.header, &bytes)) {
            prop_assert!(whole.payload().len() <= most + PACKED_PREFIX_BYTES_MAX);
        }
    }

    #[test]
    fn open_survives_any_bytes(
        header in headers(),
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        form in any::<u8>(),
    ) {
        let mut bytes = bytes;
        bytes.push(form);
        let header = Header { flags: header.flags.with(Flags::SEALED), ..header };
        prop_assert!(carry(&mut lift(&["open"], 0, 0), packet(header, &bytes)).is_err());
    }

    #[test]
    fn chain_undoes_itself_on_three_nodes(header in headers(), payload in payloads()) {
        let header = Header { layer: header.layer % 3, ..header };
        let sent = carry(&mut lift(&["keep:3", "pack:zstd", "seal"], 9, 0), packet(header, &payload));
        let relayed = carry(&mut lift(&["keep:3"], 0, 0), sent.expect("it fits"));
        let arrived = carry(&mut lift(&["open", "unpack"], 0, 0), relayed.expect("kept"));
        let arrived = arrived.expect("it is authentic");
        prop_assert_eq!(arrived.header, header);
        prop_assert_eq!(arrived.payload(), &payload[..]);
    }
}
