//! Proves the sender on a scripted transport: every ADU has exactly one outcome, whatever the
//! transport takes of it, and what arrives is what was sent.

mod any;
mod credit;
mod cut;
mod rest;
mod traced;

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;
use thalweg_base::adu::{Header, Importance};
use thalweg_base::id::{Epoch, Sequence, StreamId};
use thalweg_base::limits::ADU_PAYLOAD_BYTES_MAX;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize};
use thalweg_base::wire::adu::decode_header;

use super::{Arrived, Datagram, Event, Owner, PathRate, Sender, Ticket, Transport, Written};
use crate::hop::{Carriage, OrderedId, Outcome, SendOptions, StreamCode};
use crate::outbox::Settings;

/// A scripted connection.
#[derive(Debug)]
struct Fake {
    streams: BTreeMap<u32, Stream>,
    next: u32,
    admitted: u32,
    credit: u64,
    /// Bytes that it takes in one write.
    write_max: usize,
    /// Bytes that it takes until this is raised.
    room: usize,
    /// The stream with a stalled reader.
    unread: Option<u32>,
    datagrams: Vec<Bytes>,
    rate: PathRate,
    heard: u64,
    let_through: u32,
}

#[derive(Debug)]
struct Stream {
    owner: Owner,
    bytes: Vec<u8>,
    is_finished: bool,
    reset: Option<StreamCode>,
    is_released: bool,
}

impl Default for Fake {
    fn default() -> Self {
        Self {
            streams: BTreeMap::new(),
            next: 0,
            admitted: u32::MAX,
            credit: u64::MAX / 2,
            write_max: usize::MAX,
            room: usize::MAX,
            unread: None,
            datagrams: Vec::new(),
            rate: PathRate::default(),
            heard: 0,
            let_through: 0,
        }
    }
}

impl Transport for Fake {
    type Stream = u32;

    fn open(&mut self, owner: Owner, _rank: i32) -> Option<u32> {
        if self.next == self.admitted {
            return None;
        }
        let stream = Stream {
            owner,
            bytes: Vec::new(),
            is_finished: false,
            reset: None,
            is_released: false,
        };
        self.streams.insert(self.next, stream);
        self.next += 1;
        Some(self.next - 1)
    }

    fn write(&mut self, stream: u32, pieces: &mut [Bytes]) -> Written {
        if self.unread == Some(stream) {
            return Written::StreamBlocked;
        }
        let mut left = self.write_max.min(self.room);
        if left == 0 {
            return Written::Blocked;
        }
        let open = self.streams.get_mut(&stream).expect("it was opened");
        assert!(!open.is_finished && open.reset.is_none());
        let mut taken = 0;
        for piece in pieces {
            let bytes = piece.len().min(left);
            open.bytes.extend_from_slice(&piece.split_to(bytes));
            (left, taken) = (left - bytes, taken + bytes);
        }
        self.room -= taken;
        Written::Some(taken)
    }

    fn finish(&mut self, stream: u32) {
        self.streams
            .get_mut(&stream)
            .expect("it was opened")
            .is_finished = true;
    }

    fn reset(&mut self, stream: u32, code: StreamCode) {
        let open = self.streams.get_mut(&stream).expect("it was opened");
        assert!(open.reset.is_none() && !open.is_released);
        open.reset = Some(code);
    }

    fn forget(&mut self, stream: u32) {
        let open = self.streams.get_mut(&stream).expect("it was opened");
        assert!(open.reset.is_none() && !open.is_released);
        open.is_released = true;
    }

    fn datagram_bytes_max(&mut self) -> usize {
        1_200
    }

    fn send_datagram(&mut self, datagram: Bytes) -> Datagram {
        if self.room < datagram.len() {
            return Datagram::Blocked;
        }
        self.room -= datagram.len();
        self.datagrams.push(datagram);
        Datagram::Sent
    }

    fn credit(&mut self) -> DataSize {
        DataSize::from_bytes(self.credit)
    }

    fn heard(&self) -> u64 {
        self.heard
    }

    fn let_one_through(&mut self) {
        self.let_through += 1;
        (self.credit, self.room) = (1_500, 1_500);
    }

    fn path_rate(&self) -> PathRate {
        self.rate
    }
}

