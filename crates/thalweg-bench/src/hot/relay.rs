//! A relay's machine: an ADU to many branches, and the outcome of each copy.

use std::hint::black_box;

use bytes::Bytes;
use thalweg_base::adu::Header;
use thalweg_base::feed::Feed;
use thalweg_base::id::{Epoch, NodeId, Sequence, StreamId};
use thalweg_base::needs::{Order, Reliability, WEIGHT_USUAL};
use thalweg_base::part::{Installation, Secrets};
use thalweg_base::time::{Duration, Instant};
use thalweg_dataplane::packet::Pool;
use thalweg_dataplane::relay::lag::Lag;
use thalweg_dataplane::relay::{Action, Begun, Relay, SendNumber};
use thalweg_dataplane::route::Route;

/// The stream of which ADUs are copied.
const STREAM: StreamId = StreamId(7);

/// The node that they come from.
const SOURCE: NodeId = NodeId([0xff; 32]);

/// Time between two ADUs.
const FRAME: Duration = Duration::from_millis(33);

/// One ADU of 1,000 bytes that comes whole, to 64 next nodes, and what became of each copy.
pub(super) fn fan_out(adus: u64) {
    carry(64, adus);
}

/// The same to 200: more than the processor's first cache holds.
pub(super) fn fan_out_200(adus: u64) {
    carry(200, adus);
}

fn carry(branches: u32, adus: u64) {
    let mut machine = machine(branches);
    let mut lag = Lag::default();
    let mut sent: Vec<SendNumber> = Vec::new();
    let payload = Bytes::from_static(&[0; 1_000]);
    let mut now = Instant::from_nanos(1_000_000_000);
    for number in 0..adus {
        now = now + FRAME;
        let begun = Begun {
            header: Header {
                epoch: Epoch(1),
                deadline: now + Duration::from_millis(300),
                ..Header::new(STREAM, Sequence(number))
            },
            payload_bytes: payload.len(),
            is_whole: true,
        };
        machine.handle_adu(SOURCE, number, begun, &mut lag, now);
        machine.handle_gathered(number, payload.clone(), now);
        while let Some(action) = machine.poll_action() {
            if let Action::Send(dispatch, payload) = action {
                sent.push(dispatch.number);
                black_box((dispatch, payload));
            }
        }
        assert_eq!(sent.len(), branches as usize, "one copy each");
        for number in sent.drain(..) {
            black_box(machine.handle_outcome(number, Ok(()), now));
        }
    }
}

/// Returns a machine with a plan and branches of it, each to a next node of its own.
fn machine(branches: u32) -> Relay<u64> {
    let mut machine = Relay::default();
    for epoch in 1..=branches {
        machine.handle_link(node(epoch), true);
        let secrets = Secrets {
            key: None,
            instance: 0,
        };
        let built = Route::build(part(epoch), secrets, Pool::new(0));
        let (route, lift) = built.expect("it has no adapter");
        machine.handle_installed(route, lift);
        machine.handle_cast((STREAM, Epoch(epoch)), Feed::Live, Instant::ZERO);
    }
    machine
}

/// Returns a plan, grafted on plan 1 if it is another one.
fn part(epoch: u32) -> Installation {
    Installation {
        name: "cam".parse().expect("a name"),
        stream: STREAM,
        epoch: Epoch(epoch),
        source: SOURCE,
        previous: SOURCE,
        next: Some(node(epoch)),
        adapters: Vec::new(),
        reliability: Reliability::UntilDeadline,
        order: Order::Importance,
        weight: WEIGHT_USUAL,
        plaintext: true,
        base: (epoch > 1).then_some(Epoch(1)),
    }
}

fn node(number: u32) -> NodeId {
    let mut id = [0; 32];
    id[..4].copy_from_slice(&number.to_be_bytes());
    NodeId(id)
}
