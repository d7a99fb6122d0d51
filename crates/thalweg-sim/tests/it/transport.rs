//! Proves that two ports over two lines in virtual time behave like the node's link.

use bytes::Bytes;
use thalweg_base::adu::Importance;
use thalweg_base::id::{Epoch, StreamId};
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize, Ratio};
use thalweg_link::hop::{
    BodyError, Carriage, CloseCode, DownCause, OrderedId, Outcome, StreamCode,
};
use thalweg_netem::Impairment;
use thalweg_sim::transport::{ControlError, Port, PortEvent, PortSettings, SendId, Source};

use super::rig::{A, B, Rig, by, header, line, payload};

fn share(value: f64) -> Ratio {
    Ratio::new(value).expect("a share")
}

fn lane() -> OrderedId {
    OrderedId {
        stream: StreamId(7),
        epoch: Epoch(1),
    }
}

#[test]
fn ends_greet_within_few_rtts() {
    let mut rig = Rig::new(line(Bitrate::from_kbps(10_000)), 1);
    rig.run_for(Duration::from_millis(200));
    assert_eq!(rig.events[A].len(), 1, "{:?}", rig.events);
    let (at, event) = &rig.events[A][0];
    assert_eq!(*event, PortEvent::Up);
    // One round trip for the handshake, one for the greeting, and a few packets' time.
    assert!(*at < Instant::ZERO + Duration::from_millis(100), "{at}");
    assert_eq!(rig.events[B][0].1, PortEvent::Up);
}

#[test]
fn control_frames_precede_adus() {
    let mut rig = Rig::up(line(Bitrate::from_kbps(500)), 2);
    rig.send(0, 100_000, by(Carriage::Stream));
    rig.run_for(Duration::from_millis(100));
    for number in 0..20u8 {
        let frame = Bytes::from(vec![number; 500]);
        rig.ports[A].send_control(rig.now, frame).expect("a link");
    }
    rig.run_for(Duration::from_secs(5));
    let place = |wanted: &dyn Fn(&PortEvent) -> bool| {
        rig.events[B].iter().rposition(|(_, event)| wanted(event))
    };
    let frames: Vec<u8> = rig.events[B]
        .iter()
        .filter_map(|(_, event)| match event {
            PortEvent::Control(frame) => Some(frame[0]),
            _ => None,
        })
        .collect();
    assert_eq!(frames, (0..20).collect::<Vec<_>>());
    let control = place(&|event| matches!(event, PortEvent::Control(_)));
    let end = place(&|event| matches!(event, PortEvent::End { .. }));
    assert!(control < end, "{control:?} {end:?}");
}

#[test]
fn control_queue_is_bounded() {
    let mut rig = Rig::up(line(Bitrate::from_kbps(50)), 2);
    let large = Bytes::from(vec![0; (256 << 10) + 1]);
    let refused = rig.ports[A].send_control(rig.now, large);
    assert!(matches!(refused, Err(ControlError::TooLarge { .. })));
    let frame = Bytes::from(vec![0; 256 << 10]);
    let sent = (0..200).take_while(|_| rig.ports[A].send_control(rig.now, frame.clone()).is_ok());
    let sent = sent.count();
    assert!((64..200).contains(&sent), "{sent}");
    let refused = rig.ports[A].send_control(rig.now, Bytes::new());
    assert_eq!(refused, Err(ControlError::Full));
}

#[test]
fn lossy_line_delivers_whole_adus() {
    let weather = Impairment {
        loss: share(0.05),
        jitter: Duration::from_millis(5),
        reorder: share(0.01),
        ..line(Bitrate::from_kbps(20_000))
    };
    let mut rig = Rig::up(weather, 3);
    for sequence in 0..1_000 {
        rig.send(sequence, 300 + sequence as usize * 3, by(Carriage::Stream));
        rig.run_for(Duration::from_millis(5));
    }
    rig.run_for(Duration::from_secs(60));
    let outcomes = rig.outcomes();
    assert_eq!(outcomes.len(), 1_000);
    assert!(
        outcomes
            .iter()
            .all(|(_, outcome)| *outcome == Outcome::Acknowledged)
    );
    let mut sequences: Vec<u64> = rig.arrived.iter().map(|(_, h, _)| h.sequence.0).collect();
    sequences.sort_unstable();
    assert_eq!(sequences, (0..1_000).collect::<Vec<_>>());
    for (_, header, bytes) in &rig.arrived {
        let sequence = header.sequence.0;
        assert_eq!(*bytes, payload(sequence, 300 + sequence as usize * 3));
    }
    assert!(rig.ports[A].stats().packets_lost > 0);
}

