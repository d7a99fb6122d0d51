//! The node's status, read from the control plane and the data path.

use std::collections::BTreeSet;
use std::sync::Arc;

use thalweg_base::id::{NodeId, StreamId, StreamName};
use thalweg_base::time::Instant;
use thalweg_base::units::Bitrate;
use thalweg_base::wire::record::Record;
use thalweg_control::control::{SinkPlan, Source};
use thalweg_control::ledger::{Loss, Reading};
use thalweg_link::gauge::Gauge;
use thalweg_net::endpoint::TCP_PREFIX;
use thalweg_net::link::Remote;
use thalweg_net::{Link, Transport};

use super::Control;
use super::log::hop;
use super::neighbour::PeerState;
use crate::forward::{Mailbox, MailboxReading};
use crate::program::{panics, stderr};
use crate::status::{
    EndedStatus, LedgerStatus, LinkStatus, LossStatus, NodeStatus, OutboxStatus, PlanStatus,
    RouteStatus, Status, StreamStatus, SubscriberStatus,
};

impl Control {
    pub(super) fn status(&self) -> Status {
        let directory = self.controller.directory();
        let own = directory.record(self.controller.id());
        Status {
            node: own.map_or_else(
                || self.unlisted_node(self.controller.id()),
                |record| self.node_status(record),
            ),
            uptime_seconds: self.now().saturating_since(Instant::ZERO).as_secs_f64(),
            links: self.link_statuses(),
            nodes: directory
                .records()
                .map(|record| self.node_status(record))
                .collect(),
            streams: self.stream_statuses(),
            subscribers: self.subscriber_statuses(),
            ended: self.ended_statuses(),
            plans: self.plan_statuses(),
            routes: self.route_statuses(),
            fabric: self.controller.roll().fabric(),
            refused_connections: self.admission.refusals(),
            refused_messages: self.refusals.status(),
            unroutable_adus: self.forwarder.ledger.unknown(),
            lag_ms: self.forwarder.lag().as_millis_f64(),
            log_lines_lost: stderr::lost(),
            panics: panics::count(),
        }
    }

    fn unlisted_node(&self, key: NodeId) -> NodeStatus {
        let trusted = self.controller.trusts(key);
        NodeStatus {
            key,
            name: self.name_of(key),
            slots: 0,
            trusted,
            rights: self.rights(key),
            neighbours: Vec::new(),
        }
    }

