//! Proves the evaluation of records, the choice of the headline's size, and that a quota makes its share.

use super::Measured;
use super::figures::{headline, ratio};
use super::limit::quota_us;
use super::play::Played;
use super::taken::Taken;
use crate::peers::tree::{Load, RECORD_BYTES, Record, STAMP_BYTES};

const fn record(sink: u32, number: u32) -> Record {
    let due_nanos = 1_000_000_000 + number as u64 * 33_336_000;
    Record {
        sink,
        number,
        due_nanos,
        came_nanos: due_nanos + 2_000_000,
    }
}

/// Evaluates records against ten due ADUs.
fn taken(records: &[Record], relay_cores: f64) -> Taken {
    let due = 1_000_000_000..1_333_360_000;
    Taken::of(records, &due, 2, 10, [relay_cores, 0.5])
}

fn played(relay_cores: f64) -> Played {
    let records: Vec<Record> = (0..10)
        .flat_map(|number| [record(0, number), record(1, number)])
        .collect();
    Played {
        free: taken(&records, relay_cores),
        limited: None,
        bytes_per_sink: 1.0,
    }
}

#[test]
fn due_adu_counts_once_per_sink() {
    let mut records: Vec<Record> = (0..12).map(|number| record(0, number)).collect();
    records.extend([record(1, 3), record(1, 3), record(1, 4), record(9, 4)]);
    let taken = taken(&records, 0.5);
    // At the first sink all ten arrived, at the second two; number 9 is missing there.
    assert!((taken.share() - 12.0 / 20.0).abs() < 1e-9);
    let [least, most] = taken.extremes();
    assert!((least - 0.2).abs() < 1e-9 && (most - 1.0).abs() < 1e-9);
    assert!((taken.latency_ms(0.5) - 2.0).abs() < 1e-9);
    // 12 of 4,167 bytes in a third of a second, on half a core.
    assert!((taken.mbps_per_core() - 2.4).abs() < 1e-3);
}

#[test]
fn record_round_trips() {
    let mut adu = [0; STAMP_BYTES + 1];
    Load::stamp(&mut adu, 1_033_336_000, 1);
    let noted = Record::of(7, &adu, 1_035_336_000).expect("it has a stamp");
    assert_eq!(noted, record(7, 1));
    let bytes: [u8; RECORD_BYTES] = noted.to_bytes();
    assert_eq!(Record::from_bytes(&bytes), noted);
    assert_eq!(Record::of(7, &adu[..STAMP_BYTES - 1], 0), None);
}

#[test]
fn headline_is_largest_common_size() {
    let mut measured = Measured::new();
    for (sinks, name, cores) in [
        (50, "a", 0.1),
        (50, "b", 0.2),
        (100, "b", 0.2),
        (400, "a", 0.1),
        (400, "b", 0.1),
    ] {
        measured.insert((sinks, name), vec![played(cores); 2]);
    }
    assert_eq!(headline(&measured, &["a", "b"]), Some(50));
    assert_eq!(headline(&measured, &["b"]), Some(100));
    assert_eq!(headline(&measured, &["c"]), None);
    let ratio = ratio(&measured, 50, "a", "b");
    assert!((ratio.median - 2.0).abs() < 1e-9 && ratio.n == 2);
}

#[test]
fn quota_respects_kernel_limits() {
    for cores in [0.002, 0.05, 0.5, 1.0, 1.7] {
        let (quota, period) = quota_us(cores);
        assert!(quota >= 1_000 && (1_000..=1_000_000).contains(&period));
        assert!((quota as f64 / period as f64 / cores - 1.0).abs() < 0.01);
    }
    // Below the kernel's minimum the quota is that minimum.
    assert_eq!(quota_us(0.000_1), (1_000, 1_000_000));
}
