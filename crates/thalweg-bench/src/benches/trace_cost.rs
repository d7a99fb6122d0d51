//! TRACE-COST: the cost of stamps for an ADU on its way through a node.
//!
//! A header is decoded, and the ADU is put into a sender and sent at once over a null transport: a
//! relay's work per datagram without its socket and its tables. One side's header carries the stamps of
//! several nodes, and another is added; the baseline's carries none, as nearly all ADUs. The sides
//! alternate.

use std::hint::black_box;

use bytes::Bytes;
use thalweg_base::adu::Header;
use thalweg_base::id::{Sequence, StreamId};
use thalweg_base::time::{Duration, Instant};
use thalweg_base::trace::{Stamp, Trace};
use thalweg_base::units::DataSize;
use thalweg_base::wire::adu;
use thalweg_link::hop::sender::{Arrived, Datagram, Owner, PathRate, Sender, Transport, Written};
use thalweg_link::hop::{Carriage, SendOptions, StreamCode};
use thalweg_link::outbox::Settings as OutboxSettings;

use crate::Settings;
use crate::report::{Figure, Report};
use crate::sample::{Summary, alternate, nanos_each};

/// The benchmark's id.
pub(crate) const ID: &str = "TRACE-COST";

/// Its metrics' names.
pub(crate) const METRICS: &[&str] = &["ns_per_adu", "ns_untraced"];

const UNTRACED: &str = "untraced";

/// Numbers of stamps: the source alone, a common path, the maximum in a datagram with 1,000 bytes of payload.
const STAMPS: [usize; 3] = [1, 3, 5];

const PAYLOAD_BYTES: usize = 1_000;

/// A sample takes about a millisecond: short against a time slice, so most are not interrupted.
const ADUS_PER_SAMPLE: u64 = 2_000;

/// A relay's sender, and the bytes of an arriving header.
struct Relay {
    sender: Sender<u32, ()>,
    head: Vec<u8>,
    payload: Bytes,
    now: Instant,
}

/// A transport that accepts everything and discards it.
struct NullTransport;

/// Measures and reports.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    let mut untraced = Vec::new();
    for stamps in STAMPS {
        let (mut ours, mut theirs) = (Relay::new(stamps), Relay::new(0));
        let our = || Ok(nanos_each(ADUS_PER_SAMPLE, |adus| ours.pass(adus)));
        let their = || Ok(nanos_each(ADUS_PER_SAMPLE, |adus| theirs.pass(adus)));
        let (traced, plain) = alternate(settings.samples, our, their)?;
        let cost = Figure::new(
            ID,
            format!("ns_per_adu.stamps_{stamps}"),
            "ns",
            Summary::of(traced),
        );
        report.add(&cost.with_baseline(UNTRACED, Summary::of(plain.clone()).median))?;
        untraced.extend(plain);
    }
    report.add(&Figure::new(ID, "ns_untraced", "ns", Summary::of(untraced)))
}

impl Relay {
    /// Returns a relay that receives ADUs with this many stamps.
    fn new(stamps: usize) -> Self {
        let mut head = Vec::new();
        let (header, now) = (Header::new(StreamId(7), Sequence(1 << 20)), Instant::ZERO);
        match stamps.checked_sub(1) {
            None => adu::encode_header(&header, PAYLOAD_BYTES, now, &mut head),
            Some(before) => {
                let stamp = Stamp {
                    inside: Duration::from_micros(120),
                    lift: Duration::ZERO,
                    wait: Duration::from_micros(900),
                    line: Duration::from_millis(20),
                };
                let trace = Trace::arrived(vec![stamp; before], now);
                adu::encode_traced(&header, &trace, PAYLOAD_BYTES, now, &mut head);
            }
        }
        Self {
            sender: Sender::new(OutboxSettings::default()),
            head,
            payload: Bytes::from(vec![7; PAYLOAD_BYTES]),
            now,
        }
    }

    fn pass(&mut self, adus: u64) {
        for _ in 0..adus {
            self.now = self.now + Duration::from_micros(10);
            let decoded = adu::decode_header(black_box(&self.head), self.now);
            let decoded = decoded
                .expect("it was encoded above")
                .expect("all of it is there");
            let trace = adu::decode_trace(&self.head, &decoded, self.now);
            let arrived = Arrived {
                trace: trace.map(Box::new),
                ..Arrived::from(self.payload.clone())
            };
            let options = SendOptions::new(Carriage::Datagram);
            self.sender
                .push(self.now, decoded.header, arrived, options, ());
            self.sender.pump(self.now, &mut NullTransport);
            while let Some(event) = self.sender.poll_event() {
                black_box(event);
            }
        }
    }
}

impl Transport for NullTransport {
    type Stream = u32;

    fn open(&mut self, _owner: Owner, _rank: i32) -> Option<u32> {
        None
    }

    fn write(&mut self, _stream: u32, _pieces: &mut [Bytes]) -> Written {
        Written::Lost
    }

    fn finish(&mut self, _stream: u32) {}

    fn reset(&mut self, _stream: u32, _code: StreamCode) {}

    fn forget(&mut self, _stream: u32) {}

    fn datagram_bytes_max(&mut self) -> usize {
        // The datagram size that fits QUIC's smallest packet.
        1_162
    }

    fn send_datagram(&mut self, datagram: Bytes) -> Datagram {
        black_box(datagram);
        Datagram::Sent
    }

    fn credit(&mut self) -> DataSize {
        DataSize::from_kib(1 << 10)
    }

    fn heard(&self) -> u64 {
        0
    }

    fn let_one_through(&mut self) {}

    fn path_rate(&self) -> PathRate {
        PathRate::default()
    }
}

#[cfg(test)]
mod tests {
    //! Proves that the traced side carries its stamps.

    use super::{PAYLOAD_BYTES, Relay, STAMPS};
    use thalweg_base::limits::{ADU_HEADER_BYTES_MAX, STAMP_BYTES_MAX};
    use thalweg_base::time::Instant;
    use thalweg_base::wire::adu;

    #[test]
    fn sides_carry_their_stamps() {
        for stamps in STAMPS.into_iter().chain([0]) {
            let relay = Relay::new(stamps);
            let decoded = adu::decode_header(&relay.head, Instant::ZERO);
            let decoded = decoded.expect("well formed").expect("whole");
            let trace = adu::decode_trace(&relay.head, &decoded, Instant::ZERO);
            assert_eq!(trace.map_or(0, |trace| trace.stamps().len()), stamps);
        }
        let longest = STAMPS[STAMPS.len() - 1];
        let bytes = PAYLOAD_BYTES + ADU_HEADER_BYTES_MAX + 1 + (longest + 1) * STAMP_BYTES_MAX;
        assert!(bytes <= 1_162, "it would have no stamps: {bytes}");
    }
}