    /// Returns a node's rights by its grant; `None` in a fabric without an owner.
    fn rights(&self, key: NodeId) -> Option<Vec<&'static str>> {
        let roll = self.controller.roll();
        roll.fabric().map(|_| roll.rights(key).names().collect())
    }

    fn node_status(&self, record: &Record) -> NodeStatus {
        NodeStatus {
            slots: record.slots,
            neighbours: record
                .neighbours
                .iter()
                .map(|there| self.name_of(there.node))
                .collect(),
            ..self.unlisted_node(record.node)
        }
    }

    fn link_statuses(&self) -> Vec<LinkStatus> {
        let up = self.forwarder.links();
        let (routes, now) = (self.forwarder.routes(), self.now());
        let up_now = up.iter().map(|link| LinkStatus {
            traffic: self
                .traffic
                .of(link.peer(), routes.iter().map(Arc::as_ref), now),
            ..self.up_link(link)
        });
        let mut links: Vec<LinkStatus> = up_now.collect();
        let configured = self.peers.values().filter(|peer| peer.connect);
        let configured = configured.map(|peer| peer.key);
        // Peers dialled because this node joined through them are in no configuration.
        let mut down: BTreeSet<NodeId> =
            self.peer_states.keys().copied().chain(configured).collect();
        for link in &up {
            down.remove(&link.peer());
        }
        links.extend(down.into_iter().map(|peer| {
            let (state, reason) = match self.peer_states.get(&peer) {
                Some(PeerState::Unreachable(reason)) => ("unreachable", Some(self.explain(reason))),
                Some(PeerState::Connecting) => ("connecting", None),
                None => ("unreachable", Some("it has not connected yet".to_string())),
            };
            LinkStatus {
                state,
                reason,
                ..self.blank_link(peer)
            }
        }));
        links
    }

    /// Returns why a peer is unreachable, with this node's own part in it.
    fn explain(&self, reason: &str) -> String {
        if self.controller.roll().admits(self.controller.id()) {
            return reason.to_string();
        }
        format!(
            "{reason}; this node has no grant that holds (expired, revoked or never given): run `thalweg join` with a new ticket"
        )
    }

    fn blank_link(&self, key: NodeId) -> LinkStatus {
        let peer = self.peers.get(&key);
        LinkStatus {
            key,
            name: self.name_of(key),
            state: "up",
            reason: None,
            addresses: Vec::new(),
            rtt_ms: None,
            loss: None,
            sent_bps: None,
            received_bps: None,
            window_bps: None,
            failovers: None,
            jitter_ms: None,
            measured_bps: None,
            headroom_bps: None,
            announced_bps: None,
            rate_bps: peer.and_then(|peer| peer.rate).map(Bitrate::as_bps),
            secure: peer.is_none_or(|peer| peer.secure),
            trusted: self.controller.trusts(key),
            adus: self.forwarder.ledger.exposure(key).reading(),
            outbox: None,
            traffic: Vec::new(),
        }
    }

    fn up_link(&self, link: &Link) -> LinkStatus {
        let stats = link.stats();
        let gauge = self.controller.link(link.peer());
        let reading = gauge.map(Gauge::reading);
        LinkStatus {
            jitter_ms: reading.map(|reading| reading.jitter.as_millis_f64()),
            measured_bps: reading.and_then(|reading| Some(reading.measured?.as_bps())),
            headroom_bps: reading.and_then(|reading| Some(reading.headroom?.as_bps())),
            announced_bps: gauge.and_then(|gauge| Some(gauge.told().rate?.as_bps())),
            addresses: stats
                .paths
                .iter()
                .map(|path| remote(&path.remote))
                .collect(),
            rtt_ms: Some(stats.rtt.as_millis_f64()),
            loss: Some(stats.loss.as_f64()),
            sent_bps: Some(stats.sent_rate.as_bps()),
            received_bps: Some(stats.received_rate.as_bps()),
            window_bps: Some((stats.congestion_window / stats.rtt).as_bps()),
            failovers: (stats.transport == Transport::Tcp).then_some(stats.failovers),
            outbox: Some(OutboxStatus::new(&link.outbox(), |stream| {
                self.stream_name(stream)
            })),
            ..self.blank_link(link.peer())
        }
    }

    /// Returns the name of a stream with a route on this node.
    pub(super) fn stream_name(&self, stream: StreamId) -> Option<String> {
        let mut parts = self.controller.installations();
        let part = parts.find(|part| part.stream == stream)?;
        Some(part.name.to_string())
    }

    fn stream_statuses(&self) -> Vec<StreamStatus> {
        let streams = self.controller.directory().records().flat_map(|record| {
            record
                .streams
                .iter()
                .map(move |stream| (record.node, stream))
        });
        let status = |(node, stream): (NodeId, &thalweg_base::wire::record::Announced)| {
            let counts = self.forwarder.ledger.find(stream.id);
            let source = self.controller.source(stream.id);
            let sinks = source.into_iter().flat_map(Source::sinks);
            StreamStatus {
                name: stream.name.clone(),
                id: stream.id.to_string(),
                publisher: self.name_of(node),
                publisher_key: node,
                confidential: stream.confidential,
                rate_bps: stream.layers.iter().copied().sum::<Bitrate>().as_bps(),
                layers: stream.layers.len(),
                sinks: sinks.map(|sink| self.name_of(sink)).collect(),
                counts: counts.map(|counts| counts.reading()).unwrap_or_default(),
                ledger: self.ledger_status(stream.id),
                stalled: self.stall_status(stream.id),
            }
        };
        streams.map(status).collect()
    }

    fn subscriber_statuses(&self) -> Vec<SubscriberStatus> {
        let now = self.now();
        let of_name = self.subscribers.iter().flat_map(|(name, mailboxes)| {
            let readings = mailboxes.iter().filter_map(Mailbox::reading);
            readings.map(move |reading| (name, reading))
        });
        let status = |(name, reading): (&StreamName, MailboxReading)| SubscriberStatus {
            stream: name.clone(),
            subscriber: reading.subscriber,
            waiting_adus: reading.waiting.0,
            waiting_bytes: reading.waiting.1,
            delivered: reading.taken,
            missed: reading.missed,
            blocking_seconds: reading
                .blocking_since
                .map(|since| now.saturating_since(since).as_secs_f64()),
        };
        of_name.map(status).collect()
    }

    /// Returns the ledger of a stream published here.
    pub(super) fn ledger_status(&self, stream: StreamId) -> Option<LedgerStatus> {
        let reading = self.controller.reading(stream)?;
        Some(self.ledger_of(&reading))
    }

    /// Returns the ended streams with kept counters, each name once. A name announced again is
    /// left out; of a name that ended several times the last one counts.
    fn ended_statuses(&self) -> Vec<EndedStatus> {
        let records = self.controller.directory().records();
        let announced = records.flat_map(|record| record.streams.iter());
        let mut names: BTreeSet<StreamName> = announced.map(|stream| stream.name.clone()).collect();
        let over = self.forwarder.ledger.kept().into_iter();
        let over = over.filter(|over| names.insert(over.name.clone()));
        over.map(|over| EndedStatus {
            name: over.name,
            counts: over.counts,
            ledger: over.closed.map(|reading| self.ledger_of(&reading)),
        })
        .collect()
    }

    fn ledger_of(&self, reading: &Reading) -> LedgerStatus {
        let loss = |loss: &Loss| LossStatus {
            hop: hop(&self.controller, loss.node),
            cause: loss.cause.name(),
            importance: [
                *loss.band.importances().start(),
                *loss.band.importances().end(),
            ],
            adus: loss.adus,
        };
        LedgerStatus {
            published: reading.given,
            delivered: reading.delivered,
            pending: reading.open(),
            losses: reading.losses.iter().map(loss).collect(),
        }
    }

    fn plan_statuses(&self) -> Vec<PlanStatus> {
        let sources = self.controller.sources();
        let plans = sources.flat_map(|source| source.plans().map(move |plan| (source, plan)));
        let lack = |plan: &SinkPlan| plan.words.as_ref().and_then(|words| words.lack.clone());
        plans
            .map(|(source, (sink, plan))| PlanStatus {
                stream: source.publication().name.clone(),
                sink: self.name_of(sink),
                sink_key: sink,
                epoch: plan.epoch.0,
                state: plan.state.name(),
                reason: plan.reason.clone().or_else(|| lack(plan)),
                report: plan.words.as_ref().map(|words| words.report.clone()),
                explanation: plan
                    .words
                    .as_ref()
                    .and_then(|words| words.explanation.clone()),
            })
            .collect()
    }

    fn route_statuses(&self) -> Vec<RouteStatus> {
        let parts = self.controller.installations();
        parts
            .map(|part| RouteStatus {
                stream: part.name.clone(),
                epoch: part.epoch.0,
                previous: self.name_of(part.previous),
                next: part.next.map(|next| self.name_of(next)),
                adapters: part.adapters.clone(),
            })
            .collect()
    }
}

fn remote(remote: &Remote) -> String {
    match remote {
        Remote::Address(address) => address.to_string(),
        Remote::Tcp(address) => format!("{TCP_PREFIX}{address}"),
        Remote::Relay(url) => format!("relay {url}"),
        Remote::Other(text) => text.clone(),
        _ => "unknown".to_string(),
    }
}
