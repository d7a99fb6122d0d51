//! Proves how figures are formatted, and what rates, roles and totals cover.

use serde_json::json;

use super::super::figure::{
    bytes, drops, first_that_fits, fit, lasting, millis, short, time, width,
};
use super::super::view::Role;
use super::{bare, link, outbox, stream, view};

#[test]
fn numbers_have_three_digits() {
    for (value, text) in [
        (0.0, "0"),
        (0.04, "0"),
        (0.25, "0.25"),
        (7.0, "7"),
        (7.25, "7.25"),
        (99.96, "100"),
        (999.0, "999"),
        (999.5, "1.00k"),
        (1_204.0, "1.20k"),
        (99_949.0, "99.9k"),
        (99_950.0, "100k"),
        (2_104_000.0, "2.10M"),
        (999_499_000.0, "999M"),
        (999_500_000.0, "1.00G"),
    ] {
        assert_eq!(short(value), text, "{value}");
    }
    let sizes = [bytes(0), bytes(940), bytes(64 << 20)];
    assert_eq!(sizes, ["0 B", "940 B", "67.1 MB"]);
    let times = [millis(0.349), millis(12.34), millis(310.4)];
    assert_eq!(times, ["0.35", "12.3", "310"]);
    let times = [millis(999.4), millis(999.5), millis(61_000.0)];
    assert_eq!(times, ["999", "1000", "61000"]);
    let times = [millis(99_999.0), millis(134_000.0)];
    assert_eq!(times, ["99999", "134k"]);
    let times = [
        lasting(0.5),
        lasting(310.0),
        lasting(3_977.0),
        lasting(3_579_139.0),
    ];
    assert_eq!(times, ["0.50 ms", "310 ms", "3.98 s", "59 min 39 s"]);
    let times = [time(0.0), time(59.9), time(60.0), time(3_599.0)];
    assert_eq!(times, ["0 s", "59 s", "1 min", "59 min 59 s"]);
    assert_eq!([time(11_520.0), time(188_000.0)], ["3 h 12 min", "2 d 4 h"]);
}

#[test]
fn figures_fit_their_columns() {
    // Every power of two and its predecessor: both ends of every scale.
    for power in 0..49 {
        for value in [1u64 << power, (1 << power) - 1, 999_499 << (power / 2)] {
            let (short, bytes) = (short(value as f64), bytes(value));
            assert!(width(&short) <= 5 && width(&bytes) <= 7, "{short} {bytes}");
        }
    }
}

#[test]
fn cut_text_fits_and_has_a_mark() {
    for (text, cells, cut) in [
        ("camera", 6, "camera"),
        ("camera", 5, "came…"),
        ("camera", 1, "…"),
        ("camera", 0, ""),
        ("東京-中継局", 6, "東京-…"),
        ("東京-中継局", 4, "東…"),
    ] {
        assert_eq!(fit(text, cells), cut);
        assert!(width(&fit(text, cells)) <= cells);
    }
}

#[test]
fn drops_list_the_most_frequent_first() {
    let by_cause = [
        ("expired", 12),
        ("dependant", 0),
        ("filtered", 400),
        ("path-lost", 3),
    ];
    let by_cause = by_cause.map(|(cause, count)| (cause.to_string(), count));
    let forms = drops(&by_cause.into());
    let many = drops(&[("expired".to_string(), 1_204_311)].into());
    assert_eq!(many, ["expired 1.20M"]);
    let expected = [
        "filtered 400, expired 12, path-lost 3",
        "filtered 400, expired 12, 1 more",
        "filtered 400, 2 more",
        "filtered 400 +2",
    ];
    assert_eq!(forms, expected);
    assert_eq!(first_that_fits(&forms, 25), "filtered 400, 2 more");
    assert_eq!(first_that_fits(&forms, 18), "filtered 400 +2");
    assert_eq!(first_that_fits(&forms, 10), "filtered …");
    assert_eq!(first_that_fits(&[], 10), "");
}

