//! The status as Prometheus metrics.
//!
//! *The idea.* Counters and gauges only. The latency percentiles cover the last ten seconds and
//! have no sums, so they are gauges with the label `quantile` of a summary.
//!
//! *Sources.* The Prometheus text exposition format 0.0.4.

#[cfg(test)]
mod tests;

use std::fmt::Write;

use crate::status::{
    EndStatus, LatencyStatus, LedgerStatus, LinkStatus, OutboxStatus, Status, StreamReading,
};

/// Returns the metrics page.
pub(super) fn render(status: &Status) -> String {
    let mut page = Page::default();
    page.family(
        "thalweg_connections_refused_total",
        "counter",
        "connections refused because the key is not admitted",
    );
    page.sample(
        "thalweg_connections_refused_total",
        &[],
        status.refused_connections as f64,
    );
    page.family(
        "thalweg_dials_refused_total",
        "counter",
        "dials refused for lack of room",
    );
    let dials = status.refused_dials as f64;
    page.sample("thalweg_dials_refused_total", &[], dials);
    page.family(
        "thalweg_messages_refused_total",
        "counter",
        "refused messages of other nodes, by kind",
    );
    for refused in &status.refused_messages {
        let labels = [("kind", refused.kind)];
        page.sample(
            "thalweg_messages_refused_total",
            &labels,
            refused.count as f64,
        );
    }
    page.family(
        "thalweg_adus_unroutable_total",
        "counter",
        "ADUs that arrived under no installed plan",
    );
    page.sample(
        "thalweg_adus_unroutable_total",
        &[],
        status.unroutable_adus as f64,
    );
    page.family(
        "thalweg_lag_seconds",
        "gauge",
        "how long the last batch of received ADUs took to hand on",
    );
    page.sample("thalweg_lag_seconds", &[], status.lag_ms / 1e3);
    program(&mut page, status);
    page.family(
        "thalweg_nodes",
        "gauge",
        "nodes on the map, this one included",
    );
    page.sample("thalweg_nodes", &[], status.nodes.len() as f64);
    links(&mut page, &status.links);
    outboxes(&mut page, &status.links);
    let counted = counted(status);
    streams(&mut page, &counted);
    drops(&mut page, &counted);
    ledgers(&mut page, &counted);
    ends(&mut page, &status.ends);
    page.text
}

/// Writes the metrics of the process.
fn program(page: &mut Page, status: &Status) {
    page.family(
        "thalweg_log_lines_lost_total",
        "counter",
        "lines of the log that could not be written",
    );
    page.sample(
        "thalweg_log_lines_lost_total",
        &[],
        status.log_lines_lost as f64,
    );
    page.family(
        "thalweg_panics_total",
        "counter",
        "tasks that have panicked, each for a single connection",
    );
    page.sample("thalweg_panics_total", &[], status.panics as f64);
}

/// A stream with counters, live or ended.
struct Counted<'a> {
    name: &'a str,
    counts: &'a StreamReading,
    ledger: Option<&'a LedgerStatus>,
}

/// Returns the live streams, then the ended ones.
fn counted(status: &Status) -> Vec<Counted<'_>> {
    let live = status.streams.iter().map(|stream| Counted {
        name: stream.name.as_str(),
        counts: &stream.counts,
        ledger: stream.ledger.as_ref(),
    });
    let ended = status.ended.iter().map(|stream| Counted {
        name: stream.name.as_str(),
        counts: &stream.counts,
        ledger: stream.ledger.as_ref(),
    });
    live.chain(ended).collect()
}

