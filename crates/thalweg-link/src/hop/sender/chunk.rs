//! Handing over a chunk: on a stream of the ADU's own, in a datagram, in a lane.
//!
//! *The idea.* Bytes that the transport does not take go back to the outbox, which decides again.
//! If the link takes no more, all wait; if only this stream is blocked, the others go on.
//!
//! *What it does not do.* It does not choose what goes next.

use thalweg_base::limits::ADUS_IN_FLIGHT_MAX;
use thalweg_base::time::Instant;

use super::sending::Step;
use super::transport::{Datagram, Transport};
use super::{Owner, Sender};
use crate::hop::{Carriage, KIND_ADU, Outcome};
use crate::outbox::Chunk;

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
            Carriage::Stream => self.write_own_stream(now, transport, chunk),
        }
    }

    /// Writes a chunk of an ADU on its own stream.
    fn write_own_stream(
        &mut self,
        now: Instant,
        transport: &mut impl Transport<Stream = S>,
        chunk: &Chunk,
    ) -> Step {
        let is_full = self.streams >= ADUS_IN_FLIGHT_MAX;
        let Some(adu) = self.pending[chunk.ticket.index()].as_mut() else {
            return Step::Done;
        };
        if adu.stream.is_none() {
            let rank = self.ranks.next(adu.priority);
            let opened = if is_full {
                None
            } else {
                transport.open(Owner::Adu(chunk.ticket), rank)
            };
            let Some(stream) = opened else {
                // The most important ADU waits for a stream; none of lower rank may take the next
                // one from it.
                self.outbox.handle_unsent(chunk.ticket, chunk.range.len());
                return Step::Blocked;
            };
            adu.stream = Some(stream);
            self.streams += 1;
        }
        let Some(stream) = adu.stream else {
            return Step::Blocked;
        };
        let kind = Some(KIND_ADU);
        let bytes = chunk.range.len();
        let (written, step) = adu.write(now, transport, stream, kind, bytes, &mut self.heads);
        let unsent = bytes - written;
        match step {
            Step::Stopped(code) => {
                self.cancel(chunk.ticket, Outcome::Refused(code));
                Step::Done
            }
            Step::Done if chunk.is_last => {
                transport.finish(stream);
                Step::Done
            }
            Step::Done => Step::Done,
            Step::StreamBlocked => {
                self.outbox.handle_unsent(chunk.ticket, unsent);
                self.outbox.set_blocked(chunk.ticket, true);
                Step::Done
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
        let Some(adu) = self.pending[chunk.ticket.index()].as_mut() else {
            return Step::Done;
        };
        let is_whole = chunk.range.len() == adu.payload_bytes;
        let sent = if is_whole && adu.fits(transport.datagram_bytes_max()) {
            transport.send_datagram(adu.datagram(now))
        } else {
            Datagram::TooLarge
        };
        match sent {
            Datagram::Sent => {
                self.outbox.finish(chunk.ticket);
                self.end_ticket(chunk.ticket, Outcome::Departed);
                Step::Done
            }
            // The path's MTU shrank, or the ADU exceeds one chunk: a stream carries any size.
            Datagram::TooLarge => {
                adu.carriage = Carriage::Stream;
                self.write_own_stream(now, transport, chunk)
            }
            // A lost connection ends the ADU by `lose`, not here.
            Datagram::Blocked | Datagram::Lost => {
                self.outbox.handle_unsent(chunk.ticket, chunk.range.len());
                Step::Blocked
            }
        }
    }
}
