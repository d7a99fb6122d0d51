//! Settles connections: packets to the socket, reports to the tasks, and the driver in between.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use noq_proto::{Connection as Quic, ConnectionError, ConnectionHandle, Event};

use super::{BUFFERS_PER_TURN, POLLS_PER_TURN, STEPS_PER_TURN, Turn};
use crate::close::{CloseCode, ToVarInt as _};
use crate::engine::accept::{self, Refusal};
use crate::engine::connection::Connection;
use crate::engine::peers::{BegunBy, Handshake, Stage};
use crate::engine::shared::Shared;
use crate::engine::udp::{Sent, Udp};
use crate::lot::TakesLots;

impl<U: Udp> Turn<U> {
    /// Settles each marked connection once.
    pub(super) fn settle_marked(&mut self, now: Instant) {
        if let Some((transmit, contents)) = self.outgoing.blocked.take()
            && self.socket.send(&transmit, &contents) == Sent::Full
        {
            self.outgoing.blocked = Some((transmit, contents));
            return;
        }
        for handle in self.peers.take_marked() {
            self.settle(handle, now);
        }
    }

    /// Marks the connections that have more to send than their part of this turn.
    pub(super) fn mark_unfinished(&mut self) {
        for handle in std::mem::take(&mut self.unfinished) {
            self.peers.mark(handle);
        }
    }

    /// Does a part of the lots: after each step it settles what that has marked.
    pub(super) fn carry_lots(&mut self) {
        let mut marked = Vec::new();
        for _ in 0..STEPS_PER_TURN {
            if self.lot.is_none() {
                self.lot = self.inbox.next_lot();
            }
            let Some(lot) = &mut self.lot else {
                return;
            };
            if !lot.step() {
                self.lot = None;
            }
            self.marks.take(&mut marked);
            let now = (self.options.moment)();
            for handle in marked.drain(..) {
                self.settle(handle, now);
            }
        }
    }

    fn settle(&mut self, handle: ConnectionHandle, now: Instant) {
        match self.peers.get(handle).map(|slot| &slot.stage) {
            Some(Stage::Up(shared)) => {
                let shared = shared.clone();
                self.settle_up(handle, &shared, now);
            }
            Some(_) => self.settle_other(handle, now),
            None => {}
        }
    }

    /// Settles a connection that a link holds.
    fn settle_up(&mut self, handle: ConnectionHandle, shared: &Shared, now: Instant) {
        let at = self.options.clock.at(now);
        let mut polls = 0;
        let (is_drained, timeout) = loop {
            shared.begin_settling();
            let mut state = shared.lock();
            let is_drained = self.drive(handle, &mut state.quic, now);
            let end = shared.take_reports(&mut state, at);
            let timeout = state.quic.poll_timeout();
            drop(state);
            if let Some(end) = end {
                shared.end(end, |_| {});
            }
            if is_drained || polls == POLLS_PER_TURN || !shared.take_woken() {
                break (is_drained, timeout);
            }
            polls += 1;
            shared.driver.poll();
        };
        if shared.end_settling() || polls == POLLS_PER_TURN {
            self.unfinished.push(handle);
        }
        self.peers.wake_at(handle, timeout);
        if is_drained || (shared.is_over() && self.outgoing.blocked.is_none()) {
            shared
                .gone
                .send_if_modified(|gone| !std::mem::replace(gone, true));
        }
        if is_drained {
            // The library drains a connection only after its end.
            shared.end(ConnectionError::LocallyClosed, |_| {});
            self.shares.leave(shared.peer);
            self.peers.remove(handle);
            shared.driver.close(self.runtime.as_ref());
        }
    }

