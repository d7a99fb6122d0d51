//! Proves when reports go, alone or with other frames, and that a sender without reports hands over
//! no more.

use super::*;
use crate::tcp_mux::settings::STANDBY_REST_MIN;

const CARRIER: CarrierNumber = CarrierNumber(0);

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// Returns a session with one carrier, at time zero.
fn session(pacing: Pacing) -> Session {
    let mut session = Session::new(pacing, 0, at(0));
    session.handle_carrier(CARRIER, Decoder::default(), at(0));
    session
}

/// Handles these frames from the peer.
fn receive(session: &mut Session, frames: &[Frame], now: Instant) {
    let mut bytes = Vec::new();
    for frame in frames {
        frame.encode(&mut bytes);
    }
    let heard = session.handle_bytes(CARRIER, &bytes, now);
    heard.expect("whole frames");
}

/// Sends everything that is due now; returns whether a report was among it.
fn sends_report(session: &mut Session, now: Instant) -> bool {
    let mut out = Out::new();
    while session.poll_transmit(CARRIER, now, &mut out) {}
    let mut decoder = Decoder::default();
    decoder.handle_bytes(&out.to_vec());
    let mut frames = core::iter::from_fn(|| decoder.poll_frame().expect("whole frames"));
    frames.any(|(frame, _)| matches!(frame, Frame::Received { .. }))
}

#[test]
fn kernel_pacing_gets_rare_reports() {
    let reports = |pacing| {
        let mut world = World::new(pacing);
        world.settle(500);
        world.steps(100);
        // Three video frames, as a camera gives them.
        let mut count = 0;
        for n in 0..3 {
            world.sides[0].send(0, pattern(n, 4_000));
            for _ in 0..33 {
                let before = world.sides[0].acknowledged.len();
                world.step();
                count += u32::from(world.sides[0].acknowledged.len() > before);
            }
        }
        world.settle(100);
        count
    };
    assert_eq!(reports(Pacing::Acked), 3);
    assert!(reports(Pacing::Kernel) <= 1);

    let mut session = session(Pacing::Kernel);
    // Its own request for rare reports would take a report along.
    sends_report(&mut session, at(0));
    let mut reports_after = |frame: Frame, now| {
        receive(&mut session, &[frame], now);
        sends_report(&mut session, now)
    };
    let tell = Frame::Tell {
        bytes: 1,
        delay_ms: u64::MAX / 2_000_000,
    };
    assert!(!reports_after(tell, at(0)));
    let open = |n| Frame::Open {
        stream: StreamNumber(n),
    };
    // Requests beyond the bounds are not honoured.
    assert!(reports_after(open(0), at(101)));
    assert!(!reports_after(open(1), at(102)));
    assert!(reports_after(Frame::Ping, at(103)));
}

#[test]
fn due_report_joins_other_frame() {
    // Whether a report goes with bytes that are written this long after an arrival, before it would
    // go alone.
    let reports = |millis| {
        let mut session = session(Pacing::Acked);
        let asked = Frame::Tell {
            bytes: 64 << 10,
            delay_ms: 75,
        };
        receive(&mut session, &[asked, Frame::Ping], at(0));
        sends_report(&mut session, at(0));
        let stream = StreamNumber(0);
        receive(&mut session, &[Frame::Open { stream }], at(0));
        assert!(!session.poll_transmit(CARRIER, at(millis), &mut Out::new()));
        let stream = session.open(0).expect("the peer admits it");
        session.write(stream, &mut pattern(1, 400));
        sends_report(&mut session, at(millis))
    };
    assert_eq!([37, 38, 74].map(reports), [false, true, true]);
}

