//! Proves when a neighbour is taken for silent: after its patience, to a look, and only while something is waited for.

use super::{LOOK, Pulse, Sign};
use crate::time::{Duration, Instant};
use crate::units::DataSize;

const RTT: Duration = Duration::from_millis(50);

fn sign(received: u64, in_flight: u64) -> Sign {
    Sign {
        received: Some(DataSize::from_bytes(received)),
        in_flight: DataSize::from_bytes(in_flight),
        rtt: RTT,
    }
}

/// Looks whenever it is time, until then; returns when silence began and ended.
fn looked(
    pulse: &mut Pulse,
    until: Instant,
    sign: impl Fn(Instant) -> Sign,
) -> (Option<Instant>, Option<Instant>) {
    let (mut begun, mut ended) = (None, None);
    while pulse.poll_timeout() <= until {
        let now = pulse.poll_timeout();
        match pulse.handle_look(sign(now), now) {
            Some(true) => begun = Some(now),
            Some(false) => ended = Some(now),
            None => {}
        }
    }
    (begun, ended)
}

#[test]
fn patience_is_four_round_trips_and_a_held_back_acknowledgement_and_has_a_least() {
    assert_eq!(Pulse::patience(RTT), Duration::from_millis(225));
    assert_eq!(Pulse::patience(Duration::ZERO), Duration::from_millis(150));
    let long = Pulse::patience(Duration::from_millis(600));
    assert_eq!(long, Duration::from_millis(2_425));
    assert!(Pulse::patience(Duration::NEVER) >= Duration::from_secs(1_000_000));
}

#[test]
fn a_neighbour_that_never_answers_is_silent_after_its_patience_and_a_look() {
    let mut pulse = Pulse::default();
    assert!(pulse.poll_timeout().is_never());
    let sent = Instant::from_nanos(7);
    pulse.handle_sent(sent);
    let later = sent + Duration::from_secs(3);
    let (begun, ended) = looked(&mut pulse, later, |_| sign(0, 1_200));
    let begun = begun.expect("silent").saturating_since(sent);
    let patience = Pulse::patience(RTT);
    assert!(patience <= begun && begun <= patience + LOOK, "{begun}");
    assert!(ended.is_none() && pulse.is_silent());
}

#[test]
fn what_was_not_asked_while_nothing_was_in_flight_prolongs_no_patience() {
    let mut pulse = Pulse::default();
    let mut now = Instant::from_nanos(7);
    pulse.handle_sent(now);
    let unasked = Sign {
        received: None,
        ..sign(0, 0)
    };
    for _ in 0..3 {
        now = now + LOOK;
        assert_eq!(pulse.handle_look(unasked, now), None);
        pulse.handle_sent(now);
    }
    // Something came meanwhile; then nothing any more.
    let asked = |_| sign(9_000, 1_200);
    let (begun, _) = looked(&mut pulse, now + Duration::from_secs(3), asked);
    let begun = begun.expect("silent").saturating_since(now);
    let patience = Pulse::patience(RTT);
    assert!(patience <= begun && begun <= patience + LOOK, "{begun}");
    // And a byte that comes is one more than those.
    assert_eq!(
        pulse.handle_look(sign(9_001, 0), pulse.poll_timeout()),
        Some(false)
    );
}

#[test]
fn one_byte_ends_the_silence_and_an_idle_link_is_not_looked_at() {
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
    let (begun, ended) = looked(&mut pulse, back + Duration::from_secs(1), of);
    assert!(begun.is_some() && ended.expect("heard").saturating_since(back) <= LOOK);
    assert!(!pulse.is_silent() && pulse.poll_timeout().is_never());
}

#[test]
fn who_answers_now_and_then_or_has_nothing_to_answer_is_not_silent() {
    let mut pulse = Pulse::default();
    pulse.handle_sent(Instant::ZERO);
    let until = Instant::ZERO + Duration::from_secs(10);
    // A full queue: something comes every 200 ms.
    let of = |now: Instant| sign(now.as_nanos() / 200_000_000, 50_000);
    assert_eq!(looked(&mut pulse, until, of), (None, None));
    let mut pulse = Pulse::default();
    pulse.handle_sent(Instant::ZERO);
    assert_eq!(looked(&mut pulse, until, |_| sign(0, 0)), (None, None));
    assert!(pulse.poll_timeout().is_never());
}

#[test]
fn what_this_node_was_away_does_not_count_as_silence() {
    let mut pulse = Pulse::default();
    pulse.handle_sent(Instant::ZERO);
    let late = Instant::ZERO + Duration::from_secs(2);
    assert_eq!(pulse.handle_look(sign(0, 1_200), late), None);
    let until = late + Duration::from_secs(1);
    let (begun, _) = looked(&mut pulse, until, |_| sign(0, 1_200));
    let waited = begun.expect("silent").saturating_since(late);
    let patience = Pulse::patience(RTT);
    assert!(
        patience <= waited + LOOK && waited <= patience + LOOK,
        "{waited}"
    );
}
