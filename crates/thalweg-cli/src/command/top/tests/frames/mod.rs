//! Proves frames against text files in this folder, at 80 by 24, 60 by 16 and 120 by 40.
//!
//! With `THALWEG_BLESS=1` in its environment a test writes the files instead; review the difference
//! before you commit it.

use std::path::PathBuf;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::{Value, json};

use super::super::figure::width;
use super::super::frame::help::LINES;
use super::super::frame::palette::Palette;
use super::super::frame::{Frame, lines, text};
use super::super::state::State;
use super::super::view::View;
use super::{bare, link, outbox, stream, view};

const SIZES: [(u16, u16); 3] = [(80, 24), (60, 16), (120, 40)];

/// A view to draw.
struct Scene {
    name: &'static str,
    view: View,
    state: State,
    note: Option<&'static str>,
}

impl Scene {
    fn new(name: &'static str, before: Option<Value>, now: Value) -> Self {
        let (view, state) = view(before, now);
        Self {
            name,
            view,
            state,
            note: None,
        }
    }

    fn frame(&self) -> Frame<'_> {
        Frame {
            view: &self.view,
            state: &self.state,
            note: self.note,
            every: Some("1 s"),
            palette: Palette { has_colours: true },
        }
    }

    /// Returns the lines on a terminal of this size.
    fn lines(&self, (width, height): (u16, u16)) -> Vec<String> {
        let terminal = Terminal::new(TestBackend::new(width, height));
        let mut terminal = terminal.expect("a test's terminal has no errors");
        let drawn = terminal.draw(|to| to.render_widget(self.frame(), to.area()));
        drawn.expect("a test's terminal has no errors");
        lines(terminal.backend().buffer())
    }

    /// Compares the frame with the file of this scene and size.
    fn check(&self, size: (u16, u16)) {
        let lines = self.lines(size);
        let name = format!("{}-{}x{}.txt", self.name, size.0, size.1);
        compare(&name, &(lines.join("\n") + "\n"));
    }
}

