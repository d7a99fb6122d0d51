//! Proves the pacing: units keep real time at any speed, and a jump of the media clock does not
//! freeze the picture.

use super::*;

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// A position this long after the first unit, which is at 1.4 s as in most files.
fn media(millis: u64) -> MediaTime {
    MediaTime::from_micros((1400 + millis) * 1000)
}

#[test]
fn first_unit_leaves_at_once() {
    let mut pacer = Pacer::new(Speed::Times(1.0));
    assert_eq!(pacer.wait(at(7), 1, media(900_000)), Duration::ZERO);
    assert_eq!(
        pacer.wait(at(7), 1, media(900_040)),
        Duration::from_millis(40)
    );
}

#[test]
fn lateness_is_made_up_not_added() {
    let mut pacer = Pacer::new(Speed::Times(1.0));
    pacer.wait(at(0), 1, media(0));
    assert_eq!(pacer.wait(at(100), 1, media(40)), Duration::ZERO);
    assert_eq!(
        pacer.wait(at(100), 1, media(120)),
        Duration::from_millis(20)
    );
}

#[test]
fn speed_divides_the_wait() {
    for (speed, wait_ms) in [(2.0, 500), (0.5, 2000)] {
        let mut pacer = Pacer::new(Speed::Times(speed));
        pacer.wait(at(0), 1, media(0));
        assert_eq!(
            pacer.wait(at(0), 1, media(1000)),
            Duration::from_millis(wait_ms)
        );
    }
    let mut pacer = Pacer::new(Speed::Max);
    pacer.wait(at(0), 1, media(0));
    assert_eq!(pacer.wait(at(0), 1, media(9_000)), Duration::ZERO);
}

#[test]
fn speed_scales_the_rate() {
    let rate = Bitrate::from_kbps(2_000);
    assert_eq!(Speed::Times(4.0).rate(rate), Bitrate::from_kbps(8_000));
    assert_eq!(Speed::Times(0.5).rate(rate), Bitrate::from_kbps(1_000));
    assert_eq!(Speed::Times(1e-9).rate(rate), Bitrate::from_bps(1));
    assert_eq!(Speed::Times(1e300).rate(rate), Bitrate::from_bps(u64::MAX));
    assert_eq!(Speed::Max.rate(rate), rate);
}

#[test]
fn jump_resets_the_anchor() {
    let mut pacer = Pacer::new(Speed::Times(1.0));
    pacer.wait(at(0), 1, media(0));
    assert_eq!(pacer.wait(at(0), 1, media(10_000)), Duration::from_secs(10));
    assert_eq!(pacer.wait(at(10_000), 1, media(20_001)), Duration::ZERO);
    assert_eq!(
        pacer.wait(at(10_000), 1, media(20_041)),
        Duration::from_millis(40)
    );
    assert_eq!(pacer.wait(at(10_040), 1, media(0)), Duration::ZERO);
}

#[test]
fn early_tables_delay_nothing() {
    let mut pacer = Pacer::new(Speed::Times(1.0));
    assert_eq!(pacer.wait(at(0), 1, MediaTime::default()), Duration::ZERO);
    assert_eq!(pacer.wait(at(0), 1, media(0)), Duration::ZERO);
    assert_eq!(pacer.wait(at(0), 1, media(40)), Duration::from_millis(40));
}

#[test]
fn each_clock_is_paced_alone() {
    let mut pacer = Pacer::new(Speed::Times(1.0));
    let (near, far) = (|millis| media(millis), |millis| media(40_000_000 + millis));
    assert_eq!(pacer.wait(at(0), 1, near(0)), Duration::ZERO);
    assert_eq!(pacer.wait(at(0), 2, far(0)), Duration::ZERO);
    for millis in [40, 80, 9_000] {
        let wait = Duration::from_millis(millis);
        assert_eq!(pacer.wait(at(0), 1, near(millis)), wait);
        assert_eq!(pacer.wait(at(0), 2, far(millis)), wait);
    }
    // A jump of one clock does not touch the other.
    assert_eq!(pacer.wait(at(9_000), 1, near(60_000)), Duration::ZERO);
    let wait = Duration::from_millis(40);
    assert_eq!(pacer.wait(at(9_000), 2, far(9_040)), wait);
    assert_eq!(pacer.wait(at(9_000), 1, near(60_040)), wait);
}

#[test]
fn speed_is_max_or_positive() {
    assert_eq!("max".parse(), Ok(Speed::Max));
    assert_eq!("2".parse(), Ok(Speed::Times(2.0)));
    for bad in ["", "0", "-1", "fast", "inf", "nan"] {
        assert!(bad.parse::<Speed>().is_err(), "{bad}");
    }
}
