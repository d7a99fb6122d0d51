//! QUIC congestion controllers, by name; each has a watch.
//!
//! *The idea.* `thalweg_link::congestion` decides, or one of noq's own controllers. All of noq's
//! calls are passed to it and to the [`Watch`] of the path. Thalweg's controller counts time from
//! its creation.
//!
//! noq reads the clock before it reads the socket. If the thread is preempted in between, the
//! packets it reads arrived much later than that time, and may seem to be acknowledged before they
//! were sent. So, with a real clock, the time is read again when a batch is processed, and shortest
//! round trips are computed from that.
//!
//! *What it does not do.* It decides nothing. noq's `BBRv3` seeds its own random numbers, so
//! simulations with it are not reproducible to the bit.
//!
//! *Sources.* noq-proto 1.4 `congestion.rs`.

use std::any::Any;
use std::sync::Arc;

use noq_proto::RttEstimator;
use noq_proto::congestion::{
    Bbr3Config, Controller as QuicController, ControllerFactory, ControllerMetrics, CubicConfig,
    NewRenoConfig,
};
use thalweg_base::time::Instant;
use thalweg_base::units::{Bitrate, DataSize};
use thalweg_link::congestion::{Algorithm, Congestion, Controller};
use thalweg_link::hop::narrow::Narrow;

use crate::Watch;
use crate::watch::{Acked, Allowed, Moment, Sent, Settled};

/// Reads the clock that noq reads.
pub type Clock = fn() -> Moment;

/// Returns a factory of watched controllers of one algorithm. `clock` is `None` where time stands
/// still while noq works, as in a simulation.
pub fn factory(
    algorithm: Algorithm,
    clock: Option<Clock>,
) -> Arc<dyn ControllerFactory + Send + Sync> {
    let foreign: Option<Arc<dyn ControllerFactory + Send + Sync>> = match algorithm {
        Algorithm::Thalweg => None,
        Algorithm::Cubic => Some(Arc::new(CubicConfig::default())),
        Algorithm::Bbr => Some(Arc::new(Bbr3Config::default())),
        Algorithm::NewReno => Some(Arc::new(NewRenoConfig::default())),
    };
    Arc::new(Watchful { foreign, clock })
}

/// Returns the watch of a path, if this crate made its controller.
pub fn watch(state: Box<dyn QuicController>) -> Option<Arc<Watch>> {
    let watched = state.into_any().downcast::<Watched>().ok()?;
    Some(watched.watch)
}

/// Returns the state of Thalweg's algorithm, if the path uses it.
pub fn controller(state: Box<dyn QuicController>) -> Option<Controller> {
    let watched = state.into_any().downcast::<Watched>().ok()?;
    let own = watched.inner.into_any().downcast::<Adapted>().ok()?;
    Some(own.controller)
}

/// Converts noq's moments to times since the controller's creation.
#[derive(Clone, Copy, Debug)]
struct Times {
    since: Moment,
    clock: Option<Clock>,
}

impl Times {
    fn at(self, moment: Moment) -> Instant {
        Instant::ZERO + moment.saturating_duration_since(self.since).into()
    }

    /// Returns the time at which an event of this moment is processed.
    fn processed_at(self, moment: Moment) -> Instant {
        self.at(self.clock.map_or(moment, |clock| clock()))
    }
}

/// Makes watched controllers: Thalweg's own, or noq's.
struct Watchful {
    foreign: Option<Arc<dyn ControllerFactory + Send + Sync>>,
    clock: Option<Clock>,
}

/// A controller with its watch. A clone shares the watch.
#[derive(Debug)]
struct Watched {
    inner: Box<dyn QuicController>,
    watch: Arc<Watch>,
    times: Times,
    /// Packets sent and acknowledgements of the present batch, not yet in the watch.
    sent: Sent,
    acked: Acked,
    /// The largest packet but for probes of a larger one.
    packet_bytes: u16,
    narrow: Narrow,
}

impl ControllerFactory for Watchful {
    fn build(self: Arc<Self>, now: Moment, mtu: u16) -> Box<dyn QuicController> {
        Box::new(self.watched(now, mtu))
    }
}

impl Watchful {
    fn watched(&self, now: Moment, mtu: u16) -> Watched {
        let watch = Arc::<Watch>::default();
        watch.handle_packet_size(DataSize::from_bytes(mtu.into()));
        let times = Times {
            since: now,
            clock: self.clock,
        };
        let inner = match &self.foreign {
            None => Box::new(Adapted::new(times, mtu, watch.clone())),
            Some(foreign) => foreign.clone().build(now, mtu),
        };
        Watched {
            inner,
            watch,
            times,
            sent: Sent::default(),
            acked: Acked::default(),
            packet_bytes: mtu,
            narrow: Narrow::default(),
        }
    }
}

