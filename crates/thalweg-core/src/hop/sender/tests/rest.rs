//! A sequence that nobody uses for a while.

use super::{Fake, acknowledge_all, at, header, lane, one, outcomes, payload, push, sender};
use crate::hop::sender::Arrived;
use crate::hop::settings::LANES_MAX;
use crate::hop::{Carriage, OrderedId, Outcome, SendOptions};
use crate::id::{Epoch, StreamId};
use crate::time::Duration;

#[test]
fn lanes_that_nobody_uses_make_room() {
    let (mut subject, mut fake) = (sender(), Fake::default());
    let id = |stream| OrderedId {
        stream: StreamId(stream),
        epoch: Epoch(1),
    };
    let mut now = at(0);
    // As many files one after the other as no link has room for at once.
    for stream in 0..2 * LANES_MAX as u64 {
        let mut header = header(stream);
        header.stream = StreamId(stream);
        let options = SendOptions::new(Carriage::Ordered(id(stream)));
        let arrived = Arrived::from(payload(stream, 10));
        let pushed = subject.push(now, header, arrived, options, stream);
        assert!(pushed.is_some(), "lane {stream}");
        subject.pump(now, &mut fake);
        now = now + Duration::from_secs(10);
        subject.sweep(now, &mut fake);
        acknowledge_all(&mut subject, &mut fake);
    }
    assert_eq!(
        fake.streams
            .values()
            .filter(|stream| stream.is_finished)
            .count(),
        2 * LANES_MAX
    );
}

#[test]
fn a_lane_that_rested_goes_on_when_the_peer_has_all_that_was_before() {
    let (mut subject, mut fake) = (sender(), Fake::default());
    push(&mut subject, header(0), 500, Carriage::Ordered(lane()));
    subject.pump(at(0), &mut fake);
    subject.sweep(at(9_999), &mut fake);
    assert!(!fake.streams[&0].is_finished, "a stream may pause");
    subject.sweep(at(10_000), &mut fake);
    assert!(fake.streams[&0].is_finished);
    outcomes(&mut subject);
    push(&mut subject, header(1), 500, Carriage::Ordered(lane()));
    subject.pump(at(10_000), &mut fake);
    assert_eq!(outcomes(&mut subject), [], "it would overtake");
    acknowledge_all(&mut subject, &mut fake);
    subject.pump(at(10_000), &mut fake);
    assert_eq!(outcomes(&mut subject), [(1, Outcome::Departed)]);
    assert_eq!(one(&fake.streams[&1].bytes[1..]).0.0, 1);
}
