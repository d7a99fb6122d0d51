//! Runs an outbox and its gate on operations decoded from bytes.
//!
//! The operations are pushes of any size and deadline, changes, partly taken chunks, and a transport
//! that acknowledges and reports lost anything, sent or not. For each ADU the state of its ticket is
//! tracked. Every ADU must end exactly once, the counters must match the input, the limits must hold,
//! and once all streams are read again everything left must be handed out. The order of ADUs is not
//! checked here, but in `outbox/tests/model.rs`.

use std::collections::HashMap;

use thalweg_base::adu::Importance;
use thalweg_base::event::{DropCause, DropCounts};
use thalweg_base::id::Sequence;
use thalweg_base::needs::Order;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize};
use thalweg_link::outbox::gate::{Gate, Path};
use thalweg_link::outbox::{Chunk, Entry, FlowId, Outbox, Settings, Ticket};

use super::numbers::Numbers;

const ADUS_MAX: usize = 24;
const BYTES_MAX: u64 = 60_000;
const FLOWS_MAX: usize = 3;

/// More credit than the bytes of any test.
const PLENTY: DataSize = DataSize::from_kib(1 << 20);

/// How much of an ADU has been handed over.
#[derive(Clone, Copy, Default)]
struct Passed {
    bytes: usize,
    of: usize,
    is_whole: bool,
}

/// An outbox and its expected state.
struct Run {
    outbox: Outbox,
    gate: Gate,
    flows: Vec<FlowId>,
    /// The tickets that have not ended.
    live: HashMap<Ticket, Passed>,
    /// The latest tickets, ended ones included.
    tickets: Vec<Ticket>,
    pushed: u64,
    finished: u64,
    dropped: u64,
    refused: u64,
    /// The transport reported a loss, so bytes may be counted twice.
    is_taken_back: bool,
    now: Instant,
}

/// Runs the operations that the bytes encode.
pub fn run(bytes: &[u8]) {
    let mut numbers = Numbers::new(bytes);
    let mut run = Run::new();
    while !numbers.is_empty() {
        run.step(&mut numbers);
        run.check();
    }
    run.drain();
}

impl Run {
    fn new() -> Self {
        Self {
            outbox: Outbox::new(Settings {
                adus_max: ADUS_MAX,
                bytes_max: DataSize::from_bytes(BYTES_MAX),
                flows_max: FLOWS_MAX,
                seed: 5,
            }),
            gate: Gate::default(),
            flows: Vec::new(),
            live: HashMap::new(),
            tickets: Vec::new(),
            pushed: 0,
            finished: 0,
            dropped: 0,
            refused: 0,
            is_taken_back: false,
            now: Instant::ZERO + Duration::from_secs(1),
        }
    }

    fn step(&mut self, numbers: &mut Numbers<'_>) {
        match numbers.byte() % 16 {
            0..=4 => self.push(numbers),
            5..=7 => {
                // A chunk within the gate's credit, or any chunk.
                let credit = match numbers.byte() % 4 {
                    0 => self.gate.credit(),
                    1 => PLENTY,
                    _ => DataSize::from_bytes(numbers.any()),
                };
                if let Some(chunk) = self.outbox.poll_chunk(self.now, credit) {
                    assert!(chunk.range.len() as u64 <= credit.as_bytes());
                    self.passed(&chunk);
                }
            }
            8 => self.change(numbers),
            9 => self.transport(numbers),
            10 => {
                let order = [Order::Importance, Order::Sequence][usize::from(numbers.byte() % 2)];
                self.flows
                    .extend(self.outbox.open_flow(numbers.weight(), order));
                if self.flows.len() > 4 * FLOWS_MAX {
                    self.flows.remove(0);
                }
            }
            11 => {
                if let Some(flow) = self.flow(numbers) {
                    match numbers.byte() % 4 {
                        0 => self.outbox.close_flow(flow),
                        _ => drop(self.outbox.set_weight(flow, numbers.weight())),
                    }
                }
            }
            12 => {
                // The clock may step, also backwards.
                self.now = Instant::ZERO + Duration::from_millis(numbers.any());
                self.outbox.handle_timeout(self.now);
            }
            13 => {
                let rate = Some(Bitrate::from_bps(numbers.any()));
                self.outbox
                    .set_rate(rate.filter(|_| !numbers.byte().is_multiple_of(4)));
                self.outbox
                    .set_ceiling(rate.filter(|_| !numbers.byte().is_multiple_of(4)));
                self.outbox
                    .set_transit(Duration::from_micros(numbers.any()));
            }
            14 => {
                if let Some(ticket) = self.ticket(numbers) {
                    self.finish(ticket);
                }
            }
            _ => {
                if numbers.byte() == 0 {
                    self.outbox.cancel_all(DropCause::PathLost);
                } else if let Some(ticket) = self.ticket(numbers) {
                    let is_live = self.live.contains_key(&ticket);
                    assert_eq!(self.outbox.cancel(ticket, DropCause::Cancelled), is_live);
                }
            }
        }
        self.take_drops();
    }

