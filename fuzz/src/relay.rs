//! Runs a node's data path on events decoded from bytes.
//!
//! The events are those of a driver with hostile neighbours: ADUs of plans that exist or not, from
//! nodes that may send them or not, with any sequence, layer, importance and deadline; chunks, ends and
//! failures in any order, also of receptions that never began; outcomes late, twice or never; plans that
//! are installed again in another form, removed, cast on each other and recalled under way; links that
//! come and go; rounds of forwarding that take long, so that ADUs are refused as too late for it; a clock
//! that steps backwards. Each number that a link is given must be fresh, each outcome must be taken once,
//! nothing without a deadline may be refused as late, and once everything has ended, the counts of each
//! plan must add up.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use thalweg_base::adu::{Adu, Flags, Header, Importance};
use thalweg_base::count::Marked;
use thalweg_base::event::DropCause;
use thalweg_base::feed::Feed;
use thalweg_base::id::{Epoch, NodeId, Sequence, StreamId};
use thalweg_base::needs::{Order, Reliability, WEIGHT_USUAL};
use thalweg_base::part::{Installation, Secrets};
use thalweg_base::time::{Duration, Instant};
use thalweg_dataplane::packet::Pool;
use thalweg_dataplane::relay::lag::Lag;
use thalweg_dataplane::relay::{Action, Begun, Refusal, Relay, SendNumber};
use thalweg_dataplane::route::Route;

use super::numbers::Numbers;

/// Plans of each stream; one more is named and never installed.
const PLANS: u8 = 6;

/// Streams; one more is named and never installed.
const STREAMS: u8 = 2;

/// Receptions at a time, as a link's flow control bounds them.
const RECEPTIONS: u8 = 32;

/// ADUs that a producer here may have under way, as its window bounds them.
const GIVEN: usize = 64;

/// A machine, and what its driver was asked to do and has not done yet.
struct Run {
    machine: Relay<u8>,
    lag: Lag,
    sendings: BTreeSet<SendNumber>,
    /// Numbers with an outcome that was reported.
    ended: Vec<SendNumber>,
    last: Option<SendNumber>,
    /// Rounds of forwarding that have ended.
    rounds: u32,
    held: BTreeSet<u8>,
    /// The plans that were never removed: the counts of others have begun again.
    steady: BTreeMap<(StreamId, Epoch), bool>,
    now: Instant,
}

/// Runs the events that the bytes encode.
pub fn run(bytes: &[u8]) {
    let mut numbers = Numbers::new(bytes);
    let mut run = Run {
        machine: Relay::default(),
        lag: Lag::default(),
        sendings: BTreeSet::new(),
        ended: Vec::new(),
        last: None,
        rounds: 0,
        held: BTreeSet::new(),
        steady: BTreeMap::new(),
        now: Instant::ZERO + Duration::from_secs(1),
    };
    for peer in 0..3 {
        run.machine.handle_link(node(peer), true);
    }
    while !numbers.is_empty() {
        run.step(&mut numbers);
        run.carry_out();
    }
    run.drain();
}

const fn node(number: u8) -> NodeId {
    NodeId([number; 32])
}

fn plan(numbers: &mut Numbers<'_>) -> (StreamId, Epoch) {
    let stream = StreamId(u64::from(numbers.below(STREAMS + 1)));
    (stream, Epoch(1 + u32::from(numbers.below(PLANS + 1))))
}

fn header(numbers: &mut Numbers<'_>, now: Instant) -> Header {
    let (stream, epoch) = plan(numbers);
    let sequence = match numbers.below(8) {
        // The highest that the wire can say.
        0 => (1 << 62) - 2 - u64::from(numbers.byte()),
        _ => u64::from(numbers.byte()),
    };
    let flags = [Flags::NONE, Flags::NONE, Flags::KEY, Flags::END][usize::from(numbers.below(4))];
    Header {
        epoch,
        flags,
        importance: Importance(numbers.byte()),
        layer: numbers.byte() % 4,
        deadline: match numbers.below(4) {
            0 => Instant::NEVER,
            1 => Instant::ZERO,
            _ => now + Duration::from_millis(u64::from(numbers.byte())),
        },
        ..Header::new(stream, Sequence(sequence))
    }
}

