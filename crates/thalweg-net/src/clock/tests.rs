//! Proves how the clock relates to core's instants.

use thalweg_base::time::Instant;

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

#[test]
fn at_converts_machine_instants() {
    let clock = Clock::start();
    let before = clock.now();
    let moment = tokio::time::Instant::now().into_std();
    let after = clock.now();
    let at = clock.at(moment);
    assert!(before <= at && at <= after, "{before} {at} {after}");
    let long_ago = moment.checked_sub(std::time::Duration::from_secs(3));
    assert!(long_ago.is_none_or(|moment| clock.at(moment) == Instant::ZERO));
}