#[test]
fn expired_adu_is_reset_at_both_ends() {
    let mut rig = Rig::up(line(Bitrate::from_kbps(100)), 4);
    let mut late = header(1);
    late.deadline = rig.now + Duration::from_millis(400);
    let source = Source::Whole(payload(1, 50_000));
    let send = rig.ports[A].send_adu(rig.now, late, source, by(Carriage::Stream));
    let before = rig.lines[A].counters().bytes;
    rig.run_for(Duration::from_secs(10));
    assert_eq!(rig.outcomes(), [(send, Outcome::Expired)]);
    let failed = |event: &PortEvent| match event {
        PortEvent::Failed { cause, .. } => Some(*cause),
        _ => None,
    };
    let causes: Vec<_> = rig.events[B]
        .iter()
        .filter_map(|(_, e)| failed(e))
        .collect();
    let [cause] = causes[..] else {
        panic!("{causes:?}");
    };
    assert!(matches!(
        cause,
        BodyError::Expired | BodyError::Reset(StreamCode::Expired)
    ));
    // Half of it was never sent.
    assert!(rig.lines[A].counters().bytes - before < 25_000);
}

#[test]
fn remaining_deadline_crosses_hop() {
    let mut rig = Rig::up(line(Bitrate::from_kbps(10_000)), 5);
    let mut urgent = header(1);
    urgent.deadline = rig.now + Duration::from_millis(300);
    let source = Source::Whole(payload(1, 100));
    rig.ports[A].send_adu(rig.now, urgent, source, by(Carriage::Stream));
    rig.run_for(Duration::from_secs(1));
    let (at, header, _) = &rig.arrived[0];
    // Neither end knows the time on the line, so the receiver's deadline is later by it.
    let later = header.deadline.saturating_since(urgent.deadline);
    let taken = at.saturating_since(urgent.deadline - Duration::from_millis(300));
    assert!(
        later <= taken && taken < later + Duration::from_millis(1),
        "{later} {taken}"
    );
}

#[test]
fn urgent_adu_overtakes_long_one() {
    let mut rig = Rig::up(line(Bitrate::from_kbps(1_000)), 6);
    for sequence in 0..10 {
        rig.send(sequence, 50_000, by(Carriage::Stream));
    }
    rig.run_for(Duration::from_millis(500));
    let sent = rig.now;
    rig.send_important(99, 200, 2_000, by(Carriage::Stream));
    rig.run_for(Duration::from_secs(10));
    let urgent = rig.arrived.iter().find(|(_, h, _)| h.sequence.0 == 99);
    let (at, ..) = urgent.expect("it arrives");
    // Bytes already in packets go first: a congestion window, and the line's queue of 64 KiB, which is
    // 524 ms.
    assert!(
        at.saturating_since(sent) < Duration::from_millis(700),
        "{at}"
    );
    // The others come in the order of sending.
    let order: Vec<_> = rig.arrived.iter().map(|(_, h, _)| h.sequence.0).collect();
    let bulk: Vec<_> = order
        .into_iter()
        .filter(|sequence| *sequence != 99)
        .collect();
    assert_eq!(bulk, (0..10).collect::<Vec<_>>());
}

#[test]
fn saturated_line_reaches_nine_tenths() {
    let mut rig = Rig::up(line(Bitrate::from_kbps(2_000)), 7);
    for sequence in 0..100 {
        rig.send(sequence, 100_000, by(Carriage::Stream));
    }
    rig.run_for(Duration::from_secs(5));
    let before: usize = rig.arrived.iter().map(|(_, _, bytes)| bytes.len()).sum();
    rig.run_for(Duration::from_secs(20));
    let after: usize = rig.arrived.iter().map(|(_, _, bytes)| bytes.len()).sum();
    let ratio = (after - before) as f64 * 8.0 / 40e6;
    assert!((0.9..=1.0).contains(&ratio), "{ratio}");
}