    /// Settles a handshake or a closing connection.
    fn settle_other(&mut self, handle: ConnectionHandle, now: Instant) {
        let Some(mut slot) = self.peers.remove(handle) else {
            return;
        };
        let was_shaking = matches!(slot.stage, Stage::Shaking(..));
        let is_drained = match slot.stage {
            Stage::Shaking(mut quic, handshake) => {
                if self.drive(handle, &mut quic, now) {
                    // Also one that is complete, and over before anyone could take it.
                    self.counters.unfinished.add_one();
                    self.leave(handshake.begun_by, &ConnectionError::TimedOut);
                    return;
                }
                slot.stage = self.advance(handle, quic, handshake, now);
                false
            }
            Stage::Closing(mut quic) => {
                let is_drained = self.drive(handle, &mut quic, now);
                while quic.poll().is_some() {}
                slot.stage = Stage::Closing(quic);
                is_drained
            }
            Stage::Up(_) => false,
        };
        if is_drained {
            return;
        }
        // The next settling takes what the handshake has left, or sends the refusal.
        let has_advanced = was_shaking && !matches!(slot.stage, Stage::Shaking(..));
        let timeout = match &slot.stage {
            Stage::Shaking(quic, _) | Stage::Closing(quic) => quic.poll_timeout(),
            Stage::Up(_) => None,
        };
        self.peers.put(handle, slot);
        self.peers.wake_at(handle, timeout);
        if has_advanced {
            self.peers.mark(handle);
        }
    }

    /// Takes what a handshake reports; returns its next stage.
    fn advance(
        &mut self,
        handle: ConnectionHandle,
        mut quic: Box<Quic>,
        handshake: Handshake,
        now: Instant,
    ) -> Stage {
        loop {
            match quic.poll() {
                Some(Event::Connected) => break,
                Some(Event::ConnectionLost { reason }) => {
                    self.counters.unfinished.add_one();
                    self.leave(handshake.begun_by, &reason);
                    return Stage::Closing(quic);
                }
                Some(_) => {}
                None => return Stage::Shaking(quic, handshake),
            }
        }
        let own = self.options.identity.id();
        let proved = accept::peer(&quic).filter(|peer| handshake.begun_by.expects(*peer));
        let Some(peer) = proved else {
            // The handshake itself has checked the key already.
            quic.close(now, CloseCode::Protocol.varint(), Bytes::new());
            self.leave(handshake.begun_by, &ConnectionError::LocallyClosed);
            return Stage::Closing(quic);
        };
        if let Err(refusal) = self.shares.judge(own, peer, &self.options.admission) {
            match refusal {
                Refusal::NotAdmitted(_) => self.counters.not_admitted.add_one(),
                Refusal::Overload => self.counters.overload.add_one(),
            }
            let (code, reason) = refusal.parts();
            quic.close(
                now,
                code.varint(),
                Bytes::copy_from_slice(reason.as_bytes()),
            );
            self.leave(handshake.begun_by, &ConnectionError::LocallyClosed);
            return Stage::Closing(quic);
        }
        self.shares.join(peer);
        let ends = (peer, handshake.remote);
        let takes_lots: Arc<dyn TakesLots> = self.inbox.clone();
        let shared = Shared::new(
            *quic,
            ends,
            handle,
            (self.marks.clone(), takes_lots),
            self.options.moment,
        );
        let connection = Connection::new(shared.clone());
        // A connection that nobody takes closes itself.
        match handshake.begun_by {
            BegunBy::Peer(host) => {
                self.pending.leave(host);
                let _ = self.accepted.send(connection);
            }
            BegunBy::Here(_, reply) => {
                let _ = reply.send(Ok(connection));
            }
        }
        Stage::Up(shared)
    }

    /// Exchanges events with the endpoint and sends what there is; returns whether the connection is
    /// drained.
    fn drive(&mut self, handle: ConnectionHandle, quic: &mut Quic, now: Instant) -> bool {
        let mut is_drained = false;
        while let Some(event) = quic.poll_endpoint_events() {
            is_drained |= event.is_drained();
            if let Some(event) = self.endpoint.handle_event(handle, event) {
                quic.handle_event(event);
            }
        }
        if is_drained {
            return true;
        }
        let segments = self.socket.segments();
        let mut buffers = 0;
        let has_more = loop {
            if buffers == BUFFERS_PER_TURN || self.outgoing.blocked.is_some() {
                break true;
            }
            buffers += 1;
            self.outgoing.arena.clear();
            let arena = &mut self.outgoing.arena;
            let Some(transmit) = quic.poll_transmit(now, segments, arena) else {
                break false;
            };
            match self.socket.send(&transmit, &self.outgoing.arena) {
                Sent::Yes => {}
                Sent::Lost => self.counters.unsent.add_one(),
                Sent::Full => {
                    let contents = self.outgoing.arena.clone();
                    self.outgoing.blocked = Some((transmit, contents));
                }
            }
        };
        if has_more {
            self.unfinished.push(handle);
        }
        false
    }
}
