//! Proves when a peer is told what has arrived, alone or along with something else, and that who is not told hands over no more.

use super::*;

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

    let mut session = Session::new(Pacing::Kernel, 0, Instant::ZERO);
    let carrier = CarrierNumber(0);
    session.handle_carrier(carrier, Decoder::default(), Instant::ZERO);
    // What it asks for itself would take a word along.
    while session.poll_transmit(carrier, Instant::ZERO, &mut Out::new()) {}
    let mut say = |frame: Frame, now| {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        session.handle_bytes(carrier, &bytes, now).expect("frames");
        let mut out = Out::new();
        while session.poll_transmit(carrier, now, &mut out) {}
        let mut decoder = Decoder::default();
        decoder.handle_bytes(&out.to_vec());
        let mut words = core::iter::from_fn(|| decoder.poll_frame().expect("frames"));
        words.any(|(frame, _)| matches!(frame, Frame::Received { .. }))
    };
    let tell = Frame::Tell {
        bytes: 1,
        delay_ms: u64::MAX / 2_000_000,
    };
    assert!(!say(tell, Instant::ZERO));
    let open = |n| Frame::Open {
        stream: StreamNumber(n),
    };
    let at = |millis| Instant::ZERO + Duration::from_millis(millis);
    // What is asked beyond the bounds is not done.
    assert!(say(open(0), at(101)));
    assert!(!say(open(1), at(102)));
    assert!(say(Frame::Ping, at(103)));
}

#[test]
fn what_is_to_be_told_before_long_goes_along_with_what_goes_anyway() {
    let at = |millis| Instant::ZERO + Duration::from_millis(millis);
    // What is said when bytes are written so long after something had come, and before it would be said alone.
    let says_so = |millis| {
        let mut session = Session::new(Pacing::Acked, 0, Instant::ZERO);
        let carrier = CarrierNumber(0);
        session.handle_carrier(carrier, Decoder::default(), Instant::ZERO);
        let mut said = Vec::new();
        let asked = Frame::Tell {
            bytes: 64 << 10,
            delay_ms: 75,
        };
        asked.encode(&mut said);
        Frame::Ping.encode(&mut said);
        session
            .handle_bytes(carrier, &said, at(0))
            .expect("whole frames");
        let mut out = Out::new();
        while session.poll_transmit(carrier, at(0), &mut out) {}
        let mut said = Vec::new();
        let stream = StreamNumber(0);
        Frame::Open { stream }.encode(&mut said);
        session
            .handle_bytes(carrier, &said, at(0))
            .expect("a whole frame");
        out.clear();
        assert!(!session.poll_transmit(carrier, at(millis), &mut out));
        let stream = session.open(0).expect("the peer admits it");
        session.write(stream, &mut pattern(1, 400));
        while session.poll_transmit(carrier, at(millis), &mut out) {}
        let mut decoder = Decoder::default();
        decoder.handle_bytes(&out.to_vec());
        let mut frames = core::iter::from_fn(|| decoder.poll_frame().expect("whole frames"));
        frames.any(|(frame, _)| matches!(frame, Frame::Received { .. }))
    };
    assert_eq!([37, 38, 74].map(says_so), [false, true, true]);
}

#[test]
fn nothing_is_handed_to_a_kernel_whose_peer_does_not_read() {
    let mut session = Session::new(Pacing::Kernel, 0, Instant::ZERO);
    let carrier = CarrierNumber(0);
    session.handle_carrier(carrier, Decoder::default(), Instant::ZERO);
    // All is acknowledged by the peer's kernel, and the window is wide open.
    let path = KernelPath {
        window: DataSize::from_bytes(1_000_000),
        rtt: Duration::from_millis(10),
        ..KernelPath::default()
    };
    let mut out = Out::new();
    session.handle_kernel(carrier, path, Instant::ZERO);
    let stream = session.open(0).expect("the peer admits it");
    session.write(stream, &mut pattern(1, 4_000));
    while session.poll_transmit(carrier, Instant::ZERO, &mut out) {}
    let given = out.len() as u64;
    let at = |millis| Instant::ZERO + Duration::from_millis(millis);
    session.handle_kernel(carrier, path, at(270));
    assert!(session.credit(at(270)) > DataSize::ZERO);
    assert!(!session.awaits_word(at(270)));
    assert_eq!(session.credit(at(271)), DataSize::ZERO);
    assert!(session.awaits_word(at(271)));
    session.write(stream, &mut pattern(1, 4_000));
    assert!(!session.poll_transmit(carrier, at(271), &mut out));
    let mut word = Vec::new();
    Frame::Received { position: given }.encode(&mut word);
    session
        .handle_bytes(carrier, &word, at(300))
        .expect("a word");
    assert!(session.credit(at(300)) > DataSize::ZERO);
    assert!(session.poll_transmit(carrier, at(300), &mut out));
}
