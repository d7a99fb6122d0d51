//! The producer's end of a stream.

use std::time::Duration as StdDuration;

use bytes::Bytes;
use thalweg_core::adu::{Adu, Flags, Header, Importance, MediaTime};
use thalweg_core::event::DropCause;
use thalweg_core::id::{Epoch, Sequence, StreamId, StreamName};
use thalweg_core::limits::ADU_PAYLOAD_BYTES_MAX;
use thalweg_core::needs::{Needs, Reliability};
use thalweg_core::session::KEEP_AGE_MAX;
use thalweg_core::time::{Duration, Instant};
use thalweg_lift::route;
use tokio::sync::watch;

use super::{Handle, Losses, PublishError, Sendable};
use crate::control::{Command, Input, Published};
use crate::forward::StreamReading;
use crate::status::LedgerStatus;

/// How long the end of a stream waits for what is under way without a deadline, and for room for what it says itself.
pub(crate) const FINISH_MAX: StdDuration = StdDuration::from_secs(30);

/// How long the end of a stream waits for a sink to have something new: longer than a dead link takes to leave the map (8 s). How long
/// it does in all is bounded by their pace ([`thalweg_core::session::Keep::poll_acknowledged`]).
const LINGER_MAX: Duration = Duration::from_secs(10);

/// The same for a stream that must be whole: as long as what is kept of it may be sent again.
const LINGER_FULL_MAX: Duration = KEEP_AGE_MAX;

/// How long the end of a stream waits for the last accounts of its nodes: a report each second, and the way.
const ACCOUNTS_MAX: StdDuration = StdDuration::from_secs(2);

/// How long it is looked whether something that was lost is taken back after all: sinks tell at the end of a stream what
/// they have, but 730 ms after their last word where that was a moment ago, and a relay may keep it for 300 ms.
const TAKEN_BACK_MAX: StdDuration = StdDuration::from_secs(1);

/// How often it is looked whether they have come.
const ACCOUNTS_LOOK: StdDuration = StdDuration::from_millis(25);

/// Puts ADUs on a stream.
pub struct Publisher {
    handle: Handle,
    name: StreamName,
    needs: Needs,
    published: Published,
    sequence: u64,
    layers: usize,
    finished: bool,
}

/// An ADU as its producer describes it; stream, sequence, plan and deadline are filled in.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// When it is due in the medium.
    pub media_time: MediaTime,
    /// How much it matters.
    pub importance: Importance,
    /// Its layer.
    pub layer: u8,
    /// What is true of it.
    pub flags: Flags,
    /// How many sequences back the ADU lies that it needs; 0 for none.
    pub depends_on: u32,
    /// Its payload.
    pub payload: Bytes,
}

/// What became of a stream's ADUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct PublishSummary {
    /// ADUs that the producer gave.
    pub produced: u64,
    /// The counters of the producer's node.
    #[serde(flatten)]
    pub counts: StreamReading,
    /// What the nodes of its path say.
    pub ledger: LedgerStatus,
}

