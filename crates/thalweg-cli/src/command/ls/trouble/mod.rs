//! Sentences below the tables of `thalweg ls`: streams that lose ADUs or wait, and links beside
//! their configured rate.
//!
//! *The idea.* A table has one number per stream; a sentence can say which streams compete and what was
//! dropped. Only streams and links in trouble are named. Losses on this node's links cover the last
//! seconds; losses on other nodes, as the source knows them, cover the time since the stream began.
//!
//! *What it does not do.* It measures nothing, and wraps at 80 columns whatever the terminal's width.

use std::cmp::Reverse;
use std::fmt::Write as _;

use serde_json::Value;

use super::{list, rate, word};
use crate::table;

/// Share of lost ADUs below which a stream is not named.
const SHARE_MIN: f64 = 0.01;

/// Rates up to this multiple of the configured rate pass as equal: they are measured over a second.
const RATE_MARGIN: f64 = 1.05;

/// Loss shares of neighbouring importances that differ by less are merged.
const SHARE_STEP_MIN: f64 = 0.1;

/// How many streams of a link are named.
const NAMED_MAX: usize = 6;

/// The width of a sentence, in columns.
const COLUMNS: usize = 80;

/// Drop causes that are part of the plan.
const PLANNED: [&str; 2] = ["filtered", "no-subscriber"];

/// Returns a wrapped paragraph for each trouble; empty if there is none.
pub(super) fn describe(status: &Value) -> String {
    let links = list(&status["links"]).iter();
    let here = links.clone().flat_map(streams_of_link);
    let rates = links.filter_map(beside_rate);
    let own = word(&status["node"]["name"]);
    let elsewhere = list(&status["streams"]).iter();
    let elsewhere = elsewhere.filter_map(|stream| lost_elsewhere(stream, &own));
    let waiting = list(&status["streams"]).iter().filter_map(stalled);
    here.chain(elsewhere)
        .chain(waiting)
        .chain(rates)
        .map(|paragraph| wrapped(&paragraph))
        .collect()
}

/// Names the subscribers that a stream waits for, if it waits.
fn stalled(stream: &Value) -> Option<String> {
    let stalled = &stream["stalled"];
    let by: Vec<String> = list(&stalled["by"]).iter().map(word).collect();
    let seconds = stalled["seconds"].as_f64()?;
    let kept = stalled["kept_bytes"].as_f64().unwrap_or(0.0) / f64::from(1 << 20);
    Some(format!(
        "{} has waited {seconds:.0} s for {}, which reads too slowly or cannot be reached; {kept:.1} MiB are kept. \
         `publish --wait-at-most` bounds the wait.",
        word(&stream["name"]),
        by.join(", "),
    ))
}

/// Names the streams that lose ADUs on a link, and the streams that share the link.
fn streams_of_link(link: &Value) -> Vec<String> {
    let traffic = list(&link["traffic"]);
    let lose = traffic
        .iter()
        .filter(|stream| share_lost(stream) >= SHARE_MIN);
    lose.map(|stream| {
        let name = word(&stream["stream"]);
        let dropped = dropped(stream);
        let mut text = format!(
            "{name} to {}: {} of {} dropped here in the last {:.0} s ({})",
            word(&link["name"]),
            percent(share_lost(stream)),
            adus(count(&stream["adus"])),
            stream["seconds"].as_f64().unwrap_or(0.0),
            causes(&dropped),
        );
        let by_importance = by_importance(list(&stream["by_importance"]));
        if by_importance.len() > 1 {
            let _ = write!(text, "; importance {}", by_importance.join(", "));
        }
        let _ = write!(text, ". {}", shared(link, traffic));
        text
    })
    .collect()
}

/// Describes what a link carries and what its streams ask for.
fn shared(link: &Value, traffic: &[Value]) -> String {
    let mut requests: Vec<String> = traffic
        .iter()
        .take(NAMED_MAX)
        .map(|stream| {
            let lost = share_lost(stream);
            let lost = if lost >= SHARE_MIN {
                format!(", {} dropped", percent(lost))
            } else {
                String::new()
            };
            let bps = stream["offered_bps"].as_f64().unwrap_or(0.0);
            format!("{} {}{lost}", word(&stream["stream"]), rate(bps))
        })
        .collect();
    if traffic.len() > NAMED_MAX {
        requests.push(format!("{} more", traffic.len() - NAMED_MAX));
    }
    let sum: f64 = traffic
        .iter()
        .filter_map(|stream| stream["offered_bps"].as_f64())
        .sum();
    let carries = link["measured_bps"]
        .as_f64()
        .map(|bps| format!("The link carries {}", rate(bps)))
        .or_else(|| {
            link["sent_bps"]
                .as_f64()
                .map(|bps| format!("The link sends {}", rate(bps)))
        });
    let carries = carries.unwrap_or_else(|| "The link is down".into());
    let beside = if traffic.len() == 1 {
        "no other stream"
    } else {
        "together"
    };
    format!(
        "{carries}; the offered load is {} ({}; {beside}).",
        rate(sum),
        requests.join("; ")
    )
}

