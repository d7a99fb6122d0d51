//! Both fabrics, connected and ready, and the tasks that move frames between camera, fabrics and viewers.

use std::sync::Arc;
use std::sync::mpsc as thread_mpsc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use thalweg_base::adu::AdaptationPolicy;
use thalweg_base::needs::{Needs, Order, Reliability};
use thalweg_media::Marks;
use thalweg_node::{Outgoing, Publication, Publisher, Subscriber, SubscriberEvent};
use thalweg_planner::model::{Stream, World};
use thalweg_planner::planner::Planner;
use thalweg_planner::planner::report::Report;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::PLAYOUT_DEFAULT;
use super::camera::{self, CapturedFrame};
use super::console::{self, LinkState, Live};
use super::fabric::{Fabric, Wiretap};
use super::picture::Kind;
use super::viewer::{self, Screen};

/// Capacity of the queue before a sender: nearly a minute, 8 MB at 1.2 Mbit/s. Frames beyond it are lost.
const BACKLOG_FRAMES_MAX: usize = 600;

/// How often the links' loads are sampled.
const SAMPLE: Duration = Duration::from_millis(200);

/// Samples in the window of a load: one second.
const WINDOW: usize = 5;

/// Two fabrics that carry one stream.
pub struct Stage {
    /// The world of both.
    pub world: World,
    /// The stream that is shown.
    pub stream: Stream,
    plan: Report,
    explanation: String,
    /// Unplanned and planned.
    pub sides: [Side; 2],
}

/// A fabric with its viewer's screen.
pub struct Side {
    /// The fabric.
    pub fabric: Arc<Fabric>,
    /// The viewer's screen.
    pub screen: Arc<Screen>,
    frames: mpsc::Sender<Arc<CapturedFrame>>,
    tasks: [JoinHandle<()>; 2],
}

/// The camera's outputs in one fabric: the sender and the viewer.
pub struct FrameOutput {
    screen: Arc<Screen>,
    frames: mpsc::Sender<Arc<CapturedFrame>>,
    viewer: thread_mpsc::Sender<Arc<CapturedFrame>>,
}

impl Stage {
    /// Starts both fabrics and waits until the stream can flow in both.
    pub async fn start(world: World, stream: Stream) -> anyhow::Result<Self> {
        let publication = |needs, planner| Publication {
            needs,
            pack_ratio: stream.pack_ratio,
            planner,
            ..Publication::layered(stream.name.clone(), stream.layers.clone())
        };
        let unplanned_needs = Needs {
            order: Order::Sequence,
            reliability: Reliability::Full,
            ..Needs::default()
        };
        let (unplanned, planned) = tokio::try_join!(
            Side::start(&world, &stream, 0, publication(unplanned_needs, None)),
            Side::start(
                &world,
                &stream,
                1,
                publication(stream.needs, Some(Planner::Exact))
            ),
        )?;
        let source = planned.fabric.node(&stream.from);
        let status = source
            .status()
            .await
            .context("the camera's node has stopped")?;
        let plan = status
            .plans
            .iter()
            .find(|plan| plan.stream == stream.name && plan.report.is_some());
        let plan = plan.context("the camera's node has no plan although its stream flows")?;
        let report = plan.report.clone().expect("it was looked for");
        let explanation = plan.explanation.clone().unwrap_or_default();
        Ok(Self {
            plan: report,
            explanation,
            sides: [unplanned, planned],
            world,
            stream,
        })
    }

    /// Returns the plan in force in the planned fabric, and its explanation.
    pub fn plan(&self) -> (&Report, String) {
        (&self.plan, self.explanation.clone())
    }

    /// Returns how long after its capture a frame is due.
    pub fn playout(&self) -> Duration {
        let deadline = self.stream.needs.deadline;
        if deadline.is_never() {
            PLAYOUT_DEFAULT
        } else {
            deadline.into()
        }
    }

    /// Returns the viewers' screens, unplanned first.
    pub fn screens(&self) -> [Arc<Screen>; 2] {
        self.sides.each_ref().map(|side| Arc::clone(&side.screen))
    }

    /// Starts the viewers, unplanned first, each on a thread of its own.
    pub fn open_viewers(
        &self,
        shown: &[watch::Sender<Option<bytes::Bytes>>; 2],
    ) -> (Vec<JoinHandle<anyhow::Result<()>>>, Vec<FrameOutput>) {
        let kinds = [Kind::Unplanned, Kind::Planned];
        let playout = self.playout();
        let open = |((side, shown), kind): ((&Side, &watch::Sender<_>), Kind)| {
            let (viewer, shots) = thread_mpsc::channel();
            let (screen, shown) = (Arc::clone(&side.screen), shown.clone());
            let output = FrameOutput {
                screen: Arc::clone(&screen),
                frames: side.frames.clone(),
                viewer,
            };
            let viewing = move || viewer::run(&screen, &shots, playout, &shown, kind);
            (tokio::task::spawn_blocking(viewing), output)
        };
        self.sides.iter().zip(shown).zip(kinds).map(open).unzip()
    }

