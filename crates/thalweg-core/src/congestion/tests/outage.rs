//! Proves that who comes back to a path that was out sends what he did, if it is the path that it was.

use super::{Path, ms};
use crate::congestion::{Congestion, PACKETS_MIN};
use crate::time::Duration;
use crate::units::Bitrate;

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