#[test]
fn redial_follows_blackout() {
    let mut rig = Rig::up(line(Bitrate::from_kbps(1_000)), 8);
    rig.send(1, 50_000, by(Carriage::Stream));
    rig.run_for(Duration::from_millis(100));
    rig.change(Impairment {
        up: false,
        ..line(Bitrate::from_kbps(1_000))
    });
    let since = rig.now;
    rig.run_for(Duration::from_secs(20));
    assert_eq!(rig.outcomes(), [(SendId(1), Outcome::LinkLost)]);
    for end in [A, B] {
        let (at, event) = rig.events[end].last().expect("it goes down");
        let cause = DownCause::TimedOut;
        assert_eq!(*event, PortEvent::Down { cause });
        // A keep-alive after a third of the idle time restarts the timer (RFC 9000 §10.1).
        assert!(
            at.saturating_since(since) <= Duration::from_millis(10_700),
            "{at}"
        );
        assert!(!rig.ports[end].is_up());
    }
    rig.change(line(Bitrate::from_kbps(1_000)));
    rig.ports[A].redial(rig.now);
    rig.run_for(Duration::from_secs(1));
    assert!(rig.ports[A].is_up() && rig.ports[B].is_up());
    rig.send(2, 5_000, by(Carriage::Stream));
    rig.run_for(Duration::from_secs(1));
    assert_eq!(rig.arrived.len(), 1);
}

#[test]
fn restarted_node_replaces_link() {
    let mut rig = Rig::up(line(Bitrate::from_kbps(1_000)), 9);
    rig.ports[A] = Port::dial(rig.now, PortSettings::default(), 77);
    rig.run_for(Duration::from_secs(1));
    let of_b: Vec<_> = rig.events[B]
        .iter()
        .map(|(_, event)| event.clone())
        .collect();
    let cause = DownCause::Replaced;
    assert_eq!(
        of_b,
        [PortEvent::Up, PortEvent::Down { cause }, PortEvent::Up]
    );
    assert!(rig.ports[A].is_up());
}

#[test]
fn unanswered_dial_times_out() {
    let impairment = Impairment {
        up: false,
        ..line(Bitrate::from_kbps(1_000))
    };
    let mut rig = Rig::new(impairment, 10);
    rig.run_for(Duration::from_secs(30));
    let cause = DownCause::TimedOut;
    let [(_, event)] = &rig.events[A][..] else {
        panic!("{:?}", rig.events);
    };
    assert_eq!(*event, PortEvent::Down { cause });
    assert_eq!(rig.events[B], []);
}

#[test]
fn loss_keeps_ordered_sequence() {
    let weather = Impairment {
        loss: share(0.05),
        ..line(Bitrate::from_kbps(4_000))
    };
    let mut rig = Rig::up(weather, 11);
    for sequence in 0..200 {
        rig.send(sequence, 2_000, by(Carriage::Ordered(lane())));
    }
    rig.ports[A].finish_ordered(rig.now, lane());
    rig.run_for(Duration::from_secs(60));
    let order: Vec<_> = rig.arrived.iter().map(|(_, h, _)| h.sequence.0).collect();
    assert_eq!(order, (0..200).collect::<Vec<_>>());
    let departed = |(_, outcome): &(SendId, Outcome)| *outcome == Outcome::Departed;
    assert!(rig.outcomes().iter().all(departed));
    let ended = PortEvent::OrderedEnded {
        id: lane(),
        outcome: Outcome::Acknowledged,
    };
    assert!(rig.events[A].iter().any(|(_, event)| *event == ended));
}

