//! `thalweg ls`: the nodes, links and streams that this machine's node knows, once or repeatedly.

mod trouble;
mod watch;

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::io;

use clap::Args;
use serde_json::Value;
use thalweg_base::id::StreamPattern;
use thalweg_node::Selection;

use crate::exit::{Code, Failure, Outcome, fail};
use crate::selection;
use crate::socket::Socket;
use crate::table;
use crate::terminal::{self, Colour, Paint, is_drawn_on};

const EXAMPLES: &str = "\
Examples:
  thalweg ls
  thalweg ls --watch
  thalweg ls 'robot-*/cam/**' --label site=north
  thalweg ls --node /run/thalweg/node.sock --json | jq '.links[] | {name, rtt_ms}'";

/// List nodes, links with their measurements, and streams.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Only streams of this name, or of names that match a pattern such as 'survey/*', with their plans.
    pattern: Option<StreamPattern>,

    /// Only streams with this label, such as kind=radar; may be repeated.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = selection::parse_label)]
    labels: Vec<(String, String)>,

    #[command(flatten)]
    socket: Socket,

    /// Print one JSON object, with plans and counters.
    #[arg(long)]
    json: bool,

    /// Refresh once a second, until Ctrl-C; with --json, print one object a line.
    #[arg(long)]
    watch: bool,
}

/// Asks the node and prints.
pub async fn run(arguments: &Arguments) -> Outcome {
    match (arguments.watch, arguments.json) {
        (true, true) => return watch::lines(arguments).await,
        (true, false) if is_drawn_on(&io::stdout()) => return watch::run(arguments).await,
        (true, false) => {
            return fail(
                Code::BadInput,
                "standard output is not a terminal with cursor control: `thalweg ls` prints the listing once, `thalweg ls --watch --json` \
                 an object a line",
            );
        }
        (false, _) => {}
    }
    let status = arguments.status().await?;
    let text = if arguments.json {
        serde_json::to_string(&status)? + "\n"
    } else {
        arguments.describe(&status, Colour::of_stdout())
    };
    terminal::print(&text)?;
    Ok(Code::Done)
}

impl Arguments {
    /// Asks the node for its status; of streams it has only those that are asked for.
    async fn status(&self) -> Result<Value, Failure> {
        let mut status = self.socket.status().await?;
        if let Some(selection) = self.selection() {
            selection::narrow(&mut status, &selection);
        }
        Ok(status)
    }

    /// Returns which streams are meant; `None` for the whole listing.
    fn selection(&self) -> Option<Selection> {
        let is_narrow = self.pattern.is_some() || !self.labels.is_empty();
        let all = || "**".parse().expect("it is a pattern");
        let pattern = self.pattern.clone().unwrap_or_else(all);
        is_narrow.then(|| selection::of(&pattern, &self.labels))
    }

    fn describe(&self, status: &Value, colour: Colour) -> String {
        if self.selection().is_none() {
            return describe(status, colour);
        }
        let mut text = or_none(&streams(status), colour);
        text.push_str(&plans(status, colour));
        text
    }
}

fn describe(status: &Value, colour: Colour) -> String {
    let mut text = String::new();
    let head = |title: &str| colour.paint(Paint::Bold, title);
    text.push_str(&troubles(status, colour));
    let _ = writeln!(text, "{}", head("nodes"));
    text.push_str(&table::lay_out(&nodes(status), colour));
    let _ = writeln!(text, "\n{}", head("links"));
    text.push_str(&or_none(&links(status), colour));
    let _ = writeln!(text, "\n{}", head("streams"));
    text.push_str(&or_none(&streams(status), colour));
    let ends = ends(status);
    if ends.len() > 1 {
        let _ = writeln!(text, "\n{}", head("inputs and outputs"));
        text.push_str(&table::lay_out(&ends, colour));
    }
    let trouble = trouble::describe(status);
    if !trouble.is_empty() {
        let _ = write!(text, "\n{}\n{trouble}", head("trouble"));
    }
    text.push_str(&plans(status, colour));
    text
}

/// Describes the plans of streams that are published here.
fn plans(status: &Value, colour: Colour) -> String {
    let mut text = String::new();
    for plan in list(&status["plans"]) {
        let _ = writeln!(
            text,
            "\n{} {} to {}: {}{}",
            colour.paint(Paint::Bold, "plan"),
            word(&plan["stream"]),
            word(&plan["sink"]),
            word(&plan["state"]),
            plan["reason"]
                .as_str()
                .map(|reason| format!(", {reason}"))
                .unwrap_or_default()
        );
        if let Some(explanation) = plan["explanation"].as_str() {
            let _ = writeln!(text, "{}", explanation.trim_end());
        }
    }
    text
}

/// Describes faults of the node's own process; empty if there are none.
fn troubles(status: &Value, colour: Colour) -> String {
    let mut text = String::new();
    let mut add = |count: &Value, what: &str| {
        if let Some(count) = count.as_u64().filter(|count| *count > 0) {
            let line = format!("{count} {what}");
            let _ = writeln!(text, "{}", colour.paint(Paint::Yellow, &line));
        }
    };
    let lost =
        "lines of the node's log could not be written: is the disk full, or the log's reader gone?";
    add(&status["log_lines_lost"], lost);
    let faults = "tasks of the node panicked, each for a single connection: see the node's log";
    add(&status["panics"], faults);
    text
}

