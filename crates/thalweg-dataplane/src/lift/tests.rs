//! Proves a lift's handling of verdicts, order, counting and control, and building one from words.

use std::collections::VecDeque;

use thalweg_base::adu::{Flags, Header};
use thalweg_base::event::DropCause;
use thalweg_base::id::{Sequence, StreamId};
use thalweg_base::limits::MODULES_PER_LIFT_MAX;
use thalweg_base::time::{Duration, Instant};

use super::{INPUT_PACKETS_MAX, Lift, MORE_PACKETS_MAX, Materials, SpecError, Target};
use crate::keys::{KeyEpoch, KeyRing, SealInstance, StreamKey};
use crate::module::{Context, Control, ControlError, Direction, HELD_PACKETS_MAX, Module, Verdict};
use crate::modules::{KeepLayers, Null};
use crate::packet::{Packet, Pool};

const STREAM: StreamId = StreamId(5);

fn packet(sequence: u64, payload: &[u8], pool: &Pool) -> Packet {
    let header = Header::new(STREAM, Sequence(sequence));
    Packet::copied(header, payload, pool).expect("the pool has room")
}

fn lift(modules: Vec<Box<dyn Module>>) -> (Lift, Pool) {
    let pool = Pool::default();
    let lift = Lift::new(modules, pool.clone()).expect("the chain is short");
    (lift, pool)
}

fn drain(lift: &mut Lift) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| lift.poll_forward())
        .map(|packet| packet.payload().to_vec())
        .collect()
}

/// Joins every `count` payloads into one.
struct Join {
    count: usize,
    flush: bool,
}

impl Module for Join {
    fn name(&self) -> &'static str {
        "join"
    }

    fn forward(&mut self, packet: &mut Packet, cx: &mut Context<'_>) -> Verdict {
        if cx.held.len() + 1 < self.count {
            return Verdict::Hold;
        }
        let mut whole = Vec::new();
        while let Some(held) = cx.held.pop() {
            whole.extend_from_slice(held.payload());
        }
        whole.extend_from_slice(packet.payload());
        match packet.replace(&whole, cx.pool) {
            Ok(()) => Verdict::Pass,
            Err(no_room) => Verdict::Discard(no_room.cause()),
        }
    }

    fn backward(&mut self, packet: &mut Packet, cx: &mut Context<'_>) -> Verdict {
        self.forward(packet, cx)
    }

    fn poll(&mut self, direction: Direction, cx: &mut Context<'_>) -> Option<Packet> {
        if self.flush && direction == Direction::Forward {
            cx.held.pop()
        } else {
            None
        }
    }

    fn control(&mut self, control: &Control) -> Result<(), ControlError> {
        match control {
            Control::Flush => {
                self.flush = true;
                Ok(())
            }
            _ => Err(ControlError::NotMine),
        }
    }
}

/// Splits every payload into its bytes.
#[derive(Default)]
struct Split {
    rest: VecDeque<Packet>,
}

impl Module for Split {
    fn name(&self) -> &'static str {
        "split"
    }

    fn forward(&mut self, packet: &mut Packet, cx: &mut Context<'_>) -> Verdict {
        let bytes = packet.payload().to_vec();
        for byte in bytes.iter().skip(1) {
            self.rest
                .push_back(Packet::copied(packet.header, &[*byte], cx.pool).expect("room"));
        }
        packet.trim_back(bytes.len().saturating_sub(1));
        Verdict::More
    }

    fn poll(&mut self, _direction: Direction, _cx: &mut Context<'_>) -> Option<Packet> {
        self.rest.pop_front()
    }
}

/// Holds every packet for ten milliseconds.
#[derive(Default)]
struct Delay {
    due: Option<Instant>,
}

impl Module for Delay {
    fn name(&self) -> &'static str {
        "delay"
    }

    fn forward(&mut self, _packet: &mut Packet, cx: &mut Context<'_>) -> Verdict {
        self.due = Some(cx.now + Duration::from_millis(10));
        Verdict::Hold
    }

    fn poll(&mut self, _direction: Direction, cx: &mut Context<'_>) -> Option<Packet> {
        let packet = cx.held.pop();
        if cx.held.is_empty() {
            self.due = None;
        }
        packet
    }

    fn poll_timeout(&self) -> Instant {
        self.due.unwrap_or(Instant::NEVER)
    }
}