/// Runs two ends with one active connection and one standby for this long; returns how often each
/// pinged the other, over either connection.
fn pings(standbys: [usize; 2], seconds: u64) -> [[u32; 2]; 2] {
    let mut ends = standbys.map(|standbys| Session::new(Pacing::Kernel, standbys, at(0)));
    let carriers = [CARRIER, CarrierNumber(1)];
    for end in &mut ends {
        for number in carriers {
            end.handle_carrier(number, Decoder::default(), at(0));
        }
    }
    let mut pings = [[0; 2]; 2];
    for now in (0..seconds * 1000).map(at) {
        // What is sent arrives in the next millisecond.
        let sent: [[Vec<u8>; 2]; 2] = [0, 1].map(|end| {
            carriers.map(|number| {
                let mut out = Out::new();
                while ends[end].poll_transmit(number, now, &mut out) {}
                out.to_vec()
            })
        });
        for (end, sent) in sent.iter().enumerate() {
            for (carrier, bytes) in sent.iter().enumerate() {
                let mut decoder = Decoder::default();
                decoder.handle_bytes(bytes);
                let frames = core::iter::from_fn(|| decoder.poll_frame().expect("whole frames"));
                let asked = frames.filter(|(frame, _)| *frame == Frame::Ping).count();
                pings[end][carrier] += u32::try_from(asked).expect("few");
                let heard = ends[1 - end].handle_bytes(carriers[carrier], bytes, now);
                heard.expect("whole frames");
            }
        }
        for end in &mut ends {
            end.handle_timeout(now);
            assert!(!end.is_over());
        }
    }
    pings
}

#[test]
fn standby_keeper_pings_alone() {
    // The end with the longer interval pings until it knows how long an answer takes: over the
    // standby, once.
    let a_minute = pings([1, 0], 60);
    assert_eq!(a_minute, [[22, 10], [0, 1]]);
    // Two ends with equal intervals ping at once, as both did before.
    let alike = pings([1, 1], 60);
    assert_eq!(alike, [[22, 11], [22, 11]]);
}

/// Hands a stream's bytes to the kernel at time zero; returns the stream, the bytes including
/// frames, and the kernel's state from then on: the peer's kernel has acknowledged all, and the
/// window is wide open.
fn give(session: &mut Session) -> (StreamNumber, u64, KernelPath) {
    let path = KernelPath {
        window: DataSize::from_bytes(1_000_000),
        rtt: Duration::from_millis(10),
        ..KernelPath::default()
    };
    let mut out = Out::new();
    session.handle_kernel(CARRIER, path, at(0));
    let stream = session.open(0).expect("the peer admits it");
    session.write(stream, &mut pattern(1, 4_000));
    while session.poll_transmit(CARRIER, at(0), &mut out) {}
    (stream, out.len() as u64, path)
}

#[test]
fn unread_peer_gets_no_bytes() {
    let mut session = session(Pacing::Kernel);
    let (stream, given, path) = give(&mut session);
    let mut out = Out::new();
    session.handle_kernel(CARRIER, path, at(270));
    assert!(session.credit(at(270)) > DataSize::ZERO);
    assert!(!session.awaits_word(at(270)));
    assert_eq!(session.credit(at(271)), DataSize::ZERO);
    assert!(session.awaits_word(at(271)));
    session.write(stream, &mut pattern(1, 4_000));
    assert!(!session.poll_transmit(CARRIER, at(271), &mut out));
    receive(
        &mut session,
        &[Frame::Received { position: given }],
        at(300),
    );
    assert!(session.credit(at(300)) > DataSize::ZERO);
    assert!(session.poll_transmit(CARRIER, at(300), &mut out));
}

#[test]
fn busy_peer_delays_standby_dial() {
    let mut session = session(Pacing::Kernel);
    let standby = CarrierNumber(CARRIER.0 + 1);
    session.handle_carrier(standby, Decoder::default(), at(0));
    // Its kernel has all, and the peer reports nothing.
    let (_, _, path) = give(&mut session);
    for ms in (0..=1_000).step_by(50) {
        assert_eq!(session.active(), Some(CARRIER), "at {ms} ms");
        session.handle_kernel(CARRIER, path, at(ms));
        session.handle_timeout(at(ms));
    }
    assert_eq!(session.active(), Some(standby));
    assert_eq!(session.dial_at(), at(1_000) + STANDBY_REST_MIN);
    session.handle_carrier_lost(standby, at(1_100));
    assert_eq!(session.dial_at(), Instant::ZERO, "nothing carries");
}