#[test]
fn rates_use_the_uptime() {
    let moment = |uptime: f64, sent: u64| {
        let mut now = bare();
        now["uptime_seconds"] = json!(uptime);
        now["streams"] = json!([stream("cam", "camera", sent)]);
        now["links"] = json!([link("relay")]);
        now["links"][0]["outbox"] = outbox([0; 8]);
        now["links"][0]["outbox"]["dropped"] = json!({"expired": sent / 10});
        now
    };
    let (first, _) = view(None, moment(10.0, 100));
    assert!(first.seconds.is_none() && first.streams[0].adus_per_second.is_none());
    let (next, _) = view(Some(moment(10.0, 100)), moment(12.0, 300));
    let rates = [
        next.seconds,
        next.streams[0].adus_per_second,
        next.links[0].drops_per_second,
    ];
    assert_eq!(rates, [Some(2.0), Some(100.0), Some(10.0)]);
    // The node was restarted, or the stream published again: the counters start at zero.
    for now in [moment(3.0, 20), moment(12.0, 20)] {
        let (restarted, _) = view(Some(moment(10.0, 100)), now);
        assert_eq!(restarted.streams[0].adus_per_second, None);
    }
}

#[test]
fn node_without_uptime_has_no_rates() {
    let moment = |sent: u64| {
        let mut now = bare();
        now["uptime_seconds"] = json!(null);
        now["streams"] = json!([stream("cam", "camera", sent)]);
        now
    };
    let (view, _) = view(Some(moment(1)), moment(2));
    assert!(view.seconds.is_none() && view.streams[0].adus_per_second.is_none());
}

#[test]
fn roles_follow_publisher_and_routes() {
    let mut now = bare();
    let names = ["own", "passing", "ending", "elsewhere"];
    now["streams"] = names.iter().map(|name| stream(name, "truck", 8)).collect();
    now["streams"][0]["publisher"] = json!("camera");
    now["streams"][2]["counts"]["delivered"] = json!(5);
    now["routes"] = json!([
        {"stream": "own", "next": "relay"},
        {"stream": "passing", "next": null},
        {"stream": "passing", "next": "relay"},
        {"stream": "ending", "next": null},
    ]);
    let (view, _) = view(None, now);
    let streams = view.streams.iter();
    let found: Vec<_> = streams
        .map(|stream| (stream.role, stream.delivered))
        .collect();
    let expected = [
        (Role::Source, 8),
        (Role::Relay, 8),
        (Role::Sink, 5),
        (Role::Known, 8),
    ];
    assert_eq!(found, expected);
}

#[test]
fn waiting_adus_are_summed_over_links() {
    let mut now = bare();
    now["links"] = json!([link("a"), link("b"), link("c")]);
    now["streams"] = json!([stream("cam", "camera", 1), stream("pose", "camera", 1)]);
    let (unreported, _) = view(None, now.clone());
    assert_eq!(unreported.streams[0].waiting_adus, None);
    for (at, adus) in [(0, 3), (1, 4)] {
        now["links"][at]["outbox"] = outbox([0; 8]);
        now["links"][at]["outbox"]["flows"] = json!([
            {"stream": "cam", "epoch": 1, "adus": adus},
            {"stream": "cam", "epoch": 2, "adus": 10},
        ]);
    }
    let (view, _) = view(None, now);
    let streams = view.streams.iter();
    let waiting: Vec<_> = streams.map(|stream| stream.waiting_adus).collect();
    assert_eq!(waiting, [Some(27), Some(0)]);
}

#[test]
fn json_has_the_whole_outbox() {
    let mut now = bare();
    now["links"] = json!([link("a")]);
    now["links"][0]["outbox"] = outbox([1, 2, 3, 4, 5, 6, 7, 8]);
    let (view, _) = view(None, now.clone());
    let printed = serde_json::to_value(&view).expect("plain data");
    assert_eq!(printed["links"][0]["outbox"], now["links"][0]["outbox"]);
    assert_eq!(printed["node"], "camera");
}