impl Watched {
    /// Returns the controller's window and rate.
    fn allowed(&self) -> Allowed {
        let metrics = self.inner.metrics();
        Allowed {
            window: DataSize::from_bytes(metrics.congestion_window),
            rate: Bitrate::from_bps(metrics.bandwidth_estimate.unwrap_or(0)),
        }
    }

    /// Reports to the watch what was sent since the last call.
    fn report_sent(&mut self) {
        if !self.sent.is_empty() {
            self.watch.handle_sent(std::mem::take(&mut self.sent));
        }
    }
}

impl QuicController for Watched {
    fn on_sent(&mut self, now: Moment, bytes: u64, largest_number: u64) {
        self.inner.on_sent(now, bytes, largest_number);
        self.report_sent();
    }

    fn on_packet_sent(&mut self, now: Moment, bytes: u16, number: u64) {
        self.inner.on_packet_sent(now, bytes, number);
        self.sent.handle(now, DataSize::from_bytes(bytes.into()));
        // noq ends each turn by `on_sent`, but one with a probe for a larger packet.
        if bytes > self.packet_bytes {
            self.report_sent();
        }
    }

    fn on_cwnd_limited(&mut self) {
        self.inner.on_cwnd_limited();
    }

    fn on_ack(
        &mut self,
        now: Moment,
        sent: Moment,
        size: u64,
        number: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.inner.on_ack(now, sent, size, number, app_limited, rtt);
        let bytes = DataSize::from_bytes(size);
        self.acked
            .handle(bytes, self.times.at(sent), rtt.get().into());
        // Nearly always clear: only a streak of losses makes this acknowledgement matter.
        if !self.narrow.is_clear() {
            self.narrow.handle_acknowledged(number, packet_size(size));
            let passage = self.narrow.passage(self.times.at(now));
            self.watch.handle_passage(passage);
        }
    }

    fn on_end_acks(
        &mut self,
        now: Moment,
        in_flight: u64,
        app_limited: bool,
        largest_number: Option<u64>,
    ) {
        self.inner
            .on_end_acks(now, in_flight, app_limited, largest_number);
        self.report_sent();
        self.watch.handle_settled(Settled {
            at: (now, self.times.processed_at(now)),
            acked: std::mem::take(&mut self.acked),
            in_flight: DataSize::from_bytes(in_flight),
            is_app_limited: app_limited,
            allowed: self.allowed(),
        });
    }

    fn on_congestion_event(
        &mut self,
        now: Moment,
        sent: Moment,
        is_persistent: bool,
        is_ecn: bool,
        lost_bytes: u64,
        largest_lost: u64,
    ) {
        self.inner
            .on_congestion_event(now, sent, is_persistent, is_ecn, lost_bytes, largest_lost);
        self.report_sent();
        self.watch.handle_congestion(is_persistent, self.allowed());
    }

    fn on_packet_lost(&mut self, bytes: u16, number: u64, now: Moment) {
        self.inner.on_packet_lost(bytes, number, now);
        let at = self.times.at(now);
        self.narrow.handle_lost(at, number, bytes);
        let size = DataSize::from_bytes(bytes.into());
        self.report_sent();
        self.watch.handle_lost(size, self.narrow.passage(at));
    }

    fn on_spurious_congestion_event(&mut self) {
        self.inner.on_spurious_congestion_event();
        self.watch.handle_allowed(self.allowed());
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.inner.on_mtu_update(mtu);
        self.packet_bytes = mtu;
        self.watch
            .handle_packet_size(DataSize::from_bytes(mtu.into()));
    }

    fn on_ack_frequency_update(
        &mut self,
        threshold: u64,
        requested_delay_max: core::time::Duration,
    ) {
        self.inner
            .on_ack_frequency_update(threshold, requested_delay_max);
    }

