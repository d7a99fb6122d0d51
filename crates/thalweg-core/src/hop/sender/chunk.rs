//! Handing over a chunk: on a stream of its ADU's own, in a datagram, in a lane.
//!
//! *The idea.* What the transport does not take goes back to the outbox, to be decided anew. If nothing more can go on the
//! link, the rest waits; if only this stream is full, the others go on.
//!
//! *What it does not do.* It does not say what goes next.

use super::sending::Step;
use super::transport::{Datagram, Transport};
use super::{Owner, Sender};
use crate::hop::{Carriage, KIND_ADU, Outcome};
use crate::limits::ADUS_IN_FLIGHT_MAX;
use crate::outbox::Chunk;
use crate::time::Instant;

impl<S: Copy, D> Sender<S, D> {
    /// Hands over one chunk.
    pub(super) fn hand_over(
        &mut self,
        now: Instant,
        transport: &mut impl Transport<Stream = S>,
        chunk: &Chunk,
    ) -> Step {
        match self.carriage(chunk.ticket) {
            Carriage::Datagram => self.send_datagram(now, transport, chunk),
            Carriage::Ordered(id) => self.write_in_lane(now, transport, chunk, id),
            Carriage::Stream => self.write_apart(now, transport, chunk),
        }
    }

    /// Writes a chunk of an ADU on its own stream.
    fn write_apart(
        &mut self,
        now: Instant,
        transport: &mut impl Transport<Stream = S>,
        chunk: &Chunk,
    ) -> Step {
        let is_full = self.streams >= ADUS_IN_FLIGHT_MAX;
        let Some(sending) = self.sendings[chunk.ticket.index()].as_mut() else {
            return Step::Went;
        };
        if sending.stream.is_none() {
            let rank = self.ranks.next(sending.priority);
            let opened = if is_full {
                None
            } else {
                transport.open(Owner::Adu(chunk.ticket), rank)
            };
            let Some(stream) = opened else {
                // The most important waits for a stream; nothing lesser may take the next one from it.
                self.outbox.handle_unsent(chunk.ticket, chunk.range.len());
                return Step::Blocked;
            };
            sending.stream = Some(stream);
            self.streams += 1;
        }
        let Some(stream) = sending.stream else {
            return Step::Blocked;
        };
        let kind = Some(KIND_ADU);
        let bytes = chunk.range.len();
        let (written, step) = sending.write(now, transport, stream, kind, bytes, &mut self.scratch);
        let unsent = bytes - written;
        match step {
            Step::Stopped(code) => {
                self.cancel(chunk.ticket, Outcome::Refused(code));
                Step::Went
            }
            Step::Went if chunk.is_last => {
                transport.finish(stream);
                Step::Went
            }
            Step::Went => Step::Went,
            Step::StreamBlocked => {
                self.outbox.handle_unsent(chunk.ticket, unsent);
                self.outbox.set_blocked(chunk.ticket, true);
                Step::Went
            }
            Step::Blocked => {
                self.outbox.handle_unsent(chunk.ticket, unsent);
                Step::Blocked
            }
        }
    }

    fn send_datagram(
        &mut self,
        now: Instant,
        transport: &mut impl Transport<Stream = S>,
        chunk: &Chunk,
    ) -> Step {
        let Some(sending) = self.sendings[chunk.ticket.index()].as_mut() else {
            return Step::Went;
        };
        let is_whole = chunk.range.len() == sending.payload_bytes;
        let sent = if is_whole && sending.fits(transport.datagram_bytes_max()) {
            transport.send_datagram(sending.datagram(now))
        } else {
            Datagram::TooLarge
        };
        match sent {
            Datagram::Sent => {
                self.outbox.finish(chunk.ticket);
                self.end_at(chunk.ticket, Outcome::Departed);
                Step::Went
            }
            Datagram::TooLarge => {
                sending.carriage = Carriage::Stream;
                self.write_apart(now, transport, chunk)
            }
            Datagram::Blocked | Datagram::Lost => {
                self.outbox.handle_unsent(chunk.ticket, chunk.range.len());
                Step::Blocked
            }
        }
    }
}
