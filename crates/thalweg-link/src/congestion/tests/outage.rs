//! Proves that a flow restores its window on a path that was out, if the path is the same, also
//! over a new connection.

use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize};

use super::{Path, ms};
use crate::congestion::{Carried, Congestion, Memory, Mode, PACKETS_MIN, PACKETS_START};

/// A path on which an app-limited sender had found its window, just after an outage.
fn interrupted() -> (Path, u64) {
    let mut path = Path::new(Bitrate::from_kbps(20_000), ms(150));
    for _ in 0..100 {
        path.backlog = Some(20);
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
fn same_path_restores_window() {
    let (mut path, window) = interrupted();
    path.backlog = Some(1);
    path.run_for(Duration::from_secs(1));
    let after = path.controller.window().as_bytes();
    assert!(after <= window, "{after} of {window}");
    assert!(
        after >= 20 * 1_200,
        "{after}: what was on its way in a round trip"
    );
}

#[test]
fn longer_path_restores_nothing() {
    let (mut path, _) = interrupted();
    path.rtt = ms(300);
    path.backlog = Some(1);
    path.run_for(Duration::from_secs(1));
    assert_eq!(path.controller.window().as_bytes(), PACKETS_MIN * 1_200);
}

/// Most that a new connection restores.
const MOST: DataSize = DataSize::from_bytes(40 * 1_200);

/// A new connection over a path of this round trip, which is given the memory of the interrupted
/// one after at least one round trip.
fn reconnected(rtt: Duration) -> (Path, DataSize) {
    let (path, window) = interrupted();
    let kept = path.controller.to_keep().expect("it was measured");
    assert!(kept.window.as_bytes() <= window && kept.window.as_bytes() >= 20 * 1_200);
    let mut path = Path::new(Bitrate::from_kbps(20_000), rtt);
    path.backlog = Some(1);
    path.run_for(Duration::from_secs(1));
    path.controller.handle_kept(kept);
    path.run_for(Duration::from_secs(1));
    (path, kept.window.min(MOST))
}

#[test]
fn new_connection_restores_window() {
    let (path, kept) = reconnected(ms(150));
    assert_eq!(path.controller.window(), kept);
    // It was idle and is lost: the next connection starts with as much.
    let again = path.controller.to_keep().expect("it was measured");
    assert_eq!(again.window, kept);
}

#[test]
fn restored_window_is_bounded() {
    let mut path = Path::new(Bitrate::from_kbps(20_000), ms(150));
    path.backlog = Some(1);
    path.controller.handle_kept(Carried {
        window: DataSize::from_kib(1_000),
        rtt: ms(150),
    });
    path.run_for(Duration::from_secs(1));
    assert_eq!(path.controller.window(), MOST);
}

#[test]
fn other_path_starts_afresh() {
    for rtt in [ms(75), ms(300)] {
        let (path, _) = reconnected(rtt);
        let window = DataSize::from_bytes(PACKETS_START * 1_200);
        assert_eq!(path.controller.window(), window, "{rtt:?}");
        // It keeps what this path carries, and not what the other did.
        let kept = path.controller.to_keep().expect("it was measured");
        assert_eq!(kept.window, window, "{rtt:?}");
        assert!(kept.rtt >= rtt, "{kept:?}");
    }
}

#[test]
fn measured_path_ignores_memory() {
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
fn memory_holds_ten_minutes() {
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
