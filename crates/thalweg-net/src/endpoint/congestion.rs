//! Congestion controllers for QUIC.
//!
//! *The idea.* `thalweg_core::congestion` decides; what noq says is handed on to it word by word. Time is counted from
//! the moment at which a path's controller was made.
//!
//! `thalweg-sim`'s `transport/congestion.rs` is the twin of this file: who changes one changes both.
//!
//! *What it does not do.* It decides nothing.
//!
//! *Sources.* noq-proto 1.4 `congestion.rs`.

use std::any::Any;
use std::sync::Arc;

use iroh::endpoint::{
    Controller as QuicController, ControllerFactory, ControllerMetrics, RttEstimator,
};
use noq_proto::congestion::{Bbr3Config, CubicConfig, NewRenoConfig};
use thalweg_core::congestion::{Algorithm, Congestion, Controller};
use thalweg_core::time::Instant;
use thalweg_core::units::DataSize;

/// What noq calls an instant.
type Moment = std::time::Instant;

/// Makes controllers of one algorithm.
pub(super) fn factory(algorithm: Algorithm) -> Arc<dyn ControllerFactory + Send + Sync> {
    match algorithm {
        Algorithm::Thalweg => Arc::new(Own),
        Algorithm::Cubic => Arc::new(CubicConfig::default()),
        Algorithm::Bbr => Arc::new(Bbr3Config::default()),
        Algorithm::NewReno => Arc::new(NewRenoConfig::default()),
    }
}

/// Makes controllers of our own.
struct Own;

/// A controller of our own, as noq wants it.
#[derive(Clone, Debug)]
struct Adapted {
    controller: Controller,
    since: Moment,
}

impl ControllerFactory for Own {
    fn build(self: Arc<Self>, now: Moment, mtu: u16) -> Box<dyn QuicController> {
        Box::new(Adapted {
            controller: Controller::new(DataSize::from_bytes(mtu.into())),
            since: now,
        })
    }
}

impl Adapted {
    fn at(&self, moment: Moment) -> Instant {
        Instant::ZERO + moment.saturating_duration_since(self.since).into()
    }
}

impl QuicController for Adapted {
    fn on_packet_sent(&mut self, now: Moment, bytes: u16, number: u64) {
        let size = DataSize::from_bytes(bytes.into());
        self.controller.handle_sent(self.at(now), number, size);
    }

    fn on_cwnd_limited(&mut self) {
        self.controller.handle_full();
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
        let (now, sent) = (self.at(now), self.at(sent));
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
        let now = self.at(now);
        self.controller.handle_acks_end(now, in_flight, app_limited);
    }

    fn on_packet_lost(&mut self, bytes: u16, number: u64, _now: Moment) {
        let size = DataSize::from_bytes(bytes.into());
        self.controller.handle_lost(number, size);
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
        let (now, sent) = (self.at(now), self.at(sent));
        self.controller.handle_congestion(now, sent, cause);
    }

    fn on_spurious_congestion_event(&mut self) {
        self.controller.handle_spurious_loss();
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        let packet = DataSize::from_bytes(mtu.into());
        self.controller.handle_packet_size(packet);
    }

    fn window(&self) -> u64 {
        self.controller.window().as_bytes()
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
        let pacing = self.controller.pacing_rate();
        metrics.pacing_rate = pacing.map(|rate| rate.as_bps() / 8);
        metrics.bandwidth_estimate = Some(self.controller.sendable().as_bps());
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
