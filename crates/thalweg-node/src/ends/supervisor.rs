//! Starts, stops and restarts inputs and outputs.
//!
//! ```text
//! start ─► run ─► Ok: ended
//!           └───► failed ─► pause (doubles from 0.5 s to 30 s; again after a run of 30 s) ─► run …
//! ```
//!
//! *What it does not do.* An input or output that does not end in time when it is stopped is dropped.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_base::id::StreamName;
use thalweg_net::task::alone;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tracing::{info, warn};

use super::{EndKind, Ends, Entry, Exit, Run};
use crate::board::{Meter, Order, Phase};
use crate::config::{Config, Egress, Ingest};
use crate::handle::{Handle, Publisher};

/// The first and the longest pause before a new attempt. A run of the longest is no failed attempt.
const PAUSE_FIRST: Duration = Duration::from_millis(500);
const PAUSE_LAST: Duration = Duration::from_secs(30);

/// How long an output may take to write what it has when it is stopped.
const STOP_MAX: Duration = Duration::from_secs(2);

/// Runs the inputs and outputs of a node.
pub(crate) struct Supervisor {
    ends: Ends,
    handle: Handle,
    /// What is configured at the start.
    specs: Vec<Spec>,
    orders: mpsc::UnboundedReceiver<Order>,
    running: BTreeMap<(EndKind, StreamName), Running>,
    leftovers: (
        mpsc::UnboundedSender<Publisher>,
        mpsc::UnboundedReceiver<Publisher>,
    ),
    /// Streams of stopped inputs, which end.
    ending: JoinSet<()>,
}

/// An entry of the configuration.
#[derive(Clone, PartialEq)]
enum Spec {
    Ingest(Arc<Ingest>),
    Egress(Arc<Egress>),
}

struct Running {
    spec: Spec,
    meter: Arc<Meter>,
    stop: watch::Sender<bool>,
    task: Option<JoinHandle<()>>,
}

impl Spec {
    fn all(config: &Config) -> Vec<Self> {
        let (inputs, outputs) = (config.ingest.iter(), config.egress.iter());
        let inputs = inputs.map(|one| Self::Ingest(Arc::new(one.clone())));
        let outputs = outputs.map(|one| Self::Egress(Arc::new(one.clone())));
        inputs.chain(outputs).collect()
    }

    fn key(&self) -> (EndKind, StreamName) {
        match self {
            Self::Ingest(ingest) => (EndKind::Ingest, ingest.name.clone()),
            Self::Egress(egress) => (EndKind::Egress, egress.name.clone()),
        }
    }

    fn meter(&self) -> Meter {
        let (kind, name) = self.key();
        match self {
            Self::Ingest(one) => Meter::new(kind, name, one.stream.clone(), one.from.clone()),
            Self::Egress(one) => Meter::new(kind, name, one.stream.clone(), one.to.clone()),
        }
    }

    fn is_enabled(&self) -> bool {
        match self {
            Self::Ingest(ingest) => ingest.enabled,
            Self::Egress(egress) => egress.enabled,
        }
    }
}

impl Supervisor {
    pub(crate) fn new(
        ends: Ends,
        handle: Handle,
        config: &Config,
        orders: mpsc::UnboundedReceiver<Order>,
    ) -> Self {
        Self {
            ends,
            handle,
            specs: Spec::all(config),
            orders,
            running: BTreeMap::new(),
            leftovers: mpsc::unbounded_channel(),
            ending: JoinSet::new(),
        }
    }

    /// Runs the configured inputs and outputs until the node stops; then ends their streams.
    pub(crate) async fn run(mut self: Box<Self>, mut stopping: watch::Receiver<bool>) {
        let specs = std::mem::take(&mut self.specs);
        self.apply(specs);
        loop {
            tokio::select! {
                Some(order) = self.orders.recv() => self.handle_order(order),
                Some(left) = self.leftovers.1.recv() => self.end(left),
                Some(_) = self.ending.join_next() => {}
                _ = stopping.wait_for(|stop| *stop) => break,
            }
        }
        let running = std::mem::take(&mut self.running);
        for one in running.values() {
            one.stop.send_replace(true);
        }
        for mut one in running.into_values() {
            if let Some(task) = one.task.take() {
                // It has reported its own failure.
                let _ = task.await;
            }
        }
        while let Ok(left) = self.leftovers.1.try_recv() {
            self.end(left);
        }
        while self.ending.join_next().await.is_some() {}
    }