#[test]
fn large_datagrams_go_by_stream() {
    let weather = Impairment {
        loss: share(0.2),
        ..line(Bitrate::from_kbps(4_000))
    };
    let mut rig = Rig::up(weather, 12);
    for sequence in 0..200 {
        rig.send(sequence, 500, by(Carriage::Datagram));
        rig.run_for(Duration::from_millis(10));
    }
    rig.send(1_000, 5_000, by(Carriage::Datagram));
    rig.run_for(Duration::from_secs(20));
    let outcomes = rig.outcomes();
    let (last, departed) = outcomes.split_last().expect("all have one");
    assert!(
        departed
            .iter()
            .all(|(_, outcome)| *outcome == Outcome::Departed)
    );
    assert_eq!(last.1, Outcome::Acknowledged);
    let small = rig.arrived.iter().filter(|(_, h, _)| h.sequence.0 < 1_000);
    let small = small.count();
    assert!((130..190).contains(&small), "{small}");
}

#[test]
fn payload_is_forwarded_by_chunk() {
    let mut rig = Rig::up(line(Bitrate::from_kbps(10_000)), 13);
    let whole = payload(1, 30_000);
    let source = Source::Arriving(whole.len());
    let send = rig.ports[A].send_adu(rig.now, header(1), source, by(Carriage::Stream));
    for at in (0..30_000).step_by(10_000) {
        rig.run_for(Duration::from_millis(100));
        let chunk = whole.slice(at..at + 10_000);
        assert!(rig.ports[A].push_chunk(rig.now, send, chunk));
    }
    rig.run_for(Duration::from_secs(1));
    let at = |wanted: &dyn Fn(&PortEvent) -> bool| {
        let found = rig.events[B].iter().find(|(_, event)| wanted(event));
        found.expect("it came").0
    };
    let first = at(&|event| matches!(event, PortEvent::Chunk { .. }));
    let end = at(&|event| matches!(event, PortEvent::End { .. }));
    assert!(end.saturating_since(first) >= Duration::from_millis(190));
    assert_eq!(rig.arrived[0].2, whole);
    assert_eq!(rig.outcomes(), [(send, Outcome::Acknowledged)]);
}

#[test]
fn cancel_ends_adu_at_both_ends() {
    let mut rig = Rig::up(line(Bitrate::from_kbps(10_000)), 14);
    for carriage in [Carriage::Stream, Carriage::Ordered(lane())] {
        let options = by(carriage);
        let source = Source::Arriving(3_000);
        let send = rig.ports[A].send_adu(rig.now, header(1), source, options);
        rig.ports[A].push_chunk(rig.now, send, payload(1, 1_000));
        rig.run_for(Duration::from_millis(100));
        rig.ports[A].cancel(rig.now, send, StreamCode::Cancelled);
        rig.run_for(Duration::from_millis(100));
        assert_eq!(rig.outcomes().last(), Some(&(send, Outcome::Cancelled)));
        assert!(!rig.ports[A].push_chunk(rig.now, send, Bytes::new()));
    }
    let failed = rig.events[B].iter().filter_map(|(_, event)| match event {
        PortEvent::Failed { cause, .. } => Some(*cause),
        _ => None,
    });
    let cause = BodyError::Reset(StreamCode::Cancelled);
    assert_eq!(failed.collect::<Vec<_>>(), [cause; 2]);
}

#[test]
fn half_sent_cancel_keeps_sequence() {
    let mut rig = Rig::up(line(Bitrate::from_kbps(2_000)), 18);
    let first = rig.send(0, 50_000, by(Carriage::Ordered(lane())));
    let source = Source::Arriving(50_000);
    let options = by(Carriage::Ordered(lane()));
    let cut = rig.ports[A].send_adu(rig.now, header(1), source, options);
    rig.ports[A].push_chunk(rig.now, cut, payload(1, 20_000));
    let last = rig.send(2, 5_000, by(Carriage::Ordered(lane())));
    // ADUs handed over before it are still in flight.
    rig.run_for(Duration::from_millis(270));
    rig.ports[A].cancel(rig.now, cut, StreamCode::Cancelled);
    rig.run_for(Duration::from_secs(2));
    let outcomes = [
        (first, Outcome::Departed),
        (cut, Outcome::Cancelled),
        (last, Outcome::Departed),
    ];
    assert_eq!(rig.outcomes(), outcomes);
    let arrived = rig.arrived.iter().map(|(_, header, _)| header.sequence.0);
    assert_eq!(arrived.collect::<Vec<_>>(), [0, 2]);
}

