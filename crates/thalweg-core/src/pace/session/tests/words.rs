//! Proves when a peer is told what has arrived, alone or along with something else, and that who is not told hands over no more.

use super::*;
use crate::pace::settings::STANDBY_REST_MIN;

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

/// The peer says this.
fn hear(session: &mut Session, frames: &[Frame], now: Instant) {
    let mut bytes = Vec::new();
    for frame in frames {
        frame.encode(&mut bytes);
    }
    let heard = session.handle_bytes(CARRIER, &bytes, now);
    heard.expect("whole frames");
}

/// Has all sent that is to be sent now; returns whether the peer is told with it what has arrived.
fn tells(session: &mut Session, now: Instant) -> bool {
    let mut out = Out::new();
    while session.poll_transmit(CARRIER, now, &mut out) {}
    let mut decoder = Decoder::default();
    decoder.handle_bytes(&out.to_vec());
    let mut frames = core::iter::from_fn(|| decoder.poll_frame().expect("whole frames"));
    frames.any(|(frame, _)| matches!(frame, Frame::Received { .. }))
}

#[test]
fn a_kernels_sender_is_told_seldom_and_one_that_asks_at_once() {
    let words = |pacing| {
        let mut world = World::new(pacing);
        world.settle(500);
        world.steps(100);
        // Three pictures, as a camera gives them.
        let mut told = 0;
        for n in 0..3 {
            world.sides[0].send(0, pattern(n, 4_000));
            for _ in 0..33 {
                let before = world.sides[0].acknowledged.len();
                world.step();
                told += u32::from(world.sides[0].acknowledged.len() > before);
            }
        }
        world.settle(100);
        told
    };
    assert_eq!(words(Pacing::Acked), 3);
    assert!(words(Pacing::Kernel) <= 1);

    let mut session = session(Pacing::Kernel);
    // What it asks for itself would take a word along.
    tells(&mut session, at(0));
    let mut say = |frame: Frame, now| {
        hear(&mut session, &[frame], now);
        tells(&mut session, now)
    };
    let tell = Frame::Tell {
        bytes: 1,
        delay_ms: u64::MAX / 2_000_000,
    };
    assert!(!say(tell, at(0)));
    let open = |n| Frame::Open {
        stream: StreamNumber(n),
    };
    // What is asked beyond the bounds is not done.
    assert!(say(open(0), at(101)));
    assert!(!say(open(1), at(102)));
    assert!(say(Frame::Ping, at(103)));
}

#[test]
fn what_is_to_be_told_before_long_goes_along_with_what_goes_anyway() {
    // What is said when bytes are written so long after something had come, and before it would be said alone.
    let says_so = |millis| {
        let mut session = session(Pacing::Acked);
        let asked = Frame::Tell {
            bytes: 64 << 10,
            delay_ms: 75,
        };
        hear(&mut session, &[asked, Frame::Ping], at(0));
        tells(&mut session, at(0));
        let stream = StreamNumber(0);
        hear(&mut session, &[Frame::Open { stream }], at(0));
        assert!(!session.poll_transmit(CARRIER, at(millis), &mut Out::new()));
        let stream = session.open(0).expect("the peer admits it");
        session.write(stream, &mut pattern(1, 400));
        tells(&mut session, at(millis))
    };
    assert_eq!([37, 38, 74].map(says_so), [false, true, true]);
}

/// Has two ends with one connection in use and one that stands by run for so long, and returns how often each asked whether the other
/// lives, over either.
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
        // What goes is there in the next millisecond.
        let said: [[Vec<u8>; 2]; 2] = [0, 1].map(|end| {
            carriers.map(|number| {
                let mut out = Out::new();
                while ends[end].poll_transmit(number, now, &mut out) {}
                out.to_vec()
            })
        });
        for (end, said) in said.iter().enumerate() {
            for (carrier, bytes) in said.iter().enumerate() {
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
fn who_keeps_standbys_asks_and_who_was_asked_does_not() {
    // Whoever waits longer asks until it knows how long an answer takes: over the connection that stands by, once.
    let a_minute = pings([1, 0], 60);
    assert_eq!(a_minute, [[22, 10], [0, 1]]);
    // Two that wait equally long ask at once, as both did before.
    let alike = pings([1, 1], 60);
    assert_eq!(alike, [[22, 11], [22, 11]]);
}

/// Hands a stream's bytes to the kernel at time zero; returns which, how many with their frames, and what the kernel says from then
/// on: the peer's has acknowledged all, and the window is wide open.
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
fn nothing_is_handed_to_a_kernel_whose_peer_does_not_read() {
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
    hear(
        &mut session,
        &[Frame::Received { position: given }],
        at(300),
    );
    assert!(session.credit(at(300)) > DataSize::ZERO);
    assert!(session.poll_transmit(CARRIER, at(300), &mut out));
}

#[test]
fn a_busy_peer_is_not_asked_for_a_standby_at_once_but_for_a_connection() {
    let mut session = session(Pacing::Kernel);
    let standby = CarrierNumber(CARRIER.0 + 1);
    session.handle_carrier(standby, Decoder::default(), at(0));
    // Its kernel has all, and the peer says nothing of it.
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
