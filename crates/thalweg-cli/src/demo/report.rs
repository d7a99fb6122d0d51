//! The demo's result, printed at the end.

use std::fmt::Write as _;

use serde::Serialize;
use thalweg_planner::model::World;
use thalweg_planner::planner::report::Report;

use super::fabric::Wiretap;
use super::score::Metrics;
use super::stage::Stage;
use crate::table;
use crate::terminal::Colour;

/// The object of `demo --json`.
#[derive(Clone, Debug, Serialize)]
pub struct Result {
    planned: Metrics,
    unplanned: Metrics,
    plan: Report,
    #[serde(skip)]
    machine: Machine,
}

/// How well this machine kept up, independent of the network.
#[derive(Clone, Copy, Debug, Default)]
struct Machine {
    behind_ms: f64,
    undecodable: u64,
}

impl Result {
    /// Reads the figures of both sides.
    pub async fn gather(stage: &Stage) -> Self {
        let mut machine = Machine::default();
        let mut sides = Vec::new();
        for side in &stage.sides {
            let tap = Wiretap::read(&stage.world, &side.fabric).await;
            sides.push(
                side.screen
                    .score()
                    .metrics(side.fabric.link_bytes(), tap.all_sealed()),
            );
            let behind_ms = side.screen.delay_max().as_secs_f64() * 1e3;
            machine.behind_ms = machine.behind_ms.max(behind_ms);
            machine.undecodable += side.screen.undecodable();
        }
        let planned = sides.pop().expect("there are two sides");
        let unplanned = sides.pop().expect("there are two sides");
        Self {
            planned,
            unplanned,
            plan: stage.plan().0.clone(),
            machine,
        }
    }

    /// Returns the result as one line of JSON.
    pub fn json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string(self)? + "\n")
    }

    /// Returns the result as a table for people.
    pub fn describe(&self, world: &World) -> String {
        let pair = |title: &str, show: &dyn Fn(&Metrics) -> String| {
            [
                title.to_string(),
                show(&self.unplanned),
                show(&self.planned),
            ]
        };
        let db = |value: Option<f64>| value.map_or("–".into(), |db| format!("{db:.1} dB"));
        let ms = |value: Option<f64>| value.map_or("–".into(), |ms| format!("{ms:.0} ms"));
        let mut rows = vec![
            ["", "unplanned", "planned"].map(String::from),
            pair("frames in time", &|m| {
                format!("{} of {}", m.frames_shown, m.frames_sent)
            }),
            pair("luma, mean", &|m| db(m.psnr_y_mean_db)),
            pair("Cb, mean", &|m| db(m.psnr_cb_mean_db)),
            pair("latency, median", &|m| ms(m.latency_ms.p50)),
            pair("latency, p99", &|m| ms(m.latency_ms.p99)),
            pair("insecure links", &|m| {
                if m.sealed_on_insecure {
                    "no plaintext".into()
                } else {
                    "plaintext".into()
                }
            }),
        ];
        for link in &world.links {
            let [a, b] = &link.ends;
            let key = format!("{a}->{b}");
            let bytes = |m: &Metrics| m.link_bytes.get(&key).copied().unwrap_or(0);
            rows.push(pair(&format!("{a} → {b}"), &|m| {
                format!("{} kB", bytes(m) / 1000)
            }));
        }
        let mut text = table::lay_out(&rows, Colour::of_stdout());
        if self.machine.undecodable > 0 {
            let _ = writeln!(
                text,
                "{} frames came in time but could not be decoded",
                self.machine.undecodable
            );
        }
        if self.machine.behind_ms > 20.0 {
            let _ = writeln!(
                text,
                "this machine was busy: a frame was decoded up to {:.0} ms after it was due",
                self.machine.behind_ms
            );
        }
        text
    }
}