impl Fake {
    /// Returns the ADUs that arrived whole on streams of their own, in the order in which the
    /// streams were opened.
    fn arrived(&self) -> Vec<(u64, Vec<u8>)> {
        let whole = |stream: &&Stream| {
            stream.is_finished && stream.reset.is_none() && matches!(stream.owner, Owner::Adu(_))
        };
        let adu = |stream: &Stream| one(&stream.bytes[1..]).0;
        self.streams.values().filter(whole).map(adu).collect()
    }

    fn finished(&self) -> Vec<Owner> {
        let live =
            |stream: &&Stream| stream.is_finished && !stream.is_released && stream.reset.is_none();
        let streams = self.streams.values().filter(live);
        streams.map(|stream| stream.owner).collect()
    }
}

/// Decodes one ADU off the front.
fn one(bytes: &[u8]) -> ((u64, Vec<u8>), &[u8]) {
    let decoded = decode_header(bytes, Instant::ZERO)
        .expect("a header")
        .expect("whole");
    let end = decoded.header_bytes + decoded.payload_bytes;
    let payload = bytes[decoded.header_bytes..end].to_vec();
    ((decoded.header.sequence.0, payload), &bytes[end..])
}

type Subject = Sender<u32, u64>;

fn sender() -> Subject {
    Sender::new(Settings::default())
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn header(sequence: u64) -> Header {
    Header {
        importance: Importance(100),
        ..Header::new(StreamId(1), Sequence(sequence))
    }
}

fn payload(sequence: u64, bytes: usize) -> Bytes {
    (0..bytes).map(|at| (at as u64 ^ sequence) as u8).collect()
}

const fn lane() -> OrderedId {
    OrderedId {
        stream: StreamId(1),
        epoch: Epoch(0),
    }
}

fn push(subject: &mut Subject, header: Header, bytes: usize, carriage: Carriage) -> Option<Ticket> {
    let sequence = header.sequence.0;
    let whole = Arrived::from(payload(sequence, bytes));
    subject.push(
        Instant::ZERO,
        header,
        whole,
        SendOptions::new(carriage),
        sequence,
    )
}

fn outcomes(subject: &mut Subject) -> Vec<(u64, Outcome)> {
    let outcome = |event| match event {
        Event::Outcome { data, outcome, .. } => Some((data, outcome)),
        Event::OrderedEnded { .. } => None,
    };
    core::iter::from_fn(|| subject.poll_event())
        .filter_map(outcome)
        .collect()
}

fn acknowledge_all(subject: &mut Subject, fake: &mut Fake) {
    for owner in fake.finished() {
        subject.handle_acknowledged(owner, fake);
    }
}

#[test]
fn own_stream_delivers_adu() {
    let (mut subject, mut fake) = (sender(), Fake::default());
    push(&mut subject, header(3), 5_000, Carriage::Stream);
    subject.pump(at(0), &mut fake);
    assert_eq!(outcomes(&mut subject), []);
    assert_eq!(fake.arrived(), [(3, payload(3, 5_000).to_vec())]);
    acknowledge_all(&mut subject, &mut fake);
    assert_eq!(outcomes(&mut subject), [(3, Outcome::Acknowledged)]);
    assert!(subject.is_empty() && fake.streams[&0].is_released);
}

#[test]
fn bytewise_writes_send_empty_adu() {
    let (mut subject, mut fake) = (sender(), Fake::default());
    push(&mut subject, header(0), 0, Carriage::Stream);
    fake.write_max = 1;
    for _ in 0..100 {
        fake.room = 1;
        subject.pump(at(0), &mut fake);
    }
    assert_eq!(fake.arrived(), [(0, vec![])]);
}

#[test]
fn urgent_adu_overtakes_half_sent_one() {
    let (mut subject, mut fake) = (sender(), Fake::default());
    fake.room = 10_000;
    push(&mut subject, header(0), 100_000, Carriage::Stream);
    subject.pump(at(0), &mut fake);
    let mut urgent = header(1);
    urgent.importance = Importance(200);
    push(&mut subject, urgent, 5_000, Carriage::Stream);
    fake.room = 6_000;
    subject.pump(at(0), &mut fake);
    let arrived: Vec<_> = fake
        .arrived()
        .into_iter()
        .map(|(sequence, _)| sequence)
        .collect();
    assert_eq!(arrived, [1]);
}

#[test]
fn expired_adu_makes_room() {
    let (mut subject, mut fake) = (sender(), Fake::default());
    fake.room = 10_000;
    let mut late = header(0);
    (late.deadline, late.importance) = (at(20), Importance(200));
    push(&mut subject, late, 100_000, Carriage::Stream);
    push(&mut subject, header(1), 1_000, Carriage::Stream);
    subject.pump(at(0), &mut fake);
    assert_eq!(subject.poll_timeout(), at(20));
    fake.room = 10_000;
    subject.pump(at(19), &mut fake);
    assert_eq!(outcomes(&mut subject), []);
    fake.room = 10_000;
    subject.pump(at(20), &mut fake);
    assert_eq!(outcomes(&mut subject), [(0, Outcome::Expired)]);
    assert_eq!(fake.streams[&0].reset, Some(StreamCode::Expired));
    assert_eq!(fake.arrived().len(), 1);
}

#[test]
fn late_acknowledgement_resets_adu() {
    let (mut subject, mut fake) = (sender(), Fake::default());
    let mut late = header(0);
    late.deadline = at(20);
    push(&mut subject, late, 100, Carriage::Stream);
    subject.pump(at(0), &mut fake);
    subject.pump(at(20), &mut fake);
    assert_eq!(outcomes(&mut subject), [(0, Outcome::Expired)]);
    // The acknowledgement comes late and is ignored.
    subject.handle_acknowledged(fake.streams[&0].owner, &mut fake);
    assert_eq!(outcomes(&mut subject), []);
}

#[test]
fn arriving_payload_is_sent_at_once() {
    let (mut subject, mut fake) = (sender(), Fake::default());
    let whole = payload(0, 3_000);
    let arriving = Arrived {
        payload_bytes: 3_000,
        chunks: whole.slice(..1_000).into(),
        trace: None,
    };
    let options = SendOptions::new(Carriage::Stream);
    let ticket = subject
        .push(at(0), header(0), arriving, options, 0)
        .expect("there is room");
    subject.pump(at(0), &mut fake);
    let head = fake.streams[&0].bytes.len() - 1_000;
    assert!(subject.push_chunk(ticket, whole.slice(1_000..2_500)));
    subject.pump(at(0), &mut fake);
    assert_eq!(fake.streams[&0].bytes.len(), head + 2_500);
    // Bytes beyond the announced length are ignored.
    assert!(subject.push_chunk(ticket, payload(0, 9_000).slice(2_500..)));
    subject.pump(at(0), &mut fake);
    assert_eq!(fake.arrived(), [(0, whole.to_vec())]);
    acknowledge_all(&mut subject, &mut fake);
    assert!(!subject.push_chunk(ticket, payload(0, 1)));
}

#[test]
fn unread_stream_stalls_alone() {
    let (mut subject, mut fake) = (sender(), Fake::default());
    let mut first = header(0);
    first.importance = Importance(200);
    fake.unread = Some(0);
    push(&mut subject, first, 5_000, Carriage::Stream);
    push(&mut subject, header(1), 5_000, Carriage::Stream);
    subject.pump(at(0), &mut fake);
    assert_eq!(fake.arrived().len(), 1);
    fake.unread = None;
    subject.handle_writable(fake.streams[&0].owner);
    subject.pump(at(0), &mut fake);
    assert_eq!(fake.arrived().len(), 2);
}

#[test]
fn most_important_gets_next_stream() {
    let (mut subject, mut fake) = (sender(), Fake::default());
    fake.admitted = 1;
    push(&mut subject, header(0), 10, Carriage::Stream);
    subject.pump(at(0), &mut fake);
    push(&mut subject, header(1), 10, Carriage::Stream);
    let mut urgent = header(2);
    urgent.importance = Importance(200);
    push(&mut subject, urgent, 10, Carriage::Stream);
    subject.pump(at(0), &mut fake);
    fake.admitted = 2;
    subject.pump(at(0), &mut fake);
    let order: Vec<_> = fake
        .arrived()
        .into_iter()
        .map(|(sequence, _)| sequence)
        .collect();
    assert_eq!(order, [0, 2]);
}

#[test]
fn refused_adu_drops_dependants() {
    let (mut subject, mut fake) = (sender(), Fake::default());
    fake.room = 2_000;
    push(&mut subject, header(0), 5_000, Carriage::Stream);
    let mut dependant = header(1);
    dependant.depends_on = 1;
    push(&mut subject, dependant, 10, Carriage::Stream);
    subject.pump(at(0), &mut fake);
    let owner = fake.streams[&0].owner;
    subject.handle_stopped(owner, StreamCode::Overload, &mut fake);
    let refused = Outcome::Refused(StreamCode::Overload);
    assert_eq!(
        outcomes(&mut subject),
        [(0, refused), (1, Outcome::Dependant)]
    );
}

#[test]
fn stop_of_whole_adu_acknowledges() {
    let (mut subject, mut fake) = (sender(), Fake::default());
    push(&mut subject, header(0), 10, Carriage::Stream);
    subject.pump(at(0), &mut fake);
    subject.handle_stopped(fake.streams[&0].owner, StreamCode::Whole, &mut fake);
    assert_eq!(outcomes(&mut subject), [(0, Outcome::Acknowledged)]);
}

#[test]
fn oversized_datagram_goes_by_stream() {
    let (mut subject, mut fake) = (sender(), Fake::default());
    push(&mut subject, header(0), 1_000, Carriage::Datagram);
    push(&mut subject, header(1), 1_190, Carriage::Datagram);
    subject.pump(at(0), &mut fake);
    assert_eq!(outcomes(&mut subject), [(0, Outcome::Departed)]);
    assert_eq!(one(&fake.datagrams[0]).0, (0, payload(0, 1_000).to_vec()));
    assert_eq!(fake.arrived(), [(1, payload(1, 1_190).to_vec())]);
}

#[test]
fn sequence_keeps_order_on_one_stream() {
    let (mut subject, mut fake) = (sender(), Fake::default());
    fake.room = 3_000;
    for sequence in 0..3 {
        push(
            &mut subject,
            header(sequence),
            2_000,
            Carriage::Ordered(lane()),
        );
    }
    subject.pump(at(0), &mut fake);
    subject.finish_ordered(lane());
    assert_eq!(outcomes(&mut subject), [(0, Outcome::Departed)]);
    fake.room = usize::MAX;
    subject.pump(at(0), &mut fake);
    assert_eq!(outcomes(&mut subject).len(), 2);
    assert_eq!(fake.streams.len(), 1);
    let mut rest = &fake.streams[&0].bytes[1..];
    for sequence in 0..3 {
        let (adu, behind) = one(rest);
        assert_eq!(adu, (sequence, payload(sequence, 2_000).to_vec()));
        rest = behind;
    }
    assert!(fake.streams[&0].is_finished && rest.is_empty());
    assert!(!subject.is_empty());
    acknowledge_all(&mut subject, &mut fake);
    let ended = subject.poll_event();
    assert!(matches!(
        ended,
        Some(Event::OrderedEnded {
            outcome: Outcome::Acknowledged,
            ..
        })
    ));
    assert!(subject.is_empty());
}

#[test]
fn begun_ordered_adu_cannot_expire() {
    let (mut subject, mut fake) = (sender(), Fake::default());
    fake.room = 1_000;
    for sequence in 0..2 {
        let mut timed = header(sequence);
        timed.deadline = at(20);
        push(&mut subject, timed, 2_000, Carriage::Ordered(lane()));
    }
    subject.pump(at(0), &mut fake);
    fake.room = usize::MAX;
    subject.pump(at(20), &mut fake);
    let mut ended = outcomes(&mut subject);
    ended.sort_by_key(|(sequence, _)| *sequence);
    assert_eq!(ended, [(0, Outcome::Departed), (1, Outcome::Expired)]);
}

#[test]
fn stopped_sequence_opens_new_stream() {
    let (mut subject, mut fake) = (sender(), Fake::default());
    push(&mut subject, header(0), 10, Carriage::Ordered(lane()));
    subject.pump(at(0), &mut fake);
    let owner = fake.streams[&0].owner;
    subject.handle_stopped(owner, StreamCode::Protocol, &mut fake);
    for sequence in 1..3 {
        push(
            &mut subject,
            header(sequence),
            10,
            Carriage::Ordered(lane()),
        );
    }
    subject.pump(at(0), &mut fake);
    // A late stop of the old stream does not affect the new one.
    subject.handle_stopped(owner, StreamCode::Protocol, &mut fake);
    let refused = Outcome::Refused(StreamCode::Protocol);
    let expected = [(0, Outcome::Departed), (1, refused), (2, Outcome::Departed)];
    assert_eq!(outcomes(&mut subject), expected);
    assert!(fake.streams[&1].reset.is_none());
}

#[test]
fn oversized_adu_is_refused_at_once() {
    let (mut subject, mut fake) = (sender(), Fake::default());
    let mut timed = header(0);
    timed.deadline = at(1_100);
    // The capacity of an idle path is unknown, whatever was sent on it.
    fake.rate.sendable = Some(Bitrate::from_kbps(400));
    subject.pump(at(100), &mut fake);
    push(&mut subject, timed, 200_000, Carriage::Stream);
    assert_eq!(outcomes(&mut subject), []);
    fake.rate.has_been_full = true;
    subject.pump(at(200), &mut fake);
    outcomes(&mut subject);
    for (bytes, fits) in [(110_000, true), (110_001, false)] {
        let refused = push(&mut subject, timed, bytes, Carriage::Stream).is_none();
        assert_eq!(refused, !fits, "twice 400 kbit/s for 1.1 s");
    }
    assert_eq!(outcomes(&mut subject), [(0, Outcome::Oversized)]);
}

#[test]
fn new_path_has_no_ceiling() {
    let (mut subject, mut fake) = (sender(), Fake::default());
    let mut timed = header(0);
    timed.deadline = at(1_100);
    fake.rate.sendable = Some(Bitrate::from_kbps(400));
    fake.rate.has_been_full = true;
    subject.pump(at(100), &mut fake);
    assert!(push(&mut subject, timed, 200_000, Carriage::Stream).is_none());
    outcomes(&mut subject);
    // The link moves to another path: what the last one carried says nothing of it.
    fake.rate.has_been_full = false;
    subject.pump(at(200), &mut fake);
    assert!(push(&mut subject, timed, 200_000, Carriage::Stream).is_some());
    assert_eq!(outcomes(&mut subject), []);
    // Once full, the new path has a ceiling of its own.
    fake.rate.has_been_full = true;
    subject.pump(at(300), &mut fake);
    assert!(push(&mut subject, timed, 200_000, Carriage::Stream).is_none());
}

#[test]
fn idle_flows_are_forgotten() {
    let mut subject = sender();
    let mut fake = Fake::default();
    // Twice as many streams as there are flows.
    for stream in 0..1_100 {
        let mut header = header(0);
        header.stream = StreamId(stream);
        push(&mut subject, header, 10, Carriage::Stream).expect("an idle flow makes room");
        subject.pump(at(0), &mut fake);
        acknowledge_all(&mut subject, &mut fake);
    }
    subject.sweep(at(10_000), &mut fake);
    assert!(subject.flows.iter().next().is_none());
}

#[test]
fn lost_link_ends_everything() {
    let (mut subject, mut fake) = (sender(), Fake::default());
    fake.room = 1_000;
    for (sequence, carriage) in [
        (0, Carriage::Stream),
        (1, Carriage::Ordered(lane())),
        (2, Carriage::Datagram),
    ] {
        push(&mut subject, header(sequence), 900, carriage);
    }
    subject.pump(at(0), &mut fake);
    subject.finish_ordered(lane());
    subject.lose();
    let events: Vec<_> = core::iter::from_fn(|| subject.poll_event()).collect();
    let ordered = events
        .iter()
        .filter(|event| matches!(event, Event::OrderedEnded { .. }));
    assert_eq!((events.len(), ordered.count()), (4, 1));
    assert!(subject.is_empty());
}

#[test]
fn payload_above_limit_is_refused() {
    let mut subject = sender();
    let bytes = ADU_PAYLOAD_BYTES_MAX + 1;
    assert!(push(&mut subject, header(0), bytes, Carriage::Stream).is_none());
    assert_eq!(outcomes(&mut subject), [(0, Outcome::TooLarge)]);
}
