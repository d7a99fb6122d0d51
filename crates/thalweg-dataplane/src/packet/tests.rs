//! Proves that a packet is shared until written, that its room is used in place, and that the pool
//! is bounded.

use bytes::Bytes;
use proptest::prelude::*;
use thalweg_base::adu::Header;
use thalweg_base::id::{Sequence, StreamId};
use thalweg_base::limits::{ADU_PAYLOAD_BYTES_MAX, PACKET_HEADROOM_BYTES, PACKET_TAILROOM_BYTES};

use super::{NoRoom, Packet, Pool};

const HEADER: Header = Header::new(StreamId(1), Sequence(2));

fn address(bytes: &[u8]) -> *const u8 {
    bytes.as_ptr()
}

#[test]
fn shared_bytes_leave_unchanged() {
    let bytes = Bytes::from(vec![7; 1000]);
    let packet = Packet::shared(HEADER, bytes.clone());
    assert!(packet.is_shared());
    let out = packet.into_bytes();
    assert_eq!(address(&out), address(&bytes));
}

#[test]
fn shared_payload_is_copied_on_write() {
    let pool = Pool::default();
    let bytes = Bytes::from(vec![7; 1000]);
    let mut packet = Packet::shared(HEADER, bytes.clone());
    packet.payload_mut(&pool).expect("the pool has room")[0] = 9;
    assert_eq!((packet.payload()[0], bytes[0]), (9, 7));
    assert!(!packet.is_shared());
}

#[test]
fn dropped_payload_returns_buffer() {
    let pool = Pool::default();
    let packet = Packet::copied(HEADER, &[1, 2, 3], &pool).expect("the pool has room");
    let place = address(packet.payload());
    let out = packet.into_bytes();
    let clone = out.clone();
    assert_eq!(address(&out), place);
    drop(out);
    assert_eq!(pool.idle_buffers(), 0);
    drop(clone);
    assert_eq!(pool.idle_buffers(), 1);
    let again = Packet::uninit(HEADER, 2048, &pool).expect("the pool has room");
    assert_eq!(address(again.payload()), place);
}

#[test]
fn usual_room_is_used_in_place() {
    let pool = Pool::default();
    for len in [0, 1, 2048, 2049, 65_536, ADU_PAYLOAD_BYTES_MAX] {
        let mut packet = Packet::uninit(HEADER, len, &pool).expect("the pool has room");
        let start = address(packet.payload()) as usize;
        packet
            .grow_front(PACKET_HEADROOM_BYTES, &pool)
            .expect("in place");
        packet
            .grow_back(PACKET_TAILROOM_BYTES, &pool)
            .expect("in place");
        assert_eq!(
            address(packet.payload()) as usize,
            start - PACKET_HEADROOM_BYTES
        );
        assert_eq!(
            packet.payload().len(),
            len + PACKET_HEADROOM_BYTES + PACKET_TAILROOM_BYTES
        );
    }
}

#[test]
fn longest_payload_can_be_sealed() {
    let pool = Pool::default();
    let mut packet = Packet::shared(HEADER, Bytes::from(vec![0; ADU_PAYLOAD_BYTES_MAX]));
    packet
        .grow_back(PACKET_TAILROOM_BYTES, &pool)
        .expect("fits the tailroom");
    packet
        .grow_front(PACKET_HEADROOM_BYTES, &pool)
        .expect("fits the headroom");
}

#[test]
fn pool_never_exceeds_its_limit() {
    let room = PACKET_HEADROOM_BYTES + PACKET_TAILROOM_BYTES;
    let pool = Pool::new(2 * (2048 + room));
    let first = Packet::uninit(HEADER, 10, &pool).expect("the first fits");
    let second = Packet::uninit(HEADER, 10, &pool).expect("the second fits");
    assert!(matches!(
        Packet::uninit(HEADER, 10, &pool),
        Err(NoRoom::Exhausted { .. })
    ));
    drop((first, second));
    Packet::uninit(HEADER, 10, &pool).expect("a buffer came back");
    assert!(matches!(
        Packet::uninit(HEADER, ADU_PAYLOAD_BYTES_MAX + 1, &pool),
        Err(NoRoom::TooLong { .. })
    ));
}

