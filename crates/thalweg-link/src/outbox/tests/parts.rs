//! Proves the min-max heap, the lost sequences and the gate, each by itself.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::*;
use thalweg_base::time::Duration;
use thalweg_base::units::{Bitrate, DataSize};

use super::super::family::{LOST_REACH, Lost};
use super::super::gate::{Gate, Path, SLIVER_MIN, WINDOW_UNKNOWN};
use super::super::spread::MinMaxHeap;

proptest! {
    #[test]
    fn heap_equals_sorted_set(steps in vec((0..4u8, any::<u16>()), 0..400)) {
        let (mut heap, mut model) = (MinMaxHeap::EMPTY, BTreeSet::new());
        for (number, (step, value)) in steps.into_iter().enumerate() {
            match step {
                0 => prop_assert_eq!(heap.pop_least(), model.pop_first()),
                1 => prop_assert_eq!(heap.pop_greatest(), model.pop_last()),
                2 if value < 2_000 => {
                    heap.retain(|(value, _)| value % 2 == 0);
                    model.retain(|(value, _)| value % 2 == 0);
                }
                _ => {
                    heap.push((value, number));
                    model.insert((value, number));
                }
            }
            prop_assert_eq!(heap.len(), model.len());
            prop_assert_eq!(heap.least(), model.first());
            prop_assert_eq!(heap.greatest(), model.last());
        }
    }

    #[test]
    fn lost_sequences_equal_a_set(
        steps in vec((any::<bool>(), prop_oneof![0..3_000u64, any::<u64>()]), 0..200),
    ) {
        let (mut lost, mut model, mut highest) = (Lost::default(), BTreeSet::new(), 0);
        for (is_lost, sequence) in steps {
            if is_lost {
                lost.add(sequence);
                highest = highest.max(sequence);
                model.insert(sequence);
            } else {
                lost.remove(sequence);
                model.remove(&sequence);
            }
            model.retain(|sequence| highest - sequence < LOST_REACH);
            let asked: Vec<u64> = [0, 1, highest, highest.saturating_sub(LOST_REACH), sequence, sequence ^ 1]
                .into_iter()
                .chain(model.iter().copied())
                .collect();
            for sequence in asked {
                prop_assert_eq!(lost.contains(sequence), model.contains(&sequence), "{}", sequence);
            }
        }
    }
}

#[test]
fn credit_is_window_and_sliver() {
    let mut gate = Gate::default();
    assert_eq!(gate.credit(), WINDOW_UNKNOWN + SLIVER_MIN);
    gate.handle_path(&Path {
        window: DataSize::from_bytes(100_000),
        rtt: Duration::from_millis(100),
        rate: Bitrate::ZERO,
    });
    // A window a round trip is 8 Mbit/s, and 2 ms of that are less than the least sliver.
    assert_eq!(gate.limit().as_bytes(), 102_400);
    gate.handle_path(&Path {
        window: DataSize::from_bytes(10_000_000),
        rtt: Duration::from_millis(80),
        rate: Bitrate::from_kbps(1_000_000),
    });
    assert_eq!(gate.limit().as_bytes(), 10_250_000);
    gate.handle_written(DataSize::from_bytes(10_249_000));
    assert_eq!(gate.credit().as_bytes(), 1_000);
    gate.handle_written(DataSize::from_bytes(5_000));
    assert_eq!(gate.credit(), DataSize::ZERO);
}

/// A packet of 1,440 bytes is assumed to carry 1,313 bytes of payload.
const CARRIED: u64 = 1_400 - 1_400 / 16;

#[test]
fn gate_is_open_from_half_a_sliver_on() {
    let mut gate = Gate::default();
    assert!(gate.is_open());
    let all = gate.credit().as_bytes();
    let half = SLIVER_MIN.as_bytes() / 2;
    gate.handle_written(DataSize::from_bytes(all - half));
    assert!(gate.is_open());
    gate.handle_written(DataSize::from_bytes(1));
    assert!(!gate.is_open());
    // An ADU of any size can use half of the least sliver: none waits at a gate that never opens.
    assert!(half <= u64::from(super::super::CHUNK_BYTES_MIN));
}