fn installation(numbers: &mut Numbers<'_>) -> Installation {
    let (stream, epoch) = plan(numbers);
    let words = ["keep:1", "keep:2", "pack", "unpack"];
    let adapters = match numbers.below(4) {
        0 => vec![words[usize::from(numbers.below(4))].to_string()],
        _ => Vec::new(),
    };
    let next = numbers.below(4);
    Installation {
        name: "cam".parse().expect("a name"),
        stream,
        epoch,
        source: node(0),
        previous: node(numbers.below(2)),
        next: (next > 0).then(|| node(next)),
        adapters,
        reliability: [
            Reliability::None,
            Reliability::UntilDeadline,
            Reliability::Repaired,
            Reliability::Full,
        ][usize::from(numbers.below(4))],
        order: [Order::Importance, Order::Sequence][usize::from(numbers.below(2))],
        weight: WEIGHT_USUAL,
        plaintext: numbers.below(4) > 0,
        base: (numbers.below(3) == 0).then(|| Epoch(1 + u32::from(numbers.below(PLANS)))),
    }
}

impl Run {
    fn step(&mut self, numbers: &mut Numbers<'_>) {
        let now = self.now;
        let machine = &mut self.machine;
        match numbers.below(18) {
            0..=3 => self.begin(numbers),
            4..=5 => {
                let recv = numbers.below(RECEPTIONS);
                machine.handle_chunk(recv, &Bytes::from_static(b"a"));
            }
            way @ 6..=7 => {
                let recv = numbers.below(RECEPTIONS);
                if !self.held.contains(&recv) {
                    match way {
                        6 => machine.handle_whole(recv, now),
                        _ => machine.handle_gathered(recv, Bytes::from_static(b"gathered"), now),
                    }
                }
            }
            8 => {
                let cause = DropCause::ALL[usize::from(numbers.byte()) % DropCause::ALL.len()];
                let recv = numbers.below(RECEPTIONS);
                self.held.remove(&recv);
                if cause == DropCause::Cancelled {
                    machine.handle_let_go(recv, now);
                } else {
                    machine.handle_failed(recv, cause, now);
                }
            }
            9..=11 => self.end_one(numbers),
            12 => {
                let header = header(numbers, now);
                if self.sendings.len() < GIVEN {
                    let payload = Bytes::from_static(b"payload");
                    machine.give(Adu { header, payload }, now);
                }
            }
            13 => machine.handle_link(node(numbers.below(4)), numbers.below(2) == 0),
            14 => self.install(numbers),
            15 => {
                let plan = plan(numbers);
                machine.handle_removed(plan);
                self.steady.insert(plan, false);
            }
            16 => {
                let until = Feed::Until(Sequence(u64::from(numbers.byte())));
                let feeds = [Feed::Off, Feed::Live, Feed::Replay, until];
                let feed = feeds[usize::from(numbers.below(4))];
                machine.handle_cast(plan(numbers), feed, now);
            }
            _ => self.step_aside(numbers),
        }
    }

    /// What is not about one ADU.
    fn step_aside(&mut self, numbers: &mut Numbers<'_>) {
        let now = self.now;
        let way = numbers.byte();
        match way % 4 {
            0 => self.machine.recall(plan(numbers), now),
            // A round that has taken up to 63 ms.
            1 => {
                self.now = now + Duration::from_millis(u64::from(way / 4));
                self.lag.handle_end(self.now);
                self.rounds += 1;
            }
            2 => {
                let _ = self
                    .machine
                    .arrivals_mut()
                    .take_news(plan(numbers).0, numbers.below(2) == 0);
            }
            // The clock may step, also backwards.
            _ => {
                self.now = Instant::ZERO + Duration::from_millis(u64::from(numbers.byte()) << 4);
            }
        }
    }

    /// Begins a reception.
    fn begin(&mut self, numbers: &mut Numbers<'_>) {
        let recv = numbers.below(RECEPTIONS);
        let header = header(numbers, self.now);
        let bytes = usize::from(numbers.below(8));
        // The driver names each reception once at a time.
        if self.machine.reception(recv).is_none() {
            self.held.remove(&recv);
            let adu = Begun {
                header,
                payload_bytes: bytes,
                is_whole: bytes == 1,
            };
            let from = node(numbers.below(3));
            self.machine
                .handle_adu(from, recv, adu, &mut self.lag, self.now);
        }
    }

