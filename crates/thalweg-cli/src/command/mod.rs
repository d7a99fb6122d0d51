//! The command line: one file per subcommand, each with its arguments, its help and its `run`.
//!
//! *The idea.* clap describes the grammar; `run` turns a parsed command into an [`Outcome`]. The
//! runtime is created here, for asynchronous commands only.

mod check;
mod compare;
mod completions;
mod config;
mod demo;
mod id;
mod invite;
mod join;
mod ls;
mod node;
mod plan;
#[cfg(feature = "ends")]
mod publish;
mod receive;
mod renamed;
mod revoke;
mod route;
mod send;
mod simulate;
#[cfg(feature = "ends")]
mod subscribe;
mod switch;
#[cfg(feature = "ends")]
mod timeline;
mod top;
mod trace;

#[cfg(test)]
mod tests;

use std::ffi::OsString;

use anyhow::Context as _;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use rustix::process::{Resource, getrlimit};
use thalweg_node::program::panics::panicked;
use thalweg_planner::model::visible;
use tokio::time::{Duration, timeout};

use crate::exit::{Code, HELP, Outcome, fail};
use crate::log;

/// Carries live streams across several machines and bad links so that what matters arrives in time.
#[derive(Debug, Parser)]
#[command(name = "thalweg", version, after_help = HELP, max_term_width = 100)]
pub struct Cli {
    /// What to log on standard error, such as `info` or `thalweg_node=debug`.
    #[arg(long, global = true, env = "THALWEG_LOG", value_name = "FILTER")]
    log: Option<String>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Arguments),
    Plan(plan::Arguments),
    Simulate(simulate::Arguments),
    Compare(compare::Arguments),
    Node(node::Arguments),
    Ls(ls::Arguments),
    Top(top::Arguments),
    #[cfg(feature = "ends")]
    Publish(Box<publish::Arguments>),
    #[cfg(feature = "ends")]
    Subscribe(subscribe::Arguments),
    Ingest(switch::Ingest),
    Egress(switch::Egress),
    Send(send::Arguments),
    Receive(receive::Arguments),
    Invite(invite::Arguments),
    Join(join::Arguments),
    Revoke(revoke::Arguments),
    Route(route::Arguments),
    Trace(trace::Arguments),
    #[cfg(feature = "ends")]
    Timeline(timeline::Arguments),
    Check(check::Arguments),
    Id(id::Arguments),
    Config(config::Arguments),
    Completions(completions::Arguments),
}

impl Cli {
    /// Parses the command line; control characters are escaped where an error repeats its words.
    pub fn read() -> Result<Self, clap::Error> {
        Self::parse_words(std::env::args_os()).map_err(|mistake| {
            let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
            let words: Vec<String> = words.collect();
            let shown: Vec<String> = words.iter().map(|word| visible(word)).collect();
            if shown == words {
                return mistake;
            }
            Self::parse_words(shown).err().unwrap_or_else(|| {
                // The escaped words parse: the invisible characters themselves are the error.
                let text = mistake.render().to_string();
                let text = text.strip_prefix("error: ").unwrap_or(&text);
                clap::Error::raw(mistake.kind(), visible(text))
            })
        })
    }

    fn parse_words<T: Into<OsString> + Clone>(
        words: impl IntoIterator<Item = T>,
    ) -> Result<Self, clap::Error> {
        let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
        let mut command = Self::command().mut_subcommands(|command| {
            let text = command.get_after_help().map(ToString::to_string);
            command.after_help(flowing(&text.unwrap_or_default()))
        });
        let named = |word: &&OsString| {
            command
                .get_subcommands()
                .any(|known| known.get_name() == *word)
        };
        let subcommand = words.iter().skip(1).find(named);
        let subcommand = subcommand.and_then(|word| word.to_str()).map(str::to_owned);
        let mut matches = command
            .try_get_matches_from_mut(words)
            .map_err(|mistake| renamed::explain(mistake, subcommand.as_deref()))?;
        Self::from_arg_matches_mut(&mut matches).map_err(|mistake| mistake.format(&mut command))
    }
}

