//! A link over TCP connections that come and go: streams, windows, acknowledgements, and the
//! carriers below them.
//!
//! *The idea.* Streams and windows belong to the session, positions and pacing to a carrier. What a
//! carrier was handed is logged until the peer has it. When another takes over, the rest of the log
//! goes over that one, before anything new: control frames unchanged, chunks by the rank of their
//! streams. The receiver recognizes finished streams by their number and bytes by their offset, so
//! nothing arrives twice. The dialling end numbers the carriers, and the active number only rises:
//! when both ends change at once, the higher number wins.
//!
//! ```text
//! poll_transmit(carrier):  report ▸ takeover ▸ open, reset, stop, windows ▸ datagrams ▸ chunks ▸ ping
//!                          (always)                                       (while the pacer gives credit)
//! ```
//!
//! *What it does not do.* It opens no connection: [`Session::carriers_missing`] says how many are
//! wanted. A datagram in flight on a carrier that failed is not resent: it is counted.
//!
//! *Sources.* PL-6 to PL-13; RFC 9000 §3, §4; docs/concepts/tcp.md.

mod carrier;
mod carriers;
mod input;
mod ready;
mod receiving;
mod sending;
#[cfg(test)]
mod tests;
mod transmit;
mod values;

use alloc::collections::VecDeque;
use alloc::string::String;

use bytes::Bytes;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize};

use self::carrier::{Carrier, ReportPolicy, SentItem};
use self::carriers::Carriers;
use self::receiving::ReceiveStreams;
use self::sending::SendStreams;
use super::failover::{Failover, Verdict};
use super::frame::{Decoder, Frame, StreamNumber};
use super::kernel::KernelPath;
use super::settings::{CARRIERS_MAX, RARE_REPORT_BYTES, RARE_REPORT_DELAY, STANDBY_PATIENCE};
use crate::hop::settings::{IDLE_TIMEOUT, Patience};
use crate::hop::{CloseCode, StreamCode};
use crate::outbox::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, CHUNK_TIME};

pub use self::values::{
    Carried, CarrierNumber, DatagramError, Event, Pacing, Read, SessionError, Written,
};

/// Both directions of one link, over one active carrier.
#[derive(Debug)]
pub struct Session {
    pacing: Pacing,
    carriers: Carriers,
    /// The lowest number in use: carriers below it are retired.
    number_min: CarrierNumber,
    standbys: usize,
    failover: Failover,
    control: VecDeque<Frame>,
    is_takeover_due: bool,
    sending: SendStreams,
    receiving: ReceiveStreams,
    events: VecDeque<Event>,
    last_heard: Instant,
    patience: Patience,
    /// How often the peer wants reports of what has arrived.
    report_policy: ReportPolicy,
    end: End,
    carried: Carried,
}

/// Whether the session is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    No,
    /// The close frame is still to be sent.
    Closing,
    Over,
}

impl Session {
    /// Returns a session without a carrier.
    pub fn new(pacing: Pacing, standbys: usize, now: Instant) -> Self {
        Self {
            pacing,
            carriers: Carriers::default(),
            number_min: CarrierNumber(0),
            standbys: standbys.min(CARRIERS_MAX - 1),
            failover: Failover::default(),
            control: request_rare_reports(pacing).into_iter().collect(),
            is_takeover_due: false,
            sending: SendStreams::new(),
            receiving: ReceiveStreams::new(),
            events: VecDeque::new(),
            last_heard: now,
            patience: Patience::new(IDLE_TIMEOUT),
            report_policy: ReportPolicy::default(),
            end: End::No,
            carried: Carried::default(),
        }
    }

    /// Adds a connection over which both ends have exchanged greetings; `decoder` may hold bytes
    /// that came after that.
    ///
    /// The first becomes active, others stand by. Returns whether it is of use: its number is new
    /// and there is room.
    pub fn handle_carrier(
        &mut self,
        number: CarrierNumber,
        decoder: Decoder,
        now: Instant,
    ) -> bool {
        let is_of_use = number >= self.number_min
            && !self.carriers.contains(number)
            && self.carriers.len() < CARRIERS_MAX
            && self.end == End::No;
        if !is_of_use {
            return false;
        }
        let keep_alive = Duration::from_nanos(self.keep_alive().as_nanos() * STANDBY_PATIENCE);
        let carrier = Carrier::new(self.pacing, decoder, keep_alive, now);
        self.carriers.insert(number, carrier);
        self.last_heard = now;
        match (self.active(), self.number_min.0.checked_sub(1)) {
            (Some(_), _) => {}
            // Both ends know that the very first carrier is active. One that ends an interruption
            // announces it.
            (None, None) => self.activate(number, now),
            (None, Some(before)) => {
                self.is_takeover_due = true;
                self.switch(CarrierNumber(before), number, now);
            }
        }
        true
    }

