//! `thalweg route FROM TO`: the path that a stream would take now, why, and the cost of the alternatives.

use std::fmt::Write as _;

use clap::Args;
use serde_json::Value;
use thalweg_base::id::StreamName;

use super::plan::prose;
use crate::exit::{Code, Failure, Outcome};
use crate::socket::Socket;
use crate::table;
use crate::terminal::{self, Colour, Paint};

const EXAMPLES: &str = "\
Examples:
  thalweg route camera base
  thalweg route camera base --stream truck/cam1
  thalweg route camera base --json | jq '.alternatives[].plan.cost'

The map is that of the node that answers. An alternative is the best path without the links named beside it. `There` and
`back` are the rates that a hop's ends report: measured where the link was full, configured elsewhere. Without --stream
the path is planned for a stream of 1 Mbit/s that is not confidential.";

/// Show the best path between two nodes on the live map, why it is the best, and what alternatives cost.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The first node of the path: its name, its key, or the digits of it that `thalweg ls` shows.
    #[arg(value_name = "FROM")]
    from: String,

    /// The last node of the path.
    #[arg(value_name = "TO")]
    to: String,

    /// The stream to plan for.
    #[arg(long, value_name = "NAME")]
    stream: Option<StreamName>,

    #[command(flatten)]
    socket: Socket,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Asks the node and prints.
pub async fn run(arguments: &Arguments) -> Outcome {
    let node = arguments.socket.connect().await?;
    let stream = arguments.stream.clone();
    let ways = node.route(&arguments.from, &arguments.to, stream).await;
    let ways = ways.map_err(Failure::of_node)?;
    let text = if arguments.json {
        serde_json::to_string(&ways)? + "\n"
    } else {
        describe(&ways, Colour::of_stdout())
    };
    terminal::print(&text)?;
    Ok(if ways["best"]["feasible"] == true {
        Code::Done
    } else {
        Code::Infeasible
    })
}

fn describe(ways: &Value, colour: Colour) -> String {
    let mut text = String::new();
    let stream = ways["stream"].as_str().unwrap_or("any stream");
    let secret = if ways["confidential"] == true {
        ", confidential"
    } else {
        ""
    };
    let head = format!("{} to {}", word(&ways["from"]), word(&ways["to"]));
    let _ = writeln!(
        text,
        "{} for {stream} of {}{secret}\n",
        colour.paint(Paint::Bold, &head),
        rate(&ways["rate_bps"])
    );
    let mut rows = vec![["", "cost", "delay", "path", "if lost"].map(String::from)];
    if ways["best"]["feasible"] == true {
        rows.push(row("best", &ways["best"], String::new()));
    }
    for other in list(&ways["alternatives"]) {
        let pair = |ends: &Value| format!("{}–{}", word(&ends[0]), word(&ends[1]));
        let without: Vec<String> = list(&other["without"]).iter().map(pair).collect();
        rows.push(row("else", &other["plan"], without.join(", ")));
    }
    if rows.len() > 1 {
        text.push_str(&table::lay_out(&rows, colour));
        text.push('\n');
    }
    let titles = [
        "hop",
        "delay",
        "loss",
        "there",
        "back",
        "configured",
        "secure",
    ];
    let mut hops = vec![titles.map(String::from)];
    for hop in list(&ways["hops"]) {
        hops.push([
            format!("{} – {}", word(&hop["from"]), word(&hop["to"])),
            format!("{:.1} ms", number(&hop["delay_ms"])),
            format!("{:.1} %", number(&hop["loss"]) * 100.0),
            known(&hop["there_bps"], "?"),
            known(&hop["back_bps"], "?"),
            known(&hop["configured_bps"], ""),
            if hop["secure"] == true { "yes" } else { "no" }.into(),
        ]);
    }
    if hops.len() > 1 {
        text.push_str(&table::lay_out(&hops, colour));
        text.push('\n');
    }
    text.push_str(prose::folded(&word(&ways["explanation"])).trim_end());
    text.push('\n');
    text
}

fn row(what: &str, way: &Value, without: String) -> [String; 5] {
    let path: Vec<String> = list(&way["path"]).iter().map(word).collect();
    [
        what.into(),
        format!("{:.3}", number(&way["cost"])),
        format!("{:.1} ms", number(&way["delay_ms"])),
        path.join(" "),
        without,
    ]
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().into()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}

fn known(value: &Value, unknown: &str) -> String {
    if value.is_null() {
        unknown.into()
    } else {
        rate(value)
    }
}

fn rate(value: &Value) -> String {
    match number(value) {
        bps if bps >= 1e6 => format!("{:.1} Mbit/s", bps / 1e6),
        bps => format!("{:.0} kbit/s", bps / 1e3),
    }
}