/// Joins each paragraph into one line, so that clap wraps it at the terminal's width; indented
/// lines, such as examples, stay as they are.
fn flowing(text: &str) -> String {
    let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
    let mut out = String::with_capacity(text.len());
    let mut before: Option<&str> = None;
    for line in text.lines() {
        if let Some(before) = before.replace(line) {
            let goes_on = is_prose(line) && is_prose(before) && !before.ends_with(':');
            out.push(if goes_on { ' ' } else { '\n' });
        }
        out.push_str(line);
    }
    out
}

/// Runs the command.
pub fn run(cli: Cli) -> Outcome {
    let default = match cli.command {
        Command::Node(_) => log::Default::Daemon,
        Command::Demo(_) => log::Default::Demo,
        _ => log::Default::Command,
    };
    log::start(cli.log.as_deref(), default)?;
    match cli.command {
        Command::Plan(arguments) => plan::run(&arguments),
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Id(arguments) => id::run(&arguments),
        Command::Config(arguments) => config::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments),
        Command::Demo(arguments) => {
            crate::demo::raise_priority();
            wait(demo::run(&arguments))
        }
        Command::Node(arguments) => wait(node::run(&arguments)),
        Command::Invite(arguments) => wait(invite::run(&arguments)),
        Command::Join(arguments) => wait(join::run(&arguments)),
        Command::Revoke(arguments) => wait(revoke::run(&arguments)),
        Command::Route(arguments) => wait(route::run(&arguments)),
        Command::Trace(arguments) => wait(trace::run(&arguments)),
        #[cfg(feature = "ends")]
        Command::Timeline(arguments) => wait(timeline::run(&arguments)),
        Command::Ls(arguments) => wait(ls::run(&arguments)),
        Command::Top(arguments) => wait(top::run(&arguments)),
        Command::Ingest(arguments) => wait(switch::ingest(&arguments)),
        Command::Egress(arguments) => wait(switch::egress(&arguments)),
        #[cfg(feature = "ends")]
        Command::Publish(arguments) => wait(publish::run(&arguments)),
        #[cfg(feature = "ends")]
        Command::Subscribe(arguments) => wait(subscribe::run(&arguments)),
        Command::Send(arguments) => wait(send::run(&arguments)),
        Command::Receive(arguments) => wait(receive::run(&arguments)),
    }
}

/// How long a command may take to end by itself after one of its tasks has panicked. A node uses
/// the time to name the task and to close its links.
const ENDING_MAX: Duration = Duration::from_millis(800);

/// Files that a command opens at the least: standard ones, the runtime's, signals, a socket.
const FILES_MIN: u64 = 16;

/// Runs an asynchronous command.
fn wait(command: impl Future<Output = Outcome>) -> Outcome {
    let files = getrlimit(Resource::Nofile).current;
    if let Some(files) = files.filter(|files| *files < FILES_MIN) {
        let sentence = format!(
            "this process may open only {files} files, and needs {FILES_MIN} at least: raise the limit with `ulimit -n`"
        );
        return fail(Code::Failed, sentence);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start worker threads")?;
    let outcome = runtime.block_on(guarded(command));
    // A blocking read of standard input cannot be interrupted, so the runtime must not wait for it.
    runtime.shutdown_background();
    outcome
}

/// Runs a command to its end, or until one of its tasks panics: without that task it might wait for ever.
async fn guarded(command: impl Future<Output = Outcome>) -> Outcome {
    let mut command = std::pin::pin!(command);
    let fault = tokio::select! {
        biased;
        outcome = &mut command => return outcome,
        fault = panicked() => fault,
    };
    match timeout(ENDING_MAX, command).await {
        Ok(Err(failure)) => Err(failure),
        Ok(Ok(_)) | Err(_) => fail(
            Code::Failed,
            format!("a task of the program panicked: {fault}"),
        ),
    }
}
