//! Logs on standard error, by `--log` or `THALWEG_LOG`.
//!
//! *The idea.* The daemon tells states an operator cares about (`info`), a command only what needs a look (`warn`).
//! What cannot be written is lost and counted (`thalweg_node::program::stderr`): no log is worth a node.
//!
//! The QUIC stack below is quiet unless asked for: its warnings are about single packets, and in a command that ends
//! with a backlog nobody waits for, its errors about that.

use anyhow::Context as _;
use thalweg_node::program::stderr::Lines;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::exit::{Code, Failure, OrCode as _};
use crate::terminal::Colour;

/// What is logged when nobody says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Default {
    /// A command in the foreground: only what needs a look.
    Command,
    /// The demo, whose nodes stop with a backlog on purpose: only what the demo itself says.
    Demo,
    /// The daemon: states as well.
    Daemon,
}

/// Starts logging to standard error; `filter` is in the syntax of `tracing_subscriber::filter::Targets`: `info`, or
/// `thalweg_node=debug,iroh=off`.
pub fn start(filter: Option<&str>, default: Default) -> Result<(), Failure> {
    let filter = filter.unwrap_or(match default {
        Default::Command => "error,iroh=off,thalweg=warn",
        Default::Demo => "error,iroh=off,thalweg::demo=warn",
        Default::Daemon => thalweg_node::program::LOG,
    });
    let filter = filter
        .parse::<Targets>()
        .with_context(|| {
            format!("`{filter}` is not a log filter; try `info` or `thalweg_node=debug`")
        })
        .or_code(Code::BadInput)?;
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(|| Lines)
        // It would say so on standard error, and panic where that cannot be written.
        .log_internal_errors(false)
        .with_ansi(Colour::of_stderr().is_on())
        .with_target(default == Default::Command)
        .with_filter(filter);
    tracing_subscriber::registry().with(lines).init();
    Ok(())
}
