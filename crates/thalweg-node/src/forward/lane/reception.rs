//! Receptions: the bodies of ADUs that arrive.
//!
//! *The idea.* One that is here in one piece, as a small ADU is, goes through the machine at once. One
//! that is passed on is read by the next link, and its end is reported by its watcher. Any other is
//! collected by the task that received it, once the machine does not hold it back: until then its
//! sender's flow control does.

use std::sync::Arc;

use bytes::Bytes;
use thalweg_base::event::DropCause;
use thalweg_base::id::NodeId;
use thalweg_dataplane::relay::{Action, Begun, Refusal};
use thalweg_net::StreamCode;
use thalweg_net::link::{Arriving, Body, BodyEnd, End};
use tokio::sync::oneshot;

use super::{Job, Lane, RecvId};
use crate::forward::DropPlace;

/// What becomes of an ADU that begins to arrive.
pub(in crate::forward) enum Taken {
    /// It needs nothing more of the task that received it.
    Done,
    /// It is refused; whether for no plan that leads here.
    Refused(Box<Body>, StreamCode, bool),
    /// It is to be collected.
    Begun(Box<Reception>),
}

/// An ADU to be collected; if its task ends before, its sender is told, and the machine.
pub(in crate::forward) struct Reception {
    lane: Arc<Lane>,
    recv: RecvId,
    /// Taken when it is collected.
    body: Option<Body>,
    /// While it is held back, notified when it is not any more.
    resumed: Option<oneshot::Receiver<()>>,
    /// The machine knows how it ended.
    is_over: bool,
}

impl Lane {
    /// Handles an ADU that begins to arrive from a neighbour.
    pub(in crate::forward) fn take(self: &Arc<Self>, from: NodeId, adu: Arriving) -> Taken {
        let Arriving {
            header,
            payload_bytes,
            mut body,
            trace,
        } = adu;
        let begun = Begun {
            header,
            payload_bytes,
            is_whole: body.is_one_piece(),
        };
        let now = self.ways.clock.now();
        let mut state = self.lock();
        let recv = state.next_recv;
        state.next_recv += 1;
        let mut lag = self.ways.lag.lag();
        state.relay.handle_adu(from, recv, begun, &mut lag, now);
        drop(lag);
        let answer = state.relay.poll_action();
        if let Some(Action::Refuse(.., refusal)) = answer {
            self.carry_out(state);
            if let Refusal::Dropped(cause) = refusal {
                self.note_drop(&header, DropPlace::Arrival, cause, now);
            }
            return self.refuse(body, refusal);
        }
        self.counts.received();
        state.traces.note(header.sequence, trace);
        if let Some(Action::Pass(_, dispatch)) = answer {
            body.watch(Arc::<Self>::clone(self), recv, state.relay.keeps(recv));
            self.counts.handed_on();
            let trace = self.trace(&state, &dispatch.header, now);
            state.jobs.push(Job::Pass(dispatch, Box::new(body), trace));
            self.carry_out(state);
            return Taken::Done;
        }
        let mut resumed = None;
        if let Some(Action::Hold(_)) = state.relay.poll_action() {
            let (task, waiting) = oneshot::channel();
            state.held.insert(recv, task);
            resumed = Some(waiting);
        } else if let Some(payload) = body.take_piece() {
            state.relay.handle_gathered(recv, payload, now);
            self.collect(&mut state, now);
            self.carry_out(state);
            return Taken::Done;
        }
        self.carry_out(state);
        Taken::Begun(Box::new(Reception {
            lane: Arc::clone(self),
            recv,
            body: Some(body),
            resumed,
            is_over: false,
        }))
    }

    fn refuse(&self, body: Body, refusal: Refusal) -> Taken {
        let (code, is_unknown) = match refusal {
            Refusal::Unknown => (StreamCode::UnknownStream, true),
            Refusal::Stranger => (StreamCode::Protocol, true),
            Refusal::Dropped(cause) => {
                self.counts.received();
                self.counts.dropped(cause);
                (StreamCode::of_drop(cause), false)
            }
        };
        Taken::Refused(Box::new(body), code, is_unknown)
    }

    fn handle_gathered(&self, recv: RecvId, payload: Bytes) {
        self.drive(|state, now| state.relay.handle_gathered(recv, payload, now));
    }

    fn handle_failed(&self, recv: RecvId, cause: DropCause) {
        self.drive(|state, now| {
            state.held.remove(&recv);
            state.relay.handle_failed(recv, cause, now);
        });
    }
}

impl Reception {
    /// Collects the payload and hands it to the machine.
    pub(in crate::forward) async fn collect(mut self) {
        if let Some(resumed) = self.resumed.take() {
            // The lane holds the other end until it resumes the reception.
            let _ = resumed.await;
        }
        let Some(body) = self.body.take() else {
            return;
        };
        match body.collect().await {
            Ok(payload) => self.lane.handle_gathered(self.recv, payload),
            // The node that gave the rest up accounts for it.
            Err(error) => {
                self.lane.counts.dropped(error.drop_cause());
                self.lane.handle_failed(self.recv, error.drop_cause());
            }
        }
        self.is_over = true;
    }
}

impl Drop for Reception {
    fn drop(&mut self) {
        if !self.is_over {
            self.lane.handle_failed(self.recv, DropCause::PathLost);
        }
    }
}

impl BodyEnd for Lane {
    fn handle_end(&self, number: u64, end: End) {
        match end {
            End::Whole(Some(payload)) => self.handle_gathered(number, payload),
            End::Whole(None) => self.drive(|state, now| state.relay.handle_whole(number, now)),
            End::Failed(error) => self.handle_failed(number, error.drop_cause()),
            End::LetGo => self.drive(|state, now| state.relay.handle_let_go(number, now)),
        }
    }
}
