//! Laws without chance: messages, names, block sizes, limits.

use alloc::string::ToString as _;
use alloc::vec;
use alloc::vec::Vec;
use core::iter;

use bytes::Bytes;
use proptest::prelude::*;
use thalweg_base::id::{NodeId, StreamId, StreamName};
use thalweg_base::limits::{
    TRANSFER_BLOCKS_MAX, TRANSFER_MANIFEST_BYTES_MAX, TRANSFER_TARGETS_MAX,
};
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize};

use super::{bytes, manifest_of};
use crate::block::Relay;
use crate::meeting::{Answer, Ask, Refusal, Said};
use crate::sender::Next;
use crate::{Have, Parcel, Receipt, Receiver, Sender, State, Taken, TransferId, block, name};

/// Bytes of a one-packet block on a link.
const BLOCK_BITS: u64 = (1024 + 61 + 58) * 8;

proptest! {
    #[test]
    fn any_bytes_are_message_or_error(there in prop::collection::vec(any::<u8>(), 0..300)) {
        let there = Bytes::from(there);
        if let Ok(parcel) = Parcel::decode(&there) {
            let again = Bytes::from(parcel.encode());
            prop_assert_eq!(Parcel::decode(&again), Ok(parcel));
        }
        if let Ok(receipt) = Receipt::decode(&there) {
            prop_assert_eq!(Receipt::decode(&receipt.encode()), Ok(receipt));
        }
        if let Ok(ask) = Ask::decode(&there) {
            prop_assert_eq!(Ask::decode(&ask.encode()), Ok(ask));
        }
        if let Ok(answer) = Answer::decode(&there) {
            prop_assert_eq!(Answer::decode(&answer.encode()), Ok(answer));
        }
    }

    #[test]
    fn receipt_lists_missing_ranges(
        blocks in 1_u32..300,
        there in prop::collection::vec(any::<bool>(), 300),
        next in 0_u64..1 << 40,
    ) {
        let mut have = Have::none(blocks);
        for block in (0..blocks).filter(|block| there[*block as usize]) {
            prop_assert!(have.insert(block) && !have.insert(block));
        }
        let receipt = Receipt {
            stream: StreamId(5),
            next,
            state: State::Blocks { bytes: 17, missing: have.missing(1000) },
        };
        let back = Receipt::decode(&receipt.encode());
        let Ok(Receipt { state: State::Blocks { missing, .. }, .. }) = back else {
            return Err(TestCaseError::fail("it reads as it was written"));
        };
        let missing: Vec<u32> = missing.into_iter().flatten().collect();
        let absent: Vec<u32> = (0..blocks).filter(|block| !there[*block as usize]).collect();
        prop_assert_eq!(missing, absent);
    }

    #[test]
    fn block_is_power_of_two_within_limit(
        size in 0_u64..1 << 40,
        limit in prop::option::of(1_u64..1 << 30),
        is_whole in any::<bool>(),
        kbps in prop::collection::vec(prop::option::of(1_u64..10_000_000), 0..8),
    ) {
        let hops: Vec<_> = kbps.iter().map(|kbps| kbps.map(Bitrate::from_kbps)).collect();
        let size_bytes = DataSize::from_bytes(size);
        let relay = if is_whole { Relay::Whole } else { Relay::Through };
        let block = block::choose(size_bytes, &hops, relay, limit.map(Bitrate::from_bps));
        prop_assert!(block.is_power_of_two() && block >= 1024);
        prop_assert!(size.div_ceil(block) <= TRANSFER_BLOCKS_MAX as u64);
    }
}

/// The model of `block`, in seconds.
fn time(size: u64, block: u64, hops: &[Bitrate]) -> f64 {
    let each = |rate: &Bitrate| {
        (block + block::OVERHEAD_BYTES) as f64 * 8.0 / rate.as_bps() as f64
            + block::OVERHEAD_TIME.as_secs_f64()
    };
    let slowest = hops.iter().map(each).fold(0.0, f64::max);
    let all: f64 = hops.iter().map(each).sum();
    size as f64 / block as f64 * slowest + all - slowest
}

#[test]
fn chosen_block_is_best_power_of_two() {
    let line = Bitrate::from_kbps(2_000);
    for size in [100 << 10, 10 << 20, 100 << 20] {
        for hops in 2..5 {
            let hops = vec![line; hops];
            let known: Vec<_> = hops.iter().copied().map(Some).collect();
            let chosen = block::choose(DataSize::from_bytes(size), &known, Relay::Whole, None);
            let took = time(size, chosen, &hops);
            for shift in 10..=18 {
                let other = time(size, 1 << shift, &hops);
                assert!(
                    took <= other * 1.001,
                    "{size} over {}: {chosen}, better {}",
                    hops.len(),
                    1 << shift
                );
            }
        }
    }
}

