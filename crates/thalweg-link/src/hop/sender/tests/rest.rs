//! A sequence that is idle for a while, or is finished, and then goes on.

use alloc::vec::Vec;

use thalweg_base::id::{Epoch, StreamId};
use thalweg_base::time::Duration;

use super::{
    Fake, Subject, acknowledge_all, at, header, lane, one, outcomes, payload, push, sender,
};
use crate::hop::sender::{Arrived, Event, Ticket};
use crate::hop::settings::LANES_MAX;
use crate::hop::{Carriage, OrderedId, Outcome, SendOptions, StreamCode};

#[test]
fn idle_lanes_make_room() {
    let (mut subject, mut fake) = (sender(), Fake::default());
    let id = |stream| OrderedId {
        stream: StreamId(stream),
        epoch: Epoch(1),
    };
    let mut now = at(0);
    // More files, one after the other, than a link has room for at once.
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
fn idle_lane_resumes_after_acknowledgement() {
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

/// Returns the outcomes of sequences that are reported.
fn ends(subject: &mut Subject) -> Vec<Outcome> {
    let events = core::iter::from_fn(|| subject.poll_event());
    let end = |event| match event {
        Event::OrderedEnded { outcome, .. } => Some(outcome),
        Event::Outcome { .. } => None,
    };
    events.filter_map(end).collect()
}

/// A sequence of one ADU that was finished, and a second ADU that comes before the peer has
/// acknowledged the end.
fn ended_too_early(fake: &mut Fake) -> (Subject, Ticket) {
    let mut subject = sender();
    push(&mut subject, header(0), 500, Carriage::Ordered(lane()));
    subject.finish_ordered(lane());
    subject.pump(at(0), fake);
    assert!(fake.streams[&0].is_finished);
    assert_eq!(outcomes(&mut subject), [(0, Outcome::Departed)]);
    let next = push(&mut subject, header(1), 500, Carriage::Ordered(lane()));
    subject.pump(at(0), fake);
    assert_eq!(fake.streams.len(), 1, "it would overtake");
    assert_eq!(outcomes(&mut subject), []);
    (subject, next.expect("there is room"))
}

#[test]
fn finished_lane_resumes_in_order() {
    let mut fake = Fake::default();
    let (mut subject, _) = ended_too_early(&mut fake);
    acknowledge_all(&mut subject, &mut fake);
    assert_eq!(ends(&mut subject), [Outcome::Acknowledged]);
    subject.pump(at(0), &mut fake);
    assert_eq!(outcomes(&mut subject), [(1, Outcome::Departed)]);
    assert_eq!(one(&fake.streams[&1].bytes[1..]).0.0, 1);
    // It is a lane like any other.
    subject.finish_ordered(lane());
    subject.pump(at(0), &mut fake);
    acknowledge_all(&mut subject, &mut fake);
    assert_eq!(ends(&mut subject), [Outcome::Acknowledged]);
    assert!(subject.is_empty());
}

#[test]
fn lane_survives_second_finish_and_stop() {
    let mut fake = Fake::default();
    let (mut subject, next) = ended_too_early(&mut fake);
    // The waiting ADU is cancelled, and the lane finished again: that is the end of the same stream.
    subject.cancel(next, Outcome::Cancelled);
    subject.finish_ordered(lane());
    subject.pump(at(0), &mut fake);
    acknowledge_all(&mut subject, &mut fake);
    assert_eq!(ends(&mut subject), [Outcome::Acknowledged]);
    assert!(subject.is_empty());

    let mut fake = Fake::default();
    let (mut subject, _) = ended_too_early(&mut fake);
    let owner = fake.streams[&0].owner;
    subject.handle_stopped(owner, StreamCode::UnknownStream, &mut fake);
    let refused = Outcome::Refused(StreamCode::UnknownStream);
    assert_eq!(ends(&mut subject), [refused]);
    subject.pump(at(0), &mut fake);
    assert_eq!(outcomes(&mut subject), [(1, Outcome::Departed)]);
}