    fn window(&self) -> u64 {
        self.inner.window().saturating_add(self.watch.extra_bytes())
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn QuicController> {
        Box::new(Self {
            inner: self.inner.clone_box(),
            watch: self.watch.clone(),
            times: self.times,
            sent: self.sent,
            acked: self.acked,
            packet_bytes: self.packet_bytes,
            narrow: self.narrow,
        })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Returns the size of one packet, which UDP limits to 16 bits.
fn packet_size(bytes: u64) -> u16 {
    u16::try_from(bytes).unwrap_or(u16::MAX)
}

/// Thalweg's controller, as noq's interface.
#[derive(Clone, Debug)]
struct Adapted {
    controller: Controller,
    times: Times,
    measured: Measured,
    /// Returns what the path carried before, and records what it carries.
    watch: Arc<Watch>,
    /// Whether that was passed to the controller.
    has_recalled: bool,
}

/// The controller's results since its last change, cached because noq reads them several times per
/// packet for pacing.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    window_bytes: u64,
    pacing_bytes_per_second: Option<u64>,
    sendable_bps: u64,
}

impl Adapted {
    fn new(times: Times, mtu: u16, watch: Arc<Watch>) -> Self {
        let mut adapted = Self {
            controller: Controller::new(DataSize::from_bytes(mtu.into())),
            times,
            measured: Measured::default(),
            watch,
            has_recalled: false,
        };
        adapted.measure();
        adapted
    }

    /// Passes on what the path carried before, once that is known.
    fn recall(&mut self) {
        if !self.has_recalled
            && let Some(carried) = self.watch.recalled()
        {
            self.has_recalled = true;
            self.controller.handle_kept(carried);
        }
    }

    /// Records what the path carries. Called per batch, since single packets do not change it.
    fn record_carried(&self) {
        if let Some(carried) = self.controller.to_keep() {
            self.watch.handle_carried(carried);
        }
    }

    /// Updates the cached results after a change of the controller.
    fn measure(&mut self) {
        let pacing = self.controller.pacing_rate();
        self.measured = Measured {
            window_bytes: self.controller.window().as_bytes(),
            pacing_bytes_per_second: pacing.map(|rate| rate.as_bps() / 8),
            sendable_bps: self.controller.sendable().as_bps(),
        };
    }
}

impl QuicController for Adapted {
    fn on_packet_sent(&mut self, now: Moment, bytes: u16, number: u64) {
        let size = DataSize::from_bytes(bytes.into());
        self.controller
            .handle_sent(self.times.at(now), number, size);
    }

    fn on_cwnd_limited(&mut self) {
        self.recall();
        self.controller.handle_full();
        self.measure();
    }

    fn on_ack(
        &mut self,
        now: Moment,
        sent: Moment,
        bytes: u64,
        number: u64,
        _app_limited: bool,
        _rtt: &RttEstimator,
    ) {
        let size = DataSize::from_bytes(bytes);
        let (now, sent) = (self.times.at(now), self.times.at(sent));
        self.controller.handle_ack(now, number, sent, size);
    }

    fn on_end_acks(
        &mut self,
        now: Moment,
        in_flight: u64,
        app_limited: bool,
        _largest_packet_num_acked: Option<u64>,
    ) {
        let in_flight = DataSize::from_bytes(in_flight);
        self.recall();
        self.controller.handle_clock(self.times.processed_at(now));
        let now = self.times.at(now);
        self.controller.handle_acks_end(now, in_flight, app_limited);
        self.measure();
        self.record_carried();
    }

    fn on_packet_lost(&mut self, bytes: u16, number: u64, _now: Moment) {
        let size = DataSize::from_bytes(bytes.into());
        self.controller.handle_lost(number, size);
        self.measure();
    }

    fn on_congestion_event(
        &mut self,
        now: Moment,
        sent: Moment,
        is_persistent: bool,
        is_ecn: bool,
        _lost_bytes: u64,
        _largest_lost_pn: u64,
    ) {
        let cause = match (is_persistent, is_ecn) {
            (true, _) => Congestion::Persistent,
            (false, true) => Congestion::Mark,
            (false, false) => Congestion::Loss,
        };
        let (now, sent) = (self.times.at(now), self.times.at(sent));
        self.controller.handle_congestion(now, sent, cause);
        self.measure();
        self.record_carried();
    }

    fn on_spurious_congestion_event(&mut self) {
        self.controller.handle_spurious_loss();
        self.measure();
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        let packet = DataSize::from_bytes(mtu.into());
        self.controller.handle_packet_size(packet);
        self.measure();
    }

    /// Includes the brim, since noq starts a packet only if the whole packet fits.
    fn window(&self) -> u64 {
        (self.controller.window() + self.controller.brim()).as_bytes()
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.measured.window_bytes;
        metrics.pacing_rate = self.measured.pacing_bytes_per_second;
        metrics.bandwidth_estimate = Some(self.measured.sendable_bps);
        metrics
    }

    fn clone_box(&self) -> Box<dyn QuicController> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration as Time;

    use thalweg_link::congestion::Carried;

    use super::*;

    thread_local! {
        static NOW: Cell<Option<Moment>> = const { Cell::new(None) };
    }

    fn clock() -> Moment {
        NOW.get().unwrap_or_else(Moment::now)
    }

    #[test]
    fn idle_path_is_not_known_full() {
        let watch = Watch::default();
        let at = |millis| Instant::ZERO + thalweg_base::time::Duration::from_millis(millis);
        let allowed = Allowed {
            window: DataSize::from_bytes(12_000),
            rate: Bitrate::ZERO,
        };
        watch.handle_congestion(false, allowed);
        assert!(watch.reading().has_been_full);
        watch.handle_congestion(true, allowed);
        assert!(!watch.reading().has_been_full, "nothing came for long");
        watch.handle_congestion(false, allowed);
        for (millis, is_app_limited, is_full) in [
            (1_000, false, true),
            (10_999, true, true),
            (11_000, true, false),
            (12_000, false, false),
        ] {
            watch.handle_settled(Settled {
                at: (Moment::now(), at(millis)),
                acked: Acked::default(),
                in_flight: DataSize::ZERO,
                is_app_limited,
                allowed,
            });
            assert_eq!(watch.reading().has_been_full, is_full, "{millis} ms");
        }
    }

    #[test]
    fn burst_takes_credit_when_it_has_left() {
        let now = Moment::now();
        let mut watched = Watchful {
            foreign: None,
            clock: None,
        }
        .watched(now, 1_200);
        let watch = watched.watch.clone();
        let fresh = watch.credit();
        watch.handle_written(3_000);
        let after = |bytes| fresh.saturating_sub(DataSize::from_bytes(bytes));
        assert_eq!(watch.credit(), after(3_000));
        for number in 0..3 {
            watched.on_packet_sent(now, 1_200, number);
        }
        assert_eq!(watch.reading().in_flight, DataSize::ZERO, "not yet told");
        watched.on_sent(now, 3_600, 2);
        let reading = watch.reading();
        assert_eq!(reading.in_flight, DataSize::from_bytes(3_600));
        assert_eq!(reading.unsent, DataSize::ZERO);
        assert_eq!(reading.waiting_since, Some(now));
        assert_eq!(watch.credit(), after(3_600));
        // A probe for a larger packet goes alone.
        watched.on_packet_sent(now, 1_400, 3);
        assert_eq!(watch.reading().in_flight, DataSize::from_bytes(5_000));
    }

    #[test]
    fn cpu_delay_is_no_shorter_path() {
        let size = DataSize::from_bytes(1_200);
        let rtt = Time::from_millis(4);
        for (asked, transit_ms, queueing_ms) in [(Some(clock as Clock), 2, 0), (None, 0, 3)] {
            let start = Moment::now();
            let mut watched = Watchful {
                foreign: None,
                clock: asked,
            }
            .watched(start, 1_200);
            let mut own = Adapted::new(watched.times, 1_200, Arc::default());
            for number in 0..4 {
                let sent = start + rtt * number;
                NOW.set(Some(sent + rtt));
                // noq read the clock before the second packet was sent, and its acknowledgement
                // after it arrived.
                let reported = if number == 1 { start } else { sent + rtt };
                let number = number.into();
                own.on_packet_sent(sent, 1_200, number);
                let (at, sent_at) = (own.times.at(reported), own.times.at(sent));
                own.controller.handle_ack(at, number, sent_at, size);
                own.on_end_acks(reported, 0, true, Some(number));
                watched.acked.handle(size, sent_at, rtt.into());
                watched.on_end_acks(reported, 0, true, Some(number));
            }
            let transit = watched.watch.reading().transit;
            assert_eq!(transit.as_millis(), transit_ms, "{asked:?}");
            let queueing = own.controller.queueing();
            assert_eq!(queueing.as_millis(), queueing_ms, "{asked:?}");
        }
    }

    #[test]
    fn memory_outlives_connection() {
        let start = Moment::now();
        let times = Times {
            since: start,
            clock: None,
        };
        let (first, second) = (Arc::<Watch>::default(), Arc::<Watch>::default());
        // Sends one packet, acknowledged after a round trip; returns the window.
        let play = |watch: &Arc<Watch>| {
            let mut path = Adapted::new(times, 1_200, watch.clone());
            let sent = start + Time::from_millis(1);
            let acked_at = sent + Time::from_millis(100);
            path.on_packet_sent(sent, 1_200, 0);
            let size = DataSize::from_bytes(1_200);
            let (at, sent_at) = (times.at(acked_at), times.at(sent));
            path.controller.handle_ack(at, 0, sent_at, size);
            path.on_end_acks(acked_at, 0, true, Some(0));
            path.controller.window()
        };
        assert_eq!(first.to_keep(), None, "nothing was measured");
        let window = play(&first);
        let kept = first.to_keep().expect("a round trip was measured");
        assert_eq!(kept.window, window);
        let carried = Carried {
            window: window + window,
            ..kept
        };
        second.recall(carried);
        second.recall(kept);
        assert_eq!(second.to_keep(), Some(carried), "before anything came");
        assert_eq!(play(&second), carried.window);
        assert_eq!(second.to_keep(), Some(carried));
    }
}