#[test]
fn ten_mebibytes_take_1_percent_overhead() {
    let line = Bitrate::from_kbps(2_000);
    let size = 10 << 20;
    let block = block::choose(
        DataSize::from_bytes(size),
        &[Some(line); 3],
        Relay::Whole,
        None,
    );
    let bound = size as f64 * 8.0 / 2e6;
    assert!(time(size, block, &[line; 3]) < 1.01 * bound, "{block}");
}

#[test]
fn stream_names_contain_their_targets() {
    let id = TransferId([0xab; 16]);
    let nodes: Vec<NodeId> = (0..=TRANSFER_TARGETS_MAX as u8)
        .map(|n| NodeId([n; 32]))
        .collect();
    let name = id
        .files_stream(&nodes[..TRANSFER_TARGETS_MAX])
        .expect("within limits");
    assert_eq!(TransferId::of_stream(&name, &nodes[3]), Some(id));
    assert_eq!(
        TransferId::of_stream(&name, nodes.last().expect("not empty")),
        None
    );
    assert_eq!(id.files_stream(&nodes), None);
    assert_eq!(id.files_stream(&[]), None);
    let receipts = id.receipts_stream(&nodes[1]).to_string();
    assert!(receipts.starts_with("receipts/abab") && receipts.ends_with("/01010101"));
    for other in ["files/x", "files/abab/01010101", "truck/cam1", "files"] {
        let name: StreamName = other.parse().expect("a name");
        assert_eq!(TransferId::of_stream(&name, &nodes[1]), None);
    }
}

#[test]
fn limit_holds_over_any_second() {
    let file = bytes(200 * 1024, 1);
    let manifest = manifest_of(&[("a", &file)], 1024);
    let limit = Bitrate::from_kbps(400);
    let mut sender = Sender::new(manifest.layout().clone(), 10, 1, Some(limit));
    let stream = StreamId(1);
    sender.handle_stream(Instant::ZERO, stream);
    let mut now = Instant::ZERO;
    assert_eq!(sender.poll_next(now), Some(Next::Offer));
    let state = State::Blocks {
        bytes: 0,
        missing: iter::once(0..200).collect(),
    };
    sender.handle_receipt(
        now,
        0,
        Receipt {
            stream,
            next: 1,
            state,
        },
    );
    let mut given: Vec<Instant> = Vec::new();
    while given.len() < 200 {
        while let Some(next) = sender.poll_next(now) {
            if matches!(next, Next::Block(_)) {
                given.push(now);
            }
        }
        // Polled a little late each time, as on a real machine.
        now = sender.poll_timeout().max(now) + Duration::from_micros(300);
    }
    for (place, at) in given.iter().enumerate() {
        let second = given[place..]
            .iter()
            .filter(|other| **other < *at + Duration::from_secs(1));
        // A one-packet block: the block, the ADU's header, the block's number and hash, the
        // packet's overhead.
        let bits = second.count() as u64 * BLOCK_BITS;
        // One block, and the compensated lateness.
        assert!(bits <= 400_000 + 2 * BLOCK_BITS + 8_000, "{bits}");
    }
    let took = given[199].saturating_since(given[0]).as_secs_f64();
    let rate = (199 * BLOCK_BITS) as f64 / took;
    assert!(rate > 390_000.0, "lateness costs nothing: {rate}");
}

#[test]
fn cut_through_block_is_as_for_one_hop() {
    let line = Some(Bitrate::from_kbps(2_000));
    for size in [100 << 10, 10 << 20, 100 << 20].map(DataSize::from_bytes) {
        let one = block::choose(size, &[line], Relay::Whole, None);
        for hops in 1..5 {
            let hops = vec![line; hops];
            let chosen = block::choose(size, &hops, Relay::Through, None);
            assert_eq!((chosen, chosen), (one, 256 << 10), "{hops:?}");
        }
    }
}

