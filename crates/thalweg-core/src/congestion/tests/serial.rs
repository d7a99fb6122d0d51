//! Proves that a slow line is known by two sizes of packets before it is full, and that nothing else is taken for one.

use super::{PACKET, ms};
use crate::congestion::{Controller, Mode, PACKETS_START};
use crate::time::{Duration, Instant};
use crate::units::{Bitrate, DataSize};

const SMALL: DataSize = DataSize::from_bytes(200);
const LARGE: DataSize = DataSize::from_bytes(1_452);

/// Sends one packet after the other, each of which meets nobody.
fn greet(controller: &mut Controller, now: &mut Instant, sizes: &[DataSize], rate: Bitrate) {
    for (number, size) in sizes.iter().enumerate() {
        let (number, sent) = (number as u64, *now);
        controller.handle_sent(sent, number, *size);
        *now = sent + ms(40) + rate.time_for(*size);
        controller.handle_ack(*now, number, sent, *size);
        controller.handle_acks_end(*now, DataSize::ZERO, true);
        *now = *now + ms(100);
    }
}

fn greeted(sizes: &[DataSize], rate: Bitrate) -> Controller {
    let mut controller = Controller::new(PACKET);
    let mut now = Instant::ZERO + ms(1);
    greet(&mut controller, &mut now, sizes, rate);
    controller
}

#[test]
fn a_slow_line_is_known_before_it_is_full() {
    let start = PACKETS_START * PACKET.as_bytes();
    for (kbps, most) in [
        (64, 3 * PACKET.as_bytes()),
        (128, 3 * PACKET.as_bytes() + 240),
    ] {
        let controller = greeted(&[SMALL, LARGE, SMALL], Bitrate::from_kbps(kbps));
        let window = controller.window().as_bytes();
        assert!(window >= 2 * PACKET.as_bytes(), "{kbps} kbit/s: {window}");
        assert!(window <= most, "{kbps} kbit/s: {window}");
        assert_eq!(controller.mode(), Mode::Start, "it grows as any other");
    }
    // A packet takes 39 ms: as much may be jitter.
    let faster = greeted(&[SMALL, LARGE, SMALL], Bitrate::from_kbps(300));
    assert_eq!(faster.window().as_bytes(), start);
    // A handshake's packets are answered by others as large.
    let unknown = greeted(&[SMALL, PACKET, SMALL], Bitrate::from_kbps(64));
    assert_eq!(unknown.window().as_bytes(), start);
}

#[test]
fn a_line_that_delivers_faster_is_not_slow() {
    let mut controller = greeted(&[SMALL, LARGE, SMALL], Bitrate::from_kbps(64));
    let known = controller.rate_known();
    assert!(
        known > Bitrate::from_kbps(60) && known <= Bitrate::from_kbps(64),
        "{known}"
    );
    // The large one had waited for others: the line carries much more.
    let mut now = Instant::ZERO + Duration::from_secs(5);
    for round in 0..4 {
        let sent = now;
        now = sent + ms(60);
        for number in 0..2 {
            controller.handle_sent(sent, 10 + 2 * round + number, PACKET);
        }
        for number in 0..2 {
            controller.handle_ack(now, 10 + 2 * round + number, sent, PACKET);
        }
        controller.handle_acks_end(now, DataSize::ZERO, true);
    }
    assert_eq!(controller.rate_known(), Bitrate::ZERO);
}

#[test]
fn what_waits_behind_a_full_window_says_nothing_of_the_line() {
    let mut controller = Controller::new(PACKET);
    let mut now = Instant::ZERO + ms(1);
    controller.handle_full();
    greet(
        &mut controller,
        &mut now,
        &[SMALL, LARGE],
        Bitrate::from_kbps(64),
    );
    assert_eq!(controller.rate_known(), Bitrate::ZERO);
}
