//! A link over TCP connections that come and go: streams, windows, acknowledgements, and who carries them.
//!
//! *The idea.* Streams and windows belong to the session, positions and pacing to a carrier. What a carrier was given is
//! logged until the peer has it; when another takes over, what the log still holds goes over that one, before anything
//! new: small frames as they were, chunks by the rank of their streams. The receiver knows streams that are over by their
//! number and bytes that are here by their offset, so nothing arrives twice. Carriers are numbered by who dials, and the
//! active number only rises: when both ends change at once, the higher wins.
//!
//! ```text
//! poll_transmit(carrier):  received ▸ takeover ▸ open, reset, stop, windows ▸ datagrams ▸ chunks by rank ▸ ping
//!                          (always)                                         (while the pacer gives credit)
//! ```
//!
//! *What it does not do.* It opens no connection: [`Session::carriers_missing`] says how many are wanted. A datagram that was
//! under way when a carrier failed is not sent again: it is counted.
//!
//! *Sources.* PL-6 to PL-13; RFC 9000 §3, §4; docs/tcp.md.

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

use self::carrier::{Carrier, Tell, What};
use self::carriers::Carriers;
use self::receiving::Receiving;
use self::sending::Sending;
use super::failover::{Failover, Verdict};
use super::frame::{Decoder, Frame, StreamNumber};
use super::kernel::KernelPath;
use super::settings::{CARRIERS_MAX, STANDBY_PATIENCE, TELL_BYTES_SELDOM, TELL_DELAY_SELDOM};
use crate::hop::settings::{IDLE_TIMEOUT, Patience};
use crate::hop::{CloseCode, StreamCode};
use crate::outbox::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, CHUNK_TIME};
use crate::time::{Duration, Instant};
use crate::units::{Bitrate, DataSize};

pub use self::values::{
    Carried, CarrierNumber, DatagramError, Event, Pacing, Read, SessionError, Written,
};

/// Both directions of one link, over one active carrier.
#[derive(Debug)]
pub struct Session {
    pacing: Pacing,
    carriers: Carriers,
    /// The number below which carriers have been left.
    least: CarrierNumber,
    standbys: usize,
    failover: Failover,
    control: VecDeque<Frame>,
    is_takeover_due: bool,
    sending: Sending,
    receiving: Receiving,
    events: VecDeque<Event>,
    heard: Instant,
    patience: Patience,
    /// How often the peer wants to be told what has arrived.
    tell: Tell,
    end: End,
    carried: Carried,
}

/// Whether the session is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    No,
    /// The last word is to be said.
    Closing,
    Over,
}

impl Session {
    /// Begins without a carrier.
    pub fn new(pacing: Pacing, standbys: usize, now: Instant) -> Self {
        Self {
            pacing,
            carriers: Carriers::default(),
            least: CarrierNumber(0),
            standbys: standbys.min(CARRIERS_MAX - 1),
            failover: Failover::default(),
            control: seldom(pacing).into_iter().collect(),
            is_takeover_due: false,
            sending: Sending::new(),
            receiving: Receiving::new(),
            events: VecDeque::new(),
            heard: now,
            patience: Patience::new(IDLE_TIMEOUT),
            tell: Tell::default(),
            end: End::No,
            carried: Carried::default(),
        }
    }

    /// Takes in a connection over which both ends have said hello; `decoder` may hold what came behind that.
    ///
    /// The first is the active one, others stand by. Returns whether it is of use: its number is new and there is room.
    pub fn handle_carrier(
        &mut self,
        number: CarrierNumber,
        decoder: Decoder,
        now: Instant,
    ) -> bool {
        let is_of_use = number >= self.least
            && !self.carriers.contains(number)
            && self.carriers.len() < CARRIERS_MAX
            && self.end == End::No;
        if !is_of_use {
            return false;
        }
        let keep_alive = Duration::from_nanos(self.keep_alive().as_nanos() * STANDBY_PATIENCE);
        let carrier = Carrier::new(self.pacing, decoder, keep_alive, now);
        self.carriers.insert(number, carrier);
        self.heard = now;
        match (self.active(), self.least.0.checked_sub(1)) {
            (Some(_), _) => {}
            // The first carrier of all is known to be the active one; one that ends an interruption says so.
            (None, None) => self.activate(number, now),
            (None, Some(before)) => {
                self.is_takeover_due = true;
                self.switch(CarrierNumber(before), number, now);
            }
        }
        true
    }

    /// Takes in that a connection is gone.
    pub fn handle_carrier_lost(&mut self, number: CarrierNumber, now: Instant) {
        if self.active() == Some(number) {
            self.leave(number);
            if let Some(next) = self.carriers.standby() {
                self.is_takeover_due = true;
                self.switch(number, next, now);
            }
        } else {
            self.carriers.remove(number);
        }
    }

