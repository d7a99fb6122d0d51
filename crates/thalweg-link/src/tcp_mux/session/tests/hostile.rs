//! A peer that lies or violates the protocol: a specific error, and never a panic or an unbounded
//! buffer.

use alloc::vec;

use proptest::collection::vec as many;
use proptest::prelude::*;

use super::*;
use crate::tcp_mux::settings::SESSION_WINDOW_BYTES;

const CARRIER: CarrierNumber = CarrierNumber(0);

fn session() -> Session {
    let mut session = Session::new(Pacing::Acked, 1, Instant::ZERO);
    session.handle_carrier(CARRIER, Decoder::default(), Instant::ZERO);
    session
}

fn receive(session: &mut Session, frames: &[Frame]) -> Result<(), SessionError> {
    let mut bytes = Vec::new();
    for frame in frames {
        frame.encode(&mut bytes);
    }
    session.handle_bytes(CARRIER, &bytes, Instant::ZERO)
}

fn open(stream: u64) -> Frame {
    Frame::Open {
        stream: StreamNumber(stream),
    }
}

fn data(stream: u64, offset: u64, is_last: bool, bytes: usize) -> Frame {
    Frame::Data {
        stream: StreamNumber(stream),
        offset,
        is_last,
        bytes: pattern(0, bytes),
    }
}

#[test]
fn unsent_bytes_cannot_be_acknowledged() {
    let mut session = session();
    let position = 1;
    let error = receive(&mut session, &[Frame::Received { position }]);
    assert_eq!(error, Err(SessionError::NeverSent { position, sent: 0 }));
}

#[test]
fn streams_open_in_order_up_to_limit() {
    assert!(matches!(
        receive(&mut session(), &[open(1)]),
        Err(SessionError::Order { .. })
    ));
    assert_eq!(
        receive(&mut session(), &[data(0, 0, false, 1)]),
        Err(SessionError::NeverOpened(StreamNumber(0)))
    );
    let mut session = session();
    let all: Vec<Frame> = (0..STREAMS_MAX).map(open).collect();
    assert_eq!(receive(&mut session, &all), Ok(()));
    assert!(matches!(
        receive(&mut session, &[open(STREAMS_MAX)]),
        Err(SessionError::AboveLimit { .. })
    ));
}

#[test]
fn gaps_and_second_ends_are_refused() {
    let mut session = session();
    assert_eq!(
        receive(&mut session, &[open(0), data(0, 0, false, 10)]),
        Ok(())
    );
    assert!(matches!(
        receive(&mut session, &[data(0, 11, false, 1)]),
        Err(SessionError::Gap { .. })
    ));
    assert_eq!(receive(&mut session, &[data(0, 5, true, 10)]), Ok(()));
    assert_eq!(session.carried().duplicate_bytes, 5);
    for wrong in [data(0, 15, false, 1), data(0, 0, true, 15 - 1)] {
        assert_eq!(
            receive(&mut session, &[wrong]),
            Err(SessionError::TwoEnds(StreamNumber(0)))
        );
    }
    let reset = |offset| Frame::Reset {
        stream: StreamNumber(0),
        code: StreamCode::Expired,
        offset,
    };
    assert_eq!(
        receive(&mut session, &[reset(14)]),
        Err(SessionError::TwoEnds(StreamNumber(0)))
    );
    assert_eq!(receive(&mut session, &[reset(15), reset(15)]), Ok(()));
}

/// Fills streams with this many bytes in total.
fn fill(session: &mut Session, bytes: u64) -> Result<(), SessionError> {
    let (mut left, mut stream) = (bytes, 0);
    while left > 0 {
        receive(session, &[open(stream)])?;
        let (mut offset, size) = (0, left.min(STREAM_WINDOW_BYTES));
        while offset < size {
            let piece = (size - offset).min(60_000);
            receive(session, &[data(stream, offset, false, piece as usize)])?;
            offset += piece;
        }
        left -= size;
        stream += 1;
    }
    Ok(())
}

#[test]
fn window_limit_is_exact() {
    let mut one = session();
    assert_eq!(fill(&mut one, STREAM_WINDOW_BYTES), Ok(()));
    let beyond = data(0, STREAM_WINDOW_BYTES, false, 1);
    assert!(matches!(
        receive(&mut one, &[beyond]),
        Err(SessionError::AboveLimit {
            what: "a stream",
            ..
        })
    ));
    assert_eq!(fill(&mut session(), SESSION_WINDOW_BYTES), Ok(()));
    let error = fill(&mut session(), SESSION_WINDOW_BYTES + 1).expect_err("one byte too much");
    assert!(matches!(
        error,
        SessionError::AboveLimit {
            what: "the bytes of all streams",
            ..
        }
    ));
}

