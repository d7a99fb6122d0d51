//! A host's control plane: the product's controller with the host's keys.
//!
//! All that other rooms tell it passes here; its outputs are executed in `orders`.

use std::collections::BTreeMap;

use bytes::Bytes;
use thalweg_base::id::{Epoch, NodeId, Sequence, StreamId, StreamName};
use thalweg_base::time::Instant;
use thalweg_control::control::{
    Controller, EndCause, Output, Publication, PublishError, Settings, Solved, Source,
};
use thalweg_control::ledger::{Counts, Reading};
use thalweg_dataplane::mailbox::{Held, News};
use thalweg_dataplane::source::Lacking;
use thalweg_link::gauge::Sample;
use thalweg_link::pulse::Hearing;

use crate::keys::HostKeys;

/// A host's control plane.
#[derive(Debug)]
pub(super) struct Mind {
    controller: Controller,
    keys: HostKeys,
    /// The final readings of closed streams.
    closed: BTreeMap<StreamId, Reading>,
}

impl Mind {
    pub(super) fn new(settings: Settings, mut keys: HostKeys, now: Instant) -> Self {
        Self {
            controller: Controller::new(settings, now, &mut keys),
            keys,
            closed: BTreeMap::new(),
        }
    }

    pub(super) const fn id(&self) -> NodeId {
        self.controller.id()
    }

    pub(super) fn records(&self) -> usize {
        self.controller.directory().records().count()
    }

    pub(super) fn poll_output(&mut self) -> Option<Output> {
        self.controller.poll_output()
    }

    pub(super) fn poll_timeout(&self) -> Instant {
        self.controller.poll_timeout()
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.controller.handle_timeout(now, &mut self.keys);
    }

    pub(super) fn leave(&mut self, now: Instant) {
        self.controller.leave(now, &mut self.keys);
    }

    pub(super) fn is_passed(&self) -> bool {
        self.controller.parts().is_passed()
    }

    pub(super) fn publish(
        &mut self,
        publication: Publication,
        now: Instant,
    ) -> Result<StreamId, PublishError> {
        self.controller
            .publish(publication, None, now, &mut self.keys)
    }

    pub(super) fn drain(&mut self, stream: StreamId, now: Instant) {
        self.controller.drain(stream, now, &mut self.keys);
    }

    pub(super) fn unpublish(&mut self, stream: StreamId, now: Instant) {
        self.controller.unpublish(stream, now, &mut self.keys);
    }

    pub(super) fn subscribe(&mut self, name: StreamName, now: Instant) {
        self.controller.subscribe(name, now, &mut self.keys);
    }

    pub(super) fn handle_next(&mut self, stream: StreamId, next: Sequence, now: Instant) {
        self.controller
            .handle_next(stream, next, now, &mut self.keys);
    }

    pub(super) fn handle_ended(&mut self, name: &StreamName, stream: StreamId, now: Instant) {
        let ended = (stream, EndCause::CutOff);
        self.controller
            .handle_ended(name, ended, now, &mut self.keys);
    }

    pub(super) fn handle_link_up(&mut self, peer: NodeId, sample: Sample, now: Instant) {
        self.controller
            .handle_link_up(peer, sample, now, &mut self.keys);
    }

    pub(super) fn handle_link_down(&mut self, peer: NodeId, now: Instant) {
        self.controller.handle_link_down(peer, now, &mut self.keys);
    }

    pub(super) fn handle_sample(&mut self, peer: NodeId, sample: Sample, now: Instant) {
        self.controller
            .handle_link_sample(peer, (now, sample), now, &mut self.keys);
    }

    pub(super) fn handle_hearing(&mut self, peer: NodeId, hearing: Hearing, now: Instant) {
        self.controller
            .handle_hearing(peer, hearing, now, &mut self.keys);
    }

    pub(super) fn handle_frame(&mut self, from: NodeId, frame: &Bytes, now: Instant) {
        self.controller
            .handle_frame(from, frame, now, &mut self.keys);
    }

    pub(super) fn handle_solved(&mut self, solved: Solved, now: Instant) {
        self.controller.handle_solved(solved, now, &mut self.keys);
    }

    pub(super) fn handle_installed(
        &mut self,
        (stream, epoch): (StreamId, Epoch),
        result: Result<(), String>,
        now: Instant,
    ) {
        self.controller
            .handle_installed(stream, epoch, result, now, &mut self.keys);
    }

    pub(super) fn handle_held(&mut self, stream: StreamId, held: Held, news: News, now: Instant) {
        self.controller.handle_held(stream, held, news, now);
    }

    pub(super) fn handle_counts(
        &mut self,
        (stream, epoch): (StreamId, Epoch),
        counts: &Counts,
        now: Instant,
    ) {
        self.controller.handle_counts(stream, epoch, counts, now);
    }

    /// Handles what a sink lacks of a stream that is published here.
    pub(super) fn handle_lacking(
        &mut self,
        (stream, sink): (StreamId, NodeId),
        in_order: Option<Epoch>,
        lacking: Lacking,
        now: Instant,
    ) {
        if let Some(below) = lacking.given_up {
            self.controller
                .tell_given_up((stream, sink), below, &mut self.keys);
        }
        if let Some(epoch) = in_order {
            let of = (stream, epoch);
            self.controller
                .handle_missing(of, lacking.missing, now, &mut self.keys);
        }
    }

    pub(super) fn source(&self, stream: StreamId) -> Option<&Source> {
        self.controller.source(stream)
    }

    /// Records the final reading of a stream that was published here.
    pub(super) fn close(&mut self, stream: StreamId, reading: Reading) {
        self.closed.insert(stream, reading);
    }

    /// Returns the reading of a stream published here, the final one if it is closed.
    pub(super) fn reading(&self, stream: StreamId) -> Option<Reading> {
        let reading = self.controller.reading(stream);
        reading.or_else(|| self.closed.get(&stream).cloned())
    }
}
