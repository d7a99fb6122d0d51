//! Proves that no more than the sliver is left unsent, and that an open window is filled at once.

use proptest::prelude::*;

use super::*;

fn pacer(window: u64, in_flight: u64, unsent: u64) -> PaceK {
    let mut pacer = PaceK::default();
    pacer.handle_path(KernelPath {
        window: DataSize::from_bytes(window),
        in_flight: DataSize::from_bytes(in_flight),
        unsent: DataSize::from_bytes(unsent),
        acknowledged: DataSize::ZERO,
        rtt: Duration::from_millis(50),
        rtt_min: Duration::from_millis(40),
        delivery_rate: Bitrate::from_kbps(10_000),
        timeouts: 0,
        segments_again: 0,
    });
    pacer
}

/// 10 Mbit/s for 2 ms.
const SLIVER: u64 = 2_500;

#[test]
fn credit_is_window_and_sliver() {
    assert_eq!(pacer(60_000, 0, 0).credit().as_bytes(), 60_000 + SLIVER);
    assert_eq!(pacer(60_000, 60_000, 0).credit().as_bytes(), SLIVER);
}

#[test]
fn unsent_sliver_closes_credit() {
    assert_eq!(pacer(60_000, 60_000, SLIVER - 1).credit().as_bytes(), 1);
    assert_eq!(pacer(60_000, 60_000, SLIVER).credit(), DataSize::ZERO);
    assert_eq!(pacer(60_000, 0, SLIVER).credit(), DataSize::ZERO);
}

#[test]
fn written_bytes_spend_credit() {
    let mut pacer = pacer(60_000, 58_000, 0);
    pacer.handle_written(DataSize::from_bytes(4_400));
    assert_eq!(pacer.credit().as_bytes(), 100);
    pacer.handle_written(DataSize::from_bytes(200));
    assert_eq!(pacer.credit(), DataSize::ZERO);
}

#[test]
fn kernel_state_resets_spending() {
    let mut pacer = pacer(60_000, 20_000, 0);
    let before = pacer.credit();
    let handed = DataSize::from_bytes(4_167);
    pacer.handle_written(handed);
    pacer.handle_written(handed);
    assert_eq!(pacer.written, handed + handed);
    assert_eq!(pacer.credit(), before - handed - handed);
    pacer.handle_path(*pacer.path());
    assert_eq!((pacer.written, pacer.credit()), (DataSize::ZERO, before));
}

#[test]
fn quarter_of_credit_asks_kernel() {
    // By window: the bytes that suffice.
    for (window, enough) in [
        (20_000, 12_000),
        (80_000, (80_000 + SLIVER) / 4),
        (10_000_000, 64 << 10),
    ] {
        let mut pacer = pacer(window, 0, 0);
        pacer.handle_written(DataSize::from_bytes(enough - 1));
        assert!(!pacer.is_used_up(), "{window}");
        pacer.handle_written(DataSize::from_bytes(1));
        assert!(pacer.is_used_up(), "{window}");
        pacer.handle_path(*pacer.path());
        assert!(!pacer.is_used_up(), "{window}");
    }
}

#[test]
fn slow_path_gets_two_packets() {
    let mut pacer = PaceK::default();
    assert_eq!(pacer.credit(), SLIVER_MIN);
    assert_eq!(pacer.rate(), None);
    pacer.handle_path(KernelPath {
        window: DataSize::from_bytes(14_480),
        rtt: Duration::from_millis(400),
        in_flight: DataSize::from_bytes(14_480),
        ..KernelPath::default()
    });
    assert_eq!(pacer.credit(), SLIVER_MIN);
    assert_eq!(pacer.rate(), Some(Bitrate::from_bps(289_600)));
}

#[test]
fn full_window_marks_path_full() {
    assert!(!pacer(60_000, 60_000, 0).has_been_full());
    assert!(!pacer(60_000, 59_999, 1).has_been_full());
    let mut pacer = pacer(60_000, 60_000, 1);
    assert!(pacer.has_been_full());
    pacer.handle_path(KernelPath::default());
    assert!(pacer.has_been_full());
}

proptest! {
    #[test]
    fn used_credit_leaves_sliver_unsent(
        window in 0..10_000_000_u64,
        in_flight in 0..10_000_000_u64,
        unsent in 0..10_000_000_u64,
    ) {
        let pacer = pacer(window, in_flight, unsent);
        let (credit, sliver) = (pacer.credit().as_bytes(), pacer.sliver().as_bytes());
        // The kernel sends at once what its window lets through.
        let left = (unsent + credit).saturating_sub(window.saturating_sub(in_flight));
        prop_assert!(left <= sliver.max(unsent));
    }
}