    /// Starts the tasks that update the page's links and apply the world's events.
    pub fn measure(&self, live: &Arc<Live>) -> Vec<JoinHandle<()>> {
        let mut helpers = Vec::new();
        for (at, side) in self.sides.iter().enumerate() {
            let fabric = Arc::clone(&side.fabric);
            let (world, plan, live) = (self.world.clone(), self.plan.clone(), Arc::clone(live));
            helpers.push(tokio::spawn(async move {
                watch_links(&fabric, &world, &plan, &live, at).await;
            }));
            let (fabric, world) = (Arc::clone(&side.fabric), self.world.clone());
            helpers.push(tokio::spawn(
                async move { play_events(&fabric, &world).await },
            ));
        }
        helpers
    }

    /// Stops both fabrics.
    pub async fn stop(self) {
        let [unplanned, planned] = self.sides.map(Side::stop);
        tokio::join!(unplanned, planned);
    }
}

impl Side {
    async fn start(
        world: &World,
        stream: &Stream,
        place: u8,
        publication: Publication,
    ) -> anyhow::Result<Self> {
        let fabric = Arc::new(Fabric::start(world, stream, place).await?);
        let (publisher, subscriber) = fabric.connect(stream, publication).await?;
        let screen = Arc::new(Screen::default());
        let (frames, queue) = mpsc::channel(BACKLOG_FRAMES_MAX);
        let tasks = [
            tokio::spawn(send(publisher, queue, stream.traffic.adaptation)),
            tokio::spawn(receive(subscriber, Arc::clone(&screen))),
        ];
        Ok(Self {
            fabric,
            screen,
            frames,
            tasks,
        })
    }

    async fn stop(self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        if let Some(fabric) = Arc::into_inner(self.fabric) {
            fabric.stop().await;
        }
    }
}

impl FrameOutput {
    /// Takes a frame; never waits.
    pub fn take(&self, shot: &Arc<CapturedFrame>) {
        self.screen.captured(shot.capture);
        // A full queue loses the frame: the viewer counts it as late.
        let _ = self.frames.try_send(Arc::clone(shot));
        // A viewer that ended has reported why.
        let _ = self.viewer.send(Arc::clone(shot));
    }
}

async fn send(
    mut publisher: Publisher,
    mut queue: mpsc::Receiver<Arc<CapturedFrame>>,
    policy: AdaptationPolicy,
) {
    while let Some(shot) = queue.recv().await {
        let time = viewer::media_time(shot.index, camera::FPS);
        for (layer, payload) in (0..).zip(&shot.layers) {
            let layers = shot.layers.len() as u8;
            let marks = Marks::of_layer(&policy, shot.index as u64, time, layer, layers);
            let outgoing = Outgoing {
                media_time: marks.media_time,
                importance: marks.importance,
                layer: marks.layer,
                flags: marks.flags,
                depends_on: marks.depends_on,
                payload: payload.clone(),
            };
            if let Err(error) = publisher.send(outgoing).await {
                tracing::warn!(%error, "the camera's node accepts no more frames");
                return;
            }
        }
    }
}

async fn receive(mut subscriber: Subscriber, screen: Arc<Screen>) {
    while let Some(event) = subscriber.recv().await {
        match event {
            SubscriberEvent::Adu(adu) => screen.handle_adu(adu, camera::FPS, Instant::now()),
            SubscriberEvent::Notice(notice) => tracing::info!(notice, "the viewer's node says"),
        }
    }
}

/// Samples the links' loads in the stream's direction, over a sliding second.
async fn watch_links(fabric: &Fabric, world: &World, plan: &Report, live: &Live, side: usize) {
    let mut past = std::collections::VecDeque::new();
    let mut ticks = tokio::time::interval(SAMPLE);
    let mut tap = Wiretap::default();
    for turn in 0_usize.. {
        ticks.tick().await;
        if turn.is_multiple_of(WINDOW) {
            tap = Wiretap::read(world, fabric).await;
        }
        let now = Instant::now();
        let links = world.links.iter().enumerate();
        let passed: Vec<_> = links
            .map(|(at, link)| fabric.passed(at, console::along(link, plan)[0]))
            .collect();
        past.push_back((now, passed.clone()));
        if past.len() > WINDOW + 1 {
            past.pop_front();
        }
        let (then, before) = &past[0];
        let span = now.duration_since(*then).as_secs_f64();
        let states = passed.iter().zip(before).zip(&tap.crossings);
        let states = states.map(|((now, before), crossing)| LinkState {
            rate_bps: if span > 0.0 {
                ((now.bytes - before.bytes) as f64 * 8.0 / span) as u64
            } else {
                0
            },
            dropped: now.dropped,
            sealed: (crossing.requires_sealing && crossing.sealed + crossing.plain > 0)
                .then_some(crossing.plain == 0),
        });
        live.sides()[side].set_links(states.collect());
    }
}

/// Changes the lines at the times of the world's events.
async fn play_events(fabric: &Fabric, world: &World) {
    let start = tokio::time::Instant::now();
    let mut times: Vec<_> = world.events.iter().map(|event| event.time).collect();
    times.sort_unstable();
    for time in times {
        tokio::time::sleep_until(start + Duration::from(time)).await;
        fabric.change(&world.at(time));
    }
}