    /// Handles the loss of a connection.
    pub fn handle_carrier_lost(&mut self, number: CarrierNumber, now: Instant) {
        if self.active() == Some(number) {
            self.retire(number);
            if let Some(next) = self.carriers.standby() {
                self.is_takeover_due = true;
                self.switch(number, next, now);
            }
        } else {
            self.carriers.remove(number);
        }
    }

    /// Handles the kernel's state of a carrier.
    pub fn handle_kernel(&mut self, number: CarrierNumber, path: KernelPath, now: Instant) {
        if let Some(carrier) = self.carriers.get_mut(number) {
            carrier.handle_kernel(path);
        }
        if self.active() == Some(number) {
            self.failover.handle_kernel(&path, now);
        }
    }

    /// Returns whether the kernel is to be asked about the active carrier before
    /// [`Session::handle_timeout`] judges its silence.
    pub fn wants_kernel(&self, now: Instant) -> bool {
        let wants = |carrier: &Carrier| {
            carrier.asks_kernel() && self.failover.wants_kernel(now, carrier.rtt())
        };
        self.carriers.active().is_some_and(wants)
    }

    /// Returns whether the active carrier has spent so much credit that the kernel is to be asked
    /// again; never if the peer's reports pace.
    pub fn is_used_up(&self) -> bool {
        self.carriers.active().is_some_and(Carrier::is_used_up)
    }

    /// Returns whether nothing more is handed over until the peer reports earlier bytes.
    pub fn awaits_word(&self, now: Instant) -> bool {
        let active = self.carriers.active();
        active.is_some_and(|carrier| carrier.is_unread(now))
    }

