//! Proves that units multiply as in physics, saturate, and parse what they print.

use alloc::string::ToString;

use proptest::prelude::*;

use super::{Bitrate, DataSize, Ratio, parse_duration};
use crate::time::Duration;

#[test]
fn rate_times_time_is_size() {
    assert_eq!(
        Bitrate::from_kbps(150) * Duration::from_secs(2),
        DataSize::from_bytes(37_500)
    );
    assert_eq!(
        DataSize::from_bytes(37_500) / Duration::from_secs(2),
        Bitrate::from_kbps(150)
    );
    assert_eq!(
        Bitrate::from_kbps(150).time_for(DataSize::from_bytes(37_500)),
        Duration::from_secs(2)
    );
}

#[test]
fn size_over_no_time_is_zero_rate() {
    assert_eq!(DataSize::from_bytes(1) / Duration::ZERO, Bitrate::ZERO);
    assert_eq!(Bitrate::ZERO.time_for(DataSize::ZERO), Duration::ZERO);
    assert_eq!(
        Bitrate::ZERO.time_for(DataSize::from_bytes(1)),
        Duration::NEVER
    );
}

#[test]
fn ratio_is_in_range() {
    assert!(Ratio::new(0.0).is_ok() && Ratio::new(1.0).is_ok());
    assert!(
        Ratio::new(-0.000_1).is_err()
            && Ratio::new(1.000_1).is_err()
            && Ratio::new(f64::NAN).is_err()
    );
}

#[test]
fn largest_value_prints_parseably() {
    // u64::MAX itself cannot be written as a number with a unit.
    for below in [0, 1, 1 << 10, 1 << 12, 400_000_000, 1 << 29, 1 << 40] {
        let (size, rate) = (
            DataSize::from_bytes(u64::MAX - below),
            Bitrate::from_bps(u64::MAX - below),
        );
        assert!(size.to_string().parse::<DataSize>().is_ok(), "{size}");
        assert!(rate.to_string().parse::<Bitrate>().is_ok(), "{rate}");
    }
    let largest = DataSize::from_bytes(u64::MAX);
    assert_eq!(largest.to_string(), "17179869183.999 GiB");
}

#[test]
fn bare_number_is_rejected_with_example() {
    let error = "2000"
        .parse::<Bitrate>()
        .expect_err("there is no unit")
        .to_string();
    assert!(
        error.contains("`2000`") && error.contains("2 Mbit/s"),
        "{error}"
    );
    assert!("2 mbit/s".parse::<Bitrate>().is_err(), "m is milli");
    assert!("-1 B".parse::<DataSize>().is_err());
    assert!("1e400 ms".parse::<DataSize>().is_err());
    assert_eq!(
        "1.5Mbit/s".parse::<Bitrate>(),
        Ok(Bitrate::from_kbps(1_500))
    );
    assert_eq!(parse_duration("1.5 s"), Ok(Duration::from_millis(1_500)));
}

proptest! {
    #[test]
    fn printed_rate_parses_within_half_permille(bps in 1_u64..1 << 50) {
        let rate = Bitrate::from_bps(bps);
        let read: Bitrate = rate.to_string().parse().expect("printed by us");
        prop_assert!(read.as_bps().abs_diff(bps) as f64 <= bps as f64 * 0.000_5 + 1.0);
    }

    #[test]
    fn any_text_is_value_or_error(text in "\\PC*") {
        let _ = (text.parse::<Bitrate>(), text.parse::<DataSize>(), parse_duration(&text));
    }

    #[test]
    fn time_for_size_sends_it_all(bps in 8_u64..1 << 40, bytes in 0_u64..1 << 30) {
        let (rate, size) = (Bitrate::from_bps(bps), DataSize::from_bytes(bytes));
        prop_assert!(rate * rate.time_for(size) >= size);
    }
}
