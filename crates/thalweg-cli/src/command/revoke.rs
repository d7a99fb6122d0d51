//! `thalweg revoke NODE`: withdraws a node's rights, at once and everywhere.

use clap::Args;

use crate::exit::{Code, Failure, Outcome};
use crate::socket::Socket;
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  thalweg revoke camera
  thalweg revoke 6b1d5c3e…64 hexadecimal digits…

The node loses all rights: its neighbours close their links with it, its streams and subscriptions end, and it leaves
the map. The owner can revoke any node, a node with `invite` the nodes that it invited. With a new ticket it can rejoin.";

/// Revoke a node's rights.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The node's name, its key, or the digits of it that `thalweg ls` shows.
    #[arg(value_name = "NODE")]
    node: String,

    #[command(flatten)]
    socket: Socket,
}

/// Sends the request and prints the result.
pub async fn run(arguments: &Arguments) -> Outcome {
    let node = arguments.socket.connect().await?;
    let done = node.revoke(&arguments.node).await;
    let done = done.map_err(Failure::of_node)?;
    terminal::print(&format!("{done}\n"))?;
    Ok(Code::Done)
}
