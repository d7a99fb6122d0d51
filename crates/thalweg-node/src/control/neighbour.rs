//! Neighbours: links that come and go, this node's own record, and the flooding of everybody's.

use std::time::{SystemTime, UNIX_EPOCH};

use thalweg_core::id::{NodeId, StreamName};
use thalweg_core::limits::{NEIGHBOURS_MAX, STREAMS_PER_NODE_MAX};
use thalweg_core::routing::{News, RECORD_REFRESH, Signed};
use thalweg_core::time::Instant;
use thalweg_core::units::Bitrate;
use thalweg_core::wire::VARINT_MAX;
use thalweg_core::wire::control::{Message, SIGNATURE_BYTES};
use thalweg_core::wire::record::{self, Announced, Neighbour, Record};
use thalweg_net::{Link, LinkEvent, identity};
use tracing::{debug, info, warn};

use super::Control;
use super::source::stream_id;

/// What precedes a record under its signature, so that it can be taken for nothing else.
const RECORD_CONTEXT: &[u8] = b"thalweg record v1";

/// When this node's record was made last, and its number.
#[derive(Debug, Default)]
pub(super) struct OwnRecord {
    sequence: u64,
    refresh: Instant,
}

/// A configured peer, as long as there is no link with it.
#[derive(Clone, Debug)]
pub(super) enum PeerState {
    Connecting,
    Unreachable(String),
}

impl Control {
    pub(super) async fn handle_link(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::Up(link) => self.link_up(link).await,
            LinkEvent::Down { link, cause } => self.link_down(&link, &cause.to_string()).await,
            LinkEvent::Connecting(peer) => {
                self.peer_states
                    .entry(peer)
                    .or_insert(PeerState::Connecting);
            }
            LinkEvent::Unreachable { peer, reason } => {
                let reason = reason.to_string();
                let said = self
                    .peer_states
                    .insert(peer, PeerState::Unreachable(reason.clone()));
                if !matches!(said, Some(PeerState::Unreachable(before)) if before == reason) {
                    warn!(peer = %self.name_of(peer), %reason, "peer unreachable; trying again");
                }
            }
            _ => {}
        }
    }

    async fn link_up(&mut self, link: Link) {
        let peer = link.peer();
        info!(peer = %self.name_of(peer), "link up");
        self.peer_states.remove(&peer);
        self.forwarder.link_up(link);
        let known: Vec<Signed> = self.directory.signed().cloned().collect();
        for signed in known {
            self.send(peer, &message(&signed)).await;
        }
        self.announce().await;
    }

    async fn link_down(&mut self, link: &Link, reason: &str) {
        let peer = link.peer();
        // A duplicate that ends after another has taken its place takes nothing away.
        if !self
            .forwarder
            .link(peer)
            .is_some_and(|present| present.is_same(link))
        {
            return;
        }
        info!(peer = %self.name_of(peer), %reason, "link down");
        self.forwarder.link_down(peer);
        self.announce().await;
    }

    /// Makes, signs and floods this node's record.
    pub(super) async fn announce(&mut self) {
        let now = self.now();
        let record = self.own_record(now);
        let bytes = record::encode(&record);
        let signature = self.identity.sign(&[RECORD_CONTEXT, &bytes].concat());
        let signed = Signed {
            record: bytes,
            signature,
        };
        let news = self.directory.handle_record(record, signed.clone(), now);
        self.flood(&signed, None).await;
        if news == News::Changed {
            // Boxed, for a change may lead to another announcement.
            Box::pin(self.handle_change()).await;
        }
    }

    pub(super) async fn refresh_record(&mut self, now: Instant) {
        if self.own_record.refresh <= now {
            self.announce().await;
        }
    }

    fn own_record(&mut self, now: Instant) -> Record {
        self.own_record.refresh = now + RECORD_REFRESH;
        // The time of day keeps the number growing across restarts; a clock set back is outrun by one.
        let since_1970 = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let micros = u64::try_from(since_1970.as_micros()).unwrap_or(VARINT_MAX);
        self.own_record.sequence = micros.max(self.own_record.sequence + 1).min(VARINT_MAX);
        let neighbours = self.forwarder.links().into_iter().take(NEIGHBOURS_MAX);
        let streams = self.sources.values().filter(|source| source.is_open());
        Record {
            node: self.id,
            sequence: self.own_record.sequence,
            name: self.name.clone(),
            slots: self.config.slots,
            box_key: self.box_key.public(),
            neighbours: neighbours.map(|link| self.neighbour(&link)).collect(),
            streams: streams
                .take(STREAMS_PER_NODE_MAX)
                .map(|source| Announced {
                    id: source.stream,
                    start: source.start,
                    name: source.publication.name.clone(),
                    confidential: source.publication.needs.confidential,
                    layers: source
                        .publication
                        .layers
                        .iter()
                        .map(|layer| layer.rate)
                        .collect(),
                })
                .collect(),
        }
    }

    fn neighbour(&self, link: &Link) -> Neighbour {
        let stats = link.stats();
        let peer = self.peers.get(&link.peer());
        Neighbour {
            node: link.peer(),
            rtt: stats.rtt,
            loss_ppm: (stats.loss.as_f64() * 1e6) as u32,
            rate: peer.and_then(|peer| peer.rate).unwrap_or(Bitrate::ZERO),
            secure: peer.is_none_or(|peer| peer.secure),
        }
    }

    pub(super) async fn handle_record(
        &mut self,
        from: NodeId,
        bytes: Vec<u8>,
        signature: [u8; SIGNATURE_BYTES],
    ) {
        let record = match record::decode(&bytes) {
            Ok(record) => record,
            Err(error) => return debug!(peer = %from.short(), %error, "record refused"),
        };
        let signed_bytes = [RECORD_CONTEXT, &bytes].concat();
        if !identity::verify(record.node, &signed_bytes, &signature) {
            return debug!(peer = %from.short(), node = %record.node.short(), "record with a bad signature");
        }
        if let Some(name) = borrowed_stream(&record) {
            return debug!(node = %record.node.short(), stream = %name, "record announces a stream that is not its own");
        }
        if record.node == self.id {
            return self.outrun(record.sequence).await;
        }
        let signed = Signed {
            record: bytes,
            signature,
        };
        let now = self.now();
        let news = self.directory.handle_record(record, signed.clone(), now);
        if matches!(news, News::Changed | News::Refreshed) {
            self.flood(&signed, Some(from)).await;
        }
        if news == News::Changed {
            Box::pin(self.handle_change()).await;
        }
    }

    /// A record of this node from before a restart, with a larger number than ours, must not stand.
    async fn outrun(&mut self, sequence: u64) {
        let own = self
            .directory
            .record(self.id)
            .map_or(0, |record| record.sequence);
        if sequence > own {
            self.own_record.sequence = sequence;
            self.announce().await;
        }
    }

    async fn flood(&self, signed: &Signed, except: Option<NodeId>) {
        let message = message(signed);
        for link in self.forwarder.links() {
            if Some(link.peer()) != except {
                self.send(link.peer(), &message).await;
            }
        }
    }
}

/// Returns the name of a stream whose id is not that of the record's node, name and start.
pub(super) fn borrowed_stream(record: &Record) -> Option<&StreamName> {
    let own = |stream: &Announced| stream_id(record.node, stream.name.as_str(), stream.start);
    let borrowed = record
        .streams
        .iter()
        .find(|stream| stream.id != own(stream));
    borrowed.map(|stream| &stream.name)
}

fn message(signed: &Signed) -> Message {
    Message::Record {
        record: signed.record.clone(),
        signature: signed.signature,
    }
}