    /// Takes in what the kernel says of a carrier.
    pub fn handle_kernel(&mut self, number: CarrierNumber, path: KernelPath, now: Instant) {
        if let Some(carrier) = self.carriers.get_mut(number) {
            carrier.handle_kernel(path);
        }
        if self.active() == Some(number) {
            self.failover.handle_kernel(&path, now);
        }
    }

    /// Returns whether the active carrier has been silent for so long that the kernel is to be asked, where it can be, before
    /// [`Session::handle_timeout`] judges.
    pub fn wants_kernel(&self, now: Instant) -> bool {
        let wants = |carrier: &Carrier| {
            carrier.asks_kernel() && self.failover.wants_kernel(now, carrier.rtt())
        };
        self.carriers.active().is_some_and(wants)
    }

    /// Returns whether the active carrier was handed so much on what the kernel said that it is to be asked again; never if it is
    /// the peer that paces.
    pub fn is_used_up(&self) -> bool {
        self.carriers.active().is_some_and(Carrier::is_used_up)
    }

    /// Returns whether nothing more is handed over until the peer says that it has what it was given before.
    pub fn awaits_word(&self, now: Instant) -> bool {
        let active = self.carriers.active();
        active.is_some_and(|carrier| carrier.is_unread(now))
    }

    /// Takes in that time has passed: looks for a stall, and for a peer that is gone.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.end == End::Over {
            return;
        }
        if now >= self.heard + self.idle() {
            self.over(Event::Lost);
            return;
        }
        let (Some(number), Some(carrier)) = (self.active(), self.carriers.active()) else {
            return;
        };
        let (rtt, timeouts) = (carrier.rtt(), carrier.timeouts());
        let standby = self.carriers.standby();
        let verdict = self.failover.judge(now, rtt, timeouts, standby.is_some());
        if let (Verdict::Switch, Some(next)) = (verdict, standby) {
            self.leave(number);
            self.is_takeover_due = true;
            self.switch(number, next, now);
        }
    }

    /// Returns when whoever looks after a carrier is to call [`Session::handle_timeout`] or [`Session::poll_transmit`] for it, if
    /// nothing happens before.
    ///
    /// What is due on another carrier is none of his: he can do nothing about it, and would ask at once again.
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
        own.min(stall).min(self.heard + self.idle())
    }

    /// Gives out what has happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Opens a stream whose bytes go before those of lower rank, and of equal rank after those opened before.
    ///
    /// Nothing while the peer admits no more: [`Event::Room`] follows when it does.
    pub fn open(&mut self, rank: i32) -> Option<StreamNumber> {
        if self.end != End::No {
            return None;
        }
        let stream = self.sending.open(rank)?;
        self.control.push_back(Frame::Open { stream });
        Some(stream)
    }

    /// Hands over bytes of a stream; takes from the front of `bytes` what there is room for.
    pub fn write(&mut self, stream: StreamNumber, bytes: &mut Bytes) -> Written {
        match self.end {
            End::No => self.sending.write(stream, bytes),
            _ => Written::Lost,
        }
    }

    /// Says that nothing more will be written; [`Event::Acknowledged`] follows when the peer has every byte.
    pub fn finish(&mut self, stream: StreamNumber) {
        self.sending.finish(stream);
    }

    /// Gives a stream up: what is not sent is not, and the peer forgets what it has.
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
    /// Fails   gives it back if it is too large, if those before it have not left, or if the session is over
    pub fn send_datagram(&mut self, datagram: Bytes) -> Result<(), (DatagramError, Bytes)> {
        match self.end {
            End::No => self.sending.send_datagram(datagram),
            _ => Err((DatagramError::Lost, datagram)),
        }
    }

    /// Returns the next bytes of an arriving stream, without waiting.
    pub fn read(&mut self, stream: StreamNumber) -> Read {
        self.receiving.read(stream, &mut self.control)
    }

    /// Wants no more of an arriving stream; what has arrived is forgotten.
    pub fn stop(&mut self, stream: StreamNumber, code: StreamCode) {
        if self.receiving.stop(stream, &mut self.control) {
            self.control.push_back(Frame::Stop { stream, code });
        }
    }

    /// Gives out the next datagram that has arrived.
    pub fn poll_datagram(&mut self) -> Option<Bytes> {
        self.receiving.poll_datagram()
    }

    /// Ends the session: the reason is said over the active carrier, and nothing after it.
    pub fn close(&mut self, code: CloseCode, reason: String) {
        if self.end == End::No {
            self.end = End::Closing;
            self.control.push_back(Frame::Close { code, reason });
        }
    }

    /// Returns how much may be written now so that no more than a sliver lies below whoever writes.
    ///
    /// Nothing while the peer reads nothing of what its kernel takes in its name.
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

    /// Returns the smoothed time between sending and the peer's word, on the active carrier; zero before one was measured.
    pub fn rtt(&self) -> Duration {
        self.carriers.active().map_or(Duration::ZERO, Carrier::rtt)
    }

    /// Returns how long a byte is on its way over the active carrier at least: half of its least round trip; zero before
    /// one was measured.
    pub fn transit(&self) -> Duration {
        let active = self.carriers.active();
        let rtt_min = active.map_or(Duration::ZERO, Carrier::rtt_min);
        Duration::from_nanos(rtt_min.as_nanos() / 2)
    }

    /// Returns whether the active carrier was ever found to carry no more: before, its rate says what was tried.
    pub fn has_been_full(&self) -> bool {
        self.carriers.active().is_some_and(Carrier::has_been_full)
    }

    /// Returns how much may lie unsent in the kernel of the active carrier, if it is the kernel that is asked.
    pub fn unsent_max(&self) -> Option<DataSize> {
        self.carriers.active()?.unsent_max()
    }

    /// Returns whether bytes wait for credit.
    pub fn has_more(&self) -> bool {
        self.sending.has_more()
    }

    /// Returns whether there is something for the active carrier that needs no credit.
    pub fn has_word(&self) -> bool {
        self.is_takeover_due || !self.control.is_empty()
    }

    /// Returns whether a carrier is of use still.
    pub fn has_carrier(&self, number: CarrierNumber) -> bool {
        self.carriers.contains(number)
    }

    /// Returns the carrier that is being used.
    pub fn active(&self) -> Option<CarrierNumber> {
        self.carriers.active_number()
    }

    /// Returns how many carriers there are, the active one among them.
    pub fn carriers(&self) -> usize {
        self.carriers.len()
    }

    /// Returns how many connections are to be dialled so that one is active and the wanted number stands by.
    pub fn carriers_missing(&self) -> usize {
        match self.end {
            End::No => (1 + self.standbys).saturating_sub(self.carriers.len()),
            _ => 0,
        }
    }

    /// Returns from when on they may be: later, if the peer was too busy for what it had; at once, if nothing carries.
    pub fn dial_at(&self) -> Instant {
        match self.active() {
            Some(_) => self.failover.dial_at(),
            None => Instant::ZERO,
        }
    }

    /// Returns whether the session is over and its last word said.
    pub fn is_over(&self) -> bool {
        self.end == End::Over
    }

    /// Returns whether everything that was written, and is still wanted, has been acknowledged.
    pub fn is_settled(&self) -> bool {
        self.control.is_empty() && self.sending.is_settled()
    }

    /// Returns what has happened so far, in numbers.
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

    /// Returns how long the active carrier may be silent until this end asks whether it lives.
    ///
    /// Whoever sees to it that connections stand by asks first, and who was just asked need not ask: of two that wait equally long
    /// both would.
    fn keep_alive(&self) -> Duration {
        let keep_alive = self.patience.keep_alive;
        match self.standbys {
            0 => Duration::from_nanos(keep_alive.as_nanos() * 5 / 4),
            _ => keep_alive,
        }
    }

    /// Lets go of a carrier; what it did not deliver is to be sent again.
    fn leave(&mut self, number: CarrierNumber) {
        let Some(carrier) = self.carriers.remove(number) else {
            return;
        };
        self.least = self.least.max(CarrierNumber(number.0 + 1));
        for what in carrier.into_unacknowledged().into_iter().rev() {
            match what {
                What::Control(frame) => self.control.push_front(frame),
                What::Datagram => self.carried.datagrams_lost += 1,
                What::Chunk(_) | What::Passing => {}
            }
        }
        self.carried.resent_bytes += self.sending.rewind();
    }

    /// Makes a carrier the active one, after [`Session::leave`] let go of the one before.
    fn switch(&mut self, from: CarrierNumber, to: CarrierNumber, now: Instant) {
        self.failover.handle_switched(now);
        self.events.push_back(Event::FailedOver { from, to });
        self.activate(to, now);
    }

    fn activate(&mut self, number: CarrierNumber, now: Instant) {
        self.least = self.least.max(number);
        let keep_alive = self.keep_alive();
        if let Some(carrier) = self.carriers.activate(number) {
            carrier.handle_activated(self.pacing, keep_alive, now);
        }
        self.events.push_back(Event::Room);
    }

    fn over(&mut self, event: Event) {
        self.end = End::Over;
        self.events.push_back(event);
    }

    /// Returns how many bytes take [`CHUNK_TIME`]; the least while the rate is unknown, for a chunk that takes long looks
    /// like a stall.
    fn chunk_bytes(&self) -> usize {
        let bytes = self
            .sendable_rate()
            .map_or(0, |rate| (rate * CHUNK_TIME).as_bytes());
        bytes.clamp(CHUNK_BYTES_MIN.into(), CHUNK_BYTES_MAX.into()) as usize
    }
}

/// Returns what asks the peer to say seldom what it has, where its word paces nobody.
fn seldom(pacing: Pacing) -> Option<Frame> {
    let delay_ms = TELL_DELAY_SELDOM.as_nanos() / 1_000_000;
    (pacing == Pacing::Kernel).then_some(Frame::Tell {
        bytes: TELL_BYTES_SELDOM,
        delay_ms,
    })
}
