//! Proves that a source learns within a second of every datagram that a line lost, however the flow
//! goes on, and never takes an ADU in flight for lost.
//!
//! *How.* Worlds in virtual time. For each loss the run records when the line lost the datagram, or the
//! sender dropped it, and when the source learned of it.

use thalweg_base::time::Duration;
use thalweg_sim::play::{LossDelays, Options, Played, play};
use thalweg_world::Format;

/// Runs a world of a camera, a desk, and relays between them; each hop has this one-way delay and loss.
fn played_over(
    relays: &[&str],
    (delay_ms, loss): (u64, f64),
    (traffic, events): (&str, &str),
    seed: u64,
) -> Played {
    let link = |a, b| {
        format!(
            "[[link]]\nends = [\"{a}\", \"{b}\"]\nrate = \"20 Mbit/s\"\ndelay = \"{delay_ms} ms\"\nloss = {loss}\n"
        )
    };
    let mut nodes = vec!["camera"];
    nodes.extend(relays);
    nodes.push("desk");
    let links = nodes.windows(2).map(|ends| link(ends[0], ends[1]));
    let nodes = nodes.iter().map(|node| format!("[node.{node}]\n"));
    let text = format!(
        r#"
length = "31 s"
{}{}
[[stream]]
name = "camera/video"
from = "camera"
to = ["desk"]
pack_ratio = 1.0
layers = [
  {{ rate = "40 kbit/s", utility = 0.4 }},
  {{ rate = "40 kbit/s", utility = 0.2 }},
  {{ rate = "40 kbit/s", utility = 0.15 }},
  {{ rate = "40 kbit/s", utility = 0.15 }},
  {{ rate = "40 kbit/s", utility = 0.1 }},
]
needs = {{ deadline = "500 ms", least_layers = 1, reliability = "none" }}
traffic = {{ {traffic} }}
{events}
"#,
        nodes.collect::<String>(),
        links.collect::<String>(),
    );
    let world = thalweg_world::load_str(&text, Format::Toml, "heed").expect("it is a world");
    let options = Options {
        seed,
        are_loss_delays_wanted: true,
        ..Options::default()
    };
    let films = vec![None; world.streams.len()];
    let played = play(&world, "heed", &films, options).expect("there is no film");
    assert_eq!(played.report.violations, [] as [&str; 0], "seed {seed}");
    played
}

/// Runs a world of two hops.
fn played(delay_ms: u64, loss: f64, traffic: &str, events: &str, seed: u64) -> Played {
    played_over(&["relay"], (delay_ms, loss), (traffic, events), seed)
}

/// Returns the longest time until a loss was known, and the number of losses; all became known.
fn latest(delays: &LossDelays) -> (Duration, usize) {
    let known_after = delays.delays();
    let known: Option<Vec<Duration>> = known_after.iter().copied().collect();
    let known = known.expect("every loss becomes known");
    let latest = known.iter().max().copied().unwrap_or(Duration::ZERO);
    (latest, known.len())
}

#[test]
fn loss_is_known_within_a_second() {
    // The flow does not end at a multiple of 2.5 s, when plans are renewed and all reports are repeated.
    let flow = r#"frames = 30.0, start = "1 s", stop = "29 s""#;
    // One datagram in a hundred is lost on the return path too, and with it a report now and then.
    for (delay_ms, seed) in [10, 50]
        .into_iter()
        .flat_map(|ms| (0..6).map(move |seed| (ms, seed)))
    {
        let delays = &played(delay_ms, 0.01, flow, "", seed).loss_delays[0];
        let (latest, lost) = latest(delays);
        let path = format!("{delay_ms} ms each way, seed {seed}");
        assert!(lost >= 40, "{lost} were lost, {path}");
        // With a round trip of 100 ms it takes more than a second where a report was lost too and is
        // repeated.
        let bound_ms = if delay_ms == 10 { 750 } else { 1_100 };
        assert!(
            latest <= Duration::from_millis(bound_ms),
            "{latest}, {path}"
        );
        assert_eq!(
            delays.alarms(),
            0,
            "no ADU in flight is taken for lost, {path}"
        );
    }
}

#[test]
fn report_delay_grows_with_path() {
    let flow = r#"frames = 30.0, start = "1 s", stop = "30 s""#;
    for (relays, delay_ms, bound_ms) in [
        (&["relay", "gate"][..], 50, 1_000),
        (&["relay"], 75, 1_000),
        // Here reports were lost too.
        (&["relay"], 100, 1_300),
        (&["relay", "gate"], 100, 1_400),
    ] {
        let over = (delay_ms, 0.005);
        let delays = &played_over(relays, over, (flow, ""), 1).loss_delays[0];
        let (latest, lost) = latest(delays);
        let path = format!("{} hops of {delay_ms} ms", relays.len() + 1);
        let is_known = lost > 0 && latest < Duration::from_millis(bound_ms);
        assert!(is_known, "{latest}, {path}, of {lost}");
        assert_eq!(delays.alarms(), 0, "{path}");
    }
}

/// Runs a flow that loses everything behind the relay between two instants, reports included; returns
/// the longest time from the sealed fate of a loss until it was known, and the number of losses.
fn through_an_outage(delay_ms: u64, traffic: &str, from_ms: u64, to_ms: u64) -> (Duration, usize) {
    let loss = |at: u64, loss: f64| {
        format!(
            "[[at]]\ntime = \"{at} ms\"\nlink = [\"relay\", \"desk\"]\nset = {{ loss = {loss} }}\n"
        )
    };
    let events = loss(from_ms, 1.0) + &loss(to_ms, 0.0);
    let played = played(delay_ms, 0.0, traffic, &events, 1);
    latest(&played.loss_delays[0])
}

#[test]
fn silence_reveals_loss_early() {
    let flow =
        |start: u64, stop: u64| format!(r#"frames = 30.0, start = "{start} s", stop = "{stop} s""#);
    let sparse = r#"frames = 5.0, start = "6 s", stop = "12 s""#;
    // Bounds for round trips of 20 and of 100 ms.
    let cases = [
        ("one frame", sparse, [8_950, 9_120], [800, 1_000]),
        (
            "the last before a pause",
            &flow(6, 8),
            [7_900, 8_100],
            [650, 800],
        ),
        ("all of a mark", &flow(6, 12), [7_700, 8_500], [450, 850]),
        (
            "all for five seconds",
            &flow(6, 12),
            [7_000, 12_000],
            [450, 950],
        ),
    ];
    for (name, traffic, [from_ms, to_ms], bounds_ms) in cases {
        for (delay_ms, bound_ms) in [10, 50].into_iter().zip(bounds_ms) {
            let (latest, lost) = through_an_outage(delay_ms, traffic, from_ms, to_ms);
            let is_known = lost > 0 && latest < Duration::from_millis(bound_ms);
            assert!(
                is_known,
                "{name}, {delay_ms} ms each way: {latest}, of {lost}"
            );
        }
    }
}
