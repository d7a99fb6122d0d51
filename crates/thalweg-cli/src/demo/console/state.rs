//! The messages for the page: first the constants of the run, then its state.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde::Serialize;
use thalweg_planner::model::{Link, Stream, World};
use thalweg_planner::planner::report::Report;

use super::super::camera::FPS;
use super::super::score::Percentiles;
use super::super::viewer::Screen;

/// The constants of a run.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename = "hello")]
pub struct Hello {
    video: VideoFacts,
    stream: StreamFacts,
    nodes: Vec<NodeFacts>,
    links: Vec<LinkFacts>,
    plan: Report,
    explanation: String,
}

#[derive(Clone, Debug, Serialize)]
struct VideoFacts {
    name: String,
    width: u32,
    height: u32,
    fps: u32,
    deadline_ms: f64,
}

#[derive(Clone, Debug, Serialize)]
struct StreamFacts {
    name: String,
    from: String,
    to: Vec<String>,
    layers: Vec<LayerFacts>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct LayerFacts {
    rate_bps: u64,
    utility: f64,
}

#[derive(Clone, Debug, Serialize)]
struct NodeFacts {
    name: String,
    trusted: bool,
    slots: u32,
}

#[derive(Clone, Debug, Serialize)]
struct LinkFacts {
    from: String,
    to: String,
    rate_bps: u64,
    delay_ms: f64,
    loss: f64,
    secure: bool,
}

/// The video, for [`Hello`].
#[derive(Clone, Debug)]
pub struct VideoInfo {
    /// Its name for people.
    pub name: String,
    /// Its width and height.
    pub size: (u32, u32),
    /// How long after its capture a frame is due.
    pub playout: std::time::Duration,
}

/// The state of the run, five times a second.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename = "tick")]
pub struct Tick {
    elapsed_s: f64,
    seconds_total: Option<u64>,
    /// Whether this is the last one.
    pub finished: bool,
    fabrics: Fabrics,
    /// `[frame, unplanned dB, planned dB, unplanned late, planned late]`, new frames only.
    curve: Vec<(usize, f64, f64, bool, bool)>,
}

#[derive(Clone, Debug, Serialize)]
struct Fabrics {
    unplanned: View,
    planned: View,
}

/// The state of one fabric.
#[derive(Clone, Debug, Serialize)]
pub struct View {
    frames_sent: u64,
    frames_shown: u64,
    frames_late: u64,
    psnr_y_mean_db: Option<f64>,
    psnr_cb_mean_db: Option<f64>,
    psnr_y_now_db: Option<f64>,
    layers_shown: usize,
    still_for_s: f64,
    latency_ms: Percentiles,
    sealed_on_insecure: Option<bool>,
    links: Vec<LinkState>,
}

/// The load of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LinkState {
    /// Rate delivered over the last second, in the stream's direction.
    pub rate_bps: u64,
    /// Packets dropped or lost since the start, in the stream's direction.
    pub dropped: u64,
    /// Whether all ADUs crossed sealed; `None` where sealing is not required, or nothing crossed.
    pub sealed: Option<bool>,
}

/// The source of the messages.
pub struct Live {
    hello: Hello,
    start: Instant,
    seconds_total: Option<u64>,
    finished: AtomicBool,
    unplanned: Side,
    planned: Side,
}

/// One fabric's part of the state.
pub struct Side {
    /// Its viewer's screen.
    pub screen: Arc<Screen>,
    links: Mutex<Vec<LinkState>>,
}

impl Hello {
    /// Gathers the constants.
    pub fn new(
        world: &World,
        stream: &Stream,
        footage: &VideoInfo,
        plan: Report,
        explanation: String,
    ) -> Self {
        let nodes = world.nodes.iter().map(|(name, node)| NodeFacts {
            name: name.to_string(),
            trusted: node.trusted,
            slots: node.slots,
        });
        let layers = stream.layers.iter().map(|layer| LayerFacts {
            rate_bps: layer.rate.as_bps(),
            utility: layer.utility,
        });
        Self {
            video: VideoFacts {
                name: footage.name.clone(),
                width: footage.size.0,
                height: footage.size.1,
                fps: FPS,
                deadline_ms: footage.playout.as_secs_f64() * 1e3,
            },
            stream: StreamFacts {
                name: stream.name.to_string(),
                from: stream.from.to_string(),
                to: stream.to.iter().map(ToString::to_string).collect(),
                layers: layers.collect(),
            },
            nodes: nodes.collect(),
            links: world
                .links
                .iter()
                .map(|link| LinkFacts::new(link, &plan))
                .collect(),
            plan,
            explanation,
        }
    }
}