    /// Ends the stream of an input that is gone: its subscribers wait for the next of the name.
    fn end(&mut self, left: Publisher) {
        self.ending.spawn(alone(async move {
            left.cut_off().await;
        }));
    }

    fn handle_order(&mut self, order: Order) {
        // A program that does not wait for its answer needs none.
        match order {
            Order::Check { config, reply } => drop(reply.send(self.ends.check(&config))),
            Order::Apply { config, reply } => drop(reply.send(self.apply(Spec::all(&config)))),
            Order::Set {
                kind,
                name,
                runs,
                reply,
            } => drop(reply.send(self.set(kind, &name, runs))),
        }
    }

    /// Starts new ones, stops removed ones, restarts changed ones; returns a phrase about each.
    fn apply(&mut self, specs: Vec<Spec>) -> Vec<String> {
        let wanted: BTreeMap<_, Spec> = specs.into_iter().map(|spec| (spec.key(), spec)).collect();
        let mut applied = Vec::new();
        let gone = self
            .running
            .extract_if(.., |key, _| !wanted.contains_key(key));
        for ((kind, name), one) in gone {
            one.stop.send_replace(true);
            applied.push(format!("{} `{name}` removed", kind.name()));
        }
        for (key, spec) in wanted {
            let (kind, name) = (key.0.name(), key.1.clone());
            match self.running.get_mut(&key) {
                Some(one) if one.spec == spec => continue,
                Some(one) => {
                    one.stop.send_replace(true);
                    one.spec = spec;
                    applied.push(format!("{kind} `{name}` changed"));
                }
                None => {
                    let (stop, _) = watch::channel(true);
                    let (meter, task) = (Arc::new(spec.meter()), None);
                    let one = Running {
                        spec,
                        meter,
                        stop,
                        task,
                    };
                    self.running.insert(key.clone(), one);
                    applied.push(format!("{kind} `{name}` added"));
                }
            }
            self.renew(&key);
        }
        let meters = self.running.values().map(|one| Arc::clone(&one.meter));
        self.handle.board.show(meters.collect());
        applied
    }

    /// Starts one with an entry that is new or changed, if it is to run.
    fn renew(&mut self, key: &(EndKind, StreamName)) {
        if let Some(one) = self.running.get_mut(key) {
            one.meter = Arc::new(one.spec.meter());
            if one.spec.is_enabled() {
                self.start(key);
            }
        }
    }

    fn set(&mut self, kind: EndKind, name: &StreamName, runs: bool) -> Result<String, String> {
        let (key, kind) = ((kind, name.clone()), kind.name());
        let Some(one) = self.running.get(&key) else {
            let of_kind = self.running.keys().filter(|(other, _)| *other == key.0);
            let names: Vec<String> = of_kind.map(|(_, name)| format!("`{name}`")).collect();
            let known = if names.is_empty() {
                format!("its configuration has no [[{kind}]]")
            } else {
                format!("there are {}", names.join(", "))
            };
            return Err(format!(
                "no {kind} of this node is called `{name}`: {known}"
            ));
        };
        // One that has ended by itself is started again; one that waits to retry, at once.
        let is_active = one.task.as_ref().is_some_and(|task| !task.is_finished());
        let retries = one.meter.is_retrying();
        if runs && is_active && !retries {
            return Ok(format!("{kind} `{name}` runs already"));
        }
        one.stop.send_replace(true);
        if !runs {
            return Ok(format!("{kind} `{name}` is stopped"));
        }
        self.start(&key);
        Ok(format!("{kind} `{name}` is started"))
    }

