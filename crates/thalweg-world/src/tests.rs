//! Proves which mistakes in a world file are found, and where they are reported: both formats,
//! every kind of mistake.

use thalweg_base::units::Ratio;
use thalweg_planner::model::{Change, NodeAction};

use super::{Format, load_str};

/// A valid world; each test breaks one line of it.
const TOML: &str = r#"[node.a]
slots = 2
[node.b]
[[link]]
ends = ["a", "b"]
rate = "2 Mbit/s"
delay = "20 ms"
[[stream]]
name = "cam"
from = "a"
to = ["b"]
layers = [
  { rate = "400 kbit/s", utility = 0.6 },
  { rate = "800 kbit/s", utility = 0.4 },
]
needs = { deadline = "300 ms", least_layers = 1 }
[[at]]
time = "10 s"
link = ["a", "b"]
set = { up = false }
"#;

const JSON: &str = r#"{
"weights": {"quality": 100.0},
"node": {"a": {"slots": 2}, "b": {}},
"link": [
{"ends": ["a", "b"],
"rate": "2 Mbit/s",
"delay": "20 ms"}],
"stream": [{"name": "cam",
"from": "a",
"to": ["b"],
"layers": [{"rate": "400 kbit/s", "utility": 0.6},
{"rate": "800 kbit/s", "utility": 0.4}],
"needs": {"deadline": "300 ms"}}],
"at": [{"time": "10 s", "link": ["a", "b"], "set": {"up": false}}]
}"#;

#[track_caller]
fn error_of(text: &str, format: Format, from: &str, to: &str) -> String {
    assert_eq!(text.matches(from).count(), 1, "`{from}` is there once");
    let file = match format {
        Format::Toml => "w.toml",
        Format::Json => "w.json",
    };
    let broken = text.replacen(from, to, 1);
    let error = load_str(&broken, format, file).expect_err("the world is broken");
    error.to_string()
}

#[track_caller]
fn toml_error(from: &str, to: &str, begins: &str) {
    let error = error_of(TOML, Format::Toml, from, to);
    assert!(error.starts_with(begins), "{error}");
}

#[track_caller]
fn json_error(from: &str, to: &str, begins: &str) {
    let error = error_of(JSON, Format::Json, from, to);
    assert!(error.starts_with(begins), "{error}");
}

#[test]
fn both_formats_load_the_same_world() {
    let toml = load_str(TOML, Format::Toml, "w.toml").expect("a sound world");
    let json = load_str(JSON, Format::Json, "w.json").expect("a sound world");
    assert_eq!(toml, json);
}

#[test]
fn bad_unit_names_line_and_key() {
    let words = "`2000` is not a rate: write a number and a unit";
    toml_error(
        "2 Mbit/s",
        "2000",
        &format!("w.toml:6: link[0].rate: {words}"),
    );
    json_error(
        "2 Mbit/s",
        "2000",
        &format!("w.json:6: link[0].rate: {words}"),
    );
    toml_error(
        "\"20 ms\"",
        "20",
        "w.toml:7: link[0].delay: invalid type: integer `20`, expected a length of time in quotes",
    );
    json_error(
        "\"20 ms\"",
        "20",
        "w.json:7: link[0].delay: invalid type: integer `20`, expected a length of time in quotes",
    );
}

#[test]
fn unknown_key_is_named() {
    toml_error(
        "delay =",
        "dealy =",
        "w.toml:7: link[0].dealy: unknown field `dealy`, expected",
    );
    json_error(
        "\"delay\"",
        "\"dealy\"",
        "w.json:7: link[0].dealy: unknown field `dealy`, expected",
    );
    toml_error(
        "[[at]]",
        "[[event]]",
        "w.toml:17: event: unknown field `event`, expected",
    );
    toml_error(
        "{ deadline",
        "{ deadlin",
        "w.toml:16: stream[0].needs.deadlin: unknown field",
    );
}

#[test]
fn missing_key_is_named_at_its_parent() {
    toml_error(
        "rate = \"2 Mbit/s\"",
        "",
        "w.toml:4: link[0]: missing field `rate`",
    );
    json_error(
        "\"rate\": \"2 Mbit/s\",",
        "",
        "w.json:7: link[0]: missing field `rate`",
    );
}

#[test]
fn duplicate_node_name_is_rejected() {
    toml_error("[node.b]", "[node.a]", "w.toml:3: ");
    json_error(
        "\"b\": {}",
        "\"a\": {}",
        "w.json:3: node.a: two nodes have the name `a`",
    );
}

