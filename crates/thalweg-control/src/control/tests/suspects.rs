//! Proves that a stream returns to a silent link on fresh measurements, and ever later to one that
//! is silent again.

use thalweg_base::id::{NodeId, StreamId};
use thalweg_base::time::{Duration, Instant};
use thalweg_link::gauge::{SAMPLE_EVERY, Sample};
use thalweg_link::pulse::Hearing;
use thalweg_planner::planner::Planner;

use super::{A, B, C, D, Fabric, LINK, Publication, publication};
use crate::health::suspects::{SUSPECT_AGAIN, SUSPECT_HOLD, SUSPECT_HOLD_MAX, Suspects};
use crate::session::RENEW;

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

const MOMENT: Duration = Duration::from_millis(1);

/// A stream with a deadline of 350 ms.
fn watched() -> Publication {
    let mut publication = publication(Some(Planner::Exact), false);
    publication.needs.deadline = Duration::from_millis(350);
    publication
}

/// Such a stream from A to D, which are joined, and both linked to B.
fn triangle() -> (Fabric, StreamId) {
    let mut fabric = Fabric::linked(&[[A, B], [A, D], [B, D]]);
    let stream = fabric.publish(A, watched());
    fabric.subscribe(D);
    assert_eq!(fabric.plan_path(A, stream).1, [A, D]);
    (fabric, stream)
}

fn fall_silent(fabric: &mut Fabric, at: NodeId, peer: NodeId) {
    for hearing in [Hearing::Silent, Hearing::Answering] {
        fabric.at(at, |c, now, keys| {
            c.handle_hearing(peer, hearing, now, keys);
        });
        fabric.settle();
    }
}

/// Lets time pass in which an end of the direct link takes these readings.
fn read(
    fabric: &mut Fabric,
    [at, peer]: [NodeId; 2],
    rtt: Duration,
    latest: Duration,
    time: Duration,
) {
    for step in 0..time.as_nanos() / SAMPLE_EVERY.as_nanos() {
        let sample = Sample {
            rtt,
            latest,
            heard: step + 1,
            ..LINK
        };
        fabric.pass(SAMPLE_EVERY);
        fabric.at(at, |c, now, keys| {
            c.handle_link_sample(peer, (now, sample), now, keys);
        });
        fabric.settle();
    }
}

#[test]
fn stream_returns_on_fresh_measurement() {
    for (latest_ms, comes_back) in [(10, true), (806, false)] {
        let (mut fabric, stream) = triangle();
        fall_silent(&mut fabric, A, D);
        assert_eq!(fabric.plan_path(A, stream).1, [A, B, D]);
        // For ten seconds the recent minimum is the value from before.
        let latest = Duration::from_millis(latest_ms);
        read(&mut fabric, [A, D], LINK.rtt, latest, SUSPECT_HOLD);
        fabric.pass(RENEW);
        let path = fabric.plan_path(A, stream).1;
        assert_eq!(path == [A, D], comes_back, "{latest_ms}: {path:?}");
    }
}

#[test]
fn relay_remeasures_its_silent_link() {
    for (latest_ms, comes_back) in [(10, true), (806, false)] {
        let mut fabric = Fabric::linked(&[[A, B], [A, C], [B, D], [C, D]]);
        let stream = fabric.publish(A, watched());
        fabric.subscribe(D);
        let path = fabric.plan_path(A, stream).1;
        fall_silent(&mut fabric, path[1], D);
        assert_ne!(fabric.plan_path(A, stream).1, path);
        let latest = Duration::from_millis(latest_ms);
        read(&mut fabric, [path[1], D], LINK.rtt, latest, SUSPECT_HOLD);
        fabric.pass(RENEW);
        let since = fabric.plan_path(A, stream).1;
        assert_eq!(since == path, comes_back, "{latest_ms}: {since:?}");
    }
}

#[test]
fn repeated_silence_doubles_hold() {
    let (mut fabric, stream) = triangle();
    for hold in [10, 20, 40] {
        fall_silent(&mut fabric, A, D);
        fabric.pass(seconds(hold).saturating_sub(MOMENT));
        assert_eq!(fabric.plan_path(A, stream).1, [A, B, D], "{hold}");
        fabric.pass(MOMENT + RENEW);
        assert_eq!(fabric.plan_path(A, stream).1, [A, D], "{hold}");
    }
    fabric.pass(seconds(41));
    fall_silent(&mut fabric, A, D);
    fabric.pass(seconds(10) + RENEW);
    assert_eq!(fabric.plan_path(A, stream).1, [A, D], "it is long ago");
}

#[test]
fn suspect_link_serves_as_last_resort() {
    let (mut fabric, stream) = triangle();
    for _ in 0..4 {
        fall_silent(&mut fabric, A, D);
        fabric.pass(seconds(45));
    }
    fall_silent(&mut fabric, A, D);
    assert_eq!(fabric.plan_path(A, stream).1, [A, B, D]);
    fabric.pass(seconds(15));
    fabric.cut([B, D]);
    fabric.pass(RENEW);
    assert_eq!(fabric.plan_path(A, stream).1, [A, D]);
}

#[test]
fn hold_doubles_up_to_its_bound() {
    let mut suspects = Suspects::default();
    let mut now = Instant::ZERO;
    let mut hold = SUSPECT_HOLD;
    for _ in 0..8 {
        suspects.insert((A, B), now);
        // More reports of the same silence.
        suspects.insert((A, B), now + seconds(1));
        let until = now + seconds(1) + hold;
        assert!(suspects.has((A, B), until - MOMENT) && !suspects.has((A, B), until));
        assert_eq!(suspects.poll_timeout(), until);
        assert!(!suspects.expire(until - MOMENT) && suspects.expire(until));
        assert!(suspects.is_empty() && !suspects.expire(until));
        now = until + hold.max(SUSPECT_AGAIN).saturating_sub(MOMENT);
        hold = (hold + hold).min(SUSPECT_HOLD_MAX);
    }
    // A moment later it is forgotten.
    suspects.insert((A, B), now);
    let over = now + SUSPECT_HOLD_MAX + SUSPECT_HOLD_MAX;
    suspects.expire(over);
    suspects.insert((A, B), over);
    assert!(!suspects.has((A, B), over + SUSPECT_HOLD));
    assert!(!suspects.has((B, A), over), "of one direction");
}

#[test]
fn doubt_is_not_remembered_as_silence() {
    let mut suspects = Suspects::default();
    let now = Instant::ZERO + seconds(1);
    suspects.avoid_until((A, B), now + seconds(1));
    assert!(suspects.has((A, B), now) && suspects.last_silence((A, B)).is_none());
    assert!(suspects.expire(now + seconds(1)));
    suspects.insert((A, B), now + seconds(1));
    assert!(!suspects.has((A, B), now + seconds(1) + SUSPECT_HOLD));
}