fn links(page: &mut Page, links: &[LinkStatus]) {
    type Get = fn(&LinkStatus) -> Option<f64>;
    let gauges: [(&str, &str, Get); 7] = [
        (
            "thalweg_link_up",
            "1 while there is a link with the peer",
            |l| Some(f64::from(u8::from(l.state == "up"))),
        ),
        (
            "thalweg_link_rtt_seconds",
            "smoothed round-trip time",
            |l| l.rtt_ms.map(|ms| ms / 1e3),
        ),
        (
            "thalweg_link_loss_ratio",
            "share of packets lost in the last ten seconds",
            |l| l.loss,
        ),
        (
            "thalweg_link_sent_bits_per_second",
            "sent in the last second",
            |l| l.sent_bps.map(|bps| bps as f64),
        ),
        (
            "thalweg_link_received_bits_per_second",
            "received in the last second",
            |l| l.received_bps.map(|bps| bps as f64),
        ),
        (
            "thalweg_link_memory_bytes",
            "memory that the link takes",
            |l| Some(l.memory?.total_bytes as f64),
        ),
        (
            "thalweg_link_window_bits_per_second",
            "congestion window over round-trip time",
            |l| l.window_bps.map(|bps| bps as f64),
        ),
    ];
    for (name, help, get) in gauges {
        page.family(name, "gauge", help);
        for link in links {
            if let Some(value) = get(link) {
                page.sample(name, &[("peer", &link.name)], value);
            }
        }
    }
    let name = "thalweg_link_failovers_total";
    page.family(
        name,
        "counter",
        "TCP connections replaced by another because they stalled or broke",
    );
    for link in links {
        if let Some(count) = link.failovers {
            page.sample(name, &[("peer", &link.name)], count as f64);
        }
    }
    page.family(
        "thalweg_link_adus_total",
        "counter",
        "ADUs sent, by whether their payload was sealed",
    );
    for link in links {
        for (sealed, count) in [("true", link.adus.sealed), ("false", link.adus.plain)] {
            let labels = [("peer", link.name.as_str()), ("sealed", sealed)];
            page.sample("thalweg_link_adus_total", &labels, count as f64);
        }
    }
}

fn outboxes(page: &mut Page, links: &[LinkStatus]) {
    let with_outbox = |link: &LinkStatus| Some((link.name.clone(), link.outbox.clone()?));
    let outboxes: Vec<(String, OutboxStatus)> = links.iter().filter_map(with_outbox).collect();
    let name = "thalweg_link_sendable_bits_per_second";
    page.family(name, "gauge", "estimate of what the path can send");
    for (peer, outbox) in &outboxes {
        if let Some(bps) = outbox.sendable_bps {
            page.sample(name, &[("peer", peer)], bps as f64);
        }
    }
    for (name, help, in_bytes) in [
        (
            "thalweg_link_waiting_adus",
            "ADUs not wholly handed to the transport, by least importance of a band of 32",
            false,
        ),
        (
            "thalweg_link_waiting_bytes",
            "their bytes not handed over yet",
            true,
        ),
    ] {
        page.family(name, "gauge", help);
        for (peer, outbox) in &outboxes {
            for band in &outbox.by_importance {
                let from = band.from.to_string();
                let labels = [("peer", peer.as_str()), ("importance", &from)];
                let value = if in_bytes {
                    band.bytes as f64
                } else {
                    band.adus as f64
                };
                page.sample(name, &labels, value);
            }
        }
    }
    latencies(page, &outboxes);
    let name = "thalweg_link_adus_dropped_total";
    page.family(
        name,
        "counter",
        "ADUs dropped or refused by the link, by cause",
    );
    for (peer, outbox) in &outboxes {
        for (cause, count) in &outbox.dropped {
            page.sample(name, &[("peer", peer), ("cause", cause)], *count as f64);
        }
    }
}

fn latencies(page: &mut Page, outboxes: &[(String, OutboxStatus)]) {
    type Get = fn(&LatencyStatus) -> f64;
    let quantiles: [(&str, Get); 4] = [
        ("0.5", |l| l.p50),
        ("0.99", |l| l.p99),
        ("0.999", |l| l.p999),
        ("1", |l| l.max),
    ];
    let name = "thalweg_link_latency_seconds";
    let help = "from an ADU's sending to its acknowledgement, over the last ten seconds";
    page.family(name, "gauge", help);
    for (peer, outbox) in outboxes {
        let Some(latency) = &outbox.latency_ms else {
            continue;
        };
        for (quantile, get) in quantiles {
            let labels = [("peer", peer.as_str()), ("quantile", quantile)];
            page.sample(name, &labels, get(latency) / 1e3);
        }
    }
}