#[test]
fn unknown_end_is_rejected() {
    let no = "there is no node `c` (there are a, b)";
    toml_error(
        "ends = [\"a\", \"b\"]",
        "ends = [\"a\", \"c\"]",
        &format!("w.toml:5: link[0].ends[1]: {no}"),
    );
    json_error(
        "{\"ends\": [\"a\", \"b\"]",
        "{\"ends\": [\"c\", \"b\"]",
        &format!("w.json:5: link[0].ends[0]: {no}"),
    );
    toml_error(
        "from = \"a\"",
        "from = \"c\"",
        &format!("w.toml:10: stream[0].from: {no}"),
    );
    toml_error(
        "to = [\"b\"]",
        "to = [\"c\"]",
        &format!("w.toml:11: stream[0].to[0]: {no}"),
    );
    json_error(
        "\"to\": [\"b\"]",
        "\"to\": [\"c\"]",
        &format!("w.json:10: stream[0].to[0]: {no}"),
    );
    toml_error(
        "to = [\"b\"]",
        "to = []",
        "w.toml:11: stream[0].to: name at least one node",
    );
    toml_error(
        "ends = [\"a\", \"b\"]",
        "ends = [\"a\", \"a\"]",
        "w.toml:5: link[0].ends: the link joins `a` to itself",
    );
}

#[test]
fn invalid_layers_are_rejected() {
    toml_error(
        "utility = 0.4",
        "utility = 0.5",
        "w.toml:12: stream[0].layers: the utilities sum to 1.1, not to 1",
    );
    json_error(
        "\"utility\": 0.4",
        "\"utility\": -0.4",
        "w.json:12: stream[0].layers[1].utility: -0.4 is not a finite",
    );
    toml_error(
        "800 kbit/s",
        "0 kbit/s",
        "w.toml:14: stream[0].layers[1].rate: the rate is zero",
    );
    toml_error(
        "least_layers = 1",
        "least_layers = 3",
        "w.toml:16: stream[0].needs.least_layers: least_layers is 3, the stream has 2",
    );
    let many = "{ rate = \"1 kbit/s\", utility = 0.01 },\n".repeat(1_000);
    toml_error(
        "{ rate = \"400 kbit/s\", utility = 0.6 },",
        &many,
        "w.toml:12: stream[0].layers: a stream has 1 to 16 layers, this one 1001",
    );
}

#[test]
fn event_on_unknown_link_is_rejected() {
    toml_error(
        "link = [\"a\", \"b\"]",
        "link = [\"a\", \"c\"]",
        "w.toml:19: at[0].link: there is no link between `a` and `c`",
    );
    json_error(
        "{\"up\": false}",
        "{}",
        "w.json:14: at[0].set: nothing is set",
    );
    toml_error(
        "{ up = false }",
        "{ rate = \"0 bit/s\" }",
        "w.toml:20: at[0].set.rate: the rate is zero",
    );
}

#[test]
fn share_goes_with_withhold_only() {
    let event = "time = \"10 s\"\nlink = [\"a\", \"b\"]\nset = { up = false }\n";
    let with = |deed: &str| {
        let text = TOML.replace(event, &format!("time = \"10 s\"\nnode = \"b\"\n{deed}\n"));
        assert_ne!(text, TOML);
        load_str(&text, Format::Toml, "w.toml")
    };
    let action = |deed: &str| match with(deed).expect("a sound world").events[0].change {
        Change::Node { action, .. } => action,
        Change::Link { .. } => panic!("it is done to a node"),
    };
    let part = Ratio::new(0.25).expect("a ratio");
    let withhold = "do = \"withhold\"";
    assert_eq!(action(withhold), NodeAction::Withhold(Ratio::ONE));
    let written = format!("{withhold}\nshare = 0.25");
    assert_eq!(action(&written), NodeAction::Withhold(part));
    for (deed, expected) in [
        (
            "do = \"crash\"\nshare = 0.25",
            "use it with `do = \"withhold\"` only",
        ),
        ("do = \"withhold\"\nshare = 0", "withholds nothing"),
        (
            "do = \"withhold\"\nshare = 1.5",
            "1.5 is not between 0 and 1",
        ),
        ("share = 0.5", "either `link` and `set`"),
    ] {
        let error = with(deed).expect_err("the world is broken").to_string();
        assert!(
            error.starts_with("w.toml:") && error.contains(expected),
            "{error}"
        );
    }
}

#[test]
fn zero_rate_and_duplicate_stream_are_rejected() {
    toml_error(
        "2 Mbit/s",
        "0 Mbit/s",
        "w.toml:6: link[0].rate: the rate is zero",
    );
    let twice = "{\"name\": \"cam\", \"from\": \"a\", \"to\": [\"b\"], \"layers\": [{\"rate\": \"1 bit/s\", \"utility\": 1}]},\n{\"name\": \"cam\",";
    json_error(
        "{\"name\": \"cam\",",
        twice,
        "w.json:9: stream[1].name: another stream is called `cam`",
    );
}

#[test]
fn invalid_weights_are_rejected() {
    json_error(
        "100.0",
        "-1",
        "w.json:2: weights.quality: -1 is not a finite number of 0 or above",
    );
    let infinite = "[weights]\nquality = inf\n[node.a]";
    toml_error(
        "[node.a]",
        infinite,
        "w.toml:2: weights.quality: inf is not a finite number",
    );
}

