//! Proves what the machine does with an ADU on each way through a node, at both sides of each edge.
//!
//! The driver is the test: it names receptions by numbers and reads the actions as words.

mod cast;
mod company;
mod count;
mod property;
mod sendings;
mod way;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;
use thalweg_base::adu::{Adu, Flags, Header, Importance, Mark};
use thalweg_base::count::{Band, Counts};
use thalweg_base::event::DropCause;
use thalweg_base::id::{Epoch, NodeId, Sequence, StreamId};
use thalweg_base::needs::{Order, Reliability, WEIGHT_USUAL};
use thalweg_base::part::{Installation, Secrets};
use thalweg_base::time::{Duration, Instant};

use super::lag::Lag;
use super::{Action, Begun, Relay, SendNumber};
use crate::packet::Pool;
use crate::route::{Carriage, Route};

const STREAM: StreamId = StreamId(7);
const BEFORE: NodeId = NodeId([1; 32]);
const NEXT: NodeId = NodeId([2; 32]);
const SIDE: NodeId = NodeId([3; 32]);
const NOW: Instant = Instant::from_nanos(7_000_000_000);

type Machine = Relay<u32>;

/// Returns a part that passes ADUs from [`BEFORE`] to [`NEXT`].
fn part(epoch: u32, reliability: Reliability) -> Installation {
    Installation {
        name: "cam".parse().expect("a name"),
        stream: STREAM,
        epoch: Epoch(epoch),
        source: BEFORE,
        previous: BEFORE,
        next: Some(NEXT),
        adapters: Vec::new(),
        reliability,
        order: Order::Importance,
        weight: WEIGHT_USUAL,
        plaintext: true,
        base: None,
    }
}

/// Returns a part that is grafted on plan 1.
fn graft(epoch: u32, next: Option<NodeId>) -> Installation {
    Installation {
        next,
        base: Some(Epoch(1)),
        ..part(epoch, Reliability::UntilDeadline)
    }
}

fn install(machine: &mut Machine, part: Installation) {
    let secrets = Secrets {
        key: None,
        instance: 0,
    };
    let (route, lift) = Route::build(part, secrets, Pool::new(0)).expect("known words");
    machine.handle_installed(route, lift);
}

/// Returns a machine with these parts and links to both next nodes.
fn machine(parts: impl IntoIterator<Item = Installation>) -> Machine {
    let mut machine = Machine::default();
    for peer in [NEXT, SIDE] {
        machine.handle_link(peer, true);
    }
    for part in parts {
        install(&mut machine, part);
    }
    machine
}

fn header(epoch: u32, sequence: u64) -> Header {
    Header {
        epoch: Epoch(epoch),
        importance: Importance(40),
        ..Header::new(STREAM, Sequence(sequence))
    }
}

fn end(epoch: u32, sequence: u64) -> Header {
    Header {
        flags: Flags::END,
        ..header(epoch, sequence)
    }
}

fn adu(header: Header, payload: &'static [u8]) -> Adu {
    Adu {
        header,
        payload: Bytes::from_static(payload),
    }
}

const fn begun(header: Header, payload_bytes: usize) -> Begun {
    Begun {
        header,
        payload_bytes,
        is_whole: false,
    }
}

/// Begins an ADU from a neighbour, on a node that forwards in no time.
fn begin_from(machine: &mut Machine, from: NodeId, recv: u32, header: Header, bytes: usize) {
    machine.handle_adu(from, recv, begun(header, bytes), &mut Lag::default(), NOW);
}

/// Begins an ADU of four bytes from [`BEFORE`].
fn begin(machine: &mut Machine, recv: u32, header: Header) -> Vec<String> {
    begin_from(machine, BEFORE, recv, header, 4);
    words(machine)
}

/// Brings an ADU of four bytes from [`BEFORE`] whole.
fn bring(machine: &mut Machine, recv: u32, header: Header) -> Vec<String> {
    let mut all = begin(machine, recv, header);
    machine.handle_chunk(recv, &Bytes::from_static(b"ab"));
    machine.handle_chunk(recv, &Bytes::from_static(b"cd"));
    machine.handle_whole(recv, NOW);
    all.extend(words(machine));
    all
}