#[test]
fn acknowledgement_opens_gate() {
    let packet = DataSize::from_bytes(1_440);
    let mut gate = Gate::default();
    let all = gate.credit();
    gate.handle_written(DataSize::from_bytes(CARRIED));
    gate.handle_packet(packet);
    assert_eq!(gate.unsent(), DataSize::ZERO);
    assert_eq!(gate.in_flight(), packet);
    assert_eq!(gate.credit(), all - packet);
    gate.handle_acknowledged(packet);
    assert_eq!(gate.credit(), all);
}

#[test]
fn silent_peer_gets_one_packet() {
    let packet = DataSize::from_bytes(1_500);
    let mut gate = Gate::default();
    let all = gate.limit();
    // A window and some probes are in flight, and the sliver is filled.
    for _ in 0..12 {
        gate.handle_packet(packet);
    }
    gate.handle_written(SLIVER_MIN);
    assert_eq!(gate.credit(), DataSize::ZERO);
    let beyond = gate.let_one_through(packet);
    assert_eq!(WINDOW_UNKNOWN + beyond, gate.in_flight() + packet);
    assert_eq!(gate.credit(), packet);
    gate.handle_written(packet);
    gate.handle_packet(packet);
    assert!(gate.credit() < packet);
    gate.handle_acknowledged(packet);
    assert_eq!(gate.limit(), all);
}

#[test]
fn lost_packet_is_unsent_again() {
    let packet = DataSize::from_bytes(1_440);
    let mut gate = Gate::default();
    gate.handle_written(DataSize::from_bytes(CARRIED));
    gate.handle_packet(packet);
    gate.handle_lost(packet);
    assert_eq!(gate.in_flight(), DataSize::ZERO);
    assert_eq!(gate.unsent().as_bytes(), CARRIED);
}

#[test]
fn dry_transport_has_sent_all() {
    let packet = DataSize::from_bytes(1_440);
    let mut gate = Gate::default();
    // More than the packet is assumed to carry.
    gate.handle_written(DataSize::from_bytes(1_400));
    gate.handle_packet(packet);
    assert_eq!(gate.unsent().as_bytes(), 1_400 - CARRIED);
    // These bytes come after the packet, and may still wait.
    gate.handle_written(DataSize::from_bytes(500));
    gate.handle_in_flight(packet, false);
    assert_eq!(gate.unsent().as_bytes(), 1_900 - CARRIED);
    gate.handle_in_flight(packet, true);
    assert_eq!(gate.unsent().as_bytes(), 500);
}

#[test]
fn foreign_packets_open_nothing() {
    let mut gate = Gate::default();
    for _ in 0..10 {
        gate.handle_packet(DataSize::from_bytes(1_440));
    }
    gate.handle_in_flight(DataSize::ZERO, true);
    gate.handle_written(DataSize::from_bytes(700));
    assert_eq!(gate.unsent().as_bytes(), 700);
}

#[test]
fn sliver_has_bounds() {
    let mut gate = Gate::default();
    let path = Path {
        window: DataSize::from_bytes(50_000),
        rtt: Duration::from_micros(200),
        rate: Bitrate::ZERO,
    };
    gate.handle_path(&path);
    assert_eq!(gate.limit().as_bytes(), 100_000);
    gate.handle_path(&Path {
        rtt: Duration::from_millis(1),
        rate: Bitrate::from_kbps(10_000_000),
        ..path
    });
    assert_eq!(gate.limit().as_bytes(), 100_000);
    gate.handle_path(&Path::default());
    assert_eq!(gate.limit(), WINDOW_UNKNOWN + SLIVER_MIN);
}

#[test]
fn false_acknowledgement_opens_nothing() {
    let mut gate = Gate::default();
    let all = gate.credit();
    gate.handle_packet(DataSize::from_bytes(500));
    gate.handle_acknowledged(DataSize::from_bytes(700));
    assert_eq!(gate.credit(), all);
    assert_eq!(gate.false_acknowledged().as_bytes(), 200);
    assert_eq!(gate.in_flight(), DataSize::ZERO);
}
