//! The content of the display: a reading of a node and its changes since the previous one.
//!
//! *The idea.* Rates are differences of counters over the difference of the node's own uptime, so
//! neither this program's clock nor a slow answer distorts them. After a restart of the node, or a
//! new publication of a stream, there is no rate until the next reading.

use std::collections::BTreeMap;

use serde::Serialize;

use super::reading::{End, Link, Loss, Outbox, Reading, Stream};

/// The view of a node.
#[derive(Clone, Debug, Serialize)]
pub struct View {
    /// The node's name.
    pub node: String,
    /// Its uptime; `None` if it does not report it.
    pub uptime_seconds: Option<f64>,
    /// The period of the rates; `None` for the first reading.
    pub seconds: Option<f64>,
    /// Its links, in its order.
    pub links: Vec<LinkView>,
    /// The streams that it knows.
    pub streams: Vec<StreamView>,
    /// Its inputs and outputs.
    pub ends: Vec<End>,
}

/// A link.
#[derive(Clone, Debug, Serialize)]
pub struct LinkView {
    /// The peer's key.
    pub key: String,
    /// Its name.
    pub name: String,
    /// `up`, `connecting` or `unreachable`.
    pub state: String,
    /// Why it is not up.
    pub reason: Option<String>,
    /// The smoothed round-trip time.
    pub rtt_ms: Option<f64>,
    /// The share of packets lost recently.
    pub loss: Option<f64>,
    /// The rate sent in the last second.
    pub sent_bps: Option<u64>,
    /// Its queue; `None` if it reports none.
    pub outbox: Option<Outbox>,
    /// ADUs that its outbox drops, per second.
    pub drops_per_second: Option<f64>,
}

/// A stream.
#[derive(Clone, Debug, Serialize)]
pub struct StreamView {
    /// Its name.
    pub name: String,
    /// The node's role.
    pub role: Role,
    /// ADUs per second that left here: sent on or given to subscribers, whichever is more.
    pub adus_per_second: Option<f64>,
    /// The announced rate.
    pub rate_bps: u64,
    /// ADUs of it that wait in all outboxes; `None` if no link reports its queue.
    pub waiting_adus: Option<u64>,
    /// Given to subscribers here; or else sent to the next node and not known to be lost.
    pub delivered: u64,
    /// Drops by cause: on this node, or if the stream is published here, on its whole path, with the hop.
    pub dropped: BTreeMap<String, u64>,
    /// Drops per second.
    pub drops_per_second: Option<f64>,
    /// Drops by hop, cause and importance, if the stream is published here.
    pub losses: Vec<Loss>,
}

/// A node's role for a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The stream is published here.
    Source,
    /// The stream passes through.
    Relay,
    /// The stream ends here.
    Sink,
    /// The stream is on the map, but no plan leads here.
    Known,
}

impl Role {
    /// Returns the role as one word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Relay => "relay",
            Self::Sink => "sink",
            Self::Known => "–",
        }
    }
}

impl View {
    /// Makes the view of a reading, given the previous one.
    pub fn new(before: Option<&Reading>, now: &Reading) -> Self {
        let seconds = before.and_then(|before| seconds_between(before, now));
        let before = before.filter(|_| seconds.is_some());
        let since = Since { before, seconds };
        Self {
            node: now.node.name.clone(),
            uptime_seconds: now.uptime_seconds,
            seconds,
            links: now.links.iter().map(|link| since.link(link)).collect(),
            streams: now
                .streams
                .iter()
                .map(|stream| since.stream(stream, now))
                .collect(),
            ends: now.ends.clone(),
        }
    }

    /// Returns how many links are up.
    pub fn links_up(&self) -> usize {
        self.links.iter().filter(|link| link.is_up()).count()
    }
}

impl LinkView {
    /// Returns whether the link is up.
    pub fn is_up(&self) -> bool {
        self.state == "up"
    }

    /// Returns the bytes in the queue.
    pub fn waiting_bytes(&self) -> u64 {
        self.outbox
            .as_ref()
            .map_or(0, |outbox| outbox.waiting_bytes)
    }
}