/// Returns the actions in short: what, the plan and sequence or the reception, and where to.
fn words(machine: &mut Machine) -> Vec<String> {
    let to = |node: NodeId| if node == NEXT { "next" } else { "side" };
    let of = |header: &Header| format!("e{} {}", header.epoch.0, header.sequence.0);
    let actions = core::iter::from_fn(|| machine.poll_action());
    let word = |action: Action<u32>| match action {
        Action::Gather(recv) => format!("gather {recv}"),
        Action::Pass(recv, by) => format!("pass {recv} to {}", to(by.to)),
        Action::Chunk(number, bytes) => {
            format!("chunk {} {}", number.0, String::from_utf8_lossy(&bytes))
        }
        Action::Send(by, bytes) => {
            let payload = String::from_utf8_lossy(&bytes);
            format!("send {} to {} {payload}", of(&by.header), to(by.to))
        }
        Action::Hold(recv) => format!("hold {recv}"),
        Action::Resume(recv) => format!("resume {recv}"),
        Action::Refuse(recv, _, refusal) => format!("refuse {recv} {refusal:?}"),
        Action::Cancel(number, cause) => format!("cancel {} {cause}", number.0),
        Action::Deliver(adu, _) => format!("deliver {}", of(&adu.header)),
        Action::Drop(header, cause, place) => format!("drop {} {cause} {place:?}", of(&header)),
        Action::Replay(header) => format!("replay {}", of(&header)),
    };
    actions.map(word).collect()
}

/// Returns the counts of a plan that have changed since the last call.
fn changed(machine: &mut Machine, epoch: u32) -> Option<Counts> {
    let mut all = machine.accounts_mut().take_changed();
    let found = all.find(|((_, of), _)| *of == Epoch(epoch));
    found.map(|(_, counts)| counts.clone())
}

fn band() -> Band {
    Band::of(Importance(40))
}

fn left(machine: &mut Machine, number: u64) -> Vec<String> {
    assert!(machine.handle_outcome(SendNumber(number), Ok(()), NOW));
    words(machine)
}

fn failed(machine: &mut Machine, number: u64, cause: DropCause) -> Vec<String> {
    assert!(machine.handle_outcome(SendNumber(number), Err(cause), NOW));
    words(machine)
}

#[test]
fn actions_name_carriage_and_weight() {
    let cases = [
        (Reliability::None, Carriage::Datagram),
        (Reliability::UntilDeadline, Carriage::Stream),
        (Reliability::Full, Carriage::Ordered),
    ];
    for (reliability, carriage) in cases {
        let mut machine = machine([part(1, reliability)]);
        machine.give(adu(header(1, 0), b"all"), NOW);
        let Some(Action::Send(by, _)) = machine.poll_action() else {
            panic!("it is sent");
        };
        assert_eq!((by.carriage, by.payload_bytes), (carriage, 3));
        assert_eq!((by.weight, by.order), (WEIGHT_USUAL, Order::Importance));
        let is_marked = by.header.mark() != Mark::NONE;
        assert_eq!(is_marked, carriage == Carriage::Datagram);
    }
}

#[test]
fn report_is_due_with_counts() {
    let mut machine = machine([part(1, Reliability::UntilDeadline)]);
    assert!(machine.poll_timeout().is_never());
    machine.give(adu(header(1, 0), b"all"), NOW);
    assert_eq!(machine.poll_timeout(), NOW + Duration::from_millis(250));
    assert!(changed(&mut machine, 1).is_some());
    assert!(machine.poll_timeout().is_never());
    assert!(changed(&mut machine, 1).is_none(), "told once");
}

#[test]
fn new_mark_or_end_is_urgent() {
    let sink = Installation {
        next: None,
        ..part(2, Reliability::UntilDeadline)
    };
    let mut machine = machine([part(1, Reliability::None), sink]);
    let mut marked = header(1, 0);
    marked.set_mark(Mark::from_index(1));
    for (recv, is_urgent) in [(1, true), (2, false)] {
        bring(&mut machine, recv, marked);
        assert_eq!(machine.is_urgent(), is_urgent, "the mark is new once");
        machine.accounts_mut().take_due();
    }
    bring(&mut machine, 3, header(2, 0));
    assert!(!machine.is_urgent() && machine.arrivals().has_news(STREAM));
    begin_from(&mut machine, BEFORE, 4, end(2, 1), 0);
    machine.handle_whole(4, NOW);
    assert!(machine.is_urgent());
}

#[test]
fn due_counts_are_taken_by_plan() {
    let mut machine = machine([1, 2, 3].map(|epoch| part(epoch, Reliability::UntilDeadline)));
    for epoch in [1, 3] {
        machine.give(adu(header(epoch, 0), b"all"), NOW);
    }
    let plan = |epoch| (STREAM, Epoch(epoch));
    assert_eq!(machine.accounts_mut().take_due(), [plan(1), plan(3)]);
    assert!(machine.poll_timeout().is_never());
    assert!(machine.accounts_mut().take_counts(plan(3)).is_some());
    assert!(
        machine.accounts_mut().take_counts(plan(3)).is_none(),
        "told once"
    );
    assert_eq!(machine.accounts_mut().take_due(), [plan(1)]);
    let account = machine.accounts_mut().account(plan(1));
    let account = account.expect("it was given one");
    assert_eq!(account.sent_bytes(), 3);
    assert_eq!(
        (machine.outstanding_of(plan(1)), machine.outstanding(STREAM)),
        (1, 2)
    );
}