    fn flow(&self, numbers: &mut Numbers<'_>) -> Option<FlowId> {
        let at = usize::from(numbers.byte());
        (!self.flows.is_empty()).then(|| self.flows[at % self.flows.len()])
    }

    fn ticket(&self, numbers: &mut Numbers<'_>) -> Option<Ticket> {
        let at = usize::from(numbers.byte());
        (!self.tickets.is_empty()).then(|| self.tickets[at % self.tickets.len()])
    }

    fn push(&mut self, numbers: &mut Numbers<'_>) {
        let Some(flow) = self.flow(numbers) else {
            return;
        };
        let bytes = match numbers.byte() % 4 {
            0 => numbers.any() as usize,
            1 => usize::from(numbers.byte()),
            _ => usize::from(numbers.byte()) << 6,
        };
        let deadline = match numbers.byte() {
            0 => Instant::NEVER,
            1 => Instant::ZERO,
            2..=9 => self.now,
            millis => self.now + Duration::from_millis(u64::from(millis)),
        };
        let sequence = u64::from(numbers.byte() % 32);
        let back = u64::from(numbers.byte() % 8);
        let entry = Entry {
            importance: Importance(numbers.byte()),
            deadline,
            sequence: Sequence(sequence),
            bytes,
            available_bytes: if numbers.byte().is_multiple_of(4) {
                bytes / 3
            } else {
                bytes
            },
            depends_on: (back > 0).then(|| Sequence(sequence.wrapping_sub(back))),
        };
        self.pushed += 1;
        match self.outbox.push(self.now, flow, entry) {
            Ok(ticket) => {
                let passed = Passed {
                    of: bytes,
                    ..Passed::default()
                };
                assert!(
                    self.live.insert(ticket, passed).is_none(),
                    "a ticket is one ADU's"
                );
                self.tickets.push(ticket);
                if self.tickets.len() > 2 * ADUS_MAX {
                    self.tickets.remove(0);
                }
            }
            // An ADU for a closed flow is not counted.
            Err(thalweg_link::outbox::Refused::UnknownFlow) => self.pushed -= 1,
            Err(_) => self.refused += 1,
        }
    }

    fn change(&mut self, numbers: &mut Numbers<'_>) {
        let Some(ticket) = self.ticket(numbers) else {
            return;
        };
        let is_live = self.live.contains_key(&ticket);
        let was_known = match numbers.byte() % 5 {
            0 => self
                .outbox
                .set_importance(ticket, Importance(numbers.byte())),
            1 => {
                let deadline = Instant::ZERO + Duration::from_millis(numbers.any());
                self.outbox.set_deadline(ticket, deadline)
            }
            2 => self
                .outbox
                .set_blocked(ticket, numbers.byte().is_multiple_of(2)),
            3 => self.outbox.handle_available(ticket, numbers.any() as usize),
            _ => {
                let bytes = numbers.any() as usize;
                if let Some(passed) = self.live.get_mut(&ticket) {
                    let back = bytes.min(passed.bytes);
                    passed.bytes -= back;
                    passed.is_whole &= back == 0 && passed.of > 0;
                    self.is_taken_back |= back > 0;
                }
                self.outbox.handle_unsent(ticket, bytes)
            }
        };
        assert_eq!(was_known, is_live, "only what has not ended is changed");
    }

