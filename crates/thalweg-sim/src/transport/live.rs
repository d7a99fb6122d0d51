//! One connection, from its first packet until it is lost.
//!
//! QUIC's events are dispatched to the connection's parts. A link is up when this end has opened its
//! control stream and has read the first byte of the other's.
//!
//! *Sources.* `thalweg-net` `link/mod.rs`; noq 1.4 `connection.rs`, the driver that this stands in for.

use bytes::Bytes;
use noq_proto::{
    Connection, ConnectionError, ConnectionHandle, Endpoint, Event, PathId, StreamEvent, VarInt,
};
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{DataSize, Ratio};
use thalweg_link::congestion::Carried;
use thalweg_link::hop::settings::{GREETING_WAIT, REASON_CHARS_MAX};
use thalweg_link::hop::{CloseCode, DownCause, StreamCode};

use super::control::Control;
use super::event::PortStats;
use super::io::{Io, Shared};
use super::receive::{self, Receiver};
use super::send::Outgoing;
use super::time::{instant, moment};

/// One connection and what travels on it.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) handle: ConnectionHandle,
    pub(super) quic: Connection,
    pub(super) sender: Outgoing,
    pub(super) receiver: Receiver,
    pub(super) control: Control,
    /// Free bytes in QUIC's datagram buffer when it is empty.
    datagram_room: usize,
    greeting_by: Instant,
    is_greeting: bool,
    drain: Option<Drain>,
    fault: Option<&'static str>,
    pub(super) over: Option<DownCause>,
}

/// A link's orderly shutdown.
#[derive(Clone, Copy, Debug)]
struct Drain {
    code: CloseCode,
    until: Instant,
    has_ended_control: bool,
}

impl Live {
    pub(super) fn new(now: Instant, handle: ConnectionHandle, mut quic: Connection) -> Self {
        Self {
            handle,
            datagram_room: quic.datagrams().send_buffer_space(),
            quic,
            sender: Outgoing::default(),
            receiver: Receiver::default(),
            control: Control::default(),
            greeting_by: now + GREETING_WAIT,
            is_greeting: false,
            drain: None,
            fault: None,
            over: None,
        }
    }

    /// Primes the congestion controller with what an earlier connection on this path has learned.
    pub(super) fn recall(&mut self, carried: Carried) {
        self.sender.recall(&mut self.quic, carried);
    }

    /// Returns whether both ends have greeted.
    pub(super) fn is_greeted(&self) -> bool {
        self.is_greeting && self.receiver.is_greeted()
    }

    pub(super) fn is_draining(&self) -> bool {
        self.drain.is_some()
    }

    pub(super) fn poll_timeout(&self) -> Instant {
        let quic = self.quic.poll_timeout().map_or(Instant::NEVER, instant);
        let greeting = if self.is_greeted() {
            Instant::NEVER
        } else {
            self.greeting_by
        };
        let drain = self.drain.map_or(Instant::NEVER, |drain| drain.until);
        quic.min(self.sender.poll_timeout())
            .min(self.receiver.poll_timeout())
            .min(greeting)
            .min(drain)
    }

    /// Handles the timers that are due.
    pub(super) fn handle_timeout(&mut self, now: Instant, shared: &mut Shared) {
        if self.quic.poll_timeout().is_some_and(|at| at <= moment(now)) {
            self.quic.handle_timeout(moment(now));
        }
        self.with(now, shared, |live, io| {
            live.sender.pump(io);
            live.receiver.expire(io);
        });
        if !self.is_greeted() && self.greeting_by <= now {
            self.fault.get_or_insert("no greeting");
        }
        if let Some(drain) = self.drain
            && drain.until <= now
        {
            self.close(now, drain.code, "");
        }
    }

    /// Runs `work` on the parts and their context.
    pub(super) fn with<T>(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        work: impl FnOnce(&mut Parts<'_>, &mut Io<'_>) -> T,
    ) -> T {
        let mut io = Io {
            now,
            quic: &mut self.quic,
            shared,
            fault: &mut self.fault,
        };
        let mut parts = Parts {
            sender: &mut self.sender,
            receiver: &mut self.receiver,
            control: &mut self.control,
        };
        work(&mut parts, &mut io)
    }

    /// Dispatches QUIC's events; returns whether there were any.
    pub(super) fn run(
        &mut self,
        endpoint: &mut Endpoint,
        now: Instant,
        shared: &mut Shared,
    ) -> bool {
        let mut has_moved = false;
        while self.over.is_none() {
            forward(endpoint, self.handle, &mut self.quic);
            let Some(event) = self.quic.poll() else {
                break;
            };
            has_moved = true;
            self.handle_event(now, shared, event);
        }
        if let Some(reason) = self.fault.take() {
            self.close(now, CloseCode::Protocol, reason);
        }
        if self.over.is_none() {
            // Acknowledgements have made room.
            self.with(now, shared, |live, io| live.sender.pump(io));
        }
        self.run_drain(now, shared);
        has_moved
    }

    /// Takes nothing more to send, and closes when everything is acknowledged.
    pub(super) fn begin_drain(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        code: CloseCode,
        grace: Duration,
    ) {
        self.drain.get_or_insert(Drain {
            code,
            until: now + grace,
            has_ended_control: false,
        });
        self.with(now, shared, |live, io| live.sender.finish_all_ordered(io));
    }

    /// Closes the connection from this side.
    pub(super) fn close(&mut self, now: Instant, code: CloseCode, reason: &'static str) {
        if self.over.is_none() {
            let code = VarInt::from_u64(code.number()).unwrap_or(VarInt::MAX);
            let reason = Bytes::from_static(reason.as_bytes());
            self.quic.close(moment(now), code, reason);
            self.over = Some(DownCause::ByUs);
        }
    }