    /// Installs a plan, or another form of it.
    fn install(&mut self, numbers: &mut Numbers<'_>) {
        let part = installation(numbers);
        let plan = (part.stream, part.epoch);
        let secrets = Secrets {
            key: None,
            instance: 0,
        };
        let is_real = part.stream.0 < u64::from(STREAMS) && plan.1.0 <= u32::from(PLANS);
        if is_real && let Ok((route, lift)) = Route::build(part, secrets, Pool::new(0)) {
            self.machine.handle_installed(route, lift);
            self.steady.entry(plan).or_insert(true);
        }
    }

    /// Reports the outcome of an ADU, or once more that of one that has ended.
    fn end_one(&mut self, numbers: &mut Numbers<'_>) {
        let at = usize::from(numbers.byte());
        let ended = if numbers.below(2) == 0 {
            Ok(())
        } else {
            Err(DropCause::ALL[at % DropCause::ALL.len()])
        };
        if numbers.below(8) == 0 {
            if let Some(number) = self.ended.last() {
                assert!(!self.machine.handle_outcome(*number, ended, self.now));
            }
            return;
        }
        let count = self.sendings.len().max(1);
        if let Some(number) = self.sendings.iter().nth(at % count).copied() {
            self.end(number, ended);
        }
    }

    fn end(&mut self, number: SendNumber, ended: Result<(), DropCause>) {
        self.sendings.remove(&number);
        self.ended.push(number);
        assert!(self.machine.handle_outcome(number, ended, self.now));
    }

    fn carry_out(&mut self) {
        while let Some(action) = self.machine.poll_action() {
            match action {
                Action::Send(by, _) | Action::Pass(_, by) => {
                    assert!(self.last < Some(by.number), "a number is used once");
                    self.last = Some(by.number);
                    self.sendings.insert(by.number);
                }
                Action::Chunk(..)
                | Action::Gather(_)
                | Action::Drop(..)
                | Action::Cancel(..)
                | Action::Replay(_) => {}
                Action::Deliver(adu, _) => {
                    self.machine.handle_delivered(&adu.header, Ok(()), self.now);
                }
                Action::Hold(recv) => {
                    self.held.insert(recv);
                }
                Action::Refuse(recv, header, refusal) => {
                    self.held.remove(&recv);
                    if refusal == Refusal::Dropped(DropCause::Expired) {
                        assert!(self.rounds >= 3, "forwarding was never measured");
                        let is_urgent = !header.flags.contains(Flags::END);
                        assert!(is_urgent && !header.deadline.is_never());
                    }
                }
                Action::Resume(recv) => {
                    self.held.remove(&recv);
                }
            }
        }
        let (receptions, sendings) = self.machine.in_flight();
        assert!(receptions <= usize::from(RECEPTIONS));
        assert_eq!(sendings, self.sendings.len());
    }

    /// Ends everything that is under way; then the counts of each plan add up.
    fn drain(&mut self) {
        loop {
            let number = self.sendings.first().copied();
            match number {
                Some(number) => self.end(number, Ok(())),
                None if self.machine.in_flight().0 > 0 => {
                    let receptions = (0..RECEPTIONS).find(|recv| {
                        let is_held = self.held.contains(recv);
                        self.machine.reception(*recv).is_some() && !is_held
                    });
                    let recv =
                        receptions.expect("what is held back is resumed once nothing is sent");
                    self.machine.handle_whole(recv, self.now);
                }
                None => break,
            }
            self.carry_out();
        }
        assert_eq!(self.machine.in_flight(), (0, 0));
        let sum = |rows: &Marked| rows.iter().flatten().sum::<u64>();
        for (plan, counts) in self.machine.accounts_mut().take_changed() {
            let sent = sum(&counts.left) + sum(&counts.failed);
            if self.steady.get(&plan) == Some(&true) {
                assert_eq!(sum(&counts.sent), sent, "{plan:?}: sent ones end once");
            }
        }
    }
}
