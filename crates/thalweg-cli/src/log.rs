//! Logs on standard error, by `--log` or `THALWEG_LOG`.
//!
//! *The idea.* The daemon logs states that an operator cares about (`info`); a command logs only
//! what needs attention (`warn`). Lines that cannot be written are dropped and counted
//! (`thalweg_node::program::stderr`): a full log never blocks a node.
//!
//! The QUIC stack logs nothing by default. Its warnings are about single packets, and its errors in
//! a command that exits with a backlog are about data that no one needs any more.

use anyhow::Context as _;
use thalweg_node::program::stderr::Lines;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::exit::{Code, Failure, OrCode as _};
use crate::terminal::Colour;

/// What is logged without `--log` or `THALWEG_LOG`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Default {
    /// A command in the foreground: warnings.
    Command,
    /// The demo: only its own warnings, because its nodes stop with a backlog on purpose.
    Demo,
    /// The daemon: states as well as warnings.
    Daemon,
}

/// Starts logging to standard error; `filter` is in the syntax of
/// `tracing_subscriber::filter::Targets`: `info`, or
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
        // The subscriber would report write errors on standard error, and panic if that cannot be
        // written either.
        .log_internal_errors(false)
        .with_ansi(Colour::of_stderr().is_on())
        .with_target(default == Default::Command)
        .with_filter(filter);
    tracing_subscriber::registry().with(lines).init();
    Ok(())
}