    /// Ends everything that was in flight on the connection.
    pub(super) fn lose(&mut self, now: Instant, shared: &mut Shared) {
        self.with(now, shared, |live, io| {
            live.sender.lose(io);
            live.receiver.lose(io);
        });
    }

    fn run_drain(&mut self, now: Instant, shared: &mut Shared) {
        let Some(drain) = &mut self.drain else {
            return;
        };
        if !self.sender.is_idle() {
            return;
        }
        // Datagrams are not acknowledged to us; those not yet in packets would be lost with the connection.
        if self.quic.datagrams().send_buffer_space() < self.datagram_room {
            return;
        }
        let code = drain.code;
        if !std::mem::replace(&mut drain.has_ended_control, true) {
            self.with(now, shared, |live, io| live.control.finish(io));
        }
        if self.control.is_finished() {
            self.close(now, code, "");
        }
    }

    fn handle_event(&mut self, now: Instant, shared: &mut Shared, event: Event) {
        match event {
            Event::Connected => {
                self.is_greeting = true;
                self.with(now, shared, |live, io| live.control.greet(io));
            }
            Event::ConnectionLost { reason } => self.over = Some(down_cause(reason)),
            Event::Stream(event) => self.handle_stream(now, shared, &event),
            Event::DatagramReceived if self.is_greeted() => {
                self.with(now, shared, |_, io| {
                    while let Some(datagram) = io.quic.datagrams().recv() {
                        receive::take_datagram(io, datagram);
                    }
                });
            }
            // Datagrams that came before the greeting are taken in `begin`. There is one path, and no
            // other event needs an action.
            _ => {}
        }
    }

    /// Takes everything that came before the link was up.
    pub(super) fn begin(&mut self, now: Instant, shared: &mut Shared) {
        self.with(now, shared, |live, io| {
            live.receiver.begin(io);
            while let Some(datagram) = io.quic.datagrams().recv() {
                receive::take_datagram(io, datagram);
            }
        });
    }

    fn handle_stream(&mut self, now: Instant, shared: &mut Shared, event: &StreamEvent) {
        self.with(now, shared, |live, io| match *event {
            StreamEvent::Opened { .. } => live.receiver.accept(io),
            StreamEvent::Readable { id } => live.receiver.read(io, id),
            StreamEvent::Writable { id } if live.control.is_ours(id) => live.control.write(io),
            StreamEvent::Writable { id } => live.sender.handle_writable(io, id),
            StreamEvent::Finished { id } if live.control.is_ours(id) => {
                live.control.handle_finished();
            }
            StreamEvent::Finished { id } => live.sender.handle_finished(io, id),
            StreamEvent::Stopped { id, .. } if live.control.is_ours(id) => {
                live.control.handle_finished();
            }
            StreamEvent::Stopped { id, error_code } => {
                let code = StreamCode::from_number(error_code.into_inner());
                live.sender.handle_stopped(io, id, code);
            }
            StreamEvent::Available { .. } => live.sender.pump(io),
        });
    }

    pub(super) fn stats(&mut self) -> PortStats {
        let path = self.quic.path_stats(PathId::ZERO).unwrap_or_default();
        let stats = self.quic.stats();
        // Lost MTU probes are no loss: as in `thalweg-net`.
        let probes = path.lost_plpmtud_probes;
        let less = |packets: u64| packets.saturating_sub(probes);
        let loss = match less(stats.sent_packets) {
            0 => Ratio::ZERO,
            sent => Ratio::new(less(stats.lost_packets) as f64 / sent as f64).unwrap_or(Ratio::ONE),
        };
        let queued = self.sender.queued_bytes() + self.control.queued_bytes() as u64;
        PortStats {
            rtt: path.rtt.into(),
            rtt_min: self.sender.rtt_min(),
            rtt_latest: self.sender.rtt_latest(),
            loss,
            congestion_window: DataSize::from_bytes(path.cwnd),
            packets_sent: stats.sent_packets,
            packets_lost: stats.lost_packets,
            sent: DataSize::from_bytes(stats.udp_tx.bytes),
            received: DataSize::from_bytes(stats.udp_rx.bytes),
            in_flight: self.sender.in_flight(),
            bytes_in_flight: self.sender.bytes_in_flight(),
            waiting_since: self.sender.waiting_since(),
            queued: DataSize::from_bytes(queued),
            is_full: self.sender.is_full(),
            heard: self.sender.heard(),
        }
    }
}

/// The parts of a connection beside QUIC.
pub(super) struct Parts<'a> {
    pub(super) sender: &'a mut Outgoing,
    pub(super) receiver: &'a mut Receiver,
    pub(super) control: &'a mut Control,
}

/// Passes a connection's events to its endpoint, and the answers back.
pub(super) fn forward(endpoint: &mut Endpoint, handle: ConnectionHandle, quic: &mut Connection) {
    while let Some(event) = quic.poll_endpoint_events() {
        if let Some(answer) = endpoint.handle_event(handle, event) {
            quic.handle_event(answer);
        }
    }
}

/// Returns the cause for which a connection ended.
fn down_cause(error: ConnectionError) -> DownCause {
    match error {
        ConnectionError::ApplicationClosed(close) => DownCause::ByPeer {
            code: CloseCode::from_number(close.error_code.into_inner()),
            reason: String::from_utf8_lossy(&close.reason)
                .chars()
                .filter(|c| !c.is_control())
                .take(REASON_CHARS_MAX)
                .collect(),
        },
        ConnectionError::LocallyClosed => DownCause::ByUs,
        ConnectionError::TimedOut => DownCause::TimedOut,
        ConnectionError::Reset => DownCause::Restarted,
        other => DownCause::Other(other.to_string()),
    }
}
