//! The links to neighbours, each with the gauge that measures it.

use alloc::collections::BTreeMap;

use thalweg_base::id::NodeId;
use thalweg_base::time::{Due, Instant};
use thalweg_base::units::Bitrate;
use thalweg_link::gauge::{Gauge, Sample};

/// The neighbours that are linked.
#[derive(Debug, Default)]
pub struct Links {
    gauges: BTreeMap<NodeId, Gauge>,
    /// When the first gauge is due.
    due: Due,
}

impl Links {
    /// Returns the neighbours, ordered by key, each with the gauge of its link.
    pub fn all(&self) -> impl Iterator<Item = (NodeId, &Gauge)> {
        self.gauges.iter().map(|(peer, gauge)| (*peer, gauge))
    }

    /// Returns the gauge of the link to a neighbour.
    pub fn get(&self, peer: NodeId) -> Option<&Gauge> {
        self.gauges.get(&peer)
    }

    /// Returns whether a node is a neighbour.
    pub fn has(&self, peer: NodeId) -> bool {
        self.gauges.contains_key(&peer)
    }

    /// Returns the number of links.
    pub fn count(&self) -> usize {
        self.gauges.len()
    }

    /// Returns the neighbours, ordered by key.
    pub(crate) fn peers(&self) -> impl Iterator<Item = NodeId> {
        self.gauges.keys().copied()
    }

    /// Handles a new link, with its configured rate.
    pub(crate) fn handle_up(
        &mut self,
        peer: NodeId,
        (rate, sample): (Option<Bitrate>, Sample),
        now: Instant,
    ) {
        self.gauges.insert(peer, Gauge::new(rate, sample, now));
    }

    /// Handles the loss of a link; returns whether there was one.
    pub(crate) fn handle_down(&mut self, peer: NodeId) -> bool {
        self.gauges.remove(&peer).is_some()
    }

    /// Handles a reading of a link's counters; returns whether an announced value changes.
    pub(crate) fn handle_sample(&mut self, peer: NodeId, sample: Sample, at: Instant) -> bool {
        let Some(gauge) = self.gauges.get_mut(&peer) else {
            return false;
        };
        let is_news = gauge.handle_sample(sample, at);
        self.due.handle(gauge.poll_timeout());
        is_news
    }

    /// Handles a neighbour that does not answer: its round trip is measured again.
    pub(crate) fn handle_silence(&mut self, peer: NodeId) {
        if let Some(gauge) = self.gauges.get_mut(&peer) {
            gauge.handle_silence();
        }
    }

    /// Handles the configured rate of a link; returns whether an announced value changes.
    pub(crate) fn set_ceiling(&mut self, peer: NodeId, rate: Option<Bitrate>) -> bool {
        let gauge = self.gauges.get_mut(&peer);
        gauge.is_some_and(|gauge| gauge.set_ceiling(rate))
    }

    /// Discards low rates that were measured long ago ([`Gauge::handle_timeout`]); returns whether
    /// an announced value changes.
    pub(crate) fn handle_timeout(&mut self, now: Instant) -> bool {
        if self.due.at() > now {
            return false;
        }
        let gauges = self.gauges.values_mut();
        let is_news = gauges.fold(false, |any, gauge| gauge.handle_timeout(now) | any);
        self.due.look(self.gauges.values().map(Gauge::poll_timeout));
        is_news
    }

    /// Returns a time no later than the first timeout of a gauge.
    pub(crate) fn poll_timeout(&self) -> Instant {
        debug_assert!(
            self.due
                .holds(self.gauges.values().map(Gauge::poll_timeout)),
            "every change of a gauge's timer updates `due`"
        );
        self.due.at()
    }
}