    /// Handles the passing of time: checks for a stall, and for a dead peer.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.end == End::Over {
            return;
        }
        if now >= self.last_heard + self.idle() {
            self.end_with(Event::Lost);
            return;
        }
        let (Some(number), Some(carrier)) = (self.active(), self.carriers.active()) else {
            return;
        };
        let (rtt, timeouts) = (carrier.rtt(), carrier.timeouts());
        let standby = self.carriers.standby();
        let verdict = self.failover.judge(now, rtt, timeouts, standby.is_some());
        if let (Verdict::Switch, Some(next)) = (verdict, standby) {
            self.retire(number);
            self.is_takeover_due = true;
            self.switch(number, next, now);
        }
    }

    /// Returns when the driver of a carrier is to call [`Session::handle_timeout`] or
    /// [`Session::poll_transmit`] for it, if nothing happens before.
    ///
    /// Other carriers' deadlines are left out: this driver could do nothing about them, and would
    /// be woken at once again.
    pub fn poll_timeout(&self, number: CarrierNumber) -> Instant {
        if self.end == End::Over {
            return Instant::NEVER;
        }
        let stall = self.carriers.active().map_or(Instant::NEVER, |carrier| {
            let has_standby = self.carriers.standby().is_some();
            self.failover
                .poll_timeout(carrier.rtt(), has_standby, carrier.asks_kernel())
        });
        let own = self.carriers.get(number);
        let own = own.map_or(Instant::NEVER, Carrier::poll_timeout);
        own.min(stall).min(self.last_heard + self.idle())
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Opens a stream that has precedence over streams of lower rank; at equal rank, older streams
    /// go first.
    ///
    /// `None` while the peer admits no more: [`Event::Room`] follows when it does.
    pub fn open(&mut self, rank: i32) -> Option<StreamNumber> {
        if self.end != End::No {
            return None;
        }
        let stream = self.sending.open(rank)?;
        self.control.push_back(Frame::Open { stream });
        Some(stream)
    }

    /// Writes to a stream; takes as many bytes from the front of `bytes` as there is room for.
    pub fn write(&mut self, stream: StreamNumber, bytes: &mut Bytes) -> Written {
        match self.end {
            End::No => self.sending.write(stream, bytes),
            _ => Written::Lost,
        }
    }

    /// Finishes a stream; [`Event::Acknowledged`] follows when the peer has every byte.
    pub fn finish(&mut self, stream: StreamNumber) {
        self.sending.finish(stream);
    }

    /// Resets a stream: unsent bytes are dropped, and the peer drops what it has.
    pub fn reset(&mut self, stream: StreamNumber, code: StreamCode) {
        if let Some(offset) = self.sending.reset(stream) {
            let frame = Frame::Reset {
                stream,
                code,
                offset,
            };
            self.control.push_back(frame);
        }
    }

    /// Sends a message once, before the bytes of all streams.
    ///
    /// Fails   returns the datagram if it is too large, if the queue is full, or if the session is over
    pub fn send_datagram(&mut self, datagram: Bytes) -> Result<(), (DatagramError, Bytes)> {
        match self.end {
            End::No => self.sending.send_datagram(datagram),
            _ => Err((DatagramError::Lost, datagram)),
        }
    }

    /// Returns the next bytes of an arriving stream, without blocking.
    pub fn read(&mut self, stream: StreamNumber) -> Read {
        self.receiving.read(stream, &mut self.control)
    }

    /// Stops an arriving stream; bytes that have arrived are dropped.
    pub fn stop(&mut self, stream: StreamNumber, code: StreamCode) {
        if self.receiving.stop(stream, &mut self.control) {
            self.control.push_back(Frame::Stop { stream, code });
        }
    }

    /// Returns the next datagram that has arrived.
    pub fn poll_datagram(&mut self) -> Option<Bytes> {
        self.receiving.poll_datagram()
    }

    /// Closes the session: the reason goes over the active carrier, and nothing after it.
    pub fn close(&mut self, code: CloseCode, reason: String) {
        if self.end == End::No {
            self.end = End::Closing;
            self.control.push_back(Frame::Close { code, reason });
        }
    }

    /// Returns how much may be written now so that no more than a sliver lies below the session.
    ///
    /// Zero while the peer does not read what its kernel accepts.
    pub fn credit(&self, now: Instant) -> DataSize {
        let Some(carrier) = self.carriers.active() else {
            return DataSize::ZERO;
        };
        let queued = DataSize::from_bytes(self.sending.queued());
        carrier.credit(now).saturating_sub(queued)
    }

    /// Returns the rate that the active carrier is believed to carry.
    pub fn sendable_rate(&self) -> Option<Bitrate> {
        self.carriers.active()?.rate()
    }

    /// Returns the smoothed time from sending to the peer's report, on the active carrier; zero
    /// before the first sample.
    pub fn rtt(&self) -> Duration {
        self.carriers.active().map_or(Duration::ZERO, Carrier::rtt)
    }

    /// Returns the minimum one-way delay of the active carrier: half of its minimum round trip;
    /// zero before the first sample.
    pub fn transit(&self) -> Duration {
        let active = self.carriers.active();
        let rtt_min = active.map_or(Duration::ZERO, Carrier::rtt_min);
        Duration::from_nanos(rtt_min.as_nanos() / 2)
    }

    /// Returns whether the active carrier was ever full: until then its rate shows only how much
    /// was tried.
    pub fn has_been_full(&self) -> bool {
        self.carriers.active().is_some_and(Carrier::has_been_full)
    }

    /// Returns how much may lie unsent in the kernel of the active carrier; `None` if the peer's
    /// reports pace.
    pub fn unsent_max(&self) -> Option<DataSize> {
        self.carriers.active()?.unsent_max()
    }

    /// Returns whether bytes wait for credit.
    pub fn has_more(&self) -> bool {
        self.sending.has_more()
    }

    /// Returns whether a frame waits for the active carrier that needs no credit.
    pub fn has_word(&self) -> bool {
        self.is_takeover_due || !self.control.is_empty()
    }

    /// Returns whether a carrier is still of use.
    pub fn has_carrier(&self, number: CarrierNumber) -> bool {
        self.carriers.contains(number)
    }

    /// Returns the active carrier.
    pub fn active(&self) -> Option<CarrierNumber> {
        self.carriers.active_number()
    }

    /// Returns the number of carriers, including the active one.
    pub fn carriers(&self) -> usize {
        self.carriers.len()
    }

    /// Returns how many connections to dial, for one active carrier and the wanted number of standbys.
    pub fn carriers_missing(&self) -> usize {
        match self.end {
            End::No => (1 + self.standbys).saturating_sub(self.carriers.len()),
            _ => 0,
        }
    }

    /// Returns when to dial those: later, if the peer was too busy; at once, if no carrier is active.
    pub fn dial_at(&self) -> Instant {
        match self.active() {
            Some(_) => self.failover.dial_at(),
            None => Instant::ZERO,
        }
    }

    /// Returns whether the session is over and the close frame sent.
    pub fn is_over(&self) -> bool {
        self.end == End::Over
    }

    /// Returns whether every byte written, except of reset streams, is acknowledged.
    pub fn is_settled(&self) -> bool {
        self.control.is_empty() && self.sending.is_settled()
    }

    /// Returns the counters of the session.
    pub fn carried(&self) -> Carried {
        Carried {
            failovers: self.failover.count(),
            stalls_held: self.failover.held_back(),
            duplicate_bytes: self.receiving.duplicate_bytes(),
            datagrams_dropped: self.receiving.datagrams_dropped(),
            ..self.carried
        }
    }

    fn idle(&self) -> Duration {
        Duration::from_millis(self.patience.idle_ms.into())
    }

    /// Returns the keep-alive interval of the active carrier.
    ///
    /// The end that keeps standbys pings first, and a ping makes the other end's own ping needless.
    /// At equal intervals both would ping.
    fn keep_alive(&self) -> Duration {
        let keep_alive = self.patience.keep_alive;
        match self.standbys {
            0 => Duration::from_nanos(keep_alive.as_nanos() * 5 / 4),
            _ => keep_alive,
        }
    }

    /// Retires a carrier; what it did not deliver is to be resent.
    fn retire(&mut self, number: CarrierNumber) {
        let Some(carrier) = self.carriers.remove(number) else {
            return;
        };
        // A carrier is never used again: the peer may have retired it, too.
        self.number_min = self.number_min.max(CarrierNumber(number.0 + 1));
        // In reverse to the front of the queue, so that control frames keep their order.
        for item in carrier.into_unacknowledged().into_iter().rev() {
            match item {
                SentItem::Control(frame) => self.control.push_front(frame),
                SentItem::Datagram => self.carried.datagrams_lost += 1,
                SentItem::Chunk(_) | SentItem::Transient => {}
            }
        }
        // Chunks are kept by their streams, which resend them by rank.
        self.carried.resent_bytes += self.sending.rewind();
    }

    /// Makes a carrier the active one, after [`Session::retire`] retired the one before.
    fn switch(&mut self, from: CarrierNumber, to: CarrierNumber, now: Instant) {
        self.failover.handle_switched(now);
        self.events.push_back(Event::FailedOver { from, to });
        self.activate(to, now);
    }

    fn activate(&mut self, number: CarrierNumber, now: Instant) {
        self.number_min = self.number_min.max(number);
        let keep_alive = self.keep_alive();
        if let Some(carrier) = self.carriers.activate(number) {
            carrier.handle_activated(self.pacing, keep_alive, now);
        }
        self.events.push_back(Event::Room);
    }

    fn end_with(&mut self, event: Event) {
        self.end = End::Over;
        self.events.push_back(event);
    }

    /// Returns how many bytes take [`CHUNK_TIME`]; the minimum while the rate is unknown, for a
    /// chunk that takes long looks like a stall.
    fn chunk_bytes(&self) -> usize {
        let bytes = self
            .sendable_rate()
            .map_or(0, |rate| (rate * CHUNK_TIME).as_bytes());
        bytes.clamp(CHUNK_BYTES_MIN.into(), CHUNK_BYTES_MAX.into()) as usize
    }
}

/// Returns the frame that requests rare reports, where reports do not pace.
fn request_rare_reports(pacing: Pacing) -> Option<Frame> {
    let delay_ms = RARE_REPORT_DELAY.as_nanos() / 1_000_000;
    (pacing == Pacing::Kernel).then_some(Frame::Tell {
        bytes: RARE_REPORT_BYTES,
        delay_ms,
    })
}
