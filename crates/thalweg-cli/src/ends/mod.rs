//! Inputs and outputs by URL: messages of a source, and how what is received is written.
//!
//! *The idea.* `publish` and `subscribe` use them for a person, [`Urls`] for the `[[ingest]]` and
//! `[[egress]]` of a node, with the same URLs and formats.
//!
//! *What it does not do.* It opens nothing itself: `thalweg-io` does.

pub mod data;
mod egress;
mod ingest;
pub mod messages;
pub mod writer;

use std::path::Path;

use anyhow::Context as _;
use thalweg_io::format::Format;
use thalweg_io::url::{BadEnd, End};
use thalweg_node::config::{Egress, Ingest};
use thalweg_node::ends::{Ends, Entry, Exit, Fault, Input, Output, Run};

/// Inputs and outputs for every URL of `thalweg publish` and `subscribe`.
struct Urls;

/// Returns the inputs and outputs of this program.
pub fn all() -> Ends {
    Ends::default().with_input("", Urls).with_output("", Urls)
}

impl Input for Urls {
    fn check(&self, ingest: &Ingest) -> Result<(), Fault> {
        ingest::check(ingest)
    }

    fn run(&self, entry: Entry) -> Run {
        Box::pin(async move { Ok(ingest::run(&entry).await?) })
    }
}

impl Output for Urls {
    fn check(&self, egress: &Egress) -> Result<(), Fault> {
        let end = parse(&egress.to, "to")?;
        let format = read_format(egress.format.as_deref())?;
        if let Some(End::Telemetry { .. }) = end {
            return Err(fault("to", &format!("{} can only be read", egress.to)));
        }
        match (end, format) {
            (Some(end), Some(format)) => end.check_out(format).map_err(|why| fault("format", &why)),
            _ => Ok(()),
        }
    }

    fn run(&self, exit: Exit) -> Run {
        Box::pin(async move { Ok(egress::run(exit).await?) })
    }
}

fn fault(key: &'static str, why: &impl ToString) -> Fault {
    let why = why.to_string();
    Fault { key, why }
}

/// Returns the end that a URL names; `None` for a host that cannot be found now, which may be there
/// when it is needed.
fn parse(url: &str, key: &'static str) -> Result<Option<End>, Fault> {
    match url.parse() {
        Ok(End::Standard) => {
            let why = "a node has no standard input or output: write a path, or a URL";
            Err(fault(key, &why))
        }
        Ok(end) => Ok(Some(end)),
        Err(BadEnd::Host(_)) => Ok(None),
        Err(why) => Err(fault(key, &why)),
    }
}

fn read_format(format: Option<&str>) -> Result<Option<Format>, Fault> {
    let format = format.map(str::parse).transpose();
    format.map_err(|why| fault("format", &why))
}

/// Returns the end that a URL names, with relative paths in a folder; a host name is looked up.
async fn open(url: &str, folder: &Path) -> anyhow::Result<End> {
    let text = url.to_owned();
    let parsed = tokio::task::spawn_blocking(move || text.parse::<End>()).await?;
    Ok(match parsed.with_context(|| format!("`{url}`"))? {
        End::File(path) => End::File(folder.join(path)),
        End::Unix { path, listens } => End::Unix {
            path: folder.join(path),
            listens,
        },
        end => end,
    })
}
