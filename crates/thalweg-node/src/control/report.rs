//! The node's status, read from the control plane and the data path.

use std::collections::BTreeSet;

use thalweg_base::id::{NodeId, StreamName};
use thalweg_base::time::Instant;
use thalweg_base::units::Bitrate;
use thalweg_base::wire::record::Record;
use thalweg_control::control::{Controller, SinkPlan, Source};
use thalweg_link::gauge::Gauge;
use thalweg_net::endpoint::TCP_PREFIX;
use thalweg_net::link::Remote;
use thalweg_net::{Link, Transport};

use super::admission::Membership;
use super::hindrance::Stalls;
use super::ledger::{ledger_of, ledger_status};
use super::mind::Mind;
use super::neighbour::{Neighbours, PeerState};
use super::programs::Programs;
use super::refusals::Refusals;
use super::traffic::Traffic;
use crate::forward::Forwarder;
use crate::program::{panics, stderr};
use crate::status::{
    DescriptionStatus, EndedStatus, LinkStatus, NodeStatus, OutboxStatus, PlanStatus, RouteStatus,
    Status, StreamStatus,
};

/// What a status is read from.
#[derive(Clone, Copy)]
pub(super) struct Reporter<'a> {
    pub(super) mind: &'a Mind,
    pub(super) forwarder: &'a Forwarder,
    pub(super) neighbours: &'a Neighbours,
    pub(super) membership: &'a Membership,
    pub(super) programs: &'a Programs,
    pub(super) refusals: &'a Refusals,
    pub(super) stalls: &'a Stalls,
    pub(super) traffic: &'a Traffic,
}

