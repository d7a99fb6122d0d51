//! A sequence with ADUs that still arrive, and what happens when the rest of one never does.

use bytes::Bytes;

use super::{
    Fake, Subject, acknowledge_all, at, header, lane, one, outcomes, payload, push, sender,
};
use crate::hop::sender::{Arrived, Event, Ticket};
use crate::hop::{Carriage, Outcome, SendOptions, StreamCode};

/// Pushes an ADU of which `here` bytes have arrived; returns its ticket and the rest.
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

/// A sequence of three: the first has gone, the second was cancelled with a third of it sent, the
/// last waits.
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
fn arriving_adu_is_sent_in_order() {
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
fn truncated_adu_ends_stream() {
    let mut fake = Fake::default();
    let mut subject = cut(&mut fake);
    let stream = &fake.streams[&0];
    assert!(stream.is_finished && stream.reset.is_none());
    assert_eq!(fake.streams.len(), 1, "nothing may overtake the old stream");
    let (adu, behind) = one(&stream.bytes[1..]);
    assert_eq!(adu, (0, payload(0, 500).to_vec()));
    assert!((1_000..1_100).contains(&behind.len()));
    acknowledge_all(&mut subject, &mut fake);
    subject.pump(at(0), &mut fake);
    assert!(fake.streams[&0].is_released);
    assert_eq!(one(&fake.streams[&1].bytes[1..]).0.0, 2);
    assert_eq!(outcomes(&mut subject), [(2, Outcome::Departed)]);
}

#[test]
fn stopped_cut_stream_is_reset() {
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
fn stop_within_adu_keeps_sequence() {
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
fn cancelled_last_adu_ends_sequence() {
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