/// Pauses after every packet until a time.
struct PauseUntil(Instant);

impl Module for PauseUntil {
    fn name(&self) -> &'static str {
        "pause"
    }

    fn forward(&mut self, _packet: &mut Packet, _cx: &mut Context<'_>) -> Verdict {
        Verdict::Pause
    }

    fn is_ready(&mut self, now: Instant) -> bool {
        now >= self.0
    }
}

/// Appends its letter on the way back.
struct Sign(u8);

impl Module for Sign {
    fn name(&self) -> &'static str {
        "sign"
    }

    fn forward(&mut self, packet: &mut Packet, cx: &mut Context<'_>) -> Verdict {
        let whole = packet.grow_back(1, cx.pool).expect("there is tailroom");
        *whole.last_mut().expect("it has just grown") = self.0;
        Verdict::Pass
    }

    fn backward(&mut self, packet: &mut Packet, cx: &mut Context<'_>) -> Verdict {
        self.forward(packet, cx)
    }
}

#[test]
fn backward_reverses_module_order() {
    let (mut lift, pool) = lift(vec![Box::new(Sign(b'a')), Box::new(Sign(b'b'))]);
    lift.handle_forward(packet(0, b"-", &pool), Instant::ZERO)
        .expect("nothing waits");
    lift.handle_backward(packet(0, b"-", &pool), Instant::ZERO)
        .expect("nothing waits");
    assert_eq!(lift.poll_forward().expect("it passes").payload(), b"-ab");
    assert_eq!(lift.poll_backward().expect("it passes").payload(), b"-ba");
    assert!(lift.poll_forward().is_none() && lift.poll_backward().is_none());
}

#[test]
fn empty_lift_passes_bytes_unchanged() {
    let (mut lift, _) = lift(vec![]);
    let bytes = bytes::Bytes::from(vec![1; 100]);
    let header = Header::new(STREAM, Sequence(0));
    lift.handle_forward(Packet::shared(header, bytes.clone()), Instant::ZERO)
        .expect("nothing waits");
    let out = lift.poll_forward().expect("it passes").into_bytes();
    assert_eq!(out.as_ptr(), bytes.as_ptr());
}

#[test]
fn keep_passes_lower_layers() {
    for layers in 1..=16u8 {
        let keep = KeepLayers::new(layers).expect("1 to 16 can be kept");
        let (mut lift, pool) = lift(vec![Box::new(keep)]);
        let mut kept = Vec::new();
        for layer in 0..=u8::MAX {
            let mut adu = packet(0, &[layer], &pool);
            adu.header.layer = layer;
            adu.header.flags = Flags::SEALED.with(Flags::PACKED);
            lift.handle_forward(adu, Instant::ZERO)
                .expect("nothing waits");
            kept.extend(drain(&mut lift).concat());
        }
        assert_eq!(kept, (0..layers).collect::<Vec<_>>());
        let (_, counters) = lift
            .counters(Direction::Forward)
            .next()
            .expect("one module");
        assert_eq!(counters.packets_in, 256);
        assert_eq!(counters.packets_out, u64::from(layers));
        assert_eq!(
            counters.dropped.of(DropCause::Filtered),
            256 - u64::from(layers)
        );
    }
}

#[test]
fn flush_releases_held_packets() {
    let join = Join {
        count: 3,
        flush: false,
    };
    let (mut lift, pool) = lift(vec![Box::new(join), Box::new(Null)]);
    for text in ["a", "b", "c", "d", "e"] {
        lift.handle_forward(packet(0, text.as_bytes(), &pool), Instant::ZERO)
            .expect("nothing waits");
    }
    assert_eq!(drain(&mut lift), [b"abc"]);
    let (_, counters) = lift
        .counters(Direction::Forward)
        .next()
        .expect("two modules");
    assert_eq!((counters.packets_in, counters.packets_out), (5, 1));
    assert_eq!(counters.packets_held, 2);
    assert_eq!(lift.packets_inside(), 2);
    lift.handle_control(Target::All, Control::Flush);
    assert_eq!(drain(&mut lift), [b"d", b"e"]);
    assert_eq!(lift.poll_outcome().expect("it ran").done, 1);
}

