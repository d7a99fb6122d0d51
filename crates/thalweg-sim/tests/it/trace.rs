//! Proves that stamps are true, over QUIC in virtual time, where the latency is known.
//!
//! *How.* ADUs with a stamp cross a line of 20 ms. The estimate's error is the time from sending to the
//! header's arrival, less the stamped wait in the outbox and half a round trip.

use thalweg_base::time::{Duration, Instant};
use thalweg_base::trace::Trace;
use thalweg_base::units::{Bitrate, Ratio};
use thalweg_link::hop::Carriage;
use thalweg_netem::Impairment;
use thalweg_sim::transport::{PortEvent, Source};

use crate::rig::{A, B, Rig, by, header, line, payload};

const ADUS: u64 = 100;

/// What a stamp reports of an ADU, and what was measured.
struct Seen {
    said: Duration,
    was: Duration,
    wait: Duration,
}

/// Sends ADUs of this size, one per interval, and returns those with a header that arrived.
fn seen(line: Impairment, bytes: usize, every: Duration, carriage: Carriage) -> Vec<Seen> {
    let mut rig = Rig::up(line, 7);
    let mut sent: Vec<Instant> = Vec::new();
    for sequence in 0..ADUS {
        let source = Source::Whole(payload(sequence, bytes));
        let trace = Some(Box::new(Trace::begin(rig.now)));
        sent.push(rig.now);
        let now = rig.now;
        rig.ports[A].send_traced(now, header(sequence), source, by(carriage), trace);
        rig.run_for(every);
    }
    rig.run_for(Duration::from_secs(20));
    let mut last = None;
    let mut all = Vec::new();
    for (at, event) in &rig.events[B] {
        match event {
            PortEvent::Adu { header, .. } => last = Some(header.sequence.0),
            PortEvent::Stamps { trace, .. } => {
                let sequence = last.expect("a header came first");
                let stamp = trace.stamps()[0];
                all.push(Seen {
                    said: stamp.sum(),
                    was: at.saturating_since(sent[sequence as usize]),
                    wait: stamp.wait,
                });
            }
            _ => {}
        }
    }
    let whole = rig.arrived.iter();
    for (_, header, arrived) in whole {
        assert_eq!(*arrived, payload(header.sequence.0, bytes)[..]);
    }
    all
}

const CARRIAGES: [Carriage; 3] = [
    Carriage::Stream,
    Carriage::Datagram,
    Carriage::Ordered(thalweg_link::hop::OrderedId {
        stream: thalweg_base::id::StreamId(7),
        epoch: thalweg_base::id::Epoch(1),
    }),
];

#[test]
fn stamps_match_latency_within_packet() {
    let line = line(Bitrate::from_kbps(10_000));
    for carriage in CARRIAGES {
        let all = seen(line, 900, Duration::from_millis(20), carriage);
        assert_eq!(all.len() as u64, ADUS, "{carriage:?}");
        for seen in all {
            // A full packet is 1.2 ms on this line.
            let error = seen.was.as_nanos().abs_diff(seen.said.as_nanos());
            assert!(error < 1_500_000, "{:?} and {:?}", seen.said, seen.was);
        }
    }
}

#[test]
fn stamp_includes_outbox_wait() {
    // 10 kB per 20 ms is twice the line's rate.
    let line = line(Bitrate::from_kbps(2_000));
    let all = seen(line, 10_000, Duration::from_millis(20), Carriage::Stream);
    assert_eq!(all.len() as u64, ADUS);
    let longest = all.iter().map(|seen| seen.wait).max();
    assert!(longest > Some(Duration::from_secs(1)), "{longest:?}");
    for seen in all {
        // Bytes handed to QUIC but not yet to the line have left the outbox: that queue is kept short
        // and is not stamped.
        let missed = seen.was.saturating_sub(seen.said);
        assert!(seen.said.saturating_sub(seen.was) < Duration::from_millis(3));
        assert!(missed < Duration::from_millis(100), "{missed:?}");
    }
}

#[test]
fn stamps_never_overstate_latency() {
    let line = Impairment {
        loss: Ratio::new(0.1).expect("a share"),
        ..line(Bitrate::from_kbps(10_000))
    };
    for (carriage, least) in [(CARRIAGES[0], ADUS), (CARRIAGES[1], ADUS / 2)] {
        let all = seen(line, 900, Duration::from_millis(20), carriage);
        assert!(all.len() as u64 >= least, "{} arrived", all.len());
        for seen in &all {
            let sooner = seen.said.saturating_sub(seen.was);
            assert!(sooner < Duration::from_millis(3), "{sooner:?}");
        }
        let close = |seen: &&Seen| seen.was.saturating_sub(seen.said) < Duration::from_millis(3);
        let close = all.iter().filter(close).count();
        assert!(close * 10 >= all.len() * 8, "{close} of {}", all.len());
    }
}
