//! What goes over a carrier next.
//!
//! *The idea.* One frame at a time, decided as late as it is asked for. Acknowledgements go always and over the carrier that
//! they are about; everything else over the active one, what is small and not data without asking the pacer.
//!
//! *What it does not do.* It writes to no socket, and does not know how much one takes.

use super::carrier::What;
use super::values::CarrierNumber;
use super::{End, Session};
use crate::pace::frame::Frame;
use crate::pace::out::Out;
use crate::time::Instant;

impl Session {
    /// Appends the next frame for a carrier to `out`; returns whether there was one.
    ///
    /// Cost    O(log streams); of a chunk's bytes only short pieces are copied
    pub fn poll_transmit(&mut self, number: CarrierNumber, now: Instant, out: &mut Out) -> bool {
        let Some(carrier) = self.carriers.get_mut(number) else {
            return false;
        };
        if self.end == End::Over {
            return false;
        }
        // The last word is not to go before what the peer waits to hear.
        let is_closing = self.end == End::Closing;
        if let Some(position) = carrier.poll_position(now, is_closing, &self.tell) {
            Frame::Received { position }.encode(out.words());
            return true;
        }
        let is_ping_due = carrier.is_ping_due(now);
        let before = out.len();
        let mut next = if self.active() == Some(number) {
            self.next_frame(now, out)
        } else {
            None
        };
        if next.is_none() && is_ping_due {
            next = Some(lay(&Frame::Ping, What::Passing, out));
        }
        let Some(what) = next else {
            return false;
        };
        if matches!(what, What::Control(Frame::Close { .. })) {
            self.end = End::Over;
        }
        let size = (out.len() - before) as u64;
        self.take_along(number, now, out);
        self.give(number, size, what, now);
        true
    }

    /// Appends what goes over the active carrier; returns what that is.
    fn next_frame(&mut self, now: Instant, out: &mut Out) -> Option<What> {
        if self.is_takeover_due {
            self.is_takeover_due = false;
            return Some(lay(&Frame::Takeover, What::Passing, out));
        }
        if let Some(frame) = self.control.pop_front() {
            frame.encode(out.words());
            return Some(What::Control(frame));
        }
        let credit = self.carriers.active()?.credit(now).as_bytes();
        if let Some(datagram) = self.sending.poll_datagram(credit) {
            return Some(lay(&datagram, What::Datagram, out));
        }
        let chunk_bytes = self.chunk_bytes();
        let stream = self.sending.poll_chunk(credit, chunk_bytes, out)?;
        let event = self.sending.poll_writable(stream);
        self.events.extend(event);
        Some(What::Chunk(stream))
    }

    /// Appends what the peer is to be told soon: beside something else it costs three bytes, alone a packet and the call for it.
    fn take_along(&mut self, number: CarrierNumber, now: Instant, out: &mut Out) {
        let carrier = self.carriers.get_mut(number);
        if let Some(position) = carrier.and_then(|carrier| carrier.poll_soon(now, &self.tell)) {
            Frame::Received { position }.encode(out.words());
        }
    }

    /// Takes in that so many bytes were given to a carrier.
    fn give(&mut self, number: CarrierNumber, size: u64, what: What, now: Instant) {
        let has_more = self.sending.has_more();
        if self.active() == Some(number) {
            self.failover.handle_sent(now);
        }
        if let Some(carrier) = self.carriers.get_mut(number) {
            // Whether the credit ends here is known at the next frame; whether there is one, now.
            let is_limited = has_more && carrier.credit(now).as_bytes() < size.max(1) * 2;
            carrier.handle_sent(now, size, what, is_limited);
        }
    }
}

/// Appends a frame; returns what it stands for.
fn lay(frame: &Frame, what: What, out: &mut Out) -> What {
    frame.encode(out.words());
    what
}
