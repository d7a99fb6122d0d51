//! Inputs of local programs and of the data path: streams that are published, wanted, counted, traced.

use alloc::string::String;
use alloc::vec::Vec;

use thalweg_base::id::{Epoch, NodeId, Sequence, StreamId, StreamName};
use thalweg_base::seen::{Held, News};
use thalweg_base::time::{Duration, Instant};
use thalweg_base::trace::Traced;

use super::{Controller, EndCause, Keys, Publication, PublishError, Sequel};
use crate::ledger::Counts;
use crate::session::Part;
use crate::sinks::Follows;
use crate::tracing;

impl Controller {
    /// Handles a sequence above everything that was sent before the plans of the last
    /// [`Output::Active`] took effect at the driver.
    ///
    /// [`Output::Active`]: super::Output::Active
    pub fn handle_next(
        &mut self,
        stream: StreamId,
        next: Sequence,
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        if self.owners.sources.handle_next(stream, next) {
            self.settle(now, keys);
        }
    }

    /// Handles the counters of a plan since its part was installed.
    ///
    /// [`Epoch`] 0 stands for what a producer on this node sent under no plan. The driver calls this
    /// periodically; at once when another mark is counted or the end of a stream is copied; for the due
    /// accounts ([`Accounting::due`]) before [`Controller::handle_timeout`]; and for the plan of
    /// an account frame ([`thalweg_base::wire::control::accounted`]) before it hands the frame over.
    ///
    /// [`Accounting::due`]: super::Accounting::due
    pub fn handle_counts(&mut self, stream: StreamId, epoch: Epoch, counts: &Counts, now: Instant) {
        self.act(now, |owners, facts, turn| {
            owners.handle_counts(turn, facts, (stream, epoch), counts);
        });
        self.carry_out_plain();
    }

    /// Bases the accounts of these plans also on the sinks' receipts: their paths are broken, or
    /// further reports of the nodes are not awaited.
    pub fn go_by_receipts(&mut self, stream: StreamId, plans: &[Epoch]) {
        self.owners.accounting.go_by_receipts(stream, plans);
    }

    /// Handles how many of the ADUs that went by a plan its sink lacks, though it has later ones.
    ///
    /// ADUs of a `full` stream keep their order on every hop, and none may be left out: one that
    /// was passed over is no longer in flight.
    pub fn handle_missing(
        &mut self,
        plan: (StreamId, Epoch),
        missing: u64,
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        let is_news = self.act(now, |owners, facts, turn| {
            owners.handle_missing(turn, facts, plan, missing)
        });
        if is_news {
            self.settle(now, keys);
        }
    }

    /// Handles what has arrived of a stream that ends here. The driver calls this together with its
    /// counts, and before [`Controller::handle_installed`]. Large progress and the end of a stream
    /// are reported at once, the end with the final counts.
    pub fn handle_held(&mut self, stream: StreamId, held: Held, news: News, now: Instant) {
        self.act(now, |owners, facts, turn| {
            owners.handle_held(turn, facts, stream, (held, news));
        });
        self.carry_out_plain();
    }

    /// Handles the sequence below which nothing is kept of what a sink lacks, though it has later
    /// ADUs; the sink is notified once.
    pub fn tell_given_up(
        &mut self,
        sink: (StreamId, NodeId),
        below: Sequence,
        keys: &mut dyn Keys,
    ) {
        if let Some((path, body)) = self.owners.sources.handle_given_up(sink, below) {
            self.mail.route(path, body, &self.ground.local(), keys);
        }
    }

    /// Sends the stamps of a delivered ADU, of a plan that ends here, to the stream's source.
    pub fn handle_stamped(&mut self, traced: Traced, now: Instant, keys: &mut dyn Keys) {
        let is_known = self.act(now, |owners, facts, turn| {
            tracing::handle_stamped(turn, (facts, &owners.parts), traced)
        });
        if is_known {
            self.settle(now, keys);
        }
    }

    /// Asks a stream's source to trace an ADU each `every`, for the duration of
    /// [`LEASE`](thalweg_base::trace::LEASE); returns the stream and its source.
    ///
    /// Results arrive as [`Output::Tracing`] and [`Output::Traced`]. To be repeated every
    /// [`thalweg_base::trace::RENEW`] for as long as traces are wanted.
    ///
    /// Fails   a sentence, if no node publishes the stream or its source is unreachable
    ///
    /// [`Output::Tracing`]: super::Output::Tracing
    /// [`Output::Traced`]: super::Output::Traced
    pub fn trace(
        &mut self,
        name: &StreamName,
        every: Duration,
        now: Instant,
        keys: &mut dyn Keys,
    ) -> Result<(StreamId, NodeId), String> {
        let traced = self.act(now, |owners, facts, turn| {
            let around = (facts, &owners.sources);
            owners.tracing.trace(turn, around, name, every)
        })?;
        self.settle(now, keys);
        Ok(traced)
    }

