//! Proves that the stamps of all nodes add up to an ADU's time under way, for every carriage, on
//! unrelated clocks; and that an ADU without room for stamps goes without them.

use alloc::boxed::Box;
use alloc::vec::Vec;

use thalweg_base::adu::Header;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::trace::{Stamp, Trace};
use thalweg_base::wire::adu::{decode_header, decode_trace};

use super::super::Arrived;
use super::{Fake, PathRate, Subject, at, header, lane, payload, sender};
use crate::hop::{Carriage, SendOptions};

/// Minimum one-way delay of a line.
const LINE: Duration = Duration::from_millis(20);

const CARRIAGES: [Carriage; 3] = [
    Carriage::Stream,
    Carriage::Datagram,
    Carriage::Ordered(lane()),
];

fn push(
    subject: &mut Subject,
    header: Header,
    bytes: usize,
    trace: Trace,
    now: Instant,
    by: Carriage,
) {
    let arrived = Arrived {
        trace: Some(Box::new(trace)),
        ..Arrived::from(payload(header.sequence.0, bytes))
    };
    subject.push(
        now,
        header,
        arrived,
        SendOptions::new(by),
        header.sequence.0,
    );
}

/// Returns the bytes sent of the only ADU, without the kind of its stream.
fn sent(fake: &Fake) -> Vec<u8> {
    match &fake.datagrams[..] {
        [datagram] => datagram.to_vec(),
        _ => fake.streams[&0].bytes[1..].to_vec(),
    }
}

/// Sends an ADU that came `now` after 4 ms inside, two of them in modules, and 16 ms in the outbox;
/// returns its bytes.
fn hop(
    header: Header,
    mut trace: Trace,
    now: Instant,
    carriage: Carriage,
    write_max: usize,
) -> Vec<u8> {
    let millis = Duration::from_millis;
    let (mut subject, mut fake) = (sender(), Fake::default());
    fake.rate = PathRate {
        transit: LINE,
        ..PathRate::default()
    };
    subject.pump(now, &mut fake);
    trace.add_lift(millis(2));
    fake.room = 0;
    push(&mut subject, header, 900, trace, now + millis(4), carriage);
    subject.pump(now + millis(5), &mut fake);
    (fake.room, fake.write_max) = (usize::MAX, write_max);
    subject.pump(now + millis(20), &mut fake);
    sent(&fake)
}

#[test]
fn stamps_add_up_to_time_under_way() {
    let millis = Duration::from_millis;
    let stamp = Stamp {
        inside: millis(2),
        lift: millis(2),
        wait: millis(16),
        line: LINE,
    };
    for carriage in CARRIAGES {
        for write_max in [7, usize::MAX] {
            let mut original = header(5);
            original.deadline = at(50) + millis(300);
            let bytes = hop(original, Trace::begin(at(50)), at(50), carriage, write_max);
            // The next node's clock is an hour ahead.
            let there = at(3_600_000);
            let decoded = decode_header(&bytes, there)
                .expect("a header")
                .expect("whole");
            let trace = decode_trace(&bytes, &decoded, there).expect("it has stamps");
            assert_eq!(trace.stamps(), [stamp], "{carriage:?}");
            let bytes = hop(decoded.header, trace, there, carriage, write_max);
            let sink = at(7);
            let decoded = decode_header(&bytes, sink)
                .expect("a header")
                .expect("whole");
            let mut trace = decode_trace(&bytes, &decoded, sink).expect("it has stamps");
            assert_eq!(decoded.payload_bytes, 900);
            assert_eq!(bytes[decoded.header_bytes..], payload(5, 900)[..]);
            trace.queue(sink + millis(1), Duration::ZERO);
            let traced = trace.finish(&decoded.header, sink + millis(1));
            // 20 ms on each of two nodes, 20 ms on each of two lines, 1 ms at the sink.
            assert_eq!((traced.sum(), traced.stamps.len()), (millis(81), 3));
            assert_eq!(traced.budget, millis(300), "{carriage:?}");
        }
    }
}

#[test]
fn full_datagram_drops_stamps() {
    for (bytes, is_traced) in [(1_119, true), (1_120, false)] {
        let (mut subject, mut fake) = (sender(), Fake::default());
        let trace = Trace::begin(at(0));
        push(
            &mut subject,
            header(1),
            bytes,
            trace,
            at(0),
            Carriage::Datagram,
        );
        subject.pump(at(0), &mut fake);
        assert_eq!(fake.datagrams.len(), 1, "{bytes} bytes fit");
        let datagram = &fake.datagrams[0];
        let decoded = decode_header(datagram, at(0))
            .expect("a header")
            .expect("whole");
        assert_eq!(decoded.trace_bytes > 0, is_traced, "{bytes} bytes");
        assert_eq!(decoded.payload_bytes, bytes);
    }
}
