//! Proves the clock's relation to core's instants, without reading the time off a wall.

use thalweg_core::time::Instant;

use super::Clock;

#[test]
fn now_never_goes_back() {
    let clock = Clock::start();
    let first = clock.now();
    assert!(clock.now() >= first);
}

#[test]
fn never_has_no_timer() {
    let clock = Clock::start();
    assert!(clock.timer(Instant::NEVER).is_none());
    assert!(clock.timer(Instant::ZERO).is_some());
}
