//! Streams of one clock, received together.
//!
//! *The idea.* A task for each stream receives, so that reading one is never cut off by another, and hands
//! what comes to the machine that orders it ([`Aligner`]). It works over subscribers of this process and
//! of the local socket alike.

use std::future::Future;

use thalweg_base::adu::Adu;
use thalweg_base::description::Description;
use thalweg_base::time::Duration;
use thalweg_dataplane::align::{Aligned, Aligner};
use thalweg_net::Clock;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{Subscriber, SubscriberEvent};

/// Events between the tasks and the machine: the tasks stop to read when it is full.
const EVENTS_MAX: usize = 64;

/// A subscription that can be received together with others.
pub trait Receive: Send + 'static {
    /// Why receiving fails.
    type Error: Send + 'static;

    /// Returns the next event; `None` when the stream has ended.
    fn receive(
        &mut self,
    ) -> impl Future<Output = Result<Option<SubscriberEvent>, Self::Error>> + Send;

    /// Returns what the stream of the last ADU carries, if that is known.
    fn described(&self) -> Option<&Description> {
        None
    }
}

impl Receive for Subscriber {
    type Error = std::convert::Infallible;

    async fn receive(&mut self) -> Result<Option<SubscriberEvent>, Self::Error> {
        Ok(self.recv().await)
    }
}

/// An event of subscriptions that are received together; a lane is the number of a subscription.
#[derive(Clone, Debug)]
pub enum AlignedEvent {
    /// An ADU, a gap, or a lane that shows nothing.
    Aligned(Aligned),
    /// A sentence about a subscription.
    Notice {
        /// The lane.
        lane: usize,
        /// The sentence.
        text: String,
    },
    /// What a lane's next ADUs carry.
    Described {
        /// The lane.
        lane: usize,
        /// What its source says.
        description: Description,
    },
}

/// What a lane's task reports.
enum Report<E> {
    Adu(Adu),
    Notice(String),
    Described(Description),
    Ended,
    Failed(E),
}

/// Receives several streams in the order of their media times.
pub struct AlignedSubscriber<R: Receive> {
    aligner: Aligner,
    clock: Clock,
    reports: mpsc::Receiver<(usize, Report<R::Error>)>,
    /// They end with this.
    tasks: JoinSet<()>,
}

impl<R: Receive> AlignedSubscriber<R> {
    /// Receives these subscriptions together; one of which nothing comes holds up the others for
    /// `wait`. Each must deliver in sequence.
    pub fn new(lanes: Vec<R>, wait: Duration) -> Self {
        let (tasks, reports, count) = receive_all(lanes);
        Self {
            aligner: Aligner::new(count, wait),
            clock: Clock::start(),
            reports,
            tasks,
        }
    }

    /// Goes on with new subscriptions to the same streams, in the same order.
    pub fn resume(&mut self, lanes: Vec<R>) {
        let (tasks, reports, _) = receive_all(lanes);
        (self.tasks, self.reports) = (tasks, reports);
    }

    /// Returns the next event; `None` when all streams have ended.
    ///
    /// Fails   if a subscription does; see [`Self::resume`]
    ///
    /// Cancel safe: nothing is lost.
    pub async fn recv(&mut self) -> Result<Option<AlignedEvent>, R::Error> {
        loop {
            if let Some(aligned) = self.aligner.poll_aligned(self.clock.now()) {
                return Ok(Some(AlignedEvent::Aligned(aligned)));
            }
            if self.aligner.is_over() {
                return Ok(None);
            }
            let report = match self.aligner.poll_timeout() {
                None => self.reports.recv().await,
                Some(timeout) => tokio::select! {
                    report = self.reports.recv() => report,
                    () = self.clock.sleep_until(timeout) => continue,
                },
            };
            // All tasks have ended, and each has said so before.
            let Some((lane, report)) = report else {
                return Ok(None);
            };
            match report {
                Report::Adu(adu) => self.aligner.handle_adu(lane, adu, self.clock.now()),
                Report::Ended => self.aligner.handle_end(lane),
                Report::Notice(text) => return Ok(Some(AlignedEvent::Notice { lane, text })),
                Report::Described(description) => {
                    return Ok(Some(AlignedEvent::Described { lane, description }));
                }
                Report::Failed(error) => return Err(error),
            }
        }
    }
}

type Reports<E> = mpsc::Receiver<(usize, Report<E>)>;

fn receive_all<R: Receive>(lanes: Vec<R>) -> (JoinSet<()>, Reports<R::Error>, usize) {
    let (sender, reports) = mpsc::channel(EVENTS_MAX);
    let mut tasks = JoinSet::new();
    let count = lanes.len();
    for (lane, subscriber) in lanes.into_iter().enumerate() {
        tasks.spawn(receive(lane, subscriber, sender.clone()));
    }
    (tasks, reports, count)
}

/// Reports what a subscription delivers, until it ends.
async fn receive<R: Receive>(
    lane: usize,
    mut subscriber: R,
    reports: mpsc::Sender<(usize, Report<R::Error>)>,
) {
    let mut known: Option<Description> = None;
    loop {
        let report = match subscriber.receive().await {
            Ok(Some(SubscriberEvent::Adu(adu))) => {
                if subscriber.described() != known.as_ref() {
                    known = subscriber.described().cloned();
                    let description = known.clone().unwrap_or_default();
                    let described = (lane, Report::Described(description));
                    if reports.send(described).await.is_err() {
                        return;
                    }
                }
                Report::Adu(adu)
            }
            Ok(Some(SubscriberEvent::Notice(text))) => Report::Notice(text),
            Ok(None) => Report::Ended,
            Err(error) => Report::Failed(error),
        };
        let is_last = matches!(report, Report::Ended | Report::Failed(_));
        // The reader is gone.
        if reports.send((lane, report)).await.is_err() || is_last {
            return;
        }
    }
}