fn streams(page: &mut Page, streams: &[Counted<'_>]) {
    type Get = fn(&StreamReading) -> u64;
    let counters: [(&str, &str, Get); 5] = [
        (
            "thalweg_stream_adus_received_total",
            "ADUs that came from another node",
            |c| c.received,
        ),
        (
            "thalweg_stream_adus_sent_total",
            "ADUs handed to a link",
            |c| c.sent,
        ),
        (
            "thalweg_stream_adus_acknowledged_total",
            "ADUs that the next node has whole",
            |c| c.acknowledged,
        ),
        (
            "thalweg_stream_adus_unconfirmed_total",
            "ADUs sent without an acknowledgement of their own",
            |c| c.unconfirmed,
        ),
        (
            "thalweg_stream_adus_delivered_total",
            "ADUs delivered to subscribers on this node",
            |c| c.delivered,
        ),
    ];
    for (name, help, get) in counters {
        page.family(name, "counter", help);
        for stream in streams {
            page.sample(name, &[("stream", stream.name)], get(stream.counts) as f64);
        }
    }
    page.family(
        "thalweg_stream_adus_outstanding",
        "gauge",
        "ADUs sent without a known outcome",
    );
    for stream in streams {
        let labels = [("stream", stream.name)];
        page.sample(
            "thalweg_stream_adus_outstanding",
            &labels,
            stream.counts.outstanding as f64,
        );
    }
    page.family(
        "thalweg_stream_adus_dropped_total",
        "counter",
        "dropped ADUs, by cause",
    );
    for stream in streams {
        for (cause, count) in &stream.counts.dropped {
            let labels = [("stream", stream.name), ("cause", cause)];
            page.sample("thalweg_stream_adus_dropped_total", &labels, *count as f64);
        }
    }
}

/// Writes the drops of streams on this node by place.
fn drops(page: &mut Page, streams: &[Counted<'_>]) {
    let name = "thalweg_stream_drops_total";
    page.family(
        name,
        "counter",
        "drops on this node, by place and cause; one in several mailboxes counts in each",
    );
    for stream in streams {
        for (place, causes) in &stream.counts.drops {
            for (cause, count) in causes {
                let labels = [("stream", stream.name), ("place", place), ("cause", cause)];
                page.sample(name, &labels, *count as f64);
            }
        }
    }
}

/// Writes the ledgers of streams published here.
fn ledgers(page: &mut Page, streams: &[Counted<'_>]) {
    type Get = fn(&LedgerStatus) -> u64;
    let published = || streams.iter().filter(|stream| stream.ledger.is_some());
    let sums: [(&str, &str, &str, Get); 3] = [
        (
            "thalweg_stream_path_adus_published_total",
            "counter",
            "ADUs published by the producer, once for each plan",
            |l| l.published,
        ),
        (
            "thalweg_stream_path_adus_delivered_total",
            "counter",
            "ADUs delivered to subscribers on all nodes",
            |l| l.delivered,
        ),
        (
            "thalweg_stream_path_adus_pending",
            "gauge",
            "ADUs on their way, or not reported yet",
            |l| l.pending,
        ),
    ];
    for (name, kind, help, get) in sums {
        page.family(name, kind, help);
        for stream in published() {
            let value = stream.ledger.map_or(0, get);
            page.sample(name, &[("stream", stream.name)], value as f64);
        }
    }
    // Not a counter: a loss is withdrawn if the ADU arrives after all.
    let name = "thalweg_stream_path_adus_lost";
    page.family(name, "gauge", "dropped ADUs, by hop, cause and importance");
    for stream in published() {
        for loss in stream.ledger.iter().flat_map(|ledger| &ledger.losses) {
            let [least, most] = loss.importance;
            let importance = format!("{least}-{most}");
            let labels = [
                ("stream", stream.name),
                ("hop", &loss.hop),
                ("cause", loss.cause),
                ("importance", &importance),
            ];
            page.sample(name, &labels, loss.adus as f64);
        }
    }
}

/// Writes the metrics of inputs and outputs.
fn ends(page: &mut Page, ends: &[EndStatus]) {
    type Get = fn(&EndStatus) -> f64;
    let families: [(&str, &str, &str, Get); 4] = [
        (
            "thalweg_end_up",
            "gauge",
            "1 while the input or output is starting or running",
            |end| f64::from(u8::from(matches!(end.state, "starting" | "running"))),
        ),
        (
            "thalweg_end_restarts_total",
            "counter",
            "how often it has failed",
            |end| end.restarts as f64,
        ),
        (
            "thalweg_end_adus_total",
            "counter",
            "messages that have passed",
            |end| end.adus as f64,
        ),
        (
            "thalweg_end_bytes_total",
            "counter",
            "bytes of messages that have passed",
            |end| end.bytes as f64,
        ),
    ];
    for (name, kind, help, get) in families {
        page.family(name, kind, help);
        for end in ends {
            let labels = [
                ("kind", end.kind),
                ("name", end.name.as_str()),
                ("stream", end.stream.as_str()),
            ];
            page.sample(name, &labels, get(end));
        }
    }
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string never fails.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let labels: Vec<String> = labels
            .iter()
            .map(|(key, value)| format!("{key}=\"{}\"", escaped(value)))
            .collect();
        let labels = if labels.is_empty() {
            String::new()
        } else {
            format!("{{{}}}", labels.join(","))
        };
        let _ = writeln!(self.text, "{name}{labels} {value}");
    }
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
