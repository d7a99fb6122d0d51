//! Proves that stamps add up to an ADU's latency, and that tracing keeps its rate limit.

use alloc::vec;
use alloc::vec::Vec;

use super::{EVERY_MIN, LEASE, Marking, Stamp, Trace};
use crate::adu::Header;
use crate::id::{Sequence, StreamId};
use crate::limits::TRACE_STAMPS_MAX;
use crate::time::{Duration, Instant};

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

#[test]
fn stamp_has_residence_by_part_and_line() {
    let mut trace = Trace::begin(at(10));
    trace.add_lift(Duration::from_millis(2));
    trace.queue(at(17), Duration::from_millis(40));
    let stamp = trace.stamp(at(20));
    let expected = Stamp {
        inside: Duration::from_millis(5),
        lift: Duration::from_millis(2),
        wait: Duration::from_millis(3),
        line: Duration::from_millis(40),
    };
    assert_eq!(stamp, expected);
    assert_eq!(stamp.sum(), Duration::from_millis(50));
}

#[test]
fn source_budget_is_rest_plus_spent() {
    let mut header = Header::new(StreamId(1), Sequence(7));
    let first = Stamp {
        inside: Duration::from_millis(1),
        lift: Duration::from_millis(2),
        wait: Duration::from_millis(3),
        line: Duration::from_millis(40),
    };
    // The sink's clock is unrelated to the source's.
    let arrived = at(900);
    header.deadline = arrived + Duration::from_millis(94);
    let mut trace = Trace::arrived(Vec::from([first]), arrived);
    trace.queue(at(905), Duration::ZERO);
    let traced = trace.clone().finish(&header, at(906));
    assert_eq!(traced.budget, Duration::from_millis(100));
    assert_eq!(traced.sum(), Duration::from_millis(46 + 6));
    assert_eq!((traced.stamps.len(), traced.sequence), (2, Sequence(7)));
    header.deadline = Instant::NEVER;
    assert!(trace.finish(&header, at(906)).budget.is_never());
}

#[test]
fn overlong_path_takes_no_further_stamp() {
    let stamps = |count| Trace::arrived(vec![Stamp::default(); count], at(0));
    assert!(stamps(TRACE_STAMPS_MAX - 1).has_room());
    assert!(!stamps(TRACE_STAMPS_MAX).has_room());
}

#[test]
fn marking_keeps_interval_and_lease() {
    let mut marking = Marking::new(Duration::from_millis(1), 1, at(0));
    let marked = |marking: &mut Marking, from: u64, to: u64| {
        let times = from..to;
        times.filter(|now| marking.mark(at(*now)).is_some()).count()
    };
    let lease = LEASE.as_millis();
    let most = (lease / EVERY_MIN.as_millis()) as usize;
    assert_eq!(marked(&mut marking, 0, 2 * lease), most);
    assert!(marking.is_over(at(lease)) && !marking.is_over(at(lease - 1)));
    marking.renew(Marking::new(EVERY_MIN, 1, at(lease)));
    assert_eq!(marked(&mut marking, lease + 1, 2 * lease), most);
    let mut wide = Marking::new(EVERY_MIN, 50, at(0));
    assert_eq!(
        marked(&mut wide, 0, 3_000),
        3,
        "50 sinks yield 50 traces a second"
    );
}