#[test]
fn refused_adu_stops_at_sender() {
    let mut rig = Rig::up(line(Bitrate::from_kbps(200)), 15);
    let send = rig.send(1, 50_000, by(Carriage::Stream));
    rig.run_for(Duration::from_millis(200));
    let recv = rig.events[B].iter().find_map(|(_, event)| match event {
        PortEvent::Adu { recv, .. } => Some(*recv),
        _ => None,
    });
    let recv = recv.expect("its header is here");
    rig.ports[B].refuse(rig.now, recv, StreamCode::UnknownStream);
    rig.run_for(Duration::from_secs(2));
    let outcome = Outcome::Refused(StreamCode::UnknownStream);
    assert_eq!(rig.outcomes(), [(send, outcome)]);
    assert!(rig.arrived.is_empty());
}

#[test]
fn held_adu_holds_its_sender_back() {
    let mut rig = Rig::up(line(Bitrate::from_kbps(100_000)), 16);
    let source = Source::Whole(payload(1, 6_000_000));
    rig.ports[A].send_adu(rig.now, header(1), source, by(Carriage::Stream));
    let recv = loop {
        rig.run_for(Duration::from_millis(1));
        let adu = rig.events[B].iter().find_map(|(_, event)| match event {
            PortEvent::Adu { recv, .. } => Some(*recv),
            _ => None,
        });
        if let Some(recv) = adu {
            break recv;
        }
    };
    rig.ports[B].hold(recv);
    rig.run_for(Duration::from_secs(5));
    assert!(rig.lines[A].counters().bytes < 2_000_000);
    assert!(rig.ports[A].stats().queued > DataSize::from_kib(1_000));
    rig.ports[B].resume(rig.now, recv);
    rig.run_for(Duration::from_secs(5));
    assert_eq!(rig.arrived.len(), 1);
}

#[test]
fn only_undated_adus_wait_for_room() {
    let mut rig = Rig::up(line(Bitrate::from_kbps(100_000)), 17);
    // Half of the outbox, and one more.
    for sequence in 0..33 {
        rig.send(sequence, 1 << 20, by(Carriage::Stream));
    }
    rig.settle();
    assert_eq!(rig.ports[A].room_kib(), 0);
    let mut bounded = header(9_999);
    bounded.importance = Importance(8);
    bounded.deadline = rig.now + Duration::from_secs(1);
    let source = Source::Whole(Bytes::new());
    let urgent = rig.ports[A].send_adu(rig.now, bounded, source, by(Carriage::Stream));
    let waits = rig.send(5_000, 10, by(Carriage::Stream));
    rig.run_for(Duration::from_secs(1));
    assert!(rig.outcomes().contains(&(urgent, Outcome::Acknowledged)));
    rig.run_for(Duration::from_secs(10));
    let outcomes = rig.outcomes();
    assert_eq!(outcomes.len(), 35);
    assert!(outcomes.contains(&(waits, Outcome::Acknowledged)));
    assert!(outcomes.iter().all(|(_, outcome)| outcome.is_sent()));
}

#[test]
fn drain_delivers_everything() {
    let mut rig = Rig::up(line(Bitrate::from_kbps(500)), 18);
    rig.send(1, 50_000, by(Carriage::Stream));
    rig.send(2, 20_000, by(Carriage::Ordered(lane())));
    let grace = Duration::from_secs(5);
    rig.ports[A].drain(rig.now, CloseCode::Shutdown, grace);
    let refused = rig.send(3, 10, by(Carriage::Stream));
    rig.run_for(Duration::from_secs(10));
    assert_eq!(rig.arrived.len(), 2);
    assert!(rig.outcomes().contains(&(refused, Outcome::LinkLost)));
    let cause = DownCause::ByUs;
    let down = PortEvent::Down { cause };
    assert_eq!(rig.events[A].last().map(|(_, e)| e), Some(&down));
    let events: Vec<_> = rig.events[B].iter().rev().map(|(_, e)| e).take(2).collect();
    let by_peer = PortEvent::Down {
        cause: DownCause::ByPeer {
            code: CloseCode::Shutdown,
            reason: String::new(),
        },
    };
    assert_eq!(events, [&by_peer, &PortEvent::PeerDone]);
}

