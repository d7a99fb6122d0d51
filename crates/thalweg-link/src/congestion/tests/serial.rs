//! Proves that two packet sizes show a slow line before it is full, and that no other line is taken
//! for one.

use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize};

use super::{PACKET, ms};
use crate::congestion::{Controller, Mode, PACKETS_START};

const SMALL: DataSize = DataSize::from_bytes(200);
const LARGE: DataSize = DataSize::from_bytes(1_452);

/// Sends one packet after the other, each of which finds an empty line.
fn probe_line(controller: &mut Controller, now: &mut Instant, sizes: &[DataSize], rate: Bitrate) {
    for (number, size) in sizes.iter().enumerate() {
        let (number, sent) = (number as u64, *now);
        controller.handle_sent(sent, number, *size);
        *now = sent + ms(40) + rate.time_for(*size);
        controller.handle_ack(*now, number, sent, *size);
        controller.handle_acks_end(*now, DataSize::ZERO, true);
        *now = *now + ms(100);
    }
}

fn probed(sizes: &[DataSize], rate: Bitrate) -> Controller {
    let mut controller = Controller::new(PACKET);
    let mut now = Instant::ZERO + ms(1);
    probe_line(&mut controller, &mut now, sizes, rate);
    controller
}

#[test]
fn slow_line_caps_initial_window() {
    let start = PACKETS_START * PACKET.as_bytes();
    for (kbps, most) in [
        (64, 3 * PACKET.as_bytes()),
        (128, 3 * PACKET.as_bytes() + 240),
    ] {
        let controller = probed(&[SMALL, LARGE, SMALL], Bitrate::from_kbps(kbps));
        let window = controller.window().as_bytes();
        assert!(window >= 2 * PACKET.as_bytes(), "{kbps} kbit/s: {window}");
        assert!(window <= most, "{kbps} kbit/s: {window}");
        assert_eq!(controller.mode(), Mode::Start, "it grows as any other");
    }
    // A packet takes 39 ms: jitter may take as much.
    let faster = probed(&[SMALL, LARGE, SMALL], Bitrate::from_kbps(300));
    assert_eq!(faster.window().as_bytes(), start);
    // Packets of a handshake are answered by others as large.
    let unknown = probed(&[SMALL, PACKET, SMALL], Bitrate::from_kbps(64));
    assert_eq!(unknown.window().as_bytes(), start);
}

#[test]
fn fast_delivery_refutes_slow_line() {
    let mut controller = probed(&[SMALL, LARGE, SMALL], Bitrate::from_kbps(64));
    let known = controller.path.rate_serial();
    assert!(
        known > Bitrate::from_kbps(60) && known <= Bitrate::from_kbps(64),
        "{known}"
    );
    // The large packet had waited behind others: the line carries much more.
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
    assert_eq!(controller.path.rate_serial(), Bitrate::ZERO);
}

#[test]
fn full_window_takes_no_sample() {
    let mut controller = Controller::new(PACKET);
    let mut now = Instant::ZERO + ms(1);
    controller.handle_full();
    probe_line(
        &mut controller,
        &mut now,
        &[SMALL, LARGE],
        Bitrate::from_kbps(64),
    );
    assert_eq!(controller.path.rate_serial(), Bitrate::ZERO);
}
