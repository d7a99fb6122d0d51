//! Output to a carrier.
//!
//! *The idea.* One frame at a time, decided as late as it is polled. Acknowledgements always go,
//! over the carrier that they concern. All else goes over the active carrier, and control frames
//! without credit.
//!
//! *What it does not do.* It writes to no socket, and does not know how much one takes.

use thalweg_base::time::Instant;

use super::carrier::SentItem;
use super::values::CarrierNumber;
use super::{End, Session};
use crate::tcp_mux::frame::Frame;
use crate::tcp_mux::out::Out;

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
        // The close frame must not overtake acknowledgements that the peer waits for.
        let is_closing = self.end == End::Closing;
        if let Some(position) = carrier.poll_position(now, is_closing, &self.report_policy) {
            Frame::Received { position }.encode(out.words());
            return true;
        }
        let is_ping_due = carrier.is_ping_due(now);
        let before = out.len();
        // A standby carries reports and pings only.
        let mut next = if self.active() == Some(number) {
            self.next_frame(now, out)
        } else {
            None
        };
        if next.is_none() && is_ping_due {
            next = Some(append_frame(&Frame::Ping, SentItem::Transient, out));
        }
        let Some(item) = next else {
            return false;
        };
        if matches!(item, SentItem::Control(Frame::Close { .. })) {
            self.end = End::Over;
        }
        let size = (out.len() - before) as u64;
        self.append_due_report(number, now, out);
        self.record_sent(number, size, item, now);
        true
    }

    /// Appends the next frame of the active carrier; returns what it stands for.
    fn next_frame(&mut self, now: Instant, out: &mut Out) -> Option<SentItem> {
        if self.is_takeover_due {
            self.is_takeover_due = false;
            return Some(append_frame(&Frame::Takeover, SentItem::Transient, out));
        }
        if let Some(frame) = self.control.pop_front() {
            frame.encode(out.words());
            return Some(SentItem::Control(frame));
        }
        let credit = self.carriers.active()?.credit(now).as_bytes();
        if let Some(datagram) = self.sending.poll_datagram(credit) {
            return Some(append_frame(&datagram, SentItem::Datagram, out));
        }
        let chunk_bytes = self.chunk_bytes();
        let stream = self.sending.poll_chunk(credit, chunk_bytes, out)?;
        let event = self.sending.poll_writable(stream);
        self.events.extend(event);
        Some(SentItem::Chunk(stream))
    }

    /// Appends a report that is due soon: here it costs three bytes, alone a packet and a system call.
    fn append_due_report(&mut self, number: CarrierNumber, now: Instant, out: &mut Out) {
        let carrier = self.carriers.get_mut(number);
        if let Some(position) =
            carrier.and_then(|carrier| carrier.poll_soon(now, &self.report_policy))
        {
            Frame::Received { position }.encode(out.words());
        }
    }

    /// Handles that `size` bytes were handed to a carrier.
    fn record_sent(&mut self, number: CarrierNumber, size: u64, item: SentItem, now: Instant) {
        let has_more = self.sending.has_more();
        if self.active() == Some(number) {
            self.failover.handle_sent(now);
        }
        if let Some(carrier) = self.carriers.get_mut(number) {
            // Whether the credit ends here shows at the next frame; whether there is one is known now.
            let is_limited = has_more && carrier.credit(now).as_bytes() < size.max(1) * 2;
            carrier.handle_sent(now, size, item, is_limited);
        }
    }
}

/// Appends a frame; returns `item`.
fn append_frame(frame: &Frame, item: SentItem, out: &mut Out) -> SentItem {
    frame.encode(out.words());
    item
}
