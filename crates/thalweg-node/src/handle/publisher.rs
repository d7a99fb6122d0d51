//! The producer's end of a stream.

use std::time::Duration as StdDuration;

use bytes::Bytes;
use thalweg_base::adu::{Adu, Flags, Header, Importance, MediaTime};
use thalweg_base::event::DropCause;
use thalweg_base::id::{Epoch, Sequence, StreamId, StreamName};
use thalweg_base::limits::ADU_PAYLOAD_BYTES_MAX;
use thalweg_base::needs::Needs;
use thalweg_base::time::Instant;
use thalweg_dataplane::{route, source};
use tokio::sync::watch;

use super::{Handle, Losses, PublishError, Sendable};
use crate::forward::StreamReading;
use crate::input::{Command, Input, Published};
use crate::status::LedgerStatus;

/// How long the end of a stream waits for ADUs without a deadline that are under way, and for room
/// for its end marker.
pub(crate) const FINISH_MAX: StdDuration = StdDuration::from_nanos(source::FINISH_MAX.as_nanos());

/// How long the end of a stream waits for the nodes' last accounts: one report interval of a
/// second, and the path.
const ACCOUNTS_MAX: StdDuration = StdDuration::from_secs(2);

/// How long a loss is watched for its withdrawal. Sinks report their final receipt at the end of a
/// stream, but up to 730 ms after a recent report, and a relay may delay it by 300 ms.
const WITHDRAWAL_MAX: StdDuration = StdDuration::from_secs(1);

/// How often to check for the last accounts.
const ACCOUNTS_POLL: StdDuration = StdDuration::from_millis(25);

/// Publishes ADUs on a stream.
pub struct Publisher {
    handle: Handle,
    name: StreamName,
    needs: Needs,
    published: Published,
    sequence: u64,
    layers: usize,
    finished: bool,
}

/// An ADU as its producer describes it; the publisher fills in stream, sequence, plan and deadline.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// Its presentation time in the medium.
    pub media_time: MediaTime,
    /// Its importance.
    pub importance: Importance,
    /// Its layer.
    pub layer: u8,
    /// `KEY` and `DISCARDABLE`; nodes set the others.
    pub flags: Flags,
    /// Distance in sequences to the ADU that it depends on; 0 for none.
    pub depends_on: u32,
    /// Its payload.
    pub payload: Bytes,
}

/// The fate of a stream's ADUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct PublishSummary {
    /// ADUs published by the producer.
    pub produced: u64,
    /// The counters of the producer's node.
    #[serde(flatten)]
    pub counts: StreamReading,
    /// The ledger, from the reports of the path's nodes.
    pub ledger: LedgerStatus,
}

impl Outgoing {
    /// Returns a message without a time of its own, of middle importance, which depends on no other.
    pub fn message(payload: Bytes) -> Self {
        Self {
            media_time: MediaTime::default(),
            importance: Importance(128),
            layer: 0,
            flags: Flags::NONE,
            depends_on: 0,
            payload,
        }
    }

    /// Checks the description of ADU number `sequence` on a stream of `layers` layers. No later
    /// stage checks it.
    fn check(&self, sequence: u64, layers: usize) -> Result<(), PublishError> {
        let (bytes, limit) = (self.payload.len(), ADU_PAYLOAD_BYTES_MAX);
        if bytes > limit {
            return Err(PublishError::TooLarge { bytes, limit });
        }
        let own = Flags::KEY.with(Flags::DISCARDABLE);
        let why = if self.flags.without(own) != Flags::NONE {
            format!(
                "its flags are {:#x}: a producer sets KEY ({:#x}) and DISCARDABLE ({:#x}), nodes set the others, and `finish` ends a stream",
                self.flags.bits(),
                Flags::KEY.bits(),
                Flags::DISCARDABLE.bits()
            )
        } else if usize::from(self.layer) >= layers {
            format!(
                "its layer is {}, and the stream has {layers} layers",
                self.layer
            )
        } else if u64::from(self.depends_on) > sequence {
            format!(
                "it depends on the ADU {} before it, and only {sequence} precede it",
                self.depends_on
            )
        } else {
            return Ok(());
        };
        Err(PublishError::BadAdu { sequence, why })
    }
}

