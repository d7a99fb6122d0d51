//! The context in which a connection's parts work: the time, QUIC, and what outlives the connection.

use std::collections::VecDeque;

use noq_proto::Connection;
use thalweg_base::time::Instant;
use thalweg_link::hop::{BodyError, Outcome};

use super::event::{PortCounters, PortEvent, RecvId, SendId};

/// State that outlives a connection.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) events: VecDeque<PortEvent>,
    pub(super) counters: PortCounters,
    pub(super) recvs: u64,
}

/// The context in which a connection's parts work.
pub(super) struct Io<'a> {
    pub(super) now: Instant,
    pub(super) quic: &'a mut Connection,
    pub(super) shared: &'a mut Shared,
    pub(super) fault: &'a mut Option<&'static str>,
}

impl Shared {
    pub(super) fn next_recv(&mut self) -> RecvId {
        self.recvs += 1;
        RecvId(self.recvs)
    }

    pub(super) fn outcome(&mut self, send: SendId, outcome: Outcome) {
        self.counters.outcomes[outcome.index()] += 1;
        let event = PortEvent::Outcome { send, outcome };
        self.events.push_back(event);
    }
}

impl Io<'_> {
    /// Marks the link as broken; the first reason counts.
    pub(super) fn fault(&mut self, reason: &'static str) {
        self.fault.get_or_insert(reason);
    }

    pub(super) fn outcome(&mut self, send: SendId, outcome: Outcome) {
        self.shared.outcome(send, outcome);
    }

    pub(super) fn failed(&mut self, recv: RecvId, cause: BodyError) {
        let event = PortEvent::Failed { recv, cause };
        self.shared.events.push_back(event);
    }
}
