//! Proves the effect of the outbox's rules on streams, in the worlds of `worlds/outbox`, one per rule.
//!
//! The measure is the viewer's: the share in time, by importance. The bounds are far from the measured
//! values, because they guard against a rule without effect.

use thalweg_planner::model::World;
use thalweg_sim::report::{ImportanceReport, StreamReport};
use thalweg_world::Format;

use super::worlds::run;

fn world(text: &str) -> World {
    thalweg_world::load_str(text, Format::Toml, "world").expect("a world of the repository")
}

/// Runs a world of one stream without violations.
fn played(text: &str, seed: u64) -> StreamReport {
    let report = run(&world(text), seed).report;
    assert_eq!(report.violations, [] as [&str; 0]);
    report.streams.into_iter().next().expect("it has one")
}

/// Returns the share in time of the ADUs with such an importance.
fn in_time(stream: &StreamReport, is_meant: impl Fn(u8) -> bool) -> f64 {
    let meant = |class: &&ImportanceReport| is_meant(class.importance);
    let sum = |count: fn(&ImportanceReport) -> u64| -> u64 {
        stream.by_importance.iter().filter(meant).map(count).sum()
    };
    sum(|class| class.in_time) as f64 / sum(|class| class.sent) as f64
}

/// Returns the share of pictures in time: in the policy `temporal`, each one's base layer.
fn pictures(stream: &StreamReport) -> f64 {
    in_time(stream, |importance| importance > 207)
}

/// Returns the share in time of the highest layer.
fn refinements(stream: &StreamReport) -> f64 {
    in_time(stream, |importance| importance <= 63)
}

macro_rules! outbox_world {
    ($name:literal) => {
        outbox_world!($name, 1)
    };
    ($name:literal, $seed:expr) => {
        played(
            include_str!(concat!("../../../../worlds/outbox/", $name, ".toml")),
            $seed,
        )
    };
}

#[test]
fn overload_drops_refinements_first() {
    let stream = outbox_world!("overload");
    assert!(pictures(&stream) >= 0.9, "{}", pictures(&stream));
    assert!(refinements(&stream) <= pictures(&stream) / 3.0);
    // The line has room for 44 % of the bytes, and for none of the highest layer except in the first second.
    assert!(refinements(&stream) <= 0.3, "{}", refinements(&stream));
    let causes: Vec<_> = stream.by_cause.keys().map(String::as_str).collect();
    // Once the line is measured, the plan filters at the camera what the line does not carry.
    assert_eq!(causes, ["dependant", "expired", "filtered"]);
}

#[test]
fn pictures_survive_a_step_of_the_rate() {
    let stream = outbox_world!("rate-step");
    assert!(pictures(&stream) >= 0.9, "{}", pictures(&stream));
    assert!(refinements(&stream) < pictures(&stream));
}

#[test]
fn rate_fall_is_not_competition() {
    // Seeds that once failed: a third to a half of the pictures of the first world were in time, two
    // thirds of the second's. Over 32 seeds it is now 0.86 to 0.99 and 0.94 to 0.98.
    for seed in [0, 5, 12, 16] {
        let overload = pictures(&outbox_world!("overload", seed));
        assert!(overload >= 0.8, "{overload}, seed {seed}");
        let step = pictures(&outbox_world!("rate-step", seed));
        assert!(step >= 0.88, "{step}, seed {seed}");
    }
}

#[test]
fn bursts_within_mean_rate_pass() {
    let stream = outbox_world!("bursts");
    assert!(in_time(&stream, |_| true) >= 0.97);
}

#[test]
fn stall_costs_little_extra_time() {
    let stream = outbox_world!("stall");
    // A second and a half of eleven seconds; pictures that went stale in it do not delay fresh ones.
    let lost = 11.0 * (1.0 - pictures(&stream));
    assert!(lost <= 2.0, "{lost} s of pictures");
}

#[test]
fn link_resumes_soon_after_blackout() {
    let stream = outbox_world!("blackout");
    assert_eq!(stream.in_time, stream.sent);
    // Two seconds of outage, and less than one more.
    let worst = stream.latency_ms.max.expect("all came");
    assert!((2_000.0..3_000.0).contains(&worst), "{worst} ms");
}

#[test]
fn loss_burst_costs_its_own_time() {
    let stream = outbox_world!("loss-burst");
    let lost = 11.0 * (1.0 - pictures(&stream));
    assert!(lost <= 3.0, "{lost} s of pictures");
}