#[test]
fn directions_hold_separately() {
    let join = Join {
        count: 2,
        flush: false,
    };
    let (mut lift, pool) = lift(vec![Box::new(join)]);
    for text in ["a", "b"] {
        lift.handle_forward(packet(0, text.as_bytes(), &pool), Instant::ZERO)
            .expect("nothing waits");
        let back = text.to_uppercase();
        lift.handle_backward(packet(0, back.as_bytes(), &pool), Instant::ZERO)
            .expect("nothing waits");
    }
    assert_eq!(lift.poll_backward().expect("two make one").payload(), b"AB");
    assert_eq!(drain(&mut lift), [b"ab"]);
    let (_, back) = lift
        .counters(Direction::Backward)
        .next()
        .expect("one module");
    assert_eq!((back.packets_in, back.packets_out), (2, 1));
}

#[test]
fn endless_module_is_cut_off() {
    struct Endless;
    impl Module for Endless {
        fn name(&self) -> &'static str {
            "endless"
        }
        fn forward(&mut self, _: &mut Packet, _: &mut Context<'_>) -> Verdict {
            Verdict::More
        }
        fn poll(&mut self, _: Direction, _: &mut Context<'_>) -> Option<Packet> {
            Some(Packet::from(thalweg_base::adu::Adu {
                header: Header::new(STREAM, Sequence(0)),
                payload: bytes::Bytes::new(),
            }))
        }
    }
    let (mut lift, pool) = lift(vec![Box::new(Endless), Box::new(Null)]);
    lift.handle_forward(packet(0, b"", &pool), Instant::ZERO)
        .expect("nothing waits");
    assert_eq!(drain(&mut lift).len(), 1 + MORE_PACKETS_MAX as usize);
    lift.handle_control(Target::All, Control::Resume);
    assert_eq!(
        lift.poll_outcome()
            .expect("the lift is between packets")
            .done,
        1
    );
}

#[test]
fn lift_is_send() {
    fn is_send<T: Send>() {}
    is_send::<Lift>();
    is_send::<Packet>();
}

#[test]
fn held_packets_are_bounded() {
    let join = Join {
        count: usize::MAX,
        flush: false,
    };
    let (mut lift, pool) = lift(vec![Box::new(join)]);
    for sequence in 0..HELD_PACKETS_MAX as u64 + 10 {
        lift.handle_forward(packet(sequence, b"x", &pool), Instant::ZERO)
            .expect("nothing waits");
        assert!(lift.poll_forward().is_none());
    }
    let (_, counters) = lift
        .counters(Direction::Forward)
        .next()
        .expect("one module");
    assert_eq!(counters.packets_held, HELD_PACKETS_MAX);
    assert_eq!(counters.dropped.of(DropCause::Overflow), 10);
}

#[test]
fn more_precedes_next_input() {
    let (mut lift, pool) = lift(vec![
        Box::new(Split::default()),
        Box::new(Sign(b'.')),
        Box::new(Split::default()),
    ]);
    for text in ["ab", "cd"] {
        lift.handle_forward(packet(0, text.as_bytes(), &pool), Instant::ZERO)
            .expect("nothing waits");
    }
    assert_eq!(drain(&mut lift).concat(), b"a.b.c.d.");
}

#[test]
fn delay_releases_at_timeout() {
    let (mut lift, pool) = lift(vec![Box::new(Delay::default())]);
    let start = Instant::from_nanos(1);
    lift.handle_forward(packet(0, b"x", &pool), start)
        .expect("nothing waits");
    assert!(lift.poll_forward().is_none());
    let due = lift.poll_timeout();
    assert_eq!(due, start + Duration::from_millis(10));
    lift.handle_timeout(Instant::from_nanos(due.as_nanos() - 1));
    assert!(lift.poll_forward().is_none());
    lift.handle_timeout(due);
    assert_eq!(drain(&mut lift), [b"x"]);
    assert_eq!(lift.poll_timeout(), Instant::NEVER);
}

#[test]
fn paused_lift_waits_for_resume() {
    let ready = Instant::from_nanos(100);
    let (mut lift, pool) = lift(vec![Box::new(PauseUntil(ready))]);
    for text in ["a", "b", "c"] {
        lift.handle_forward(packet(0, text.as_bytes(), &pool), Instant::ZERO)
            .expect("nothing waits");
    }
    assert_eq!(drain(&mut lift), [b"a"]);
    assert!(lift.is_paused(Direction::Forward) && !lift.is_paused(Direction::Backward));
    lift.handle_control(Target::All, Control::Resume);
    assert_eq!(drain(&mut lift), [b"b"]);
    lift.handle_timeout(ready);
    assert_eq!(drain(&mut lift), [b"c"]);
}