impl Publisher {
    pub(super) const fn new(
        handle: Handle,
        name: StreamName,
        needs: Needs,
        layers: usize,
        published: Published,
    ) -> Self {
        Self {
            handle,
            name,
            needs,
            published,
            sequence: 0,
            layers,
            finished: false,
        }
    }

    /// Returns the stream's name.
    pub const fn name(&self) -> &StreamName {
        &self.name
    }

    /// Returns the stream's id: eight bytes on the wire.
    pub const fn stream(&self) -> StreamId {
        self.published.stream
    }

    /// Returns whether a plan serves at least one subscriber now.
    pub fn is_wanted(&self) -> bool {
        !self.published.active.borrow().is_empty()
    }

    /// Waits until a plan serves at least one subscriber.
    ///
    /// Fails   if the node stopped
    pub async fn wanted(&mut self) -> Result<(), PublishError> {
        let wanted = self
            .published
            .active
            .wait_for(|epochs| !epochs.is_empty())
            .await;
        wanted.map(drop).map_err(|_| PublishError::Stopped)
    }

    /// Returns a watch on the plans in force.
    pub fn plans(&self) -> watch::Receiver<Vec<Epoch>> {
        self.published.active.clone()
    }

    /// Returns a follower of the rate at which the stream can be sent, for an encoder in its own
    /// task.
    pub fn sendable(&self) -> Sendable {
        let forwarder = std::sync::Arc::clone(&self.handle.forwarder);
        Sendable::new(forwarder, self.published.stream, self.plans())
    }

    /// Returns a follower of the stream's losses: where and why.
    pub fn losses(&self) -> Losses {
        let losses = self.published.losses.upgrade();
        Losses::new(losses.map(|losses| losses.subscribe()))
    }

    /// Sends an ADU under every plan in force. Without one it is dropped and counted, unless the
    /// stream's needs have it held.
    ///
    /// Waits while too many ADUs are under way; a deadline bounds this wait for streams that have
    /// one.
    pub async fn send(&mut self, outgoing: Outgoing) -> Result<Sequence, PublishError> {
        outgoing.check(self.sequence, self.layers)?;
        let sequence = Sequence(self.sequence);
        let header = Header {
            stream: self.published.stream,
            sequence,
            epoch: Epoch(0),
            media_time: outgoing.media_time,
            importance: outgoing.importance,
            layer: outgoing.layer,
            depends_on: outgoing.depends_on,
            deadline: self.deadline(),
            flags: outgoing.flags,
        };
        self.carry(Adu {
            header,
            payload: outgoing.payload,
        })
        .await?;
        self.sequence += 1;
        Ok(sequence)
    }

    fn deadline(&self) -> Instant {
        self.handle.now() + self.needs.deadline
    }

    async fn carry(&self, adu: Adu) -> Result<(), PublishError> {
        let payload_bytes = adu.payload.len() as u64;
        let has_deadline = !adu.header.deadline.is_never();
        if self.published.active.has_changed().is_err() {
            return Err(PublishError::Stopped);
        }
        let outlet = &self.published.outlet;
        outlet.publish(adu).await;
        let window = route::window(payload_bytes, has_deadline);
        outlet.wait_window(window).await;
        Ok(())
    }

    /// Returns the summary so far, from the reports that have arrived by now.
    pub async fn summary(&self) -> PublishSummary {
        self.request_summary(false).await.0
    }

    /// Returns the summary, and whether the number of ADUs is known that the plans that carried the
    /// end have taken. The last call also counts the sinks' receipts, since no further report is
    /// waited for.
    async fn request_summary(&self, is_last: bool) -> (PublishSummary, bool) {
        let ledger = self.handle.ask(|reply| Command::Ledger {
            stream: self.published.stream,
            ended: self.published.outlet.ended(),
            is_last,
            reply,
        });
        // A stopped node reports no more.
        let (ledger, knows_given) = ledger.await.unwrap_or((None, true));
        let summary = PublishSummary {
            produced: self.sequence,
            counts: self.published.outlet.counts().reading(),
            ledger: ledger.unwrap_or_default(),
        };
        (summary, knows_given)
    }

