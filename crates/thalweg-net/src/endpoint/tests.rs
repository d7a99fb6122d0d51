//! Proves the rules that need no socket: which of two connections stays, backoff, and trust in
//! relays.

use std::cell::Cell;

use thalweg_base::time::{Duration, Instant};
use tokio::sync::watch;

use super::backoff::Backoff;
use super::keep::pause_dialling;
use super::registry::ConnectionChoice;
use super::silence::Patience;
use crate::address::relay_trust;

#[test]
fn crossing_ends_keep_same_connection() {
    // The smaller node dialled `ours`, the larger `theirs`; each end sees them in either order.
    for smaller_sees_ours_first in [true, false] {
        for larger_sees_ours_first in [true, false] {
            let kept_is_ours = |own_is_smaller: bool, ours_first: bool| {
                let contest = ConnectionChoice {
                    own_is_smaller,
                    old_is_dialled: own_is_smaller == ours_first,
                    new_is_dialled: own_is_smaller != ours_first,
                    apart: Duration::from_millis(700),
                };
                contest.keeps_new() != ours_first
            };
            assert!(kept_is_ours(true, smaller_sees_ours_first));
            assert!(kept_is_ours(false, larger_sees_ours_first));
        }
    }
}

#[test]
fn later_connection_replaces_lost_one() {
    for own_is_smaller in [true, false] {
        for (old_is_dialled, new_is_dialled) in [(true, false), (false, true)] {
            let contest = ConnectionChoice {
                own_is_smaller,
                old_is_dialled,
                new_is_dialled,
                apart: Duration::from_secs(4),
            };
            assert!(contest.keeps_new());
        }
    }
}

#[test]
fn redial_by_same_node_replaces() {
    let contest = ConnectionChoice {
        own_is_smaller: true,
        old_is_dialled: false,
        new_is_dialled: false,
        apart: Duration::ZERO,
    };
    assert!(contest.keeps_new());
}

#[test]
fn backoff_grows_to_maximum() {
    let mut backoff = Backoff::new(1);
    let waits: Vec<_> = (0..20).map(|_| backoff.next().as_millis()).collect();
    assert!((150..=250).contains(&waits[0]), "{waits:?}");
    assert!(waits.iter().all(|wait| *wait <= 6_250), "{waits:?}");
    assert!(waits[10..].iter().all(|wait| *wait >= 3_750), "{waits:?}");
    let (mut one, mut other) = (Backoff::new(2), Backoff::new(3));
    assert_ne!(one.next(), other.next());
    backoff.reset();
    let again = backoff.next().as_millis();
    assert!((150..=250).contains(&again), "{again}");
}

#[test]
fn false_alarms_double_patience() {
    let at = |secs| Instant::ZERO + Duration::from_secs(secs);
    let mut patience = Patience::default();
    let usual = patience.wait(at(0));
    let mut waits = Vec::new();
    for secs in 1..6 {
        patience.handle_false_alarm(at(secs));
        waits.push(patience.wait(at(secs)).as_millis() / usual.as_millis());
    }
    assert_eq!(waits, [2, 4, 8, 8, 8]);
    assert_eq!(patience.wait(at(64)).as_millis(), 8 * usual.as_millis());
    assert_eq!(patience.wait(at(65)), usual);
    patience.handle_false_alarm(at(70));
    assert_eq!(patience.wait(at(71)), usual + usual);
}

#[tokio::test]
async fn only_link_with_peer_ends_pause() {
    let (sender, mut changes) = watch::channel(());
    let is_linked = Cell::new(false);
    let wait = std::time::Duration::from_millis(300);
    let start = tokio::time::Instant::now();
    let others = async {
        loop {
            sender.send_replace(());
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        () = pause_dialling(wait, &mut changes, || is_linked.get()) => {}
        () = others => unreachable!("they come and go for ever"),
    }
    assert!(start.elapsed() >= wait, "{:?}", start.elapsed());
    let for_ever = std::time::Duration::from_secs(1_000_000);
    let peer = async {
        is_linked.set(true);
        sender.send_replace(());
    };
    tokio::join!(
        pause_dialling(for_ever, &mut changes, || is_linked.get()),
        peer
    );
    pause_dialling(for_ever, &mut changes, || is_linked.get()).await;
}

#[test]
fn bad_relay_ca_error_names_fault() {
    let folder = tempfile::tempdir().expect("a directory for the test");
    let path = folder.path().join("ca.pem");
    let message = || {
        let error = relay_trust(&path).expect_err("it is of no use");
        let message = error.to_string();
        assert!(message.contains(&path.display().to_string()), "{message}");
        message
    };
    assert!(message().contains("No such file"), "{}", message());
    std::fs::write(&path, "a note\n").expect("room");
    assert!(
        message().contains("it contains no certificate"),
        "{}",
        message()
    );
    let begin = "-----BEGIN CERTIFICATE-----\n";
    std::fs::write(&path, begin).expect("room");
    assert!(message().contains("BEGIN CERTIFICATE"), "{}", message());
    // The base64 of bytes that are not a certificate.
    std::fs::write(&path, format!("{begin}YWJj\n-----END CERTIFICATE-----\n")).expect("room");
    assert!(
        message().contains("number 1 in it is invalid"),
        "{}",
        message()
    );
}
