//! Proves the sides' own decisions: which ADU goes next, and when one received in pieces is whole.

use thalweg_base::time::{Duration, Instant};

use super::super::schedule::Due;
use super::quic::{hex, unhex};
use super::srt::{Gathering, pieces};
use super::tcp::{Order, Queue};
use super::{ALL, TCP, named};

fn due(importance: u8) -> Due {
    Due {
        at: Duration::ZERO,
        stream: 0,
        frame: 0,
        layer: 0,
        layers: 1,
        importance,
        bytes: 100,
    }
}

fn given(order: Order, now: Instant) -> Vec<u32> {
    let mut queue = Queue::new(order);
    let deadline = |millis| Instant::ZERO + Duration::from_millis(millis);
    for (number, (importance, millis)) in (0..).zip([(10, 200), (90, 210), (90, 205), (50, 100)]) {
        queue.push(number, &due(importance), deadline(millis));
    }
    std::iter::from_fn(|| queue.pop(now)).collect()
}

#[test]
fn important_first_late_never() {
    let soon = Instant::ZERO + Duration::from_millis(100);
    assert_eq!(given(Order::Importance, soon), [2, 1, 3, 0]);
    let late = soon + Duration::from_nanos(1);
    assert_eq!(given(Order::Importance, late), [2, 1, 0]);
    // Deadlines are in order of arrival: all ADUs have the same budget.
    assert_eq!(given(Order::Coming, soon), [3, 0, 2, 1]);
}

#[test]
fn last_piece_completes_adu() {
    let cut = pieces(9, 4_000);
    assert_eq!(cut.len(), 4);
    assert!(cut.iter().all(|piece| piece.len() <= 1_316));
    let mut gathering = Gathering::default();
    let mut whole: Vec<_> = cut
        .iter()
        .map(|piece| gathering.handle_piece(piece))
        .collect();
    assert_eq!(whole.pop(), Some(Some((9, 4_000))));
    assert!(whole.iter().all(Option::is_none));
    assert_eq!(gathering.handle_piece(&[0; 5]), None);
    assert_eq!(gathering.handle_piece(&pieces(3, 0)[0]), Some((3, 0)));
}

#[test]
fn hex_round_trips() {
    let bytes: Vec<u8> = (0..=255).collect();
    assert_eq!(unhex(&hex(&bytes)).expect("digits"), bytes);
    assert!(unhex("abc").is_err() && unhex("zz").is_err() && unhex("é").is_err());
}

#[test]
fn side_names_are_unique() {
    for side in ALL {
        assert_eq!(named(side.name()).expect("it is there").name(), side.name());
    }
    assert_eq!(TCP.name(), "tcp_priority_cubic");
    assert!(named("pigeon").is_err());
}