impl Reporter<'_> {
    pub(super) fn status(&self) -> Status {
        let directory = self.controller().directory();
        let own = directory.record(self.controller().id());
        Status {
            node: own.map_or_else(
                || self.unlisted_node(self.controller().id()),
                |record| self.node_status(record),
            ),
            uptime_seconds: self
                .mind
                .now()
                .saturating_since(Instant::ZERO)
                .as_secs_f64(),
            links: self.link_statuses(),
            nodes: directory
                .records()
                .map(|record| self.node_status(record))
                .collect(),
            streams: self.stream_statuses(),
            subscribers: self.programs.subscriber_statuses(),
            ended: self.ended_statuses(),
            plans: self.plan_statuses(),
            routes: self.route_statuses(),
            // The board has them; `Handle::status` adds them.
            ends: Vec::new(),
            fabric: self.controller().roll().fabric(),
            refused_connections: self.membership.refusals(),
            refused_dials: self.membership.refused_dials(),
            refused_messages: self.refusals.status(),
            unroutable_adus: self.forwarder.ledger.unknown(),
            lag_ms: self.forwarder.lag().as_millis_f64(),
            log_lines_lost: stderr::lost(),
            panics: panics::count(),
        }
    }

    fn controller(&self) -> &Controller {
        self.mind.controller()
    }

    fn unlisted_node(&self, key: NodeId) -> NodeStatus {
        let trusted = self.controller().trusts(key);
        NodeStatus {
            key,
            name: self.mind.name_of(key),
            slots: 0,
            trusted,
            rights: self.rights(key),
            neighbours: Vec::new(),
        }
    }

    /// Returns a node's rights by its grant; `None` in a fabric without an owner.
    fn rights(&self, key: NodeId) -> Option<Vec<&'static str>> {
        let roll = self.controller().roll();
        roll.fabric().map(|_| roll.rights(key).names().collect())
    }

    fn node_status(&self, record: &Record) -> NodeStatus {
        NodeStatus {
            slots: record.slots,
            neighbours: record
                .neighbours
                .iter()
                .map(|there| self.mind.name_of(there.node))
                .collect(),
            ..self.unlisted_node(record.node)
        }
    }

    fn link_statuses(&self) -> Vec<LinkStatus> {
        let up = self.forwarder.links();
        let (plans, now) = (self.forwarder.plans(), self.mind.now());
        let up_now = up.iter().map(|link| LinkStatus {
            traffic: self.traffic.of(link.peer(), &plans, self.forwarder, now),
            ..self.up_link(link)
        });
        let mut links: Vec<LinkStatus> = up_now.collect();
        let mut down = self.neighbours.dialled();
        for link in &up {
            down.remove(&link.peer());
        }
        links.extend(down.into_iter().map(|(peer, state)| {
            let (state, reason) = match state {
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
        if self.controller().roll().admits(self.controller().id()) {
            return reason.to_string();
        }
        format!(
            "{reason}; this node has no grant that holds (expired, revoked or never given): run `thalweg join` with a new ticket"
        )
    }

    fn blank_link(&self, key: NodeId) -> LinkStatus {
        let peer = self.neighbours.peer(key);
        LinkStatus {
            key,
            name: self.mind.name_of(key),
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
            trusted: self.controller().trusts(key),
            adus: self.forwarder.ledger.exposure(key).reading(),
            memory: None,
            outbox: None,
            traffic: Vec::new(),
        }
    }

    fn up_link(&self, link: &Link) -> LinkStatus {
        let stats = link.stats();
        let gauge = self.controller().links().get(link.peer());
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
            memory: Some(stats.memory.into()),
            outbox: Some(OutboxStatus::new(&link.outbox(), |stream| {
                self.mind.stream_name(stream)
            })),
            ..self.blank_link(link.peer())
        }
    }

    fn stream_statuses(&self) -> Vec<StreamStatus> {
        let streams = self.controller().directory().records().flat_map(|record| {
            record
                .streams
                .iter()
                .map(move |stream| (record.node, stream))
        });
        let now = self.mind.now();
        let status = |(node, stream): (NodeId, &thalweg_base::wire::record::Announced)| {
            let counts = self.forwarder.ledger.find(stream.id);
            let source = self.controller().source(stream.id);
            let sinks = source.into_iter().flat_map(Source::sinks);
            StreamStatus {
                name: stream.name.clone(),
                id: stream.id.to_string(),
                publisher: self.mind.name_of(node),
                publisher_key: node,
                confidential: stream.confidential,
                description: self
                    .controller()
                    .description(node, stream.id)
                    .map(DescriptionStatus::from)
                    .unwrap_or_default(),
                rate_bps: stream.layers.iter().copied().sum::<Bitrate>().as_bps(),
                layers: stream.layers.len(),
                sinks: sinks.map(|sink| self.mind.name_of(sink)).collect(),
                counts: counts.map(|counts| counts.reading()).unwrap_or_default(),
                ledger: ledger_status(self.controller(), stream.id),
                stalled: self.stalls.status(stream.id, now),
            }
        };
        streams.map(status).collect()
    }

    /// Returns the ended streams with kept counters, each name once. A name announced again is
    /// left out; of a name that ended several times the last one counts.
    fn ended_statuses(&self) -> Vec<EndedStatus> {
        let records = self.controller().directory().records();
        let announced = records.flat_map(|record| record.streams.iter());
        let mut names: BTreeSet<StreamName> = announced.map(|stream| stream.name.clone()).collect();
        let over = self.forwarder.ledger.kept().into_iter();
        let over = over.filter(|over| names.insert(over.name.clone()));
        over.map(|over| EndedStatus {
            name: over.name,
            counts: over.counts,
            ledger: over
                .closed
                .map(|reading| ledger_of(self.controller(), &reading)),
        })
        .collect()
    }

    fn plan_statuses(&self) -> Vec<PlanStatus> {
        let sources = self.controller().sources();
        let plans = sources.flat_map(|source| source.plans().map(move |plan| (source, plan)));
        let lack = |plan: &SinkPlan| plan.words.as_ref().and_then(|words| words.lack.clone());
        plans
            .map(|(source, (sink, plan))| PlanStatus {
                stream: source.publication().name.clone(),
                sink: self.mind.name_of(sink),
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
        let parts = self.controller().parts().installations();
        parts
            .map(|part| RouteStatus {
                stream: part.name.clone(),
                epoch: part.epoch.0,
                previous: self.mind.name_of(part.previous),
                next: part.next.map(|next| self.mind.name_of(next)),
                adapters: part.adapters.clone(),
            })
            .collect()
    }
}

fn remote(remote: &Remote) -> String {
    match remote {
        Remote::Address(address) => address.to_string(),
        Remote::Tcp(address) => format!("{TCP_PREFIX}{address}"),
        Remote::Engine(address) => format!("engine:{address}"),
        Remote::Relay(url) => format!("relay {url}"),
        Remote::Other(text) => text.clone(),
        _ => "unknown".to_string(),
    }
}
