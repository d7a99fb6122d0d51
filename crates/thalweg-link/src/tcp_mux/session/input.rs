//! Input from the peer, frame by frame.
//!
//! *The idea.* One match; the owner of each frame's subject handles it and returns what to report.
//!
//! *What it does not do.* It answers nothing at once: answers wait in `control` until they are polled.

use thalweg_base::time::Instant;

use super::carrier::{ReportPolicy, SentItem};
use super::values::{CarrierNumber, Event, SessionError};
use super::{End, Session};
use crate::hop::StreamCode;
use crate::tcp_mux::frame::{Frame, StreamNumber};

impl Session {
    /// Handles bytes that arrived over a carrier; bytes of a retired carrier are ignored.
    ///
    /// Fails   the peer violated the protocol; the session is of no use any more
    pub fn handle_bytes(
        &mut self,
        number: CarrierNumber,
        bytes: &[u8],
        now: Instant,
    ) -> Result<(), SessionError> {
        let Some(carrier) = self.carriers.get_mut(number) else {
            return Ok(());
        };
        self.last_heard = now;
        carrier.decoder.handle_bytes(bytes);
        // A frame may retire this very carrier.
        while let Some(carrier) = self.carriers.get_mut(number) {
            let Some((frame, size)) = carrier.decoder.poll_frame()? else {
                break;
            };
            if frame.is_counted() {
                carrier.handle_counted(now, size, &self.report_policy);
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
            Frame::Close { code, reason } => self.end_with(Event::Closed { code, reason }),
            Frame::Ping => {
                if let Some(carrier) = self.carriers.get_mut(number) {
                    carrier.handle_ping(now);
                }
            }
            Frame::Tell { bytes, delay_ms } => {
                self.report_policy = ReportPolicy::asked(bytes, delay_ms);
            }
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
                self.receiving.advertise(&mut self.control);
            }
            Frame::Reset {
                stream,
                code,
                offset,
            } => {
                if self.receiving.handle_reset(stream, code, offset)? {
                    self.events.push_back(Event::Readable(stream));
                }
                self.receiving.advertise(&mut self.control);
            }
            Frame::Stop { stream, code } => self.handle_stop(stream, code)?,
            Frame::Window { stream, limit } => {
                self.check_opened(stream)?;
                let event = self.sending.handle_window(stream, limit);
                self.events.extend(event);
            }
            Frame::Total { limit } => {
                self.sending.handle_total(limit);
                self.report_room();
            }
            Frame::Streams { limit } => {
                self.sending.handle_streams(limit);
                self.report_room();
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
        for item in carrier.take_oldest(arrived) {
            if let SentItem::Chunk(stream) = item
                && self.sending.handle_acknowledged(stream)
            {
                self.events.push_back(Event::Acknowledged(stream));
            }
        }
        self.report_room();
        Ok(())
    }

    /// Handles that the peer changed to this carrier; this end follows, unless it has gone further.
    fn handle_takeover(&mut self, number: CarrierNumber, now: Instant) {
        if let Some(from) = self.active().filter(|active| *active < number) {
            self.retire(from);
            self.switch(from, number, now);
        }
    }

    fn handle_stop(&mut self, stream: StreamNumber, code: StreamCode) -> Result<(), SessionError> {
        self.check_opened(stream)?;
        if let Some(offset) = self.sending.handle_stop(stream, code) {
            let frame = Frame::Reset {
                stream,
                code,
                offset,
            };
            self.control.push_back(frame);
            self.events.push_back(Event::Stopped(stream, code));
            self.report_room();
        }
        Ok(())
    }

    fn report_room(&mut self) {
        if self.sending.poll_room() {
            self.events.push_back(Event::Room);
        }
    }

    /// Rejects frames about a stream of this end that was never opened.
    fn check_opened(&self, stream: StreamNumber) -> Result<(), SessionError> {
        if self.sending.is_known(stream) {
            Ok(())
        } else {
            Err(SessionError::NeverOpened(stream))
        }
    }
}
