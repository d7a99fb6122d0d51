//! Proves that every frame survives the wire in any pieces, and that all other bytes are an error.

use alloc::vec;
use alloc::vec::Vec;

use proptest::collection::vec as many;
use proptest::prelude::*;

use super::*;

fn numbers() -> impl Strategy<Value = u64> {
    prop_oneof![0..200_u64, 0..=VARINT_MAX]
}

fn frames() -> impl Strategy<Value = Frame> {
    let stream = || numbers().prop_map(StreamNumber);
    let code = || numbers().prop_map(StreamCode::from_number);
    let bytes = |max| many(any::<u8>(), 0..max).prop_map(Bytes::from);
    prop_oneof![
        (any::<[u8; 16]>(), numbers()).prop_map(|(session, carrier)| Frame::Hello {
            session: SessionId(session),
            carrier
        }),
        stream().prop_map(|stream| Frame::Open { stream }),
        (stream(), numbers(), any::<bool>(), bytes(3_000)).prop_map(
            |(stream, offset, is_last, bytes)| Frame::Data {
                stream,
                offset,
                is_last,
                bytes
            }
        ),
        (stream(), code(), numbers()).prop_map(|(stream, code, offset)| Frame::Reset {
            stream,
            code,
            offset
        }),
        (stream(), code()).prop_map(|(stream, code)| Frame::Stop { stream, code }),
        numbers().prop_map(|position| Frame::Received { position }),
        (stream(), numbers()).prop_map(|(stream, limit)| Frame::Window { stream, limit }),
        numbers().prop_map(|limit| Frame::Total { limit }),
        numbers().prop_map(|limit| Frame::Streams { limit }),
        bytes(DATAGRAM_BYTES_MAX).prop_map(|bytes| Frame::Datagram { bytes }),
        Just(Frame::Ping),
        Just(Frame::Takeover),
        (numbers(), numbers()).prop_map(|(bytes, delay_ms)| Frame::Tell { bytes, delay_ms }),
        (numbers(), ".{0,40}").prop_map(|(code, reason)| Frame::Close {
            code: CloseCode::from_number(code),
            reason
        }),
    ]
}

fn drain(decoder: &mut Decoder) -> Result<Vec<Frame>, WireError> {
    let mut frames = Vec::new();
    while let Some((frame, _)) = decoder.poll_frame()? {
        frames.push(frame);
    }
    Ok(frames)
}

proptest! {
    #[test]
    fn frames_survive_any_pieces(
        sent in many(frames(), 1..8),
        cuts in many(1..700_usize, 1..40),
    ) {
        let mut bytes = Vec::new();
        for frame in &sent {
            frame.encode(&mut bytes);
        }
        let (mut decoder, mut arrived, mut rest) = (Decoder::default(), Vec::new(), &bytes[..]);
        for cut in cuts.into_iter().cycle() {
            let (piece, tail) = rest.split_at(cut.min(rest.len()));
            decoder.handle_bytes(piece);
            arrived.extend(drain(&mut decoder).expect("well formed"));
            rest = tail;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(arrived, sent);
    }

    #[test]
    fn hostile_bytes_stay_bounded(bytes in many(any::<u8>(), 0..2_000)) {
        let mut decoder = Decoder::default();
        decoder.handle_bytes(&bytes);
        let _ = drain(&mut decoder);
        prop_assert!(decoder.buffer.len() <= bytes.len());
    }
}

#[test]
fn chunk_limit_is_exact() {
    let data = |length: usize| {
        let mut bytes = alloc::vec![2, 0, 0];
        bytes.varint(length as u64);
        bytes.resize(bytes.len() + length, 7);
        let mut decoder = Decoder::default();
        decoder.handle_bytes(&bytes);
        decoder.poll_frame()
    };
    assert!(matches!(data(CHUNK_BYTES_MAX as usize), Ok(Some(_))));
    let error = data(CHUNK_BYTES_MAX as usize + 1).expect_err("one byte too long");
    assert!(matches!(error, WireError::TooLarge { what: "data", .. }));
}

#[test]
fn decoder_waits_for_longest_frame() {
    let mut bytes = alloc::vec![3];
    for value in [VARINT_MAX, VARINT_MAX, u64::from(CHUNK_BYTES_MAX)] {
        bytes.varint(value);
    }
    let mut decoder = Decoder::default();
    decoder.handle_bytes(&bytes);
    assert_eq!(decoder.poll_frame(), Ok(None));
    decoder.handle_bytes(&alloc::vec![1; CHUNK_BYTES_MAX as usize - 1]);
    assert_eq!(decoder.poll_frame(), Ok(None));
    decoder.handle_bytes(&[1]);
    assert!(matches!(
        decoder.poll_frame(),
        Ok(Some((Frame::Data { is_last: true, .. }, _)))
    ));
}

#[test]
fn other_version_or_type_is_refused() {
    let first = |bytes: &[u8]| {
        let mut decoder = Decoder::default();
        decoder.handle_bytes(bytes);
        decoder.poll_frame()
    };
    assert_eq!(first(&[0, 9]), Err(WireError::Version(9)));
    assert_eq!(first(&[15]), Err(WireError::Kind(15)));
    assert_eq!(first(&[]), Ok(None));
}

#[test]
fn long_reason_is_cut_at_character() {
    let mut bytes = Vec::new();
    let reason = "é".repeat(4_000);
    let code = CloseCode::Protocol;
    Frame::Close { code, reason }.encode(&mut bytes);
    let mut decoder = Decoder::default();
    decoder.handle_bytes(&bytes);
    let expected = Frame::Close {
        code,
        reason: "é".repeat(TEXT_BYTES_MAX / 2),
    };
    assert_eq!(
        decoder.poll_frame().expect("well formed").map(|f| f.0),
        Some(expected)
    );
}