    /// Starts one, after the task that it replaces has ended.
    fn start(&mut self, key: &(EndKind, StreamName)) {
        let Some(one) = self.running.get_mut(key) else {
            return;
        };
        let (stop, stopping) = watch::channel(false);
        one.stop = stop;
        one.meter.enter(Phase::Starting);
        let former = one.task.take();
        let work = Work {
            ends: self.ends.clone(),
            spec: one.spec.clone(),
            handle: self.handle.clone(),
            meter: Arc::clone(&one.meter),
            leftovers: self.leftovers.0.clone(),
            stopping,
        };
        let task = async move {
            if let Some(former) = former {
                let _ = former.await;
            }
            work.supervise().await;
        };
        one.task = Some(tokio::spawn(alone(task)));
    }
}

/// The task of one input or output.
struct Work {
    ends: Ends,
    spec: Spec,
    handle: Handle,
    meter: Arc<Meter>,
    leftovers: mpsc::UnboundedSender<Publisher>,
    stopping: watch::Receiver<bool>,
}

impl Work {
    async fn supervise(mut self) {
        let (kind, name) = self.spec.key();
        let mut pause = PAUSE_FIRST;
        loop {
            self.meter.enter(Phase::Starting);
            let begun = Instant::now();
            let Some(ended) = self.run_once().await else {
                break;
            };
            let Err(error) = ended else {
                info!("{} `{name}` has ended", kind.name());
                return self.meter.enter(Phase::Ended);
            };
            if begun.elapsed() >= PAUSE_LAST {
                pause = PAUSE_FIRST;
            }
            let reason = sentence(&*error);
            warn!("{} `{name}`: {reason}; again in {pause:?}", kind.name());
            self.meter.fail(&reason, Instant::now() + pause);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = self.stopping.wait_for(|stop| *stop) => break,
            }
            pause = (pause * 2).min(PAUSE_LAST);
        }
        info!("{} `{name}` is stopped", kind.name());
        self.meter.enter(Phase::Stopped);
    }

    /// Runs it until its end; `None` if it was stopped.
    async fn run_once(&mut self) -> Option<Result<(), Box<dyn Error + Send + Sync>>> {
        let patience = match self.spec {
            // What an input has not read stays with its source.
            Spec::Ingest(_) => Duration::ZERO,
            Spec::Egress(_) => STOP_MAX,
        };
        let mut run = std::pin::pin!(caught(self.run()?));
        tokio::select! {
            biased;
            _ = self.stopping.wait_for(|stop| *stop) => {}
            ended = &mut run => return Some(ended),
        }
        let _ = tokio::time::timeout(patience, run).await;
        None
    }

    /// Returns the running input or output; it was checked before that there is one for its URL.
    fn run(&self) -> Option<Run> {
        let (handle, meter) = (self.handle.clone(), Arc::clone(&self.meter));
        Some(match &self.spec {
            Spec::Ingest(ingest) => self.ends.input(&ingest.from)?.run(Entry {
                ingest: Arc::clone(ingest),
                handle,
                meter,
                leftovers: self.leftovers.clone(),
            }),
            Spec::Egress(egress) => self.ends.output(&egress.to)?.run(Exit {
                egress: Arc::clone(egress),
                handle,
                meter,
                stopping: self.stopping.clone(),
                subscriber: None,
                of: None,
                description: None,
                is_asked: false,
                is_waiting: false,
            }),
        })
    }
}

/// Turns a panic into a failure.
async fn caught(mut run: Run) -> Result<(), Box<dyn Error + Send + Sync>> {
    let polled = std::future::poll_fn(move |context| {
        // What the panic left half changed is dropped.
        let polled = catch_unwind(AssertUnwindSafe(|| run.as_mut().poll(context)));
        polled
            .unwrap_or_else(|_| std::task::Poll::Ready(Err("it has panicked: see the log".into())))
    });
    polled.await
}

/// Returns an error with its causes.
fn sentence(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}