    /// Reports of the transport about its packets, true or false.
    fn transport(&mut self, numbers: &mut Numbers<'_>) {
        let size = DataSize::from_bytes(numbers.any());
        match numbers.byte() % 6 {
            0 => self.gate.handle_packet(size),
            1 => self.gate.handle_acknowledged(size),
            2 => self.gate.handle_lost(size),
            3 => self
                .gate
                .handle_in_flight(size, numbers.byte().is_multiple_of(2)),
            4 => self.gate.handle_path(&Path {
                window: size,
                rtt: Duration::from_micros(numbers.any()),
                rate: Bitrate::from_bps(numbers.any()),
            }),
            _ => self.gate.handle_packet(DataSize::from_bytes(1_200)),
        }
    }

    fn passed(&mut self, chunk: &Chunk) {
        let passed = self
            .live
            .get_mut(&chunk.ticket)
            .expect("what is sent has not ended");
        assert_eq!(chunk.range.start, passed.bytes, "bytes go in order");
        passed.bytes = chunk.range.end;
        passed.is_whole = chunk.is_last;
        assert_eq!(chunk.is_last, passed.bytes == passed.of);
        self.gate
            .handle_written(DataSize::from_bytes(chunk.range.len() as u64));
    }

    fn finish(&mut self, ticket: Ticket) {
        let is_whole = self.live.get(&ticket).is_some_and(|passed| passed.is_whole);
        assert_eq!(self.outbox.has_departed(ticket), is_whole);
        assert_eq!(
            self.outbox.finish(ticket),
            is_whole,
            "what was not sent cannot have arrived"
        );
        if is_whole {
            self.live.remove(&ticket);
            self.finished += 1;
        }
    }

    fn take_drops(&mut self) {
        while let Some(dropped) = self.outbox.poll_drop() {
            assert!(
                self.live.remove(&dropped.ticket).is_some(),
                "an ADU ends once"
            );
            self.dropped += 1;
        }
    }

    fn check(&self) {
        assert_eq!(self.outbox.len(), self.live.len());
        assert!(self.live.len() <= ADUS_MAX);
        let queued = self.live.values().filter(|passed| !passed.is_whole);
        let queued: u64 = queued.map(|passed| passed.of as u64).sum();
        assert_eq!(self.outbox.queued().as_bytes(), queued);
        assert!(queued <= BYTES_MAX || self.is_taken_back);
        let drops: &DropCounts = self.outbox.drops();
        assert_eq!(drops.total(), self.dropped + self.refused);
        let ended = self.finished + self.dropped + self.refused;
        assert_eq!(
            self.pushed,
            ended + self.live.len() as u64,
            "each is accounted for"
        );
        assert!(self.gate.credit() <= self.gate.limit());
    }

    /// Makes all ADUs complete and readable: nothing may remain.
    fn drain(&mut self) {
        let live: Vec<(Ticket, Passed)> = self
            .live
            .iter()
            .map(|(&ticket, &passed)| (ticket, passed))
            .collect();
        for (ticket, passed) in live {
            assert!(self.outbox.set_blocked(ticket, false));
            assert!(self.outbox.handle_available(ticket, passed.of));
        }
        while let Some(chunk) = self.outbox.poll_chunk(self.now, PLENTY) {
            self.passed(&chunk);
            self.take_drops();
        }
        self.take_drops();
        for ticket in self.live.keys().copied().collect::<Vec<_>>() {
            assert!(self.live[&ticket].is_whole, "it was left behind");
            self.finish(ticket);
        }
        self.check();
        assert!(self.outbox.is_empty());
        assert_eq!(self.outbox.queued(), DataSize::ZERO);
    }
}
