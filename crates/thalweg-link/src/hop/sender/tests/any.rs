//! Random inputs, in any order.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use proptest::prelude::*;
use thalweg_base::adu::{Header, Importance};
use thalweg_base::time::{Duration, Instant};

use super::{
    Fake, Owner, Subject, acknowledge_all, decode_header, header, lane, outcomes, payload, sender,
};
use crate::hop::sender::{Arrived, Ticket};
use crate::hop::{Carriage, Outcome, SendOptions, StreamCode};

/// An input.
#[derive(Clone, Copy, Debug)]
enum Act {
    Push(u8, u16, u8),
    /// The rest of an arriving payload.
    Rest(u8),
    Cancel(u8),
    Room(u16),
    Acknowledge,
    Stop(u8),
    Wait(u8),
    FinishLane,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => (0..8u8, 0..9_000u16, 0..5u8).prop_map(|(i, b, c)| Act::Push(i, b, c)),
        1 => any::<u8>().prop_map(Act::Rest),
        1 => any::<u8>().prop_map(Act::Cancel),
        4 => (0..9_000u16).prop_map(Act::Room),
        2 => Just(Act::Acknowledge),
        1 => any::<u8>().prop_map(Act::Stop),
        1 => (0..30u8).prop_map(Act::Wait),
        1 => Just(Act::FinishLane),
    ];
    proptest::collection::vec(act, 0..200)
}

/// Pushes an ADU in one of five ways, in the last two still arriving. Returns its ticket, and the rest.
fn push_any(
    subject: &mut Subject,
    now: Instant,
    header: Header,
    bytes: u16,
    way: u8,
) -> Option<(Ticket, Bytes)> {
    let carriage = match way {
        0 | 3 => Carriage::Stream,
        1 => Carriage::Datagram,
        _ => Carriage::Ordered(lane()),
    };
    let sequence = header.sequence.0;
    let mut here = payload(sequence, bytes.into());
    let payload_bytes = here.len();
    let mut rest = Bytes::new();
    if way > 2 {
        rest = here.split_off(here.len() / 3);
    }
    let arrived = Arrived {
        payload_bytes,
        ..Arrived::from(here)
    };
    let options = SendOptions::new(carriage);
    let ticket = subject.push(now, header, arrived, options, sequence)?;
    Some((ticket, rest))
}

/// Checks that the whole ADUs on the lane's streams are those pushed, in order; the last of a
/// stream may be cut off.
fn in_sequence(fake: &Fake) -> Result<(), String> {
    let mut last = None;
    let lanes = fake.streams.values();
    for stream in lanes.filter(|stream| matches!(stream.owner, Owner::Lane(..))) {
        let mut bytes = stream.bytes.get(1..).unwrap_or_default();
        while let Ok(Some(decoded)) = decode_header(bytes, Instant::ZERO) {
            let sequence = decoded.header.sequence.0;
            let whole = payload(sequence, decoded.payload_bytes);
            bytes = &bytes[decoded.header_bytes..];
            let here = bytes.len().min(whole.len());
            if bytes[..here] != whole[..here] || last.is_some_and(|last| last >= sequence) {
                return Err(format!("{sequence} after {last:?}, {here} bytes"));
            }
            last = Some(sequence);
            bytes = &bytes[here..];
        }
    }
    Ok(())
}

proptest! {
    /// After any inputs, each ADU has one outcome, and every ADU reported as arrived has arrived whole.
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
                    let mut header = header(sequence);
                    header.importance = Importance(importance);
                    header.deadline = now + Duration::from_millis(40);
                    tickets.extend(push_any(&mut subject, now, header, bytes, carriage));
                    sequence += 1;
                }
                Act::Cancel(which) => {
                    if let Some((ticket, _)) = tickets.get(which as usize) {
                        subject.cancel(*ticket, Outcome::Cancelled);
                    }
                }
                Act::Rest(which) => {
                    if let Some((ticket, rest)) = tickets.get_mut(which as usize) {
                        subject.push_chunk(*ticket, core::mem::take(rest));
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
        for (ticket, rest) in tickets {
            subject.push_chunk(ticket, rest);
        }
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
        prop_assert_eq!(in_sequence(&fake), Ok(()));
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
