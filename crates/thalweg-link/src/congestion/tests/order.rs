//! Proves that reordering tells jitter from a queue, that a line which keeps the order has no
//! jitter, and that spurious losses are taken back.

use alloc::format;

use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::Bitrate;

use super::super::losses::Losses;
use super::super::order::Order;
use super::super::{Congestion, Mode};
use super::{PACKET, Path, ms};

fn at(millis: u64) -> Instant {
    Instant::ZERO + ms(millis)
}

#[test]
fn overtaken_packet_is_late() {
    let mut order = Order::default();
    let mut batch = |now: u64, numbers: &[u64]| {
        for number in numbers {
            order.handle_ack(at(now), *number);
        }
        order.handle_newest(at(now), numbers.iter().copied().max().unwrap_or(0));
        order.late()
    };
    assert_eq!(batch(20, &[0, 1]), ms(0));
    assert_eq!(batch(22, &[4]), ms(0), "two are missing");
    assert_eq!(batch(25, &[3]), ms(3));
    assert_eq!(batch(29, &[6, 5]), ms(3), "a batch has no order");
    assert_eq!(
        batch(31, &[2]),
        ms(9),
        "after the first that overtook it, not the last"
    );
    assert_eq!(batch(40, &[9, 8, 7]), ms(9));
    // It holds for 32 rounds to twice as many.
    let mut rounds = 0;
    while order.late() > Duration::ZERO {
        order.handle_round();
        rounds += 1;
    }
    assert!((32..=64).contains(&rounds), "{rounds}");
    order.forget_numbers();
    order.handle_ack(at(50), 0);
    assert_eq!(order.late(), ms(0), "numbers start over");
}

#[test]
fn spurious_loss_is_late_by_first_overtaker() {
    let mut order = Order::default();
    order.handle_newest(at(20), 1);
    order.handle_newest(at(22), 5);
    order.handle_newest(at(30), 6);
    order.handle_spurious(at(40));
    assert_eq!(order.late(), ms(0), "nothing was declared lost");
    order.handle_lost(2);
    order.handle_spurious(at(90));
    assert_eq!(order.late(), ms(68));
    // It is reported once, and of several the last declared lost has the least certain lateness.
    order.handle_spurious(at(500));
    assert_eq!(order.late(), ms(68));
    order.handle_newest(at(100), 9);
    order.handle_lost(4);
    order.handle_lost(8);
    order.handle_spurious(at(150));
    assert_eq!(order.late(), ms(68));
    order.handle_lost(8);
    order.handle_spurious(at(180));
    assert_eq!(order.late(), ms(80));
    order.forget_numbers();
    order.handle_spurious(at(900));
    assert_eq!(order.late(), ms(80), "numbers start over");
}

#[test]
fn reordering_jitter_is_no_queue() {
    for packets in [3, 5, 10] {
        let mut path = Path::new(Bitrate::from_kbps(100_000), ms(20));
        (path.jitter, path.overtakes) = (ms(60), true);
        let (mut late, mut queued) = (0, 0);
        for frame in 0..500 {
            let left = path.backlog.unwrap_or(0);
            if frame > 25 {
                late += u32::from(left > 0);
                let limit = path.controller.path.quiet_limit();
                queued += u32::from(path.controller.queueing() > limit);
            }
            path.backlog = Some(left + packets);
            path.run_for(ms(40));
        }
        assert!(late < 5, "{packets} packets a frame: {late}");
        // With three packets a frame it was 208 of 474 when jitter counted.
        assert!(queued < 25, "{packets} packets a frame: {queued}");
    }
}

#[test]
fn queue_is_seen_under_reordering() {
    let mut path = Path::new(Bitrate::from_kbps(10_000), ms(50));
    (path.jitter, path.overtakes) = (ms(10), true);
    path.run_for(Duration::from_secs(10));
    let (before, mut longest) = (path.next, ms(0));
    for _ in 0..100 {
        path.run_for(ms(100));
        longest = longest.max(path.wait());
    }
    let carried = ((path.next - before) * PACKET.as_bytes() * 8) as f64 / 1e8;
    assert!(carried > 0.95, "{carried}");
    assert!(longest < ms(50), "{longest}");
}

#[test]
fn spurious_losses_are_uncounted() {
    let mut losses = Losses::default();
    for _ in 0..12 {
        losses.handle_lost();
        losses.handle_ack();
    }
    assert!(losses.is_heavy());
    losses.forgive();
    assert!(!losses.is_heavy() && !losses.is_lasting());
    // Nor in the share of the next 256.
    (0..300).for_each(|_| losses.handle_ack());
    assert!(!losses.is_heavy());
}

#[test]
fn spurious_loss_restores_competition() {
    let mut path = Path::new(Bitrate::from_kbps(10_000), ms(20));
    path.run_for(Duration::from_secs(2));
    while path.controller.mode() != Mode::Compete {
        // A rival keeps 100 ms in the queue.
        path.free = path.free.max(path.now + ms(100));
        path.run_for(ms(1));
    }
    path.run_for(ms(500));
    let law = |path: &Path| format!("{:?}", path.controller.phase.cubic());
    let (window, before) = (path.controller.window(), law(&path));
    let lost = path.next - 1;
    path.controller.handle_lost(lost, PACKET);
    path.controller
        .handle_congestion(path.now, path.now, Congestion::Loss);
    assert!(path.controller.window() < window);
    assert_ne!(law(&path), before);
    path.controller.handle_spurious_loss();
    assert_eq!(path.controller.window(), window);
    assert_eq!(law(&path), before);
}
