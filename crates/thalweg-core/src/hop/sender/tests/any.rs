//! Whatever happens, in whatever order.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::{Fake, acknowledge_all, header, lane, outcomes, payload, sender};
use crate::adu::Importance;
use crate::hop::sender::Arrived;
use crate::hop::{Carriage, Outcome, SendOptions, StreamCode};
use crate::time::{Duration, Instant};

/// What may happen.
#[derive(Clone, Copy, Debug)]
enum Act {
    Push(u8, u16, u8),
    Cancel(u8),
    Room(u16),
    Acknowledge,
    Stop(u8),
    Wait(u8),
    FinishLane,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => (0..8u8, 0..9_000u16, 0..3u8).prop_map(|(i, b, c)| Act::Push(i, b, c)),
        1 => any::<u8>().prop_map(Act::Cancel),
        4 => (0..9_000u16).prop_map(Act::Room),
        2 => Just(Act::Acknowledge),
        1 => any::<u8>().prop_map(Act::Stop),
        1 => (0..30u8).prop_map(Act::Wait),
        1 => Just(Act::FinishLane),
    ];
    proptest::collection::vec(act, 0..200)
}

proptest! {
    /// Whatever happens, each ADU has one outcome, and what is said to have arrived has arrived whole.
    #[test]
    fn every_adu_ends_once(acts in acts()) {
        let (mut subject, mut fake) = (sender(), Fake::default());
        fake.room = 0;
        let (mut now, mut sequence) = (Instant::ZERO, 0);
        let mut tickets = Vec::new();
        let mut ended: BTreeMap<u64, Outcome> = BTreeMap::new();
        for act in acts {
            match act {
                Act::Push(importance, bytes, carriage) => {
                    let carriage = match carriage {
                        0 => Carriage::Stream,
                        1 => Carriage::Datagram,
                        _ => Carriage::Ordered(lane()),
                    };
                    let mut header = header(sequence);
                    header.importance = Importance(importance);
                    header.deadline = now + Duration::from_millis(40);
                    let whole = Arrived::from(payload(sequence, bytes.into()));
                    let options = SendOptions::new(carriage);
                    let ticket = subject.push(now, header, whole, options, sequence);
                    tickets.extend(ticket);
                    sequence += 1;
                }
                Act::Cancel(which) => {
                    if let Some(ticket) = tickets.get(which as usize) {
                        subject.cancel(*ticket, Outcome::Cancelled);
                    }
                }
                Act::Room(bytes) => fake.room = bytes.into(),
                Act::Acknowledge => acknowledge_all(&mut subject, &mut fake),
                Act::Stop(which) => {
                    let owner = fake.streams.get(&u32::from(which)).map(|s| s.owner);
                    if let Some(owner) = owner {
                        subject.handle_stopped(owner, StreamCode::Overload, &mut fake);
                    }
                }
                Act::Wait(millis) => now = now + Duration::from_millis(millis.into()),
                Act::FinishLane => subject.finish_ordered(lane()),
            }
            subject.pump(now, &mut fake);
            for (sequence, outcome) in outcomes(&mut subject) {
                prop_assert!(ended.insert(sequence, outcome).is_none(), "{sequence} ended twice");
            }
        }
        fake.room = usize::MAX;
        for _ in 0..3 {
            subject.pump(now, &mut fake);
            acknowledge_all(&mut subject, &mut fake);
        }
        subject.finish_all_ordered();
        subject.pump(now, &mut fake);
        acknowledge_all(&mut subject, &mut fake);
        for (sequence, outcome) in outcomes(&mut subject) {
            prop_assert!(ended.insert(sequence, outcome).is_none(), "{sequence} ended twice");
        }
        prop_assert_eq!(ended.len() as u64, sequence);
        prop_assert!(subject.is_empty());
        prop_assert_eq!(subject.streams, 0);
        let arrived: BTreeMap<_, _> = fake.arrived().into_iter().collect();
        for (sequence, outcome) in ended {
            if let Some(bytes) = arrived.get(&sequence) {
                prop_assert_eq!(bytes, &payload(sequence, bytes.len()).to_vec());
            }
            if outcome == Outcome::Acknowledged {
                prop_assert!(arrived.contains_key(&sequence));
            }
        }
    }
}