#[test]
fn reset_beyond_window_is_refused() {
    let mut session = session();
    let reset = Frame::Reset {
        stream: StreamNumber(0),
        code: StreamCode::Expired,
        offset: STREAM_WINDOW_BYTES + 1,
    };
    assert!(matches!(
        receive(&mut session, &[open(0), reset]),
        Err(SessionError::AboveLimit { .. })
    ));
}

#[test]
fn single_bytes_are_joined() {
    let mut session = session();
    receive(&mut session, &[open(0)]).expect("in order");
    for offset in 0..12_000 {
        receive(&mut session, &[data(0, offset, false, 1)]).expect("within the window");
    }
    let mut pieces = 0;
    while let Read::Bytes(_) = session.read(StreamNumber(0)) {
        pieces += 1;
    }
    assert_eq!(pieces, 10);
}

#[test]
fn late_stop_is_ignored() {
    let mut session = session();
    let stop = |stream| Frame::Stop {
        stream: StreamNumber(stream),
        code: StreamCode::Whole,
    };
    assert_eq!(
        receive(&mut session, &[stop(0)]),
        Err(SessionError::NeverOpened(StreamNumber(0)))
    );
    let stream = session.open(0).expect("the first");
    session.reset(stream, StreamCode::Expired);
    assert_eq!(receive(&mut session, &[stop(0), stop(0)]), Ok(()));
    let greeting = Frame::Hello {
        session: crate::tcp_mux::SessionId::default(),
        carrier: 0,
    };
    assert_eq!(
        receive(&mut session, &[greeting]),
        Err(SessionError::Greeting)
    );
}

#[test]
fn remembered_stops_are_bounded() {
    let mut session = session();
    for stream in 0..3_000 {
        session.open(0).expect("within the bound");
        let stop = Frame::Stop {
            stream: StreamNumber(stream),
            code: StreamCode::Overload,
        };
        receive(&mut session, &[stop]).expect("the stream is open");
    }
    let write = |session: &mut Session, n| session.write(StreamNumber(n), &mut pattern(0, 1));
    assert_eq!(write(&mut session, 0), Written::Lost);
    assert_eq!(
        write(&mut session, 2_999),
        Written::Stopped(StreamCode::Overload)
    );
}

fn small_frames() -> impl Strategy<Value = Frame> {
    let stream = || (0..6_u64).prop_map(StreamNumber);
    let code = || (0..7_u64).prop_map(StreamCode::from_number);
    prop_oneof![
        stream().prop_map(|stream| Frame::Open { stream }),
        (stream(), 0..40_u64, any::<bool>(), 0..40_usize)
            .prop_map(|(stream, offset, is_last, bytes)| data(stream.0, offset, is_last, bytes)),
        (stream(), code(), 0..60_u64).prop_map(|(stream, code, offset)| Frame::Reset {
            stream,
            code,
            offset
        }),
        (stream(), code()).prop_map(|(stream, code)| Frame::Stop { stream, code }),
        (0..200_u64).prop_map(|position| Frame::Received { position }),
        (stream(), any::<u32>()).prop_map(|(stream, limit)| Frame::Window {
            stream,
            limit: limit.into()
        }),
        any::<u32>().prop_map(|limit| Frame::Total {
            limit: limit.into()
        }),
        any::<u32>().prop_map(|limit| Frame::Streams {
            limit: limit.into()
        }),
        Just(Frame::Datagram {
            bytes: Bytes::new()
        }),
        Just(Frame::Ping),
        Just(Frame::Takeover),
        (any::<u32>(), any::<u32>()).prop_map(|(bytes, delay)| Frame::Tell {
            bytes: bytes.into(),
            delay_ms: delay.into()
        }),
    ]
}

proptest! {
    #[test]
    fn random_frames_never_panic(
        frames in many(small_frames(), 0..60),
        raw in many(any::<u8>(), 0..200),
    ) {
        let mut session = session();
        session.handle_carrier(CarrierNumber(1), Decoder::default(), Instant::ZERO);
        let stream = session.open(1).expect("the first");
        session.write(stream, &mut pattern(0, 3_000));
        let mut out = Out::new();
        for (n, frame) in frames.iter().enumerate() {
            let now = Instant::ZERO + Duration::from_millis(n as u64 * 40);
            let mut bytes = Vec::new();
            frame.encode(&mut bytes);
            let carrier = CarrierNumber((n % 2) as u64);
            if session.handle_bytes(carrier, &bytes, now).is_err() {
                break;
            }
            session.handle_timeout(now);
            for carrier in [CarrierNumber(0), CarrierNumber(1)] {
                while session.poll_transmit(carrier, now, &mut out) {}
            }
            while let Some(event) = session.poll_event() {
                if let Event::Readable(stream) = event {
                    while let Read::Bytes(_) = session.read(stream) {}
                }
            }
        }
        let _ = session.handle_bytes(CarrierNumber(1), &raw, Instant::ZERO);
    }
}