#[test]
fn limited_block_is_no_burst() {
    let size = DataSize::from_bytes(10 << 20);
    let limit = |kbps| Some(Bitrate::from_kbps(kbps));
    assert_eq!(
        block::choose(size, &[None], Relay::Through, None),
        256 << 10
    );
    // A quarter of a second at the limit, rounded down.
    assert_eq!(
        block::choose(size, &[None], Relay::Through, limit(1_000)),
        16 << 10
    );
    assert_eq!(
        block::choose(size, &[None], Relay::Through, limit(100_000)),
        256 << 10
    );
    assert_eq!(
        block::choose(size, &[None], Relay::Through, limit(1)),
        1 << 10
    );
    // The number of blocks stays within its limit.
    let large = DataSize::from_bytes(1 << 40);
    assert_eq!(
        block::choose(large, &[None], Relay::Through, limit(1)),
        4 << 20
    );
}

#[test]
fn meeting_messages_round_trip_exactly() {
    let asks = [Ask::Hello([7; 33]), Ask::Proof([8; 32])];
    let refusals = [
        Refusal::Wrong(2),
        Refusal::Dead,
        Refusal::Used,
        Refusal::Expired,
    ];
    let said = refusals.map(Said::Refused).into_iter();
    let said = said.chain([Said::Hello([9; 33]), Said::Admitted([6; 48])]);
    let answers = said.map(|said| Answer {
        to: StreamId(5),
        said,
    });
    for ask in asks {
        let bytes = ask.encode();
        assert_eq!(Ask::decode(&bytes), Ok(ask));
        assert!((0..bytes.len()).all(|end| Ask::decode(&bytes[..end]).is_err()));
        assert!(Ask::decode(&[&bytes[..], &[0]].concat()).is_err());
    }
    for answer in answers {
        let bytes = answer.encode();
        assert_eq!(Answer::decode(&bytes), Ok(answer));
        assert!((0..bytes.len()).all(|end| Answer::decode(&bytes[..end]).is_err()));
        assert!(Answer::decode(&[&bytes[..], &[0]].concat()).is_err());
    }
}

#[test]
fn phrase_streams_match_their_sender() {
    let (sender, other) = (NodeId([1; 32]), NodeId([2; 32]));
    let code = name::code_stream(7, &sender);
    assert_eq!(name::code_of_stream(&code, &sender), Some(7));
    assert_eq!(name::code_of_stream(&code, &other), None);
    let ask = name::ask_stream(7, &sender, 5);
    assert!(name::is_ask(&ask, 7, &sender));
    assert!(!name::is_ask(&ask, 7, &other) && !name::is_ask(&ask, 70, &sender));
    let coded = TransferId([3; 16]).coded_stream(&other);
    assert_eq!(
        TransferId::of_stream(&coded, &other),
        None,
        "no phrase, no file"
    );
}

#[test]
fn unsealed_adus_end_transfer_after_64() {
    let node = NodeId([7; 32]);
    let mut receiver = Receiver::new(TransferId([0; 16]), node, StreamId(1));
    for sequence in 0..63 {
        receiver.handle_corrupt(Instant::ZERO, sequence);
        assert_eq!(receiver.refusal(), None);
    }
    receiver.handle_corrupt(Instant::ZERO, 63);
    assert!(receiver.refusal().is_some_and(|why| why.contains("hash")));
}

#[test]
fn manifest_is_resent_after_altered_offer() {
    let manifest = manifest_of(&[("file", &[1; 3000])], 1024);
    let mut encoded = Vec::new();
    manifest.encode(&mut encoded);
    let (node, length) = (NodeId([7; 32]), encoded.len() as u64);
    let offer = |manifest_bytes| Parcel::Offer {
        block_shift: 10,
        manifest_bytes,
        bytes: 3000,
        targets: vec![node],
    };
    let part = Parcel::Manifest {
        offset: 0,
        bytes: encoded.clone().into(),
    };
    for wrong in [length - 1, length + 1, TRANSFER_MANIFEST_BYTES_MAX as u64] {
        let mut receiver = Receiver::new(manifest.id(), node, StreamId(1));
        let mut sequence = 0;
        let mut take = |receiver: &mut Receiver, parcel: &Parcel| {
            sequence += 1;
            let payload = Bytes::from(parcel.encode());
            receiver.handle_parcel(Instant::ZERO, sequence, &payload)
        };
        for parcel in [&offer(wrong), &part, &offer(length)] {
            assert_eq!(take(&mut receiver, parcel), Ok(Taken::Nothing));
        }
        let receipt = receiver.poll_receipt(Instant::ZERO);
        assert_eq!(
            receipt.map(|receipt| receipt.state),
            Some(State::Manifest { has: 0 }),
            "the rejected part is still missing"
        );
        assert_eq!(take(&mut receiver, &part), Ok(Taken::Manifest));
    }
}
