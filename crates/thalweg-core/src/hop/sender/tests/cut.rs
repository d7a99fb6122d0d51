//! A sequence while its ADUs still arrive, and what becomes of it when the rest of one does not come.

use bytes::Bytes;

use super::{
    Fake, Subject, acknowledge_all, at, header, lane, one, outcomes, payload, push, sender,
};
use crate::hop::sender::{Arrived, Event, Ticket};
use crate::hop::{Carriage, Outcome, SendOptions, StreamCode};

/// Pushes an ADU of which so many bytes are here; returns its name and the rest.
fn begin(subject: &mut Subject, sequence: u64, bytes: usize, here: usize) -> (Ticket, Bytes) {
    let whole = payload(sequence, bytes);
    let arriving = Arrived {
        payload_bytes: bytes,
        chunks: whole.slice(..here).into(),
        trace: None,
    };
    let options = SendOptions::new(Carriage::Ordered(lane()));
    let ticket = subject.push(at(0), header(sequence), arriving, options, sequence);
    (ticket.expect("there is room"), whole.slice(here..))
}

/// A sequence of three: the first has gone, the second was given up with a third of it gone, the last waits.
fn cut(fake: &mut Fake) -> Subject {
    let mut subject = sender();
    push(&mut subject, header(0), 500, Carriage::Ordered(lane()));
    let (second, _) = begin(&mut subject, 1, 3_000, 1_000);
    push(&mut subject, header(2), 500, Carriage::Ordered(lane()));
    subject.pump(at(0), fake);
    assert_eq!(outcomes(&mut subject), [(0, Outcome::Departed)]);
    assert!(subject.cancel(second, Outcome::Cancelled));
    subject.pump(at(0), fake);
    assert_eq!(outcomes(&mut subject), [(1, Outcome::Cancelled)]);
    subject
}

#[test]
fn adu_of_a_sequence_is_passed_on_as_it_comes_and_those_behind_it_wait() {
    let (mut subject, mut fake) = (sender(), Fake::default());
    let (first, rest) = begin(&mut subject, 0, 3_000, 1_000);
    push(&mut subject, header(1), 500, Carriage::Ordered(lane()));
    subject.pump(at(0), &mut fake);
    let gone = fake.streams[&0].bytes.len();
    assert!((1_000..1_100).contains(&gone), "{gone}");
    assert_eq!(outcomes(&mut subject), []);
    assert!(subject.push_chunk(first, rest));
    subject.pump(at(0), &mut fake);
    let (adu, behind) = one(&fake.streams[&0].bytes[1..]);
    assert_eq!(adu, (0, payload(0, 3_000).to_vec()));
    assert_eq!(one(behind).0, (1, payload(1, 500).to_vec()));
    let departed = [(0, Outcome::Departed), (1, Outcome::Departed)];
    assert_eq!(outcomes(&mut subject), departed);
}

#[test]
fn adu_whose_rest_does_not_come_ends_its_stream_and_the_next_one_waits_for_that() {
    let mut fake = Fake::default();
    let mut subject = cut(&mut fake);
    let stream = &fake.streams[&0];
    assert!(stream.is_finished && stream.reset.is_none());
    assert_eq!(fake.streams.len(), 1, "nothing overtakes what is under way");
    let (adu, behind) = one(&stream.bytes[1..]);
    assert_eq!(adu, (0, payload(0, 500).to_vec()));
    assert!((1_000..1_100).contains(&behind.len()));
    acknowledge_all(&mut subject, &mut fake);
    subject.pump(at(0), &mut fake);
    assert!(fake.streams[&0].is_forgotten);
    assert_eq!(one(&fake.streams[&1].bytes[1..]).0.0, 2);
    assert_eq!(outcomes(&mut subject), [(2, Outcome::Departed)]);
}

#[test]
fn stream_that_was_cut_and_is_stopped_is_given_up_and_the_next_one_is_told() {
    let mut fake = Fake::default();
    let mut subject = cut(&mut fake);
    let owner = fake.streams[&0].owner;
    subject.handle_stopped(owner, StreamCode::UnknownStream, &mut fake);
    subject.pump(at(0), &mut fake);
    assert!(fake.streams[&0].reset.is_some());
    let refused = Outcome::Refused(StreamCode::UnknownStream);
    assert_eq!(outcomes(&mut subject), [(2, refused)]);
    push(&mut subject, header(3), 10, Carriage::Ordered(lane()));
    subject.pump(at(0), &mut fake);
    assert_eq!(outcomes(&mut subject), [(3, Outcome::Departed)]);
}

#[test]
fn stream_that_is_stopped_within_an_adu_is_given_up_and_the_sequence_goes_on() {
    let (mut subject, mut fake) = (sender(), Fake::default());
    begin(&mut subject, 0, 3_000, 1_000);
    push(&mut subject, header(1), 10, Carriage::Ordered(lane()));
    subject.pump(at(0), &mut fake);
    let owner = fake.streams[&0].owner;
    subject.handle_stopped(owner, StreamCode::Protocol, &mut fake);
    subject.pump(at(0), &mut fake);
    assert!(fake.streams[&0].reset.is_some() && !fake.streams[&0].is_finished);
    let refused = Outcome::Refused(StreamCode::Protocol);
    let ended = [(0, refused), (1, Outcome::Departed)];
    assert_eq!(outcomes(&mut subject), ended);
}

#[test]
fn sequence_whose_last_adu_was_given_up_ends_when_the_rest_has_arrived() {
    let (mut subject, mut fake) = (sender(), Fake::default());
    let (ticket, _) = begin(&mut subject, 0, 3_000, 1_000);
    subject.pump(at(0), &mut fake);
    subject.cancel(ticket, Outcome::Expired);
    subject.finish_ordered(lane());
    subject.pump(at(0), &mut fake);
    assert_eq!(outcomes(&mut subject), [(0, Outcome::Expired)]);
    assert!(!subject.is_empty());
    acknowledge_all(&mut subject, &mut fake);
    let acknowledged = Outcome::Acknowledged;
    let ended = subject.poll_event();
    assert!(matches!(ended, Some(Event::OrderedEnded { outcome, .. }) if outcome == acknowledged));
    assert!(subject.is_empty());
}
