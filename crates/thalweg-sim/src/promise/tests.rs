//! Proves that deviations from a plan are reported and that promised traffic is counted.

use thalweg_base::adu::{Flags, Header};
use thalweg_base::id::{Epoch, Sequence, StreamId};
use thalweg_planner::planner::report::Hop;

use super::Promises;
use crate::traffic::wire_bytes;

const PLAN: (StreamId, Epoch) = (StreamId(1), Epoch(2));

fn header(layer: u8, flags: Flags) -> Header {
    Header {
        epoch: PLAN.1,
        layer,
        flags,
        ..Header::new(PLAN.0, Sequence(0))
    }
}

#[test]
fn deviation_from_plan_is_reported() {
    let [a, b, c] = ["a", "b", "c"].map(|name| name.parse().expect("a name"));
    let hop = Hop {
        from: a,
        to: b,
        rate_bps: 1_000.0,
        layers: 2,
        packed: false,
        sealed: true,
        transforms: Vec::new(),
    };
    let mut promises = Promises::default();
    promises.handle_plan(PLAN, (0, 0), std::slice::from_ref(&hop));
    promises.handle_given(&header(0, Flags::NONE));
    let ends = [&hop.from, &hop.to];
    let both = Flags::SEALED.with(Flags::PACKED);
    for (header, ends, says) in [
        (header(2, Flags::SEALED), ends, "its layer is 2"),
        (header(1, Flags::NONE), ends, "not sealed, but"),
        (header(1, both), ends, "says not packed"),
        (
            header(1, Flags::SEALED),
            [&hop.from, &c],
            "not on its plan's path",
        ),
    ] {
        let result = promises.handle_handed(&header, ends, 100);
        assert!(
            result.as_ref().is_err_and(|result| result.contains(says)),
            "{result:?}"
        );
    }
    let good = header(1, Flags::SEALED);
    assert_eq!(promises.handle_handed(&good, ends, 100), Ok(()));
    // The end of the stream and a plan without a promise are not judged.
    assert_eq!(
        promises.handle_handed(&header(9, Flags::END), ends, 0),
        Ok(())
    );
    let other = Header::new(StreamId(9), Sequence(0));
    assert_eq!(promises.handle_handed(&other, ends, 0), Ok(()));
    let all = promises.into_all();
    let link = &all[0].links[0];
    assert_eq!((all[0].given, link.adus), (1, 4));
    assert_eq!(link.bytes, 4 * wire_bytes(100) as u64);
}