#[test]
fn full_lift_returns_packet() {
    let (mut lift, pool) = lift(vec![Box::new(Null)]);
    for sequence in 0..INPUT_PACKETS_MAX as u64 {
        lift.handle_forward(packet(sequence, b"", &pool), Instant::ZERO)
            .expect("there is room");
    }
    let refused = lift.handle_forward(packet(77, b"", &pool), Instant::ZERO);
    assert_eq!(
        refused.expect_err("it is full").header.sequence,
        Sequence(77)
    );
    assert_eq!(drain(&mut lift).len(), INPUT_PACKETS_MAX);
}

#[test]
fn control_runs_between_packets() {
    let (mut lift, pool) = lift(vec![
        Box::new(Split::default()),
        Box::new(KeepLayers::new(1).expect("1 can be kept")),
    ]);
    let mut adu = packet(0, b"xyz", &pool);
    adu.header.layer = 1;
    lift.handle_forward(adu, Instant::ZERO)
        .expect("nothing waits");
    lift.handle_control(Target::Module(1), Control::KeepLayers(2));
    let mut second = packet(1, b"uvw", &pool);
    second.header.layer = 1;
    assert_eq!(
        lift.poll_forward()
            .expect("the first part passes")
            .payload(),
        b"x"
    );
    let id = lift.handle_control(Target::All, Control::KeepLayers(0));
    lift.handle_control(Target::All, Control::KeepLayers(1));
    lift.poll_outcome().expect("the first ran at once");
    assert!(lift.poll_outcome().is_none(), "a packet is under way");
    lift.handle_forward(second, Instant::ZERO)
        .expect("nothing waits");
    assert_eq!(drain(&mut lift).concat(), b"yz");
    let outcome = lift.poll_outcome().expect("the second ran");
    assert_eq!((outcome.id, outcome.done), (id, 0));
    assert_eq!(outcome.refused, [(1, ControlError::Layers(0))]);
    assert_eq!(lift.poll_outcome().expect("the third ran").done, 1);
}

fn materials(keys: KeyRing) -> Materials {
    Materials {
        stream: STREAM,
        keys,
        instance: SealInstance::from_random(42),
    }
}

#[test]
fn spec_builds_inverse_modules() {
    let mut materials = materials(KeyRing::with_key(KeyEpoch(0), StreamKey::new([9; 32])));
    let words = [
        "null",
        "keep:3",
        "pack",
        "seal",
        "open",
        "unpack",
        "pack:zstd",
        "seal:chacha20",
        "open",
        "unpack",
    ];
    let pool = Pool::default();
    let mut lift = Lift::from_spec(words, &mut materials, pool.clone()).expect("all are known");
    assert_eq!(lift.len(), words.len());
    let payload = b"what goes in comes out ".repeat(40);
    lift.handle_forward(packet(0, &payload, &pool), Instant::ZERO)
        .expect("nothing waits");
    let out = lift.poll_forward().expect("it passes");
    assert_eq!(
        (out.payload(), out.header.flags),
        (&payload[..], Flags::NONE)
    );
}

#[test]
fn unknown_words_are_refused() {
    let refusal = |word: &str| {
        let mut materials = materials(KeyRing::new());
        Lift::from_spec([word], &mut materials, Pool::default()).expect_err("it makes no lift")
    };
    assert_eq!(refusal("sael"), SpecError::Unknown("sael".to_owned()));
    for word in [
        "keep",
        "keep:",
        "keep:0",
        "keep:17",
        "keep:x",
        "pack:gzip",
        "seal:rot13",
        "null:1",
    ] {
        assert!(
            matches!(refusal(word), SpecError::BadArgument { .. }),
            "{word}"
        );
    }
    for word in ["seal", "seal:chacha20", "open"] {
        assert!(matches!(refusal(word), SpecError::NoKey { .. }), "{word}");
    }
    let mut materials = materials(KeyRing::new());
    let many = vec!["null"; MODULES_PER_LIFT_MAX + 1];
    assert!(matches!(
        Lift::from_spec(many, &mut materials, Pool::default()),
        Err(SpecError::TooManyModules(_))
    ));
}
