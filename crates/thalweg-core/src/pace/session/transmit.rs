//! What goes over a carrier next.
//!
//! *The idea.* One frame at a time, decided as late as it is asked for. Acknowledgements go always and over the carrier that
//! they are about; everything else over the active one, what is small and not data without asking the pacer.
//!
//! *What it does not do.* It writes to no socket, and does not know how much one takes.

use alloc::vec::Vec;

use super::carrier::What;
use super::values::CarrierNumber;
use super::{End, Session};
use crate::pace::frame::Frame;
use crate::time::Instant;

impl Session {
    /// Appends the next frame for a carrier to `out`; returns whether there was one.
    ///
    /// Cost    O(log streams); one copy of a chunk's bytes
    pub fn poll_transmit(
        &mut self,
        number: CarrierNumber,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(carrier) = self.carriers.get_mut(&number) else {
            return false;
        };
        if self.end == End::Over {
            return false;
        }
        // The last word is not to go before what the peer waits to hear.
        let is_closing = self.end == End::Closing;
        if let Some(position) = carrier.poll_position(now, is_closing, &self.tell) {
            Frame::Received { position }.encode(out);
            return true;
        }
        let is_ping_due = carrier.is_ping_due(now);
        let next = if self.active == Some(number) {
            self.next_frame(now)
        } else {
            None
        };
        let Some((frame, what)) =
            next.or_else(|| is_ping_due.then_some((Frame::Ping, What::Passing)))
        else {
            return false;
        };
        self.give(number, &frame, what, now, out);
        if matches!(frame, Frame::Close { .. }) {
            self.end = End::Over;
        }
        true
    }

    /// Returns what goes over the active carrier.
    fn next_frame(&mut self, now: Instant) -> Option<(Frame, What)> {
        if self.is_takeover_due {
            self.is_takeover_due = false;
            return Some((Frame::Takeover, What::Passing));
        }
        if let Some(frame) = self.control.pop_front() {
            return Some((frame.clone(), What::Control(frame)));
        }
        let credit = self.active_carrier()?.1.credit(now).as_bytes();
        if let Some(datagram) = self.sending.poll_datagram(credit) {
            return Some((datagram, What::Datagram));
        }
        let chunk_bytes = self.chunk_bytes();
        let chunk = self.sending.poll_chunk(credit, chunk_bytes)?;
        let what = match &chunk {
            Frame::Data { stream, .. } => {
                let event = self.sending.poll_writable(*stream);
                self.events.extend(event);
                What::Chunk(*stream)
            }
            _ => What::Passing,
        };
        Some((chunk, what))
    }

    fn give(
        &mut self,
        number: CarrierNumber,
        frame: &Frame,
        what: What,
        now: Instant,
        out: &mut Vec<u8>,
    ) {
        let before = out.len();
        frame.encode(out);
        let size = (out.len() - before) as u64;
        let has_more = self.sending.has_more();
        if self.active == Some(number) {
            self.failover.handle_sent(now);
        }
        if let Some(carrier) = self.carriers.get_mut(&number) {
            // Whether the credit ends here is known at the next frame; whether there is one, now.
            let is_limited = has_more && carrier.credit(now).as_bytes() < size.max(1) * 2;
            carrier.handle_sent(now, size, what, is_limited);
        }
    }
}
