//! `thalweg ingest` and `thalweg egress`: start and stop inputs and outputs of this machine's node.

use clap::{Args, ValueEnum};
use thalweg_base::id::StreamName;
use thalweg_node::ends::EndKind;

use crate::exit::{Code, Failure, Outcome};
use crate::socket::Socket;
use crate::terminal;

const INGEST_EXAMPLES: &str = "\
Examples:
  thalweg ingest stop survey/radar
  thalweg ingest start survey/radar

The inputs are those of [[ingest]] in the node's configuration; `thalweg ls` lists them. A stopped one stays stopped
until it is started, its entry changes, or the node starts. Its subscribers wait for it.";

const EGRESS_EXAMPLES: &str = "\
Examples:
  thalweg egress stop archive
  thalweg egress start archive

The outputs are those of [[egress]] in the node's configuration; `thalweg ls` lists them. A stopped one stays stopped
until it is started, its entry changes, or the node starts.";

/// Start or stop an input of the node.
#[derive(Debug, Args)]
#[command(after_help = INGEST_EXAMPLES)]
pub struct Ingest {
    #[command(flatten)]
    request: Request,
}

/// Start or stop an output of the node.
#[derive(Debug, Args)]
#[command(after_help = EGRESS_EXAMPLES)]
pub struct Egress {
    #[command(flatten)]
    request: Request,
}

#[derive(Debug, Args)]
struct Request {
    /// What to do.
    #[arg(value_enum, value_name = "ACTION")]
    action: Action,

    /// Its name in the configuration: `name`, or the stream's.
    #[arg(value_name = "NAME")]
    name: StreamName,

    #[command(flatten)]
    socket: Socket,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Action {
    /// Start it; one that waits to be started again, at once.
    Start,
    /// Stop it.
    Stop,
}

/// Starts or stops an input.
pub async fn ingest(arguments: &Ingest) -> Outcome {
    switch(EndKind::Ingest, &arguments.request).await
}

/// Starts or stops an output.
pub async fn egress(arguments: &Egress) -> Outcome {
    switch(EndKind::Egress, &arguments.request).await
}

async fn switch(kind: EndKind, request: &Request) -> Outcome {
    let node = request.socket.connect().await?;
    let runs = request.action == Action::Start;
    let done = node.set_end(kind, request.name.clone(), runs).await;
    let done = done.map_err(Failure::of_node)?;
    terminal::print(&format!("{done}\n"))?;
    Ok(Code::Done)
}
