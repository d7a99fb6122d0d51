//! Proves that who comes back to a path that was out sends what he did, if it is the path that it was, also over a new connection.

use super::{Path, ms};
use crate::congestion::{Carried, Congestion, Memory, Mode, PACKETS_MIN, PACKETS_START};
use crate::time::{Duration, Instant};
use crate::units::{Bitrate, DataSize};

/// A path on which a sender of a little had found his window, at the moment after an outage.
fn interrupted() -> (Path, u64) {
    let mut path = Path::new(Bitrate::from_kbps(20_000), ms(150));
    for _ in 0..100 {
        path.has = Some(20);
        path.run_for(ms(150));
    }
    path.run_for(Duration::from_secs(1));
    let window = path.controller.window().as_bytes();
    path.controller
        .handle_congestion(path.now, path.now, Congestion::Persistent);
    assert_eq!(path.controller.window().as_bytes(), PACKETS_MIN * 1_200);
    (path, window)
}

#[test]
fn a_path_that_is_as_it_was_has_the_window_that_it_had() {
    let (mut path, window) = interrupted();
    path.has = Some(1);
    path.run_for(Duration::from_secs(1));
    let after = path.controller.window().as_bytes();
    assert!(after <= window, "{after} of {window}");
    assert!(
        after >= 20 * 1_200,
        "{after}: what was on its way in a round trip"
    );
}

#[test]
fn a_path_that_has_become_longer_is_another() {
    let (mut path, _) = interrupted();
    path.rtt = ms(300);
    path.has = Some(1);
    path.run_for(Duration::from_secs(1));
    assert_eq!(path.controller.window().as_bytes(), PACKETS_MIN * 1_200);
}

/// What a new connection takes for granted at most.
const MOST: DataSize = DataSize::from_bytes(40 * 1_200);

/// A new connection over a path of this round trip that is told what the interrupted one has left, after a round trip or more.
fn anew(rtt: Duration) -> (Path, DataSize) {
    let (path, window) = interrupted();
    let kept = path.controller.to_keep().expect("it was measured");
    assert!(kept.window.as_bytes() <= window && kept.window.as_bytes() >= 20 * 1_200);
    let mut path = Path::new(Bitrate::from_kbps(20_000), rtt);
    path.has = Some(1);
    path.run_for(Duration::from_secs(1));
    path.controller.handle_kept(kept);
    path.run_for(Duration::from_secs(1));
    (path, kept.window.min(MOST))
}

#[test]
fn a_new_connection_begins_with_what_the_path_carried() {
    let (path, kept) = anew(ms(150));
    assert_eq!(path.controller.window(), kept);
    // It was idle, and is lost: the next begins with as much.
    let again = path.controller.to_keep().expect("it was measured");
    assert_eq!(again.window, kept);
}

#[test]
fn a_new_connection_takes_no_large_window_for_granted() {
    let mut path = Path::new(Bitrate::from_kbps(20_000), ms(150));
    path.has = Some(1);
    path.controller.handle_kept(Carried {
        window: DataSize::from_kib(1_000),
        rtt: ms(150),
    });
    path.run_for(Duration::from_secs(1));
    assert_eq!(path.controller.window(), MOST);
}

#[test]
fn a_path_of_another_length_is_begun_as_any() {
    for rtt in [ms(75), ms(300)] {
        let (path, _) = anew(rtt);
        let window = DataSize::from_bytes(PACKETS_START * 1_200);
        assert_eq!(path.controller.window(), window, "{rtt:?}");
        // What it carries is what is kept, and not what another did.
        let kept = path.controller.to_keep().expect("it was measured");
        assert_eq!(kept.window, window, "{rtt:?}");
        assert!(kept.rtt >= rtt, "{kept:?}");
    }
}

#[test]
fn who_has_found_what_the_path_carries_is_told_nothing() {
    let mut path = Path::new(Bitrate::from_kbps(2_000), ms(50));
    path.run_for(Duration::from_secs(5));
    assert_ne!(path.controller.mode(), Mode::Start);
    let before = path.controller.window();
    path.controller.handle_kept(Carried {
        window: before + before,
        rtt: ms(50),
    });
    assert_eq!(path.controller.window(), before);
}

#[test]
fn what_was_carried_is_good_for_ten_minutes() {
    let carried = Carried {
        window: DataSize::from_kib(64),
        rtt: ms(20),
    };
    let mut memory = Memory::default();
    let kept_at = Instant::ZERO + Duration::from_secs(5);
    assert_eq!(memory.recall(kept_at), None);
    memory.keep(kept_at, carried);
    let minutes = Duration::from_secs(600);
    assert_eq!(memory.recall(kept_at + minutes), Some(carried));
    let later = kept_at + minutes + Duration::from_nanos(1);
    assert_eq!(memory.recall(later), None);
}
