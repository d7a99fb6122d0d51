//! A link's sender: a small ADU in, handed to a transport that takes everything, and acknowledged.

use std::hint::black_box;

use bytes::Bytes;
use thalweg_base::adu::Header;
use thalweg_base::id::{Sequence, StreamId};
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::DataSize;
use thalweg_link::hop::sender::{Arrived, Datagram, Owner, PathRate, Sender, Transport, Written};
use thalweg_link::hop::{Carriage, SendOptions, StreamCode};
use thalweg_link::outbox::Settings;

use crate::crowd::UNLIMITED;

/// A transport that is idle and takes everything at once.
#[derive(Debug, Default)]
struct Idle {
    opened: u64,
}

impl Transport for Idle {
    type Stream = u64;

    fn open(&mut self, _owner: Owner, _rank: i32) -> Option<u64> {
        self.opened += 1;
        Some(self.opened)
    }

    fn write(&mut self, _stream: u64, pieces: &mut [Bytes]) -> Written {
        Written::Some(black_box(pieces).iter().map(Bytes::len).sum())
    }

    fn finish(&mut self, _stream: u64) {}

    fn reset(&mut self, _stream: u64, _code: StreamCode) {}

    fn forget(&mut self, _stream: u64) {}

    fn datagram_bytes_max(&mut self) -> usize {
        0
    }

    fn send_datagram(&mut self, _datagram: Bytes) -> Datagram {
        Datagram::TooLarge
    }

    fn credit(&mut self) -> DataSize {
        UNLIMITED
    }

    fn heard(&self) -> u64 {
        self.opened
    }

    fn let_one_through(&mut self) {}

    fn path_rate(&self) -> PathRate {
        PathRate::default()
    }
}

/// One ADU of 1,000 bytes on a stream of its own.
pub(super) fn one_adu(adus: u64) {
    let mut sender = Sender::<u64, u64>::new(Settings::default());
    let mut transport = Idle::default();
    let payload = Bytes::from_static(&[0; 1_000]);
    let mut now = Instant::from_nanos(1_000_000_000);
    for number in 0..adus {
        now = now + Duration::from_millis(1);
        let header = Header {
            deadline: now + Duration::from_millis(300),
            ..Header::new(StreamId(7), Sequence(number))
        };
        let arrived = Arrived::from(payload.clone());
        let options = SendOptions::new(Carriage::Stream);
        let ticket = sender.push(now, header, arrived, options, number);
        black_box(sender.pump(now, &mut transport));
        let ticket = ticket.expect("it is queued");
        sender.handle_acknowledged(Owner::Adu(ticket), &mut transport);
        while let Some(event) = sender.poll_event() {
            black_box(event);
        }
    }
    assert!(sender.is_empty(), "each has its outcome");
}
