//! What is shown: a moment of a node, and what has changed since the one before.
//!
//! *The idea.* Rates are differences of counters over the difference of the node's own uptime, so neither this program's
//! clock nor a slow answer has a part in them. A node that was started again, or a stream that was published anew, has no
//! rate until the next moment.

use std::collections::BTreeMap;

use serde::Serialize;

use super::reading::{Link, Loss, Outbox, Reading, Stream};

/// What is shown of a node.
#[derive(Clone, Debug, Serialize)]
pub struct View {
    /// The node's name.
    pub node: String,
    /// For how long it has run; nothing if it does not say.
    pub uptime_seconds: Option<f64>,
    /// What the rates are over; nothing at the first moment.
    pub seconds: Option<f64>,
    /// Its links, in its order.
    pub links: Vec<LinkView>,
    /// The streams that it knows.
    pub streams: Vec<StreamView>,
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
    /// The smoothed round trip.
    pub rtt_ms: Option<f64>,
    /// The share of packets lost lately.
    pub loss: Option<f64>,
    /// What was sent in the last second.
    pub sent_bps: Option<u64>,
    /// What waits; nothing of a link that does not say.
    pub outbox: Option<Outbox>,
    /// ADUs that its outbox gave up, a second.
    pub drops_per_second: Option<f64>,
}

/// A stream.
#[derive(Clone, Debug, Serialize)]
pub struct StreamView {
    /// Its name.
    pub name: String,
    /// What the node is to it.
    pub role: Role,
    /// ADUs that left here, sent on or given to subscribers, whichever are more, a second.
    pub adus_per_second: Option<f64>,
    /// The announced rate.
    pub rate_bps: u64,
    /// What waits of it in all outboxes; nothing if no link says.
    pub waiting_adus: Option<u64>,
    /// Given to subscribers here, or else gone to the next node and not known to be lost.
    pub delivered: u64,
    /// ADUs that went no further, by cause: on this node, or if it is published here on all of its path, with the hop.
    pub dropped: BTreeMap<String, u64>,
    /// The same, a second.
    pub drops_per_second: Option<f64>,
    /// The same by hop, cause and importance, if it is published here.
    pub losses: Vec<Loss>,
}

/// What a node is to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// It is published here.
    Source,
    /// It passes.
    Relay,
    /// It ends here.
    Sink,
    /// It is on the map, and no plan leads here.
    Known,
}

impl Role {
    /// Returns it as one word.
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
    /// Returns what there is to show of a moment, given the one before.
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

    /// Returns how many bytes wait.
    pub fn waiting_bytes(&self) -> u64 {
        self.outbox
            .as_ref()
            .map_or(0, |outbox| outbox.waiting_bytes)
    }
}

/// The moment before, if a rate can be told.
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
                _ => counts.acknowledged + counts.departed,
            },
            drops_per_second: self.rate(drops, Some(sum(&dropped))),
            dropped,
            losses: stream
                .ledger
                .as_ref()
                .map_or_else(Vec::new, |ledger| ledger.losses.clone()),
        }
    }

    /// Returns how fast a counter grew; nothing if it began anew.
    fn rate(&self, before: Option<u64>, now: Option<u64>) -> Option<f64> {
        Some(now?.checked_sub(before?)? as f64 / self.seconds?)
    }
}

/// Returns the time between two moments of one run of a node.
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

/// Returns what of a stream went no further, by cause; and by hop, as `expired at relay`, where its source is told.
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

/// Returns how many ADUs of a stream wait in the outboxes that are known.
fn waiting(stream: &Stream, now: &Reading) -> Option<u64> {
    let outboxes = now.links.iter().filter_map(|link| link.outbox.as_ref());
    let mut told = None;
    for outbox in outboxes {
        let flows = outbox.flows.iter();
        let its = flows.filter(|flow| flow.stream == stream.name);
        *told.get_or_insert(0) += its.map(|flow| flow.adus).sum::<u64>();
    }
    told
}
