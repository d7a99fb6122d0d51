//! The demo: one camera, two fabrics with equal nodes and links; one unplanned, one planned.
//!
//! *The idea.* Each picture is encoded once and given to both fabrics at the same moment. The
//! unplanned fabric sends every layer, first in, first out, until all have arrived. The planned
//! fabric sends the layers that the plan keeps, sealed where the world requires it, until their
//! deadline. Two viewers show what came in time. There are two fabrics, because on a single one the
//! unplanned stream would fill the slow link and starve the planned stream.
//!
//! ```text
//!               ┌► fabric (unplanned) ─► viewer ─┐
//!   camera ─────┤                                ├─► score ─► console page, JSON
//!               └► fabric (planned)   ─► viewer ─┘
//! ```
//!
//! The camera and each viewer have a thread of their own, since they encode, decode and sleep;
//! nodes, shapers and page share the async runtime.
//!
//! *What it does not do.* It measures an emulated network on this machine, and claims nothing about
//! a real one.

mod camera;
pub mod console;
mod fabric;
mod picture;
mod report;
mod score;
mod stage;
mod viewer;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use thalweg_planner::model::{Stream, World};
use thalweg_planner::planner::report::Report;
use thalweg_planner::planner::{self, Policy};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::exit::{Code, Failure, OrCode as _, Outcome, fail};
use crate::shutdown::Shutdown;
use crate::{input, terminal};

use camera::Video;
use console::{Hello, Live, VideoInfo};
use picture::Kind;
use stage::Stage;

/// The default world of `thalweg demo`.
const WORLD: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../worlds/demo.toml"
));

/// When a frame is due after its capture, if the stream has no deadline.
const PLAYOUT_DEFAULT: Duration = Duration::from_secs(1);

/// The default length of a headless run.
const HEADLESS_SECONDS: u64 = 20;

/// The options of the demo.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Length of the run; `None`: until interrupted, or [`HEADLESS_SECONDS`] without a page.
    pub seconds: Option<u64>,
    /// The world; `None`: the built-in one.
    pub world: Option<PathBuf>,
    /// The video; `None`: the built-in scene.
    pub video: Option<PathBuf>,
    /// Whether to serve no page.
    pub headless: bool,
    /// Whether to print the result as JSON.
    pub json: bool,
    /// The first port tried for the page.
    pub port: u16,
}

/// The priority of the demo's threads (`nice`), where the system grants it.
const PRIORITY: i32 = -10;

/// Raises the priority of this thread, and of those that it starts.
///
/// A browser that starts keeps two cores busy for seconds, and the demo is to show what the network
/// does to the picture. Without the right to do so, the demo runs as before.
pub fn raise_priority() {
    let raised = rustix::process::setpriority_process(None, PRIORITY);
    tracing::debug!(?raised, "priority of the demo");
}

/// Runs the demo and prints the result.
pub async fn run(options: Options) -> Outcome {
    let world = match &options.world {
        Some(file) => input::load_world(file)?,
        None => input::parse_world(WORLD, "worlds/demo.toml".as_ref())?,
    };
    let stream = choose(&world)?;
    if let Some(lacks) = shortfalls(&world, &stream) {
        let sentence = format!("no plan satisfies the needs of `{}`: {lacks}", stream.name);
        return fail(Code::Infeasible, sentence);
    }
    let video = match &options.video {
        Some(file) => Video::open(file).or_code(Code::BadInput)?,
        None => Video::built_in(),
    };
    let rates: Vec<_> = stream.layers.iter().map(|layer| layer.rate).collect();
    let budgets = camera::budgets(&rates)
        .map_err(anyhow::Error::msg)
        .or_code(Code::BadInput)?;
    let (width, height) = video.size();
    let encoder =
        thalweg_media::layered::Encoder::new(width, height, &budgets).or_code(Code::BadInput)?;
    let seconds = options
        .seconds
        .or(options.headless.then_some(HEADLESS_SECONDS));
    let stage = Box::pin(Stage::start(world, stream)).await?;
    let footage = VideoInfo {
        name: video.name(),
        size: video.size(),
        playout: stage.playout(),
    };
    let run = Run::begin(&stage, &footage, seconds, &options).await?;
    let outcome = run.play(&stage, video, encoder, seconds).await;
    let result = report::Result::gather(&stage).await;
    let text = if options.json {
        result.json()?
    } else {
        result.describe(&stage.world)
    };
    run.end().await;
    stage.stop().await;
    outcome?;
    terminal::print(&text)?;
    Ok(Code::Done)
}

