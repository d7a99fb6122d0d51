//! Handles the events of a host's ports.

use bytes::Bytes;
use thalweg_base::id::NodeId;
use thalweg_base::wire::control::{self, Message, accounted};

use super::carriage::Scene;
use super::{Host, Parcel};
use crate::trace::{Happening, Kind};
use crate::transport::PortEvent;
use crate::watch::Watch;

impl Host {
    /// Handles a datagram. If a newer port dials, it replaces a dialling port here.
    pub(super) fn receive(&mut self, from: usize, parcel: Parcel, watch: &mut Watch<'_>) {
        let now = self.now(watch);
        if self.ports.is_superseded(from, &parcel) {
            self.ports.close(from, now);
            self.drain_events(from, watch);
            let seed = self.rng.next_u64();
            self.ports.answer(from, parcel.generation, seed, watch);
        }
        self.ports.handle_datagram(from, parcel.datagram, now);
    }

    /// Handles the events of all ports; returns whether there were any.
    pub(super) fn handle_port_events(&mut self, watch: &mut Watch<'_>) -> bool {
        let mut any = false;
        for peer in self.ports.peers() {
            any |= self.drain_events(peer, watch);
        }
        any
    }

    fn drain_events(&mut self, peer: usize, watch: &mut Watch<'_>) -> bool {
        let mut any = false;
        while let Some(event) = self.ports.poll_event(peer) {
            any = true;
            self.handle_port_event(peer, event, watch);
        }
        any
    }

    fn handle_port_event(&mut self, peer: usize, event: PortEvent, watch: &mut Watch<'_>) {
        match event {
            PortEvent::Up => self.link_up(peer, watch),
            PortEvent::Down { cause } => {
                watch
                    .trace
                    .say(watch.now, &watch.names[self.place], || cause.to_string());
                self.link_down(peer, watch);
            }
            PortEvent::Control(frame) => self.handle_control(peer, &frame, watch),
            PortEvent::OrderedEnded { id, .. } => self.publishers.handle_flushed(peer, id),
            event => self.handle_carried(peer, event, watch),
        }
    }

    /// Handles an event of the data path.
    fn handle_carried(&mut self, peer: usize, event: PortEvent, watch: &mut Watch<'_>) {
        let (carriage, rng) = (&mut self.carriage, &mut self.rng);
        let scene = &mut Scene {
            now: self.clock.local(watch.now),
            ports: &mut self.ports,
            subscribers: &mut self.subscribers,
            watch,
        };
        match event {
            PortEvent::Adu {
                recv,
                header,
                payload_bytes,
            } => carriage.handle_adu((peer, recv), header, payload_bytes, rng, scene),
            PortEvent::Chunk { recv, bytes } => carriage.handle_chunk((peer, recv), &bytes, scene),
            PortEvent::End { recv } => carriage.handle_whole((peer, recv), scene),
            PortEvent::Failed { recv, cause } => {
                carriage.handle_failed((peer, recv), cause, scene);
            }
            PortEvent::Outcome { send, outcome } => {
                carriage.handle_outcome((peer, send), outcome, scene);
            }
            // Events of a closing peer and unknown ones need no action: the connection ends by itself.
            _ => {}
        }
    }

    fn link_up(&mut self, peer: usize, watch: &mut Watch<'_>) {
        let now = self.now(watch);
        watch.note(Happening::at(Kind::LinkUp, self.place).with(peer));
        if let Some((id, sample)) = self.ports.handle_up(peer) {
            self.mind.handle_link_up(id, sample, now);
        }
    }

    fn link_down(&mut self, peer: usize, watch: &mut Watch<'_>) {
        let now = self.now(watch);
        watch.note(Happening::at(Kind::LinkDown, self.place).with(peer));
        watch.fates.handle_down(self.place, peer, watch.now);
        if let Some(id) = self.ports.handle_down(peer, now, &mut self.rng) {
            self.mind.handle_link_down(id, now);
            self.publishers.handle_link_down(peer);
        }
    }

    fn handle_control(&mut self, peer: usize, frame: &Bytes, watch: &Watch<'_>) {
        let now = self.now(watch);
        if self.carriage.withholds_all() && is_to_pass_on(frame, self.mind.id()) {
            return;
        }
        if let Some(id) = self.ports.id(peer) {
            if accounted(frame).is_some() {
                self.report(now);
            }
            self.mind.handle_frame(id, frame, now);
        }
    }
}

/// Returns whether a control frame is for another node, or reports what another node received.
fn is_to_pass_on(frame: &[u8], own: NodeId) -> bool {
    match control::decode(frame) {
        Ok(Message::Routed(routed)) => routed.route.last() != Some(&own),
        Ok(Message::Record { .. } | Message::Grant(_) | Message::Revocation(_)) | Err(_) => false,
        Ok(_) => true,
    }
}