    /// Waits until the fate of every ADU is known, or the time for that is over; returns the
    /// summary.
    async fn settled_summary(&self) -> PublishSummary {
        let started = tokio::time::Instant::now();
        loop {
            let (summary, knows_given) = self.request_summary(false).await;
            let ledger = &summary.ledger;
            let mut lost = ledger.losses.iter().map(|loss| loss.cause);
            let may_be_withdrawn = lost.any(|cause| cause != DropCause::NoSubscriber.name());
            let least = if may_be_withdrawn {
                WITHDRAWAL_MAX
            } else {
                StdDuration::ZERO
            };
            let elapsed = started.elapsed();
            let is_known = knows_given && ledger.pending == 0;
            if is_known && elapsed >= least || elapsed >= ACCOUNTS_MAX {
                return self.request_summary(true).await.0;
            }
            tokio::time::sleep(ACCOUNTS_POLL).await;
        }
    }

    /// Returns the number of leading ADUs that need not be published again if the node is lost now:
    /// the next node has them, or they were dropped. More ADUs may have ended, since they end in
    /// any order.
    pub(crate) fn settled(&self) -> u64 {
        self.sequence
            .saturating_sub(self.published.outlet.unsettled())
    }

    /// Returns a future that frees the stream's name while the stream still ends, for a program
    /// that has exited.
    pub(crate) fn release(&self) -> impl Future<Output = ()> + Send + use<> {
        let inputs = self.handle.inputs.clone();
        let stream = self.published.stream;
        async move {
            // A stopped node holds no names.
            let _ = inputs.send(Input::Command(Command::Drain { stream })).await;
        }
    }

    /// Ends the stream: waits for ADUs under way and the sinks' receipts, notifies the subscribers,
    /// and withdraws the announcement.
    pub async fn finish(self) -> PublishSummary {
        let end = route::end(self.header());
        self.end(end).await
    }

    /// Leaves the stream without finishing it. Its name is free at once, and what was published is
    /// still carried to its sinks. The subscribers learn that the stream is incomplete, and wait
    /// for the next of its name.
    pub async fn cut_off(self) -> PublishSummary {
        self.release().await;
        let end = route::cut_off(self.header());
        self.end(end).await
    }

    /// Returns the header of the next ADU.
    const fn header(&self) -> Header {
        Header::new(self.published.stream, Sequence(self.sequence))
    }

    async fn end(mut self, end: Adu) -> PublishSummary {
        let mut plans = self.plans();
        tokio::select! {
            () = self.drain(end) => {}
            // The node withdraws the stream if others need its room.
            _ = plans.wait_for(|_| false) => {}
        }
        // Before the stream is withdrawn, since that removes its accounts.
        let summary = self.settled_summary().await;
        self.finished = true;
        let command = Command::Unpublish {
            stream: self.published.stream,
        };
        // A stopped node has withdrawn the stream already.
        let _ = self.handle.inputs.send(Input::Command(command)).await;
        summary
    }

    /// Waits until the sinks have all ADUs and the end, or the time for that is over.
    async fn drain(&self, end: Adu) {
        let outlet = std::sync::Arc::clone(&self.published.outlet);
        let lane = outlet.lane();
        // The stream may end before the plan of a waiting sink is in force.
        outlet.opening_settled().await;
        // ADUs with a deadline settle by it. The timeout bounds the wait for others on a stalled
        // link.
        let _ = tokio::time::timeout(FINISH_MAX, lane.settled(0)).await;
        // A sink that has stopped reading blocks the end marker as well.
        let ended = tokio::time::timeout(FINISH_MAX, self.carry(end)).await;
        if matches!(ended, Ok(Ok(()))) {
            let _ = tokio::time::timeout(FINISH_MAX, lane.settled(0)).await;
            outlet.settled().await;
            let flushed = self.handle.forwarder.flush(self.published.stream);
            let _ = tokio::time::timeout(FINISH_MAX, flushed).await;
        }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        if !self.finished {
            let command = Command::Unpublish {
                stream: self.published.stream,
            };
            // A drop cannot wait for a full queue; the control task sees the watch close at its
            // next tick.
            let _ = self.handle.inputs.try_send(Input::Command(command));
        }
    }
}