#[track_caller]
fn compare(name: &str, found: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("src/command/top/tests/frames")
        .join(name);
    if std::env::var_os("THALWEG_BLESS").is_some() {
        std::fs::write(&path, found).expect("room");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(expected == found, "{name} was\n{expected}\nand is\n{found}");
}

fn empty() -> Scene {
    Scene::new("empty", None, bare())
}

/// A relay of two streams, with a queue and drops.
fn busy() -> Scene {
    let moment = |second: u64| {
        let mut now = bare();
        now["uptime_seconds"] = json!(11_520.0 + second as f64);
        now["links"] = json!([link("base"), link("field-relay"), link("camera-2")]);
        now["links"][0]["outbox"] = outbox([0; 8]);
        now["links"][1]["outbox"] = outbox([812, 240, 0, 96, 31, 0, 12, 2]);
        now["links"][1]["loss"] = json!(0.034);
        now["links"][1]["outbox"]["dropped"] =
            json!({"expired": 1204 + second, "pre-empted": 31, "dependant": 9});
        now["links"][1]["outbox"]["flows"] = json!([
            {"stream": "truck/cam1", "epoch": 3, "weight": 16, "adus": 1_193, "bytes": 1_193_000},
        ]);
        now["links"][2]["state"] = json!("unreachable");
        now["links"][2]["reason"] = json!("no answer from 192.0.2.7:7400: timed out");
        now["streams"] = json!([
            stream("truck/cam1", "camera", 250_000 + 247 * second),
            stream("truck/pose", "truck", 9_000 + 100 * second),
            stream("survey/radar", "truck", 0),
            stream("elsewhere", "truck", 0),
        ]);
        now["streams"][0]["counts"]["dropped"] =
            json!({"expired": 1204 + second, "pre-empted": 31, "filtered": 120_000});
        let loss = |hop, cause, importance, adus| json!({"hop": hop, "cause": cause, "importance": importance, "adus": adus});
        now["streams"][0]["ledger"] = json!({"losses": [
            loss("camera", "expired", [0, 31], 1_204 + second),
            loss("camera", "pre-empted", [32, 63], 31),
            loss("field-relay", "filtered", [0, 31], 120_000),
            loss("field-relay", "path-lost", [224, 255], 12),
        ]});
        now["streams"][2]["counts"]["delivered"] = json!(500 + 5 * second);
        now["routes"] = json!([
            {"stream": "truck/cam1", "epoch": 3, "previous": "camera", "next": "field-relay"},
            {"stream": "truck/pose", "epoch": 1, "previous": "truck", "next": "base"},
            {"stream": "survey/radar", "epoch": 1, "previous": "truck", "next": null},
        ]);
        now
    };
    Scene::new("busy", Some(moment(0)), moment(1))
}

fn many_links() -> Scene {
    let mut now = bare();
    now["links"] = (0..40).map(|at| link(&format!("node-{at}"))).collect();
    now["links"][30]["outbox"] = outbox([3; 8]);
    now["streams"] = (0..25)
        .map(|at| stream(&format!("stream-{at}"), "camera", at))
        .collect();
    Scene::new("many-links", None, now)
}

fn long_names() -> Scene {
    let mut now = bare();
    let long = "a-node-with-a-name-that-somebody-thought-was-a-good-idea-at-the-time";
    now["node"]["name"] = json!(long);
    now["links"] = json!([
        link(long),
        link("東京-中継局-予備機-第二系統"),
        link("\u{1b}[31mred")
    ]);
    now["links"][0]["outbox"] = outbox([1; 8]);
    now["links"][0]["outbox"]["dropped"] = causes();
    now["links"][1]["state"] = json!("unreachable");
    now["links"][1]["reason"] = json!(
        "wrong key at 192.0.2.7:7400: the node there is not the one that is configured under this name but another"
    );
    let name = "vehicle-convoy-north/truck-0017/camera-front-left-wide/video-layered";
    now["streams"] = json!([stream(name, "camera", 7)]);
    now["streams"][0]["counts"]["dropped"] = causes();
    Scene::new("long-names", None, now)
}

fn causes() -> Value {
    json!({
        "expired": 1_204_311, "filtered": 99_120, "dependant": 12, "path-lost": 3,
        "pre-empted": 88_000, "oversized": 2, "cancelled": 1,
    })
}

/// Everything at its bound, and slow.
fn full() -> Scene {
    let mut now = bare();
    now["uptime_seconds"] = json!(188_000.0);
    now["links"] = json!([link("relay")]);
    let mut outbox = outbox([16_384; 8]);
    outbox["waiting_bytes"] = json!(64_u64 << 20);
    outbox["sendable_bps"] = json!(150_000);
    outbox["latency_ms"] = json!({
        "adus": 9, "p50": 900.0, "p99": 61_000.0, "p999": 61_000.0, "max": 134_000.0,
    });
    for band in outbox["by_importance"].as_array_mut().expect("a list") {
        band["bytes"] = json!(8_u64 << 20);
    }
    now["links"][0]["outbox"] = outbox;
    now["links"][0]["loss"] = json!(0.25);
    now["links"][0]["rtt_ms"] = json!(1_250.0);
    now["streams"] = json!([stream("cam", "camera", 4_000_000_000)]);
    Scene::new("full", None, now)
}

fn gone() -> Scene {
    Scene {
        name: "gone",
        note: Some(
            "the node has not answered for 12 s, retrying: no node listens on /run/thalweg/node.sock: Connection refused",
        ),
        ..busy()
    }
}

fn help() -> Scene {
    let mut scene = Scene {
        name: "help",
        ..busy()
    };
    scene.state.has_help = true;
    scene
}

fn scenes() -> [Scene; 7] {
    [
        empty(),
        busy(),
        many_links(),
        long_names(),
        full(),
        gone(),
        help(),
    ]
}

#[test]
fn frames_match_their_files() {
    for scene in scenes() {
        for size in SIZES {
            scene.check(size);
        }
    }
}

#[test]
fn any_size_renders() {
    for scene in scenes() {
        for width in [1, 12, 49, 50, 51, 59, 60, 61, 80, 120, 200, 400] {
            for height in (0..30).chain([35, 36, 40, 60, 200]) {
                let lines = scene.lines((width, height));
                assert_eq!(lines.len(), usize::from(height), "{} {width}", scene.name);
            }
        }
        scene.lines((0, 24));
    }
}

#[test]
fn help_fits_the_smallest_window() {
    for line in LINES {
        assert!(width(line) <= 60, "{line}");
    }
}

#[test]
fn smallest_frame_has_all_parts() {
    let lines = busy().lines((60, 16)).join("\n");
    for word in [
        "thalweg top",
        "camera",
        "▸ field-relay",
        "queue to field-relay",
        "224–255",
        "truck/cam1",
        "q quit",
    ] {
        assert!(lines.contains(word), "{word}\n{lines}");
    }
}

#[test]
fn text_frame_has_every_row() {
    let Scene { view, state, .. } = many_links();
    let frame = Frame {
        view: &view,
        state: &state,
        note: None,
        every: None,
        palette: Palette { has_colours: false },
    };
    let text = text(&frame, 80);
    for at in 0..40 {
        assert!(text.contains(&format!("  node-{at} ")), "{at}\n{text}");
    }
    for at in 0..25 {
        assert!(text.contains(&format!("  stream-{at} ")), "{at}\n{text}");
    }
    for word in ["\u{1b}", "q quit", "▸", "▾", "every"] {
        assert!(!text.contains(word), "{word}\n{text}");
    }
}

#[test]
fn empty_text_frame_is_short() {
    let Scene { view, state, .. } = empty();
    let frame = Frame {
        view: &view,
        state: &state,
        note: None,
        every: None,
        palette: Palette { has_colours: false },
    };
    compare("empty-once.txt", &text(&frame, 80));
}

#[test]
fn plain_palette_has_no_colours() {
    for scene in scenes() {
        let frame = Frame {
            palette: Palette { has_colours: false },
            ..scene.frame()
        };
        let area = ratatui::layout::Rect::new(0, 0, 80, 24);
        let mut buffer = ratatui::buffer::Buffer::empty(area);
        ratatui::widgets::Widget::render(frame, area, &mut buffer);
        let reset = ratatui::style::Color::Reset;
        let mut cells = buffer.content().iter();
        let is_plain = cells.all(|cell| cell.fg == reset && cell.bg == reset);
        assert!(is_plain, "{}", scene.name);
    }
}