/// Returns the stream to show: the first of the world.
fn choose(world: &World) -> Result<Stream, Failure> {
    match world.streams.first() {
        Some(stream) if stream.to.len() == 1 => Ok(stream.clone()),
        Some(stream) => fail(
            Code::BadInput,
            format!(
                "stream `{}` has {} sinks; the demo needs a stream with one",
                stream.name,
                stream.to.len()
            ),
        ),
        None => fail(Code::BadInput, "the world has no stream to show"),
    }
}

/// Returns the shortfalls of the stream's plan; `None` if it is feasible.
fn shortfalls(world: &World, stream: &Stream) -> Option<String> {
    let snapshot = world.snapshot(&stream.name)?;
    let (plan, shortfalls) = planner::plan(&snapshot, &Policy::default());
    let report = Report::new(&plan, &shortfalls, thalweg_base::time::Duration::ZERO);
    let lacks = report.shortfalls.iter();
    let lacks: Vec<String> = lacks
        .map(|lack| format!("{} ({})", lack.message, lack.fix))
        .collect();
    (!report.feasible).then(|| lacks.join("; or "))
}

/// The tasks that run beside the fabrics.
struct Run {
    live: Arc<Live>,
    original: watch::Sender<Option<bytes::Bytes>>,
    shown: [watch::Sender<Option<bytes::Bytes>>; 2],
    helpers: Vec<JoinHandle<()>>,
    has_page: bool,
}

impl Run {
    async fn begin(
        stage: &Stage,
        footage: &VideoInfo,
        seconds: Option<u64>,
        options: &Options,
    ) -> anyhow::Result<Self> {
        let (plan, explanation) = stage.plan();
        let hello = Hello::new(
            &stage.world,
            &stage.stream,
            footage,
            plan.clone(),
            explanation,
        );
        let live = Arc::new(Live::new(hello, seconds, stage.screens()));
        let pictures = [(); 3].map(|()| watch::channel(None));
        let receivers = pictures.each_ref().map(|(_, receiver)| receiver.clone());
        let [original, unplanned, planned] = pictures.map(|(sender, _)| sender);
        let mut helpers = stage.measure(&live);
        if !options.headless {
            let listener = console::bind(options.port).await?;
            let address = listener.local_addr()?;
            terminal::print_notice(&format!(
                "open http://{address} in a browser; Ctrl-C ends the demo"
            ));
            let serving = console::serve(listener, Arc::clone(&live), receivers);
            helpers.push(tokio::spawn(async move {
                if let Err(error) = serving.await {
                    tracing::warn!(%error, "the console page failed");
                }
            }));
        }
        Ok(Self {
            live,
            original,
            shown: [unplanned, planned],
            helpers,
            has_page: !options.headless,
        })
    }

    /// Runs camera and viewers to the end.
    async fn play(
        &self,
        stage: &Stage,
        video: Video,
        encoder: thalweg_media::layered::Encoder,
        seconds: Option<u64>,
    ) -> anyhow::Result<()> {
        let frames = seconds.map(|seconds| seconds as usize * camera::FPS as usize);
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let mut shutdown = Shutdown::listen()?;
        let waiting = tokio::spawn(async move {
            shutdown.requested().await;
            stopping.store(true, Ordering::Relaxed);
        });
        let (viewers, outputs) = stage.open_viewers(&self.shown);
        let original = self.original.clone();
        let camera = tokio::task::spawn_blocking(move || {
            camera::run(video, &encoder, frames, &stop, |shot| {
                original.send_replace(Some(picture::frame(Kind::Original, &shot.picture)));
                for output in &outputs {
                    output.take(&shot);
                }
            })
        });
        let filmed = camera.await?;
        for viewer in viewers {
            viewer.await??;
        }
        waiting.abort();
        filmed
    }

    /// Sends the page a last update and ends the tasks.
    async fn end(self) {
        self.live.finish();
        if self.has_page {
            // One more tick, so that the page gets the last figures.
            tokio::time::sleep(console::TICK * 2).await;
        }
        for helper in self.helpers {
            helper.abort();
            // The task holds its fabric until it is gone; its cancellation is expected.
            let _ = helper.await;
        }
    }
}
