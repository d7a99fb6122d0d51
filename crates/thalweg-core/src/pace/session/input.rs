//! What the peer says, frame by frame.
//!
//! *The idea.* One match; whoever the frame is about takes it in and says what there is to tell.
//!
//! *What it does not do.* It answers nothing at once: answers wait in `control` until they are asked for.

use super::carrier::{Tell, What};
use super::values::{CarrierNumber, Event, SessionError};
use super::{End, Session};
use crate::hop::StreamCode;
use crate::pace::frame::{Frame, StreamNumber};
use crate::time::Instant;

impl Session {
    /// Takes in bytes that came over a carrier; those of a carrier that was left are ignored.
    ///
    /// Fails   the peer broke the protocol; the session is of no use any more
    pub fn handle_bytes(
        &mut self,
        number: CarrierNumber,
        bytes: &[u8],
        now: Instant,
    ) -> Result<(), SessionError> {
        let Some(carrier) = self.carriers.get_mut(number) else {
            return Ok(());
        };
        self.heard = now;
        carrier.decoder.handle_bytes(bytes);
        // A frame may make this carrier one that was left.
        while let Some(carrier) = self.carriers.get_mut(number) {
            let Some((frame, size)) = carrier.decoder.poll_frame()? else {
                break;
            };
            if frame.is_counted() {
                carrier.handle_counted(now, size, &self.tell);
            }
            self.handle_frame(number, frame, now)?;
            if self.end == End::Over {
                break;
            }
        }
        Ok(())
    }

    fn handle_frame(
        &mut self,
        number: CarrierNumber,
        frame: Frame,
        now: Instant,
    ) -> Result<(), SessionError> {
        match frame {
            Frame::Hello { .. } => return Err(SessionError::Greeting),
            Frame::Received { position } => self.handle_received(number, position, now)?,
            Frame::Takeover => self.handle_takeover(number, now),
            Frame::Close { code, reason } => self.over(Event::Closed { code, reason }),
            Frame::Ping => {
                if let Some(carrier) = self.carriers.get_mut(number) {
                    carrier.handle_ping(now);
                }
            }
            Frame::Tell { bytes, delay_ms } => self.tell = Tell::asked(bytes, delay_ms),
            Frame::Open { stream } => {
                if self.receiving.handle_open(stream)? {
                    self.events.push_back(Event::Opened(stream));
                }
            }
            Frame::Data {
                stream,
                offset,
                is_last,
                bytes,
            } => {
                if self
                    .receiving
                    .handle_data(stream, offset, is_last, &bytes)?
                {
                    self.events.push_back(Event::Readable(stream));
                }
                self.receiving.tell(&mut self.control);
            }
            Frame::Reset {
                stream,
                code,
                offset,
            } => {
                if self.receiving.handle_reset(stream, code, offset)? {
                    self.events.push_back(Event::Readable(stream));
                }
                self.receiving.tell(&mut self.control);
            }
            Frame::Stop { stream, code } => self.handle_stop(stream, code)?,
            Frame::Window { stream, limit } => {
                self.sent_once(stream)?;
                let event = self.sending.handle_window(stream, limit);
                self.events.extend(event);
            }
            Frame::Total { limit } => {
                self.sending.handle_total(limit);
                self.tell_room();
            }
            Frame::Streams { limit } => {
                self.sending.handle_streams(limit);
                self.tell_room();
            }
            Frame::Datagram { bytes } => {
                self.receiving.handle_datagram(bytes);
                self.events.push_back(Event::Datagram);
            }
        }
        Ok(())
    }

    fn handle_received(
        &mut self,
        number: CarrierNumber,
        position: u64,
        now: Instant,
    ) -> Result<(), SessionError> {
        let is_active = self.active() == Some(number);
        let Some(carrier) = self.carriers.get_mut(number) else {
            return Ok(());
        };
        let arrived = carrier.handle_received(now, position)?;
        if is_active && arrived > 0 {
            self.failover.handle_progress(now, carrier.is_outstanding());
        }
        for what in carrier.take_oldest(arrived) {
            if let What::Chunk(stream) = what
                && self.sending.handle_acknowledged(stream)
            {
                self.events.push_back(Event::Acknowledged(stream));
            }
        }
        self.tell_room();
        Ok(())
    }

    /// The peer has changed to this carrier; so does this end, unless it has gone further.
    fn handle_takeover(&mut self, number: CarrierNumber, now: Instant) {
        if let Some(from) = self.active().filter(|active| *active < number) {
            self.leave(from);
            self.switch(from, number, now);
        }
    }

    fn handle_stop(&mut self, stream: StreamNumber, code: StreamCode) -> Result<(), SessionError> {
        self.sent_once(stream)?;
        if let Some(offset) = self.sending.handle_stop(stream, code) {
            let frame = Frame::Reset {
                stream,
                code,
                offset,
            };
            self.control.push_back(frame);
            self.events.push_back(Event::Stopped(stream, code));
            self.tell_room();
        }
        Ok(())
    }

    fn tell_room(&mut self) {
        if self.sending.poll_room() {
            self.events.push_back(Event::Room);
        }
    }

    /// Refuses words about a stream of ours that there never was.
    fn sent_once(&self, stream: StreamNumber) -> Result<(), SessionError> {
        if self.sending.is_known(stream) {
            Ok(())
        } else {
            Err(SessionError::NeverOpened(stream))
        }
    }
}
