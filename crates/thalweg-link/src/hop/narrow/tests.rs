//! Proves when a path counts as too small for full packets, and that chance, outages and congestion
//! do not.

use thalweg_base::random::SplitMix;

use super::*;

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// Sends a full packet and a small one each 20 ms; `arrives` decides by size and number. Returns
/// when the path was first suspected, and when it was certain, in milliseconds.
fn play(packets: u64, mut arrives: impl FnMut(u16, u64) -> bool) -> (Option<u64>, Option<u64>) {
    let mut narrow = Narrow::default();
    let (mut suspected, mut certain) = (None, None);
    for number in 0..packets {
        let millis = number / 2 * 20;
        let bytes = if number % 2 == 0 { 1_200 } else { 350 };
        if arrives(bytes, number) {
            narrow.handle_acknowledged(number, bytes);
        } else {
            narrow.handle_lost(at(millis), number, bytes);
        }
        let passage = narrow.passage(at(millis));
        if passage != Passage::Open {
            suspected.get_or_insert(millis);
        }
        if passage == Passage::Narrow {
            certain.get_or_insert(millis);
        }
    }
    (suspected, certain)
}

#[test]
fn lost_full_packets_show_in_a_second() {
    let (suspected, certain) = play(200, |bytes, number| bytes < 600 || number < 20);
    assert_eq!((suspected, certain), (Some(300), Some(1_200)));
}

#[test]
fn one_full_packet_ends_streak() {
    // One full packet in eleven arrives: the line is bad, and not too small.
    let (_, certain) = play(4_000, |bytes, number| bytes < 600 || number % 22 == 0);
    assert_eq!(certain, None);
    // One in six: not even a test is worthwhile.
    let played = play(4_000, |bytes, number| bytes < 600 || number % 12 == 0);
    assert_eq!(played, (None, None));
}

#[test]
fn random_loss_is_never_certain() {
    for seed in 0..50 {
        let mut random = SplitMix::new(seed);
        let (_, certain) = play(20_000, |_, _| random.next_unit() >= 0.3);
        assert_eq!(certain, None, "seed {seed}");
    }
}

#[test]
fn outage_is_not_certain() {
    let (suspected, certain) = play(400, |_, number| number < 20);
    assert!(suspected.is_some(), "an active test decides");
    assert_eq!(certain, None);
}

#[test]
fn packets_above_minimum_are_ignored() {
    let mut narrow = Narrow::default();
    for number in 0..100 {
        narrow.handle_lost(at(number * 20), number, 1_452);
    }
    assert_eq!(narrow.passage(at(10_000)), Passage::Open);
}

#[test]
fn earlier_packets_ack_changes_nothing() {
    let mut narrow = Narrow::default();
    for number in 10..30 {
        narrow.handle_lost(at(number * 100), number, 1_200);
    }
    narrow.handle_acknowledged(9, 1_200);
    assert_eq!(narrow.passage(at(5_000)), Passage::Suspect);
    narrow.handle_acknowledged(30, 1_200);
    assert!(narrow.is_clear());
}
