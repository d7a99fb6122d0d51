//! `thalweg subscribe PATTERN --to DIR/`: every stream that matches, each into a file of its own.
//!
//! *The idea.* The node reports the names that match, and reports them again when they change. Each name
//! is received by a task with a connection of its own, so that a stream that is slow, ends or cannot be
//! written disturbs no other. A name whose stream has ended is received again while it is still, or
//! again, published; its file goes on.
//!
//! ```text
//! names ─► joined ─► task: subscribe, write DIR/name.ext ─► ended, failed or node gone
//!             ▲                                                   │
//!             └────────── a second later, if still published ◄────┘
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use thalweg_base::id::StreamName;
use thalweg_io::url::End;
use thalweg_node::local::{Client, LocalMatching};
use thalweg_node::{Selection, SubscribeOptions};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, MissedTickBehavior, interval, timeout};

use super::Arguments;
use super::drops::{Drops, Following};
use super::received::{Received, Stop, Target};
use super::wishes::Pull;
use crate::exit::{Code, Failure, OrCode as _, Outcome, fail};
use crate::lasting::{self, Backoff};
use crate::progress::{Progress, size};
use crate::selection;
use crate::shutdown::Shutdown;
use crate::terminal;

/// Connections that wait for the node's answer at once: it closes the oldest of more than 64.
const ASKING_MAX: usize = 16;

/// How long a stream that has ended is left alone: until then its announcement may be withdrawn.
const REST: Duration = Duration::from_secs(1);

/// Names that a sentence about left-out streams shows.
const SHOWN_MAX: usize = 3;

/// What a task returns: the stream and its file, to go on with.
struct Done {
    name: StreamName,
    stream: Received,
    /// Why it stopped; `Ok` at the end of the stream.
    end: Result<(), Stop>,
}

/// All streams of the pattern.
struct Streams<'a> {
    arguments: &'a Arguments,
    folder: &'a Path,
    progress: Arc<Progress>,
    asking: Arc<Semaphore>,
    dropped: Option<Drops>,
    tasks: JoinSet<Done>,
    /// The names that the node reported last.
    published: BTreeSet<StreamName>,
    /// Names that are received now.
    joined: BTreeSet<StreamName>,
    /// Streams that are not received now, and when they may be again.
    resting: BTreeMap<StreamName, (Received, Instant)>,
    /// Names that could not be written or were refused, and are not tried again.
    failed: BTreeSet<StreamName>,
    /// Ends all tasks.
    stop: watch::Sender<bool>,
    /// Number of names that were left out when it was last reported.
    left_out: usize,
}

/// Receives all streams that match until a request to stop.
pub(super) async fn receive(arguments: &Arguments) -> Outcome {
    let End::File(folder) = &arguments.to else {
        let sentence = format!(
            "`{}` matches several streams, each with a file of its own: give a folder, such as --to DIR/",
            arguments.name
        );
        return fail(Code::BadInput, sentence);
    };
    std::fs::create_dir_all(folder)
        .map_err(|error| {
            anyhow::Error::new(error).context(format!("{} is no folder", folder.display()))
        })
        .or_code(Code::BadInput)?;
    let mut shutdown = Shutdown::listen()?;
    let mut names = watch_names(arguments).await?;
    let mut streams = Streams::new(arguments, folder);
    streams.dropped = Drops::create(arguments.wishes.drops.as_ref()).await?;
    let outcome = tokio::select! {
        outcome = streams.run(&mut names) => outcome,
        () = shutdown.requested() => Ok(()),
    };
    let failed = streams.finish().await?;
    outcome?;
    if failed > 0 {
        let sentence = format!("{failed} of the streams could not be received or written");
        return fail(Code::Failed, sentence);
    }
    Ok(Code::Done)
}

fn selection_of(arguments: &Arguments) -> Selection {
    selection::of(&arguments.name, &arguments.labels)
}

async fn watch_names(arguments: &Arguments) -> Result<LocalMatching, Failure> {
    let client = arguments.socket.connect().await?;
    let names = client.watch(selection_of(arguments)).await;
    names.or_code(Code::Failed)
}

impl<'a> Streams<'a> {
    fn new(arguments: &'a Arguments, folder: &'a Path) -> Self {
        Self {
            arguments,
            folder,
            progress: Arc::new(Progress::start("receiving", false)),
            asking: Arc::new(Semaphore::new(ASKING_MAX)),
            dropped: None,
            tasks: JoinSet::new(),
            published: BTreeSet::new(),
            joined: BTreeSet::new(),
            resting: BTreeMap::new(),
            failed: BTreeSet::new(),
            stop: watch::Sender::new(false),
            left_out: 0,
        }
    }