#[test]
fn idle_buffers_starve_no_class() {
    let room = PACKET_HEADROOM_BYTES + PACKET_TAILROOM_BYTES;
    let pool = Pool::new(16_384 + room);
    drop(Packet::uninit(HEADER, 10, &pool).expect("a small one fits"));
    drop(Packet::uninit(HEADER, 10_000, &pool).expect("the small one makes way"));
    assert_eq!(pool.held_bytes(), 16_384 + room);
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test is about another thread"
)]
fn buffers_return_from_any_thread() {
    let pool = Pool::default();
    let packets: Vec<_> = (0..100)
        .map(|_| Packet::uninit(HEADER, 10, &pool).expect("the pool has room"))
        .collect();
    std::thread::spawn(move || drop(packets))
        .join()
        .expect("dropping does not panic");
    assert_eq!(pool.idle_buffers(), 100);
}

#[derive(Clone, Debug)]
enum Step {
    Front(Vec<u8>),
    Back(Vec<u8>),
    TrimFront(usize),
    TrimBack(usize),
    Replace(Vec<u8>),
    Write(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..3000);
    let step = prop_oneof![
        bytes().prop_map(Step::Front),
        bytes().prop_map(Step::Back),
        (0..3000usize).prop_map(Step::TrimFront),
        (0..3000usize).prop_map(Step::TrimBack),
        bytes().prop_map(Step::Replace),
        any::<u8>().prop_map(Step::Write),
    ];
    proptest::collection::vec(step, 0..12)
}

/// Applies the same steps to a plain vector.
fn apply_to_model(step: &Step, model: &mut Vec<u8>) {
    match step {
        Step::Front(bytes) => drop(model.splice(0..0, bytes.iter().copied())),
        Step::Back(bytes) => model.extend(bytes),
        Step::TrimFront(less) => drop(model.drain(..(*less).min(model.len()))),
        Step::TrimBack(less) => model.truncate(model.len().saturating_sub(*less)),
        Step::Replace(bytes) => model.clone_from(bytes),
        Step::Write(byte) => model.fill(*byte),
    }
}

fn apply(step: &Step, packet: &mut Packet, pool: &Pool) -> Result<(), NoRoom> {
    match step {
        Step::Front(bytes) => {
            packet.grow_front(bytes.len(), pool)?[..bytes.len()].copy_from_slice(bytes);
        }
        Step::Back(bytes) => {
            let whole = packet.grow_back(bytes.len(), pool)?;
            let start = whole.len() - bytes.len();
            whole[start..].copy_from_slice(bytes);
        }
        Step::TrimFront(less) => packet.trim_front(*less),
        Step::TrimBack(less) => packet.trim_back(*less),
        Step::Replace(bytes) => packet.replace(bytes, pool)?,
        Step::Write(byte) => packet.payload_mut(pool)?.fill(*byte),
    }
    Ok(())
}

proptest! {
    #[test]
    fn packet_matches_a_vector(
        start in proptest::collection::vec(any::<u8>(), 0..3000),
        shared in any::<bool>(),
        steps in steps(),
    ) {
        let pool = Pool::default();
        let mut packet = if shared {
            Packet::shared(HEADER, Bytes::from(start.clone()))
        } else {
            Packet::copied(HEADER, &start, &pool).expect("the pool has room")
        };
        let mut model = start;
        for step in &steps {
            apply(step, &mut packet, &pool).expect("the pool has room");
            apply_to_model(step, &mut model);
            prop_assert_eq!(packet.payload(), &model[..]);
        }
        prop_assert_eq!(&packet.into_bytes()[..], &model[..]);
    }
}
