//! Proves when a neighbour becomes doubtful and silent: to the instant if the start of the wait is
//! known, and only while an answer is outstanding.

use alloc::vec::Vec;

use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::DataSize;

use super::{Hearing, LOOK, Pulse, Sign};

const RTT: Duration = Duration::from_millis(50);

fn sign(received: u64, in_flight: u64) -> Sign {
    Sign {
        received: Some(DataSize::from_bytes(received)),
        in_flight: DataSize::from_bytes(in_flight),
        waiting_since: None,
        rtt: RTT,
    }
}

fn ms(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// Checks whenever due, until `until`; returns the changes of liveness and their times.
fn changes(
    pulse: &mut Pulse,
    until: Instant,
    sign: impl Fn(Instant) -> Sign,
) -> Vec<(Hearing, Instant)> {
    let mut liveness = Vec::new();
    while pulse.poll_timeout() <= until {
        let now = pulse.poll_timeout();
        liveness.extend(
            pulse
                .handle_look(sign(now), now)
                .map(|hearing| (hearing, now)),
        );
        assert!(pulse.poll_timeout() > now, "no two checks at once");
    }
    liveness
}

#[test]
fn patience_is_four_rtts_with_minimum() {
    assert_eq!(Pulse::patience(RTT), Duration::from_millis(225));
    assert_eq!(Pulse::patience(Duration::ZERO), Duration::from_millis(150));
    let long = Pulse::patience(Duration::from_millis(600));
    assert_eq!(long, Duration::from_millis(2_425));
    assert!(Pulse::patience(Duration::NEVER) >= Duration::from_secs(1_000_000));
}

#[test]
fn doubt_precedes_silence_by_a_round_trip() {
    assert_eq!(Pulse::doubt(RTT), Duration::from_millis(150));
    assert_eq!(Pulse::doubt(Duration::ZERO), Duration::from_millis(75));
    for rtt in [0, 1, 20, 25, 37, 50, 600, 5_000].map(Duration::from_millis) {
        let (doubt, patience) = (Pulse::doubt(rtt), Pulse::patience(rtt));
        assert!(
            doubt + rtt + LOOK <= patience || doubt + doubt <= patience,
            "{rtt}"
        );
    }
    assert!(Pulse::doubt(Duration::NEVER) >= Duration::from_secs(1_000_000));
}

#[test]
fn dead_neighbour_is_doubtful_then_silent() {
    let mut pulse = Pulse::default();
    assert!(pulse.poll_timeout().is_never());
    let sent = Instant::from_nanos(7);
    pulse.handle_sent(sent);
    let liveness = changes(&mut pulse, sent + Duration::from_secs(3), |_| {
        sign(0, 1_200)
    });
    let (doubt, patience) = (Pulse::doubt(RTT), Pulse::patience(RTT));
    let expected = [
        (Hearing::Doubtful, sent + doubt),
        (Hearing::Silent, sent + patience),
    ];
    assert_eq!(liveness, expected);
    assert!(pulse.is_silent());
}

#[test]
fn wait_starts_at_last_acknowledgement() {
    let mut pulse = Pulse::default();
    pulse.handle_sent(ms(0));
    // A packet sent at 0 ms left at 9 ms; an acknowledgement at 61 ms was seen at 75 ms.
    let of = |now: Instant| {
        let (received, since) = if now < ms(61) { (0, 9) } else { (40, 61) };
        Sign {
            waiting_since: Some(ms(since)),
            ..sign(received, 1_200)
        }
    };
    let liveness = changes(&mut pulse, ms(3_000), of);
    let (doubt, patience) = (Pulse::doubt(RTT), Pulse::patience(RTT));
    let expected = [
        (Hearing::Doubtful, ms(61) + doubt),
        (Hearing::Silent, ms(61) + patience),
    ];
    assert_eq!(liveness, expected);
    // Data other than an acknowledgement has arrived by a check, at an unknown time.
    let mut pulse = Pulse::default();
    pulse.handle_sent(ms(0));
    let of = |now: Instant| Sign {
        waiting_since: Some(ms(9)),
        ..sign(if now < ms(61) { 0 } else { 40 }, 1_200)
    };
    let liveness = changes(&mut pulse, ms(3_000), of);
    assert_eq!(liveness[1], (Hearing::Silent, ms(75) + patience));
}

#[test]
fn late_answer_ends_doubt() {
    let mut pulse = Pulse::default();
    pulse.handle_sent(ms(0));
    let back = ms(0) + Pulse::doubt(RTT) + Duration::from_millis(10);
    let of = |now: Instant| sign(u64::from(now >= back), 1_200);
    let liveness = changes(&mut pulse, ms(300), of);
    let [(Hearing::Doubtful, _), (Hearing::Answering, when), ..] = liveness[..] else {
        panic!("{liveness:?}");
    };
    assert!(when.saturating_since(back) <= LOOK);
}

#[test]
fn unread_idle_bytes_extend_no_patience() {
    let mut pulse = Pulse::default();
    let mut now = Instant::from_nanos(7);
    pulse.handle_sent(now);
    let unread = Sign {
        received: None,
        ..sign(0, 0)
    };
    for _ in 0..3 {
        now = now + LOOK;
        assert_eq!(pulse.handle_look(unread, now), None);
        pulse.handle_sent(now);
    }
    // Something arrived meanwhile; then nothing more.
    let read = |_| sign(9_000, 1_200);
    let liveness = changes(&mut pulse, now + Duration::from_secs(3), read);
    assert_eq!(liveness[1], (Hearing::Silent, now + Pulse::patience(RTT)));
    // One received byte makes a difference.
    assert_eq!(
        pulse.handle_look(sign(9_001, 0), pulse.poll_timeout()),
        Some(Hearing::Answering)
    );
}

#[test]
fn unread_answers_cost_no_time_later() {
    let mut pulse = Pulse::default();
    pulse.handle_sent(ms(0));
    // Bytes are always in flight and answered every 7 ms; then nothing arrives any more.
    let last = ms(7 * 200);
    let of = |now: Instant| {
        let answered = Instant::from_nanos(now.as_nanos() / 7_000_000 * 7_000_000).min(last);
        let waits = Sign {
            waiting_since: Some(answered),
            ..sign(9_000, 1_200)
        };
        if answered + LOOK <= now {
            return waits;
        }
        Sign {
            received: None,
            rtt: Duration::ZERO,
            ..waits
        }
    };
    let liveness = changes(&mut pulse, ms(3_000), of);
    let silent = (Hearing::Silent, last + Pulse::patience(RTT));
    let doubted = (Hearing::Doubtful, last + Pulse::doubt(RTT));
    assert_eq!(liveness, [doubted, silent]);
}

#[test]
fn one_byte_ends_silence_and_idle_is_unchecked() {
    let mut pulse = Pulse::default();
    pulse.handle_sent(Instant::ZERO);
    let back = Instant::ZERO + Duration::from_secs(2);
    let of = |now: Instant| {
        if now < back {
            sign(0, 1_200)
        } else {
            sign(40, 0)
        }
    };
    let liveness = changes(&mut pulse, back + Duration::from_secs(1), of);
    let [_, (Hearing::Silent, _), (Hearing::Answering, ended)] = liveness[..] else {
        panic!("{liveness:?}");
    };
    assert!(ended.saturating_since(back) <= LOOK);
    assert!(!pulse.is_silent() && pulse.poll_timeout().is_never());
}

#[test]
fn sparse_answers_are_not_silence() {
    let mut pulse = Pulse::default();
    pulse.handle_sent(Instant::ZERO);
    let until = Instant::ZERO + Duration::from_secs(10);
    // A full queue: data every 200 ms, where the patience is 225 ms and the doubt 150 ms.
    let of = |now: Instant| sign(now.as_nanos() / 200_000_000, 50_000);
    let liveness = changes(&mut pulse, until, of);
    assert!(
        liveness
            .iter()
            .all(|(hearing, _)| *hearing != Hearing::Silent)
    );
    let of = |now: Instant| sign(now.as_nanos() / 100_000_000, 50_000);
    let mut pulse = Pulse::default();
    pulse.handle_sent(Instant::ZERO);
    assert_eq!(changes(&mut pulse, until, of), []);
    let mut pulse = Pulse::default();
    pulse.handle_sent(Instant::ZERO);
    assert_eq!(changes(&mut pulse, until, |_| sign(0, 0)), []);
    assert!(pulse.poll_timeout().is_never());
}

#[test]
fn own_suspension_is_not_silence() {
    let mut pulse = Pulse::default();
    pulse.handle_sent(Instant::ZERO);
    let late = Instant::ZERO + Duration::from_secs(2);
    // A known start of the wait changes nothing.
    let of = |_| Sign {
        waiting_since: Some(Instant::ZERO),
        ..sign(0, 1_200)
    };
    assert_eq!(pulse.handle_look(of(late), late), None);
    let liveness = changes(&mut pulse, late + Duration::from_secs(1), of);
    let waited = liveness[1].1.saturating_since(late);
    let patience = Pulse::patience(RTT);
    assert!(
        patience <= waited + LOOK && waited <= patience + LOOK,
        "{waited}"
    );
}