    /// Publishes a stream and returns its bytes on the wire. `given` is its plan, if it is not to
    /// be planned.
    pub fn publish(
        &mut self,
        publication: Publication,
        given: Option<Vec<Part>>,
        now: Instant,
        keys: &mut dyn Keys,
    ) -> Result<StreamId, PublishError> {
        while let Some(oldest) = self.owners.sources.in_the_way(&publication.needs) {
            self.unpublish(oldest, now, keys);
        }
        let stream = self.act(now, |owners, facts, turn| {
            owners
                .sources
                .publish(turn, facts, publication, given, keys)
        })?;
        self.settle(now, keys);
        Ok(stream)
    }

    /// Withdraws a stream.
    pub fn unpublish(&mut self, stream: StreamId, now: Instant, keys: &mut dyn Keys) {
        if self.act(now, |owners, _, turn| {
            owners.sources.unpublish(turn, stream)
        }) {
            self.settle(now, keys);
        }
    }

    /// Handles the disconnection of a stream's publisher: the name is free, and what was sent drains.
    pub fn drain(&mut self, stream: StreamId, now: Instant, keys: &mut dyn Keys) {
        if self.act(now, |owners, _, turn| owners.sources.drain(turn, stream)) {
            self.settle(now, keys);
        }
    }

    /// Subscribes to a stream, which need not exist yet, until [`Controller::unsubscribe`].
    /// Repeating it has no effect.
    #[expect(clippy::needless_pass_by_value, reason = "it is kept, under its name")]
    pub fn subscribe(&mut self, name: StreamName, now: Instant, keys: &mut dyn Keys) {
        let is_new = self.act(now, |owners, facts, turn| {
            let (sinks, view) = owners.sinks(facts);
            sinks.subscribe(turn, &view, &name)
        });
        if is_new {
            self.carry_out(now, keys);
            self.resolve_wanted(now, keys);
            self.owners.sinks.handle_looked_up(&name);
            self.settle(now, keys);
        }
    }

    /// Ends the subscription to a stream.
    pub fn unsubscribe(&mut self, name: &StreamName, now: Instant, keys: &mut dyn Keys) {
        let was_wanted = self.act(now, |owners, facts, turn| {
            let (sinks, view) = owners.sinks(facts);
            sinks.unsubscribe(turn, &view, name)
        });
        if was_wanted {
            self.settle(now, keys);
        }
    }

    /// Handles a reader that has reached the end of a wanted stream; returns what follows.
    ///
    /// Cost    a path search for each producer, if there are several
    pub fn handle_ended(
        &mut self,
        name: &StreamName,
        (ended, cause): (StreamId, EndCause),
        now: Instant,
        keys: &mut dyn Keys,
    ) -> Sequel {
        let facts = self.ground.facts();
        let follows = self.owners.sinks.follows(&facts, name, (ended, cause));
        let sequel = match follows {
            Follows::Known(sequel) => return sequel,
            Follows::StandsBy => {
                self.owners.sinks.mark_ended(&facts, name, ended);
                self.resolve_wanted(now, keys);
                Sequel::GoesOn
            }
            Follows::Awaited => {
                self.owners.sinks.mark_ended(&facts, name, ended);
                self.resolve(name, now, keys);
                Sequel::GoesOn
            }
            Follows::Silent(asked) => {
                self.act(now, |owners, facts, turn| {
                    let (sinks, view) = owners.sinks(facts);
                    sinks.begin_probe(turn, &view, name, (ended, cause), asked);
                });
                Sequel::Unsure
            }
        };
        self.settle(now, keys);
        sequel
    }

    /// Notifies the sources of the streams that pass this node, or end here, that it leaves; it
    /// refuses new parts from now on. The driver waits until [`Parts::is_passed`] is false, or too
    /// long.
    ///
    /// [`Parts::is_passed`]: super::Parts::is_passed
    pub fn leave(&mut self, now: Instant, keys: &mut dyn Keys) {
        self.act(now, |owners, facts, turn| owners.parts.leave(turn, facts));
        self.settle(now, keys);
    }
}