#[test]
fn idle_line_carries_all() {
    let stream = outbox_world!("idle-line");
    assert_eq!(stream.in_time, stream.sent);
    assert!(stream.by_cause.is_empty());
}

#[test]
fn slow_relay_drops_before_copying() {
    let text = include_str!("../../../../worlds/outbox/slow-relay.toml");
    let played = run(&world(text), 1);
    assert_eq!(played.report.violations, [] as [&str; 0]);
    let late = |stream: &StreamReport| -> u64 {
        let causes = stream.by_hop.get("relay");
        causes
            .and_then(|of| of.get("expired"))
            .copied()
            .unwrap_or(0)
    };
    let at_relay: u64 = played.report.streams.iter().map(late).sum();
    // One that the relay refuses is lost to each of the three sinks that it would have been copied for.
    let refused = played.lagging;
    assert!(refused > 0 && (refused..=3 * refused).contains(&at_relay));
    for stream in &played.report.streams {
        let [pictures, refinements] = [pictures(stream), refinements(stream)];
        assert!(pictures >= 0.8, "{pictures}");
        assert!(refinements <= 0.2, "{refinements}");
    }
}

#[test]
fn full_line_is_shared_by_weight() {
    let text = include_str!("../../../../worlds/outbox/weights.toml");
    let report = run(&world(text), 1).report;
    assert_eq!(report.violations, [] as [&str; 0]);
    let [usual, heavy] = &report.streams[..] else {
        panic!("it has two");
    };
    let (usual, heavy) = (usual.delivered as f64, heavy.delivered as f64);
    // In the first second, of eleven, both get all; then the ratio of the rates is that of the weights,
    // three.
    let (usual, heavy) = (usual - 250.0, heavy - 250.0);
    assert!((2.2..=3.8).contains(&(heavy / usual)), "{heavy} to {usual}");
}

#[test]
fn ordered_adus_cut_through_relays() {
    let link = |ends: &str| {
        format!(
            "[[link]]\nends = [{ends}]\nrate = \"2 Mbit/s\"\ndelay = \"5 ms\"\nqueue = \"50 kB\"\n"
        )
    };
    let links = [r#""a", "b""#, r#""b", "c""#, r#""c", "d""#].map(link);
    // Each ADU takes 200 ms on a line.
    let text = format!(
        r#"
        length = "12 s"
        [node.a]
        [node.b]
        [node.c]
        [node.d]
        {}
        [[stream]]
        name = "a/bulk"
        from = "a"
        to = ["d"]
        pack_ratio = 1.0
        layers = [{{ rate = "400 kbit/s", utility = 1.0 }}]
        needs = {{ reliability = "full", order = "sequence" }}
        traffic = {{ frames = 1.0, start = "2 s", stop = "10 s" }}
        "#,
        links.concat()
    );
    let report = run(&world(&text), 1).report;
    assert_eq!(report.violations, [] as [&str; 0]);
    let bulk = &report.streams[0];
    assert_eq!(bulk.delivered, bulk.sent);
    let usual = bulk.latency_ms.p50.expect("all came");
    assert!((200.0..300.0).contains(&usual), "{usual} ms");
}

#[test]
fn file_takes_leftover_rate() {
    let text = include_str!("../../../../worlds/outbox/file.toml");
    let report = run(&world(text), 1).report;
    assert_eq!(report.violations, [] as [&str; 0]);
    let [live, file] = &report.streams[..] else {
        panic!("it has two");
    };
    let live = in_time(live, |_| true);
    assert!(live >= 0.9, "{live}");
    assert!(file.delivered > 100, "{}", file.delivered);
}

#[test]
fn slow_line_file_delays_no_live_adu() {
    let text = include_str!("../../../../worlds/outbox/file-slow.toml");
    // With these seeds the sender took its own packets' delayed acknowledgements for competing flows,
    // and one ADU in seven was late.
    for seed in [5, 8] {
        let report = run(&world(text), seed).report;
        assert_eq!(report.violations, [] as [&str; 0]);
        let live = in_time(&report.streams[0], |_| true);
        assert!(live >= 0.99, "seed {seed}: {live}");
    }
}

#[test]
fn slowest_line_keeps_live_in_time() {
    let text = include_str!("../../../../worlds/outbox/file-slowest.toml");
    for seed in 0..4 {
        let report = run(&world(text), seed).report;
        assert_eq!(report.violations, [] as [&str; 0]);
        let [words, file] = &report.streams[..] else {
            panic!("it has two");
        };
        assert_eq!(words.in_time, words.sent, "seed {seed}");
        assert!(file.delivered > 20, "seed {seed}: {}", file.delivered);
    }
}