impl Outgoing {
    /// Checks what a program says of its ADU of this number, on a stream of so many layers: nobody after this
    /// does.
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
            format!("it is of layer {}, and the stream has {layers}", self.layer)
        } else if u64::from(self.depends_on) > sequence {
            format!(
                "it depends on the ADU {} before it, and there are {sequence}",
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

    /// Returns the stream's eight bytes on the wire.
    pub const fn stream(&self) -> StreamId {
        self.published.stream
    }

    /// Returns whether a plan serves at least one subscriber now.
    pub fn is_wanted(&self) -> bool {
        !self.published.active.borrow().is_empty()
    }

    /// Waits until a plan serves at least one subscriber.
    ///
    /// Fails   the node stopped
    pub async fn wanted(&mut self) -> Result<(), PublishError> {
        let wanted = self
            .published
            .active
            .wait_for(|epochs| !epochs.is_empty())
            .await;
        wanted.map(drop).map_err(|_| PublishError::Stopped)
    }

    /// Returns a watch on the plans in force, for who wants to know of a change.
    pub fn plans(&self) -> watch::Receiver<Vec<Epoch>> {
        self.published.active.clone()
    }

    /// Returns what follows how fast the stream can be sent, for an encoder in a task of its own.
    pub fn sendable(&self) -> Sendable {
        let forwarder = std::sync::Arc::clone(&self.handle.forwarder);
        Sendable::new(forwarder, self.published.stream, self.plans())
    }

    /// Returns what follows which of the stream's ADUs did not arrive, where and why.
    pub fn losses(&self) -> Losses {
        let losses = self.published.losses.upgrade();
        Losses::new(losses.map(|losses| losses.subscribe()))
    }

    /// Sends an ADU under every plan in force; without one it is dropped, and counted, unless the stream's needs say that it is
    /// held.
    ///
    /// Waits while too many are under way; what has a deadline ends by it, so such a wait is short.
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

    /// Returns what became of the ADUs so far, as the nodes of the path have told by now.
    pub async fn summary(&self) -> PublishSummary {
        self.known(false).await.0
    }

    /// Returns the same, and whether it is known how much was given by the plans that brought the end, if it was sent. The last
    /// that is asked goes by what the sinks say that they have as well, for no more of what nodes tell is waited for.
    async fn known(&self, is_last: bool) -> (PublishSummary, bool) {
        let ledger = self.handle.ask(|reply| Command::Ledger {
            stream: self.published.stream,
            ended: self.published.outlet.ended(),
            is_last,
            reply,
        });
        // A node that has stopped says no more.
        let (ledger, knows_given) = ledger.await.unwrap_or((None, true));
        let summary = PublishSummary {
            produced: self.sequence,
            counts: self.published.outlet.counts().reading(),
            ledger: ledger.unwrap_or_default(),
        };
        (summary, knows_given)
    }

    /// Waits until it is known what became of every ADU, or must be; returns the summary.
    async fn settled_summary(&self) -> PublishSummary {
        let begin = tokio::time::Instant::now();
        loop {
            let (summary, knows_given) = self.known(false).await;
            let ledger = &summary.ledger;
            let mut lost = ledger.losses.iter().map(|loss| loss.cause);
            let is_revocable = lost.any(|cause| cause != DropCause::NoSubscriber.name());
            let least = if is_revocable {
                TAKEN_BACK_MAX
            } else {
                StdDuration::ZERO
            };
            let passed = begin.elapsed();
            let is_known = knows_given && ledger.open == 0;
            if is_known && passed >= least || passed >= ACCOUNTS_MAX {
                return self.known(true).await.0;
            }
            tokio::time::sleep(ACCOUNTS_LOOK).await;
        }
    }

    /// Returns how long the end of the stream waits for a sink to have something new.
    fn linger(&self) -> Duration {
        let usual = match self.needs.reliability {
            Reliability::Full => LINGER_FULL_MAX,
            Reliability::None | Reliability::UntilDeadline | Reliability::Repaired => LINGER_MAX,
        };
        usual.max(self.needs.hold)
    }

    /// Returns how many ADUs, the first, need not be given again if the node is lost now: the next node has
    /// them, or they are given up. It may be more that have ended, for they end in any order.
    pub(crate) fn settled(&self) -> u64 {
        self.sequence
            .saturating_sub(self.published.outlet.unsettled())
    }

    /// Returns what frees the stream's name though the stream still ends, for when its program is gone.
    pub(crate) fn release(&self) -> impl Future<Output = ()> + Send + use<> {
        let inputs = self.handle.inputs.clone();
        let stream = self.published.stream;
        async move {
            // A node that has stopped has no names.
            let _ = inputs.send(Input::Command(Command::Drain { stream })).await;
        }
    }

    /// Ends the stream: waits for what is under way and for its sinks' word, tells the subscribers, and withdraws the
    /// announcement.
    pub async fn finish(self) -> PublishSummary {
        let end = route::end(self.header());
        self.end(end).await
    }

    /// Leaves the stream without ending it: its name is free at once, what was given is still carried to the
    /// sinks that it has, and its subscribers are told that it is not complete, and wait for the next of its
    /// name.
    pub async fn cut_off(self) -> PublishSummary {
        self.release().await;
        let end = route::cut_off(self.header());
        self.end(end).await
    }

    /// Returns the header of the ADU that follows.
    const fn header(&self) -> Header {
        Header::new(self.published.stream, Sequence(self.sequence))
    }

    async fn end(mut self, end: Adu) -> PublishSummary {
        let mut plans = self.plans();
        tokio::select! {
            () = self.drain(end) => {}
            // The node has withdrawn the stream, for others lack its room.
            _ = plans.wait_for(|_| false) => {}
        }
        // Asked before the stream is withdrawn, for its accounts go with it.
        let summary = self.settled_summary().await;
        self.finished = true;
        let command = Command::Unpublish {
            stream: self.published.stream,
        };
        // A node that has stopped has withdrawn it already.
        let _ = self.handle.inputs.send(Input::Command(command)).await;
        summary
    }

    /// Waits until the sinks have what was given, and its end, or for as long as that is waited for.
    async fn drain(&self, end: Adu) {
        let outlet = std::sync::Arc::clone(&self.published.outlet);
        let counts = outlet.counts();
        // A stream may be over before the plan of a sink that waits for it is in force.
        outlet.opening_settled().await;
        // What has a deadline settles by it; without one, a link that has stopped moving must not hold us for ever.
        let _ = tokio::time::timeout(FINISH_MAX, counts.settled(0)).await;
        // A sink that has stopped reading holds up its end like anything else.
        let ended = tokio::time::timeout(FINISH_MAX, self.carry(end)).await;
        if matches!(ended, Ok(Ok(()))) {
            let _ = tokio::time::timeout(FINISH_MAX, counts.settled(0)).await;
            outlet.settled(self.linger()).await;
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
            // A full queue would need waiting, which a drop cannot: the control task sees the watch close at its next
            // tick.
            let _ = self.handle.inputs.try_send(Input::Command(command));
        }
    }
}