/// Describes a stream's losses on other nodes, as its source knows them.
fn lost_elsewhere(stream: &Value, own: &str) -> Option<String> {
    let ledger = &stream["ledger"];
    let published = count(&ledger["published"]);
    let losses = list(&ledger["losses"]).iter();
    let losses = losses.filter(|loss| !is_planned(loss) && word(&loss["hop"]) != own);
    let lost: u64 = losses.clone().map(|loss| count(&loss["adus"])).sum();
    if published == 0 || (lost as f64) < SHARE_MIN * published as f64 {
        return None;
    }
    let mut hops: Vec<String> = losses.clone().map(|loss| word(&loss["hop"])).collect();
    hops.sort_unstable();
    hops.dedup();
    let hops = hops.into_iter().map(|hop| {
        let of_hop = losses.clone().filter(|loss| word(&loss["hop"]) == hop);
        let pairs: Vec<_> = of_hop
            .map(|loss| (word(&loss["cause"]), count(&loss["adus"])))
            .collect();
        format!("at {hop} {}", causes(&pairs))
    });
    Some(format!(
        "{}: {} of {} lost on other nodes since it began: {}; `thalweg ls` there says what shares the link.",
        word(&stream["name"]),
        percent(lost as f64 / published as f64),
        adus(published),
        hops.collect::<Vec<_>>().join("; ")
    ))
}

/// Describes a link that carries more than its configured rate.
fn beside_rate(link: &Value) -> Option<String> {
    let set = link["rate_bps"].as_f64()?;
    let is_above = |bps: &f64| *bps > set * RATE_MARGIN;
    let name = word(&link["name"]);
    if let Some(sent) = link["sent_bps"].as_f64().filter(is_above) {
        return Some(format!(
            "link to {name}: sends {}, more than its `rate` of {}. Plans count on no more than `rate`; it does not slow the link.",
            rate(sent),
            rate(set)
        ));
    }
    let measured = link["measured_bps"].as_f64().filter(is_above)?;
    Some(format!(
        "link to {name}: carries {}, but plans are held to its `rate` of {}: raise `rate`, or leave it out, to use more.",
        rate(measured),
        rate(set)
    ))
}

/// Returns the causes of a stream's losses on a link, with the number of ADUs.
fn dropped(stream: &Value) -> Vec<(String, u64)> {
    let losses = list(&stream["dropped"]).iter();
    let losses = losses.filter(|loss| !is_planned(loss));
    losses
        .map(|loss| (word(&loss["cause"]), count(&loss["adus"])))
        .collect()
}

fn share_lost(stream: &Value) -> f64 {
    let lost: u64 = dropped(stream).iter().map(|(_, adus)| adus).sum();
    let adus = count(&stream["adus"]).max(1);
    lost as f64 / adus as f64
}

fn is_planned(loss: &Value) -> bool {
    PLANNED.contains(&loss["cause"].as_str().unwrap_or_default())
}

/// Joins causes, the most frequent first, each named once.
fn causes(pairs: &[(String, u64)]) -> String {
    let mut sums: Vec<(&str, u64)> = Vec::new();
    for (cause, adus) in pairs {
        match sums.iter_mut().find(|(known, _)| known == cause) {
            Some((_, sum)) => *sum += adus,
            None => sums.push((cause, *adus)),
        }
    }
    sums.sort_by_key(|(_, adus)| Reverse(*adus));
    let named: Vec<_> = sums
        .iter()
        .map(|(cause, adus)| format!("{adus} {cause}"))
        .collect();
    named.join(", ")
}

/// Returns the lost share by importance; neighbouring bands with similar shares are merged.
fn by_importance(bands: &[Value]) -> Vec<String> {
    struct Group {
        from: u64,
        to: u64,
        adus: u64,
        dropped: u64,
    }
    let share = |dropped: u64, adus: u64| dropped as f64 / adus.max(1) as f64;
    let mut groups: Vec<Group> = Vec::new();
    for band in bands {
        let (adus, dropped) = (count(&band["adus"]), count(&band["dropped"]));
        let [from, to] = [0, 1].map(|end| count(&band["importance"][end]));
        match groups.last_mut() {
            Some(last)
                if (share(last.dropped, last.adus) - share(dropped, adus)).abs()
                    < SHARE_STEP_MIN =>
            {
                last.to = to;
                last.adus += adus;
                last.dropped += dropped;
            }
            _ => groups.push(Group {
                from,
                to,
                adus,
                dropped,
            }),
        }
    }
    groups
        .iter()
        .map(|group| {
            let share = share(group.dropped, group.adus);
            format!("{}–{}: {}", group.from, group.to, percent(share))
        })
        .collect()
}

fn adus(count: u64) -> String {
    format!("{count} ADU{}", if count == 1 { "" } else { "s" })
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent > 0.0 && percent < 9.95 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// Wraps a paragraph; all lines but the first are indented. A number stays on one line with its unit.
fn wrapped(paragraph: &str) -> String {
    const UNBROKEN: [(&str, &str); 3] = [
        (" %", "\u{a0}%"),
        (" Mbit", "\u{a0}Mbit"),
        (" kbit", "\u{a0}kbit"),
    ];
    let glue = |text: String, (broken, whole): (&str, &str)| text.replace(broken, whole);
    let paragraph = UNBROKEN.into_iter().fold(paragraph.to_string(), glue);
    let mut text = String::new();
    let mut line = String::new();
    for piece in paragraph.split(' ') {
        if !line.is_empty() && table::width(&line) + 1 + table::width(piece) > COLUMNS {
            text.push_str(&line);
            text.push('\n');
            line = "   ".into();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(piece);
    }
    text.replace('\u{a0}', " ") + &line.replace('\u{a0}', " ") + "\n"
}

#[cfg(test)]
mod tests;