/// Without an owner no rights were granted, and an empty column is left out.
fn nodes(status: &Value) -> Vec<[String; 6]> {
    let titles = ["name", "key", "slots", "trusted", "rights", "neighbours"];
    let mut rows = vec![titles.map(String::from)];
    let own = word(&status["node"]["key"]);
    for node in list(&status["nodes"]) {
        let key = word(&node["key"]);
        let here = if key == own { " (here)" } else { "" };
        let neighbours: Vec<String> = list(&node["neighbours"]).iter().map(word).collect();
        rows.push([
            word(&node["name"]) + here,
            key.chars().take(10).collect(),
            node["slots"].to_string(),
            if node["trusted"] == true { "yes" } else { "no" }.into(),
            list(&node["rights"])
                .iter()
                .map(word)
                .collect::<Vec<_>>()
                .join(","),
            neighbours.join(" "),
        ]);
    }
    rows
}

fn links(status: &Value) -> Vec<[String; 10]> {
    let titles = [
        "to",
        "state",
        "rtt",
        "loss",
        "sent",
        "received",
        "window",
        "announced",
        "configured",
        "reason",
    ];
    let mut rows = vec![titles.map(String::from)];
    for link in list(&status["links"]) {
        rows.push([
            word(&link["name"]),
            word(&link["state"]),
            number(&link["rtt_ms"], |ms| format!("{ms:.1} ms")),
            number(&link["loss"], |loss| format!("{:.1} %", loss * 100.0)),
            number(&link["sent_bps"], rate),
            number(&link["received_bps"], rate),
            number(&link["window_bps"], rate),
            number(&link["announced_bps"], rate),
            number(&link["rate_bps"], rate),
            link["reason"].as_str().unwrap_or_default().into(),
        ]);
    }
    rows
}

fn streams(status: &Value) -> Vec<[String; 10]> {
    let titles = [
        "name",
        "type",
        "from",
        "to",
        "rate",
        "layers",
        "sent",
        "delivered",
        "dropped",
        "labels",
    ];
    let mut rows = vec![titles.map(String::from)];
    for stream in list(&status["streams"]) {
        let sinks: Vec<String> = list(&stream["sinks"]).iter().map(word).collect();
        rows.push([
            word(&stream["name"]),
            kind(stream),
            word(&stream["publisher"]),
            sinks.join(" "),
            number(&stream["rate_bps"], rate),
            stream["layers"].to_string(),
            stream["counts"]["sent"].to_string(),
            stream["counts"]["delivered"].to_string(),
            dropped(&stream["counts"]["dropped"]),
            labels(stream),
        ]);
    }
    rows
}

fn ends(status: &Value) -> Vec<[String; 9]> {
    let titles = [
        "name", "kind", "stream", "at", "state", "messages", "bytes", "restarts", "reason",
    ];
    let mut rows = vec![titles.map(String::from)];
    for end in list(&status["ends"]) {
        let state = match end["retry_in_seconds"].as_f64() {
            Some(seconds) => format!("again in {seconds:.0} s"),
            None => word(&end["state"]),
        };
        rows.push([
            word(&end["name"]),
            word(&end["kind"]),
            word(&end["stream"]),
            word(&end["url"]),
            state,
            end["adus"].to_string(),
            end["bytes"].to_string(),
            end["restarts"].to_string(),
            word(&end["reason"]),
        ]);
    }
    rows
}

/// Returns what a stream carries: its encoding and its schema.
fn kind(stream: &Value) -> String {
    let words = [word(&stream["encoding"]), word(&stream["schema"])];
    words.join(" ").trim().into()
}

fn labels(stream: &Value) -> String {
    let labels = stream["labels"].as_object().into_iter().flatten();
    let labels: Vec<String> = labels
        .map(|(key, value)| format!("{key}={}", word(value)))
        .collect();
    labels.join(" ")
}

/// Returns the causes of local drops, the most frequent first.
fn dropped(causes: &Value) -> String {
    let causes = causes.as_object().into_iter().flatten();
    let mut causes: Vec<(&str, u64)> = causes
        .map(|(cause, adus)| (cause.as_str(), adus.as_u64().unwrap_or(0)))
        .collect();
    causes.sort_by_key(|(_, adus)| Reverse(*adus));
    let named = causes.iter().map(|(cause, adus)| format!("{adus} {cause}"));
    named.collect::<Vec<_>>().join(", ")
}

fn or_none<const N: usize>(rows: &[[String; N]], colour: Colour) -> String {
    if rows.len() > 1 {
        table::lay_out(rows, colour)
    } else {
        "none\n".into()
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().into()
}

fn number(value: &Value, show: impl FnOnce(f64) -> String) -> String {
    value.as_f64().map(show).unwrap_or_default()
}

fn rate(bps: f64) -> String {
    match bps {
        _ if bps >= 1e6 => format!("{:.1} Mbit/s", bps / 1e6),
        _ => format!("{:.0} kbit/s", bps / 1e3),
    }
}
