//! `thalweg join TICKET`: redeems a ticket, before the node runs.

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use thalweg_base::time::Rough;
use thalweg_control::admission::UnixTime;
use thalweg_net::Unreachable;
use thalweg_node::Config;
use thalweg_node::fabric::{self, JoinError, Joined, ticket};
use thalweg_planner::model::NodeName;

use super::id::load_or_create;
use crate::exit::{Code, Failure, OrCode as _, Outcome, fail};
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  thalweg join thalweg… --config node.toml
  thalweg join thalweg… --config camera.toml --name camera
  ssh base thalweg invite | thalweg join - --config node.toml

A missing configuration is created. The grant is saved beside the key (`state_file` under [fabric]) and takes effect at the
node's next start. A ticket that is damaged, forged, expired, used up or for another fabric is refused with the reason,
and nothing is changed. If the inviter may have redeemed the ticket for a key created here, the key stays, for example
when this machine's clock is wrong: run the same command again once the cause is fixed.";

/// Upper bound for a ticket with its white space.
const TICKET_BYTES_MAX: u64 = 4096;

/// Join a fabric with a ticket printed by `thalweg invite`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The ticket, or - to read it from standard input. Spaces, line breaks and a mail program's
    /// quoting are ignored.
    #[arg(value_name = "TICKET", required = true, num_args = 1..)]
    ticket: Vec<String>,

    /// The node's configuration; it is created if missing.
    #[arg(long, value_name = "FILE", default_value = "node.toml")]
    config: PathBuf,

    /// The node's name for a new configuration [default: the host name].
    #[arg(long, value_name = "NAME")]
    name: Option<NodeName>,
}

impl Arguments {
    /// Returns the ticket's text; reads it from standard input for `-`.
    fn text(&self) -> Result<String, Failure> {
        if self.ticket != ["-"] {
            return Ok(self.ticket.concat());
        }
        let mut bytes = Vec::new();
        std::io::stdin()
            .take(TICKET_BYTES_MAX)
            .read_to_end(&mut bytes)
            .context("cannot read the ticket from standard input")?;
        // Bytes that are not text are reported as an invalid ticket later.
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Joins.
pub async fn run(arguments: &Arguments) -> Outcome {
    let ticket = ticket::parse(&arguments.text()?).or_code(Code::BadInput)?;
    let path = &arguments.config;
    let made = (!path.exists()).then(|| smallest_config(arguments.name.as_ref()));
    let config = match &made {
        Some(text) => Config::parse_as(text, path),
        None => Config::load(path),
    };
    let config = config
        .context("the configuration cannot be used")
        .or_code(Code::BadInput)?;
    let Some(state) = &config.fabric.state else {
        return fail(
            Code::BadInput,
            "the configuration names no file for the grant",
        );
    };
    let is_new = !config.key_file.exists();
    let identity = load_or_create(&config.key_file)?;
    let joined = fabric::join(&ticket, &identity, config.fabric.owner, state).await;
    let joined = joined.map_err(|error| {
        if is_new {
            clean_up_key(&error, &config.key_file);
        }
        Failure {
            code: code(&error),
            error: anyhow::Error::new(error),
        }
    })?;
    if let Some(text) = made {
        write_config(path, &text)?;
    }
    terminal::print(&format!(
        "{} joined the fabric {}, admitted by {}: it may {}, {}\n",
        config.name,
        joined.fabric.short(),
        joined.inviter.short(),
        joined.rights,
        until(&joined),
    ))?;
    terminal::print_notice(&format!(
        "start or restart it with: thalweg node --config {}",
        path.display()
    ));
    Ok(Code::Done)
}

/// Removes a key that was created for a ticket that failed, unless the ticket may have been
/// redeemed for the key: then the key stays for another attempt.
pub(super) fn clean_up_key(error: &JoinError, file: &Path) {
    if error.is_after_knock() {
        if code(error) == Code::BadInput {
            let file = file.display();
            terminal::print_notice(&format!(
                "the key in {file} stays, since the ticket may have been redeemed for it: run the same command again"
            ));
        }
    } else {
        // If the file cannot be removed, the next attempt uses it.
        let _ = std::fs::remove_file(file);
    }
}

/// Describes how long the granted rights last.
fn until(joined: &Joined) -> String {
    if joined.expiry == UnixTime::NEVER {
        return "until revoked".into();
    }
    let seconds = joined.expiry.seconds().saturating_sub(joined.now.seconds());
    format!("for {}", Rough(seconds))
}

/// Returns the exit code: a bad ticket is bad input; an unreachable inviter or a full disk is a failure.
fn code(error: &JoinError) -> Code {
    match error {
        JoinError::Unreachable(error) if !matches!(error, Unreachable::OwnKey(_)) => Code::Failed,
        JoinError::State(_) => Code::Failed,
        _ => Code::BadInput,
    }
}

/// Returns a minimal configuration.
fn smallest_config(name: Option<&NodeName>) -> String {
    let name = name.map_or_else(host_name, |name| name.as_str().to_string());
    format!(
        "# Made by `thalweg join`; `thalweg config` prints every key with its meaning.\nname = {}\n",
        serde_json::Value::from(name)
    )
}

/// Writes a configuration, unless one was created in the meantime.
fn write_config(path: &Path, text: &str) -> Result<(), Failure> {
    let made = OpenOptions::new().write(true).create_new(true).open(path);
    made.and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write the configuration {}", path.display()))
        .or_code(Code::Failed)?;
    terminal::print_notice(&format!("created {}", path.display()));
    Ok(())
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.parse::<NodeName>().is_ok() {
        name.to_string()
    } else {
        "node".to_string()
    }
}