    /// Joins names as they appear; returns only if the node is gone for good or refuses.
    async fn run(&mut self, names: &mut LocalMatching) -> Result<(), Failure> {
        let mut ticks = interval(REST);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let reported = {
                // Dropping a half-finished read loses its bytes, so it stays pinned.
                let reported = names.recv();
                tokio::pin!(reported);
                loop {
                    tokio::select! {
                        reported = &mut reported => break reported,
                        Some(done) = self.tasks.join_next() => self.handle_done(done?),
                        _ = ticks.tick() => self.join_due(),
                    }
                }
            };
            match reported {
                Ok(reported) => self.handle_names(reported),
                Err(error) if !lasting::is_gone(&error) => return Err(error.into()),
                Err(error) if self.arguments.lasting.no_reconnect => return Err(error.into()),
                Err(_) => *names = self.reconnect().await?,
            }
        }
    }

    fn handle_names(&mut self, names: Vec<StreamName>) {
        if self.published.is_empty() && names.is_empty() {
            let pattern = &self.arguments.name;
            self.progress
                .notify(&format!("no stream matches {pattern} yet; waiting"));
        }
        self.published = names.into_iter().collect();
        self.join_due();
        self.report_left_out();
    }

    /// Joins names that are not received, unless they have failed or must rest.
    fn join_due(&mut self) {
        let now = Instant::now();
        let is_due = |name: &&StreamName| {
            let rested = self
                .resting
                .get(*name)
                .is_none_or(|(_, again)| *again <= now);
            rested && !self.failed.contains(*name)
        };
        let due: Vec<StreamName> = self
            .published
            .difference(&self.joined)
            .filter(is_due)
            .cloned()
            .collect();
        for name in due {
            self.join(name);
        }
    }

    /// Starts to receive a stream, if there is room for one more.
    fn join(&mut self, name: StreamName) {
        if self.joined.len() >= usize::from(self.arguments.at_most) {
            return;
        }
        let known = self.resting.remove(&name).map(|(stream, _)| stream);
        let stream = known.unwrap_or_else(|| {
            let target = Target::Folder(self.folder.to_path_buf(), name.clone());
            Received::new(target, self.arguments.format)
        });
        let (progress, asking) = (Arc::clone(&self.progress), Arc::clone(&self.asking));
        let socket = self.arguments.socket.path();
        let (mailbox, mut pull) = (
            self.arguments.wishes.options(),
            self.arguments.wishes.pull(),
        );
        let dropped = self.dropped.clone();
        let mut stopped = self.stop.subscribe();
        self.joined.insert(name.clone());
        self.tasks.spawn(async move {
            let mut stream = stream;
            let receive = async {
                let socket = socket.map_err(Stop::Failed)?;
                let _following = match dropped {
                    Some(file) => Some(follow(&file, &socket, &name, &asking).await?),
                    None => None,
                };
                let options = SubscribeOptions::new(name.clone(), true).with_mailbox(mailbox);
                let parts = (&mut stream, &mut pull);
                receive_one(parts, &socket, options, &progress, &asking).await
            };
            // A message is written without a pause in between, so the file stays whole.
            let end = tokio::select! {
                end = receive => end,
                _ = stopped.wait_for(|stop| *stop) => Ok(()),
            };
            Done { name, stream, end }
        });
    }

    fn handle_done(&mut self, Done { name, stream, end }: Done) {
        self.joined.remove(&name);
        let mut again = Instant::now();
        match end {
            Ok(()) if *self.stop.borrow() => {}
            Ok(()) => {
                self.progress
                    .notify(&format!("{name} ended: {}", in_words(&stream)));
                again += REST;
            }
            // The watch of names notices as well, and brings the name back with the node.
            Err(Stop::Gone(_)) => {}
            Err(Stop::Failed(failure)) => self.handle_failed(&name, &failure),
        }
        self.resting.insert(name, (stream, again));
    }

    fn handle_failed(&mut self, name: &StreamName, failure: &Failure) {
        self.failed.insert(name.clone());
        let sentence = failure.sentence();
        self.progress
            .notify(&format!("{name}: {sentence}; the other streams go on"));
    }

    /// Reports how many names are left out because `--at-most` streams are received already.
    fn report_left_out(&mut self) {
        let room = usize::from(self.arguments.at_most);
        let wanted = self.published.iter();
        let wanted = wanted.filter(|name| !self.failed.contains(*name));
        let out: Vec<&StreamName> = wanted.filter(|name| !self.joined.contains(*name)).collect();
        if self.joined.len() < room || out.is_empty() {
            self.left_out = 0;
            return;
        }
        if out.len() > self.left_out {
            let shown: Vec<&str> = out
                .iter()
                .take(SHOWN_MAX)
                .map(|name| name.as_str())
                .collect();
            self.progress.notify(&format!(
                "{} streams match {}, and {room} are received at once: {}{} are left out (--at-most N, or a narrower pattern)",
                self.published.len(),
                self.arguments.name,
                shown.join(", "),
                if out.len() > shown.len() { " and more" } else { "" },
            ));
        }
        self.left_out = out.len();
    }

    /// Waits until the node is back, and watches the names again.
    async fn reconnect(&mut self) -> Result<LocalMatching, Failure> {
        let socket = self.arguments.socket.path()?;
        lasting::report_gone(&socket, |sentence| self.progress.notify(sentence));
        // The streams' own connections are gone as well, or will be.
        let mut backoff = Backoff::new();
        loop {
            backoff.wait().await;
            while let Some(done) = self.tasks.try_join_next() {
                self.handle_done(done?);
            }
            let watched = async {
                let client = Client::connect(&socket).await?;
                client.watch(selection_of(self.arguments)).await
            };
            match watched.await {
                Ok(names) => {
                    lasting::report_back(&socket, |sentence| self.progress.notify(sentence));
                    return Ok(names);
                }
                Err(error) if lasting::is_gone(&error) => tracing::debug!(%error, "not back"),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Ends all subscriptions, closes the files, and prints the summary. Returns the number of failures.
    async fn finish(mut self) -> Result<usize, Failure> {
        self.stop.send_replace(true);
        let stopping = async {
            while let Some(done) = self.tasks.join_next().await {
                self.handle_done(done?);
            }
            Ok::<(), Failure>(())
        };
        // A task that writes to a file system that hangs is not waited for.
        timeout(REST, stopping).await.unwrap_or(Ok(()))?;
        let (mut rows, mut missing) = (Vec::new(), 0);
        for (name, (mut stream, _)) in std::mem::take(&mut self.resting) {
            let mut report = super::report(&stream);
            report["name"] = json!(name);
            report["file"] = json!(stream.path());
            if let Err(error) = stream.finish().await {
                self.handle_failed(&name, &error.into());
            }
            missing += stream.missing();
            rows.push(report);
        }
        let progress = Arc::into_inner(self.progress);
        let passed = progress.map_or_else(String::new, Progress::finish);
        terminal::print_notice(&format!(
            "received {} streams: {passed}; missing {missing}",
            rows.len()
        ));
        if self.arguments.json {
            terminal::print(&format!("{}\n", json!({ "streams": rows })))?;
        }
        Ok(self.failed.len())
    }
}

/// Writes the drops of one of the streams.
async fn follow(
    file: &Drops,
    socket: &Path,
    name: &StreamName,
    asking: &Semaphore,
) -> Result<Following, Stop> {
    // Never closed.
    let _permit = asking.acquire().await;
    let following = file.follow(socket, name.clone()).await;
    following.map_err(|error| match error {
        error if lasting::is_gone(&error) => Stop::Gone(error),
        error => Stop::Failed(error.into()),
    })
}

/// Receives one of the streams until it ends.
async fn receive_one(
    (stream, pull): (&mut Received, &mut Pull),
    socket: &Path,
    options: SubscribeOptions,
    progress: &Progress,
    asking: &Semaphore,
) -> Result<(), Stop> {
    let name = options.name.clone();
    let subscribed = async {
        // Never closed.
        let _permit = asking.acquire().await;
        Client::connect(socket).await?.subscribe(options).await
    };
    let mut subscriber = match subscribed.await {
        Ok(subscriber) => subscriber,
        Err(error) if lasting::is_gone(&error) => return Err(Stop::Gone(error)),
        Err(error) => return Err(Stop::Failed(error.into())),
    };
    let notify = |sentence: &str| progress.notify(&format!("{name}: {sentence}"));
    let received = stream.receive(&mut subscriber, pull, progress, notify);
    received.await
}

/// Returns `12 ADUs, 3.4 kB in survey/gps.nmea`.
fn in_words(stream: &Received) -> String {
    let (adus, written) = (stream.counts().adus, size(stream.written()));
    match stream.path() {
        Some(path) => format!("{adus} ADUs, {written} in {}", path.display()),
        None => format!("{adus} ADUs"),
    }
}