#[test]
fn wrong_default_is_reported_at_its_parent() {
    let error = super::text::error_at(TOML, Format::Toml, "w.toml", "link[0].queue", "too small");
    assert_eq!(error.to_string(), "w.toml:4: link[0].queue: too small");
}

#[test]
fn invalid_declaration_is_rejected() {
    let declare = |text: &str, begins: &str| {
        let text = format!("{text}\n[node.b]");
        toml_error("[node.b]", &text, begins);
    };
    declare(
        "[adapter.protect]\npair = \"recover\"",
        "w.toml:4: adapter.protect.pair: there is no adapter `recover`",
    );
    declare(
        "[adapter.protect]\npair = \"protect\"",
        "w.toml:4: adapter.protect.pair: `protect` cannot undo itself",
    );
    declare(
        "[adapter.blur]\nrate_factor = 0.0",
        "w.toml:4: adapter.blur.rate_factor: 0 is not a finite number above 0",
    );
    declare(
        "[adapter.blur]\nrate_factor = inf",
        "w.toml:4: adapter.blur.rate_factor: inf is not a finite number above 0",
    );
    declare(
        "[adapter.blur]\nrepairs = 1.5",
        "w.toml:4: adapter.blur.repairs: 1.5 is not between 0 and 1",
    );
    declare(
        "[adapter.blur]\nquality = 0.5",
        "w.toml:4: adapter.blur.quality: unknown field `quality`, expected",
    );
    declare(
        "[adapter.thin]\npair = \"open2\"\nquality_factor = 0.5\n[adapter.open2]",
        "w.toml:5: adapter.thin.quality_factor: `thin` has a pair that restores",
    );
    declare(
        "[adapter.seal]\ncost_per_mbps = 0.5",
        "w.toml:4: adapter.seal.cost_per_mbps: `seal` is a standard adapter",
    );
    declare(
        "[adapter.Blur]\nrate_factor = 0.5",
        "w.toml:3: adapter.Blur: `Blur` is not an adapter's name: use 1 to 23",
    );
    declare(
        "[adapter.a]\n[adapter.b]\n[adapter.c]\n[adapter.d]\n[adapter.e]",
        "w.toml:3: adapter: 7 transforms with pack and seal are more than 6",
    );
    let layer = "{ rate = \"1 kbit/s\", utility = 0.0001 },\n";
    declare(
        &format!("[adapter.small]\nlayers = [{}]", layer.repeat(1_000)),
        "w.toml:4: adapter.small.layers: a transcoder makes 1 to 16 layers, this one 1000",
    );
    json_error(
        "\"node\": {",
        "\"adapter\": {\"blur\": {}, \"blur\": {}},\n\"node\": {",
        "w.json:3: adapter.blur: two adapters have the name `blur`: rename one",
    );
}

#[test]
fn invalid_node_resources_are_rejected() {
    toml_error(
        "slots = 2",
        "slots = 2\nadapters = [\"keep\", \"blur\"]",
        "w.toml:3: node.a.adapters[1]: there is no adapter `blur` (there are keep, open, pack",
    );
    toml_error(
        "slots = 2",
        "slots = 2\ncpu = -1.0",
        "w.toml:3: node.a.cpu: -1 is not a finite number of 0 or above",
    );
}

#[test]
fn impossible_needs_are_rejected() {
    let deadline = "deadline = \"300 ms\"";
    toml_error(
        "deadline = \"300 ms\", least",
        "deadline = \"0 ms\", least",
        "w.toml:16: stream[0].needs.deadline: a deadline of zero is impossible",
    );
    for (loss, expected) in [("-0.1", "-0.1"), ("1.5", "1.5"), ("nan", "NaN")] {
        toml_error(
            &format!("{deadline}, least"),
            &format!("{deadline}, loss_max = {loss}, least"),
            &format!("w.toml:16: stream[0].needs.loss_max: {expected} is not between 0 and 1"),
        );
    }
    toml_error(
        "least_layers = 1",
        "least_layers = 0",
        "w.toml:16: stream[0].needs.least_layers: least_layers is 0, the stream has 2",
    );
}

#[test]
fn broken_syntax_has_a_line() {
    toml_error("delay =", "delay", "w.toml:7: ");
    json_error("\"delay\":", "\"delay\"", "w.json:7: ");
}

#[test]
fn message_escapes_control_characters() {
    for (text, shown) in [
        // An unknown key, a key around a mistake, a value.
        ("\"sl\\u001b[2Jots\" = 2\n", "sl\\u{1b}[2Jots"),
        ("\"a\\nb\" = { c = ]\n", "a\\nb"),
        (
            "node.a.slots = \"\\u001b]0;x\\u0007\"\n",
            "\\u{1b}]0;x\\u{7}",
        ),
        ("\"\\u202ea\" = 1\n", "\\u{202e}a"),
    ] {
        let expected = load_str(text, Format::Toml, "w.toml").expect_err("it is none");
        let expected = expected.to_string();
        assert!(expected.contains(shown), "{expected:?}");
        assert!(!expected.chars().any(char::is_control), "{expected:?}");
    }
}