#[test]
fn drain_sends_datagrams() {
    let mut rig = Rig::up(line(Bitrate::from_kbps(500)), 19);
    // More than the initial congestion window, so that some wait in QUIC.
    for sequence in 0..60 {
        rig.send(sequence, 1_000, by(Carriage::Datagram));
    }
    rig.ports[A].drain(rig.now, CloseCode::Shutdown, Duration::from_secs(5));
    rig.run_for(Duration::from_secs(10));
    assert_eq!(rig.arrived.len(), 60);
}

/// Runs traffic of every kind over a bad line with an outage in it; returns the trace hash.
fn story(seed: u64) -> u64 {
    let weather = Impairment {
        loss: share(0.03),
        burst: 3.0,
        jitter: Duration::from_millis(8),
        reorder: share(0.02),
        ..line(Bitrate::from_kbps(800))
    };
    let mut rig = Rig::up(weather, seed);
    for sequence in 0..300u64 {
        let carriage = match sequence % 3 {
            0 => Carriage::Stream,
            1 => Carriage::Datagram,
            _ => Carriage::Ordered(lane()),
        };
        let mut timed = header(sequence);
        timed.deadline = rig.now + Duration::from_millis(250);
        let source = Source::Whole(payload(sequence, 200 + 37 * sequence as usize % 5_000));
        timed.importance = Importance((sequence % 7) as u8);
        rig.ports[A].send_adu(rig.now, timed, source, by(carriage));
        rig.run_for(Duration::from_millis(20));
        let up = !(150..160).contains(&sequence);
        rig.change(Impairment { up, ..weather });
    }
    rig.run_for(Duration::from_secs(5));
    rig.trace_hash()
}

#[test]
fn trace_follows_seed() {
    assert_eq!(story(21), story(21));
    assert_ne!(story(21), story(22));
}

/// Prints the hash for the test below, which runs this one in another process.
#[test]
fn prints_trace_hash() {
    println!("trace {:016x}", story(21));
}

#[test]
fn trace_is_same_in_another_process() {
    let program = std::env::current_exe().expect("this test runs");
    let output = std::process::Command::new(program)
        .args(["--exact", "transport::prints_trace_hash", "--nocapture"])
        .output()
        .expect("this program starts as a child");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let trace = format!("trace {:016x}", story(21));
    assert!(said.contains(&trace), "{trace} is not in {said}");
}

#[test]
fn stats_date_awaited_acknowledgement() {
    let mut rig = Rig::up(line(Bitrate::from_kbps(10_000)), 9);
    rig.run_for(Duration::from_secs(3));
    let waiting = |rig: &mut Rig| {
        let stats = rig.ports[A].stats();
        (stats.bytes_in_flight > DataSize::ZERO, stats.waiting_since)
    };
    assert!(!waiting(&mut rig).0, "all has been answered");
    let sent = rig.now;
    rig.send(1, 2_000, by(Carriage::Stream));
    rig.run_for(Duration::from_millis(1));
    let (is_waited, first) = waiting(&mut rig);
    assert_eq!((is_waited, first), (true, Some(sent)));
    // An acknowledgement ends the waiting period; packets sent later start no new one while something
    // is in flight.
    rig.run_for(Duration::from_secs(3));
    let heard = waiting(&mut rig).1.expect("something was");
    assert!(sent < heard && heard < sent + Duration::from_millis(100));
    let cut = rig.now;
    rig.change(Impairment {
        up: false,
        ..line(Bitrate::from_kbps(10_000))
    });
    for sequence in 2..9 {
        rig.send(sequence, 2_000, by(Carriage::Stream));
        rig.run_for(Duration::from_millis(40));
        assert_eq!(waiting(&mut rig), (true, Some(cut)), "{sequence}");
    }
}