/// The previous reading, if rates can be computed from it.
struct Since<'a> {
    before: Option<&'a Reading>,
    seconds: Option<f64>,
}

impl Since<'_> {
    fn link(&self, link: &Link) -> LinkView {
        let before = self.before.and_then(|before| {
            let mut links = before.links.iter();
            links
                .find(|earlier| earlier.key == link.key)?
                .outbox
                .as_ref()
        });
        let drops = link.outbox.as_ref().map(|outbox| sum(&outbox.dropped));
        let drops_before = before.map(|outbox| sum(&outbox.dropped));
        LinkView {
            key: link.key.clone(),
            name: link.name.clone(),
            state: link.state.clone(),
            reason: link.reason.clone(),
            rtt_ms: link.rtt_ms,
            loss: link.loss,
            sent_bps: link.sent_bps,
            outbox: link.outbox.clone(),
            drops_per_second: self.rate(drops_before, drops),
        }
    }

    fn stream(&self, stream: &Stream, now: &Reading) -> StreamView {
        let before = self.before.and_then(|before| {
            let mut streams = before.streams.iter();
            streams.find(|earlier| earlier.id == stream.id)
        });
        let drops = before.map(|stream| sum(&dropped(stream)));
        let before = before.map(|stream| &stream.counts);
        let (counts, dropped) = (&stream.counts, dropped(stream));
        let sent = self.rate(before.map(|counts| counts.sent), Some(counts.sent));
        let given = self.rate(
            before.map(|counts| counts.delivered),
            Some(counts.delivered),
        );
        let role = role(stream, now);
        StreamView {
            name: stream.name.clone(),
            role,
            adus_per_second: sent.zip(given).map(|(sent, given)| sent.max(given)),
            rate_bps: stream.rate_bps,
            waiting_adus: waiting(stream, now),
            delivered: match role {
                Role::Sink => counts.delivered,
                _ => counts.acknowledged + counts.unconfirmed,
            },
            drops_per_second: self.rate(drops, Some(sum(&dropped))),
            dropped,
            losses: stream
                .ledger
                .as_ref()
                .map_or_else(Vec::new, |ledger| ledger.losses.clone()),
        }
    }

    /// Returns the growth of a counter per second; `None` if it was reset.
    fn rate(&self, before: Option<u64>, now: Option<u64>) -> Option<f64> {
        Some(now?.checked_sub(before?)? as f64 / self.seconds?)
    }
}

/// Returns the time between two readings of one run of a node.
fn seconds_between(before: &Reading, now: &Reading) -> Option<f64> {
    let seconds = now.uptime_seconds? - before.uptime_seconds?;
    (seconds > 0.0).then_some(seconds)
}

fn sum(by_cause: &BTreeMap<String, u64>) -> u64 {
    by_cause.values().sum()
}

fn role(stream: &Stream, now: &Reading) -> Role {
    let mut routes = now
        .routes
        .iter()
        .filter(|route| route.stream == stream.name);
    if stream.publisher == now.node.name {
        Role::Source
    } else if routes.clone().any(|route| route.next.is_some()) {
        Role::Relay
    } else if routes.next().is_some() {
        Role::Sink
    } else {
        Role::Known
    }
}

/// Returns the drops of a stream by cause; at its source also by hop, as `expired at relay`.
fn dropped(stream: &Stream) -> BTreeMap<String, u64> {
    let Some(ledger) = &stream.ledger else {
        return stream.counts.dropped.clone();
    };
    let mut dropped = BTreeMap::new();
    for loss in &ledger.losses {
        *dropped
            .entry(format!("{} at {}", loss.cause, loss.hop))
            .or_default() += loss.adus;
    }
    dropped
}

/// Returns how many ADUs of a stream wait in the outboxes that are reported.
fn waiting(stream: &Stream, now: &Reading) -> Option<u64> {
    let outboxes = now.links.iter().filter_map(|link| link.outbox.as_ref());
    let mut total = None;
    for outbox in outboxes {
        let flows = outbox.flows.iter();
        let its = flows.filter(|flow| flow.stream == stream.name);
        *total.get_or_insert(0) += its.map(|flow| flow.adus).sum::<u64>();
    }
    total
}