impl LinkFacts {
    /// In the plan's direction; a link that the plan does not use keeps the world's order.
    fn new(link: &Link, plan: &Report) -> Self {
        let [from, to] = along(link, plan);
        Self {
            from: from.to_string(),
            to: to.to_string(),
            rate_bps: link.rate.as_bps(),
            delay_ms: link.delay.as_millis_f64(),
            loss: link.loss.as_f64(),
            secure: link.secure,
        }
    }
}

/// Returns the ends of a link in the direction of the stream.
pub fn along<'a>(link: &'a Link, plan: &Report) -> [&'a thalweg_planner::model::NodeName; 2] {
    let [a, b] = &link.ends;
    let against = plan
        .path
        .windows(2)
        .any(|pair| pair[0] == *b && pair[1] == *a);
    if against { [b, a] } else { [a, b] }
}

impl Live {
    /// Starts the clock.
    pub fn new(
        hello: Hello,
        seconds_total: Option<u64>,
        [unplanned, planned]: [Arc<Screen>; 2],
    ) -> Self {
        let side = |screen| Side {
            screen,
            links: Mutex::new(vec![LinkState::default(); hello.links.len()]),
        };
        Self {
            unplanned: side(unplanned),
            planned: side(planned),
            hello,
            start: Instant::now(),
            seconds_total,
            finished: AtomicBool::new(false),
        }
    }

    /// Returns the constants.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Returns the unplanned and the planned side.
    pub fn sides(&self) -> [&Side; 2] {
        [&self.unplanned, &self.planned]
    }

    /// Marks the run as finished.
    pub fn finish(&self) {
        self.finished.store(true, Ordering::Relaxed);
    }

    /// Returns the state with the curve from frame `from` on, and the next value of `from`.
    pub fn tick(&self, from: usize) -> (Tick, usize) {
        let point = |screen: &Screen, frame: usize| {
            screen.with_score(|score| score.curve().get(frame).copied())
        };
        let curve: Vec<_> = (from..)
            .map_while(|frame| {
                let unplanned = point(&self.unplanned.screen, frame)?;
                let planned = point(&self.planned.screen, frame)?;
                let late = |layers| layers == 0;
                Some((
                    frame,
                    unplanned.y_db,
                    planned.y_db,
                    late(unplanned.layers),
                    late(planned.layers),
                ))
            })
            .collect();
        let next = from + curve.len();
        let tick = Tick {
            elapsed_s: self.start.elapsed().as_secs_f64(),
            seconds_total: self.seconds_total,
            finished: self.finished.load(Ordering::Relaxed),
            fabrics: Fabrics {
                unplanned: self.unplanned.view(),
                planned: self.planned.view(),
            },
            curve,
        };
        (tick, next)
    }
}

impl Side {
    /// Sets the current loads of the links.
    pub fn set_links(&self, links: Vec<LinkState>) {
        *self.links.lock().unwrap_or_else(PoisonError::into_inner) = links;
    }

    /// Returns the viewer's figures and the links' loads.
    pub fn view(&self) -> View {
        let links = self
            .links
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let seals: Vec<bool> = links.iter().filter_map(|link| link.sealed).collect();
        self.screen.with_score(|score| {
            let metrics = score.metrics(std::collections::BTreeMap::new(), false);
            let shown = score.curve().iter().rev().find(|sample| sample.layers > 0);
            View {
                frames_sent: metrics.frames_sent,
                frames_shown: metrics.frames_shown,
                frames_late: metrics.frames_late,
                psnr_y_mean_db: metrics.psnr_y_mean_db,
                psnr_cb_mean_db: metrics.psnr_cb_mean_db,
                psnr_y_now_db: score.curve().last().map(|sample| sample.y_db),
                layers_shown: shown.map_or(0, |sample| sample.layers),
                still_for_s: score.frozen_frames() as f64 / f64::from(FPS),
                latency_ms: metrics.latency_ms,
                sealed_on_insecure: (!seals.is_empty()).then(|| seals.iter().all(|sealed| *sealed)),
                links,
            }
        })
    }
}
