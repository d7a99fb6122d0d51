//! Inputs and outputs of a node: what a program registers, and their supervision.
//!
//! *The idea.* A program registers an [`Input`] or [`Output`] for URLs that begin with some text.
//! Each `[[ingest]]` and `[[egress]]` of the configuration runs in a task of its own. One that fails
//! is started again, after a pause that doubles; one that is stopped or removed ends. A node without
//! registered ones carries all streams, as a relay does.
//!
//! | file | what it is |
//! |---|---|
//! | `entry` | what a running input publishes with |
//! | `exit` | what a running output subscribes with |
//! | `supervisor` | starts, stops, restarts |
//!
//! An embedding program adds an input of its own:
//!
//! ```
//! use thalweg_base::{description::Description, units::Bitrate};
//! use thalweg_node::ends::{Ends, Entry, Input, Run};
//! use thalweg_node::{Config, Node, NodeError, Outgoing};
//!
//! struct Counter;
//!
//! impl Input for Counter {
//!     fn run(&self, entry: Entry) -> Run {
//!         Box::pin(async move {
//!             let mut stream = entry.publish(Bitrate::from_kbps(8), Description::encoded("text")).await?;
//!             for number in 0.. {
//!                 stream.send(Outgoing::message(number.to_string().into())).await?;
//!                 tokio::time::sleep(std::time::Duration::from_secs(1)).await;
//!             }
//!             Ok(())
//!         })
//!     }
//! }
//!
//! /// With `[[ingest]]`, `stream = "try/count"` and `from = "counter:"` in the configuration.
//! async fn assemble(config: Config) -> Result<Node, NodeError> {
//!     Node::load_with(config, Ends::default().with_input("counter:", Counter)).await
//! }
//! ```
//!
//! *What it does not do.* It opens no device and knows no format.

mod entry;
mod exit;
mod supervisor;

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use thalweg_world::text::TextError;

use crate::config::{Config, Egress, Ingest};

pub use crate::board::EndKind;
pub use entry::{Entry, EntryPublisher};
pub use exit::Exit;
pub(crate) use supervisor::Supervisor;

/// A running input or output: ready at its end, or with the reason of its failure.
pub type Run = Pin<Box<dyn Future<Output = Result<(), Box<dyn Error + Send + Sync>>> + Send>>;

/// Inputs of one kind.
pub trait Input: Send + Sync + 'static {
    /// Checks an entry of the configuration, before anything is opened.
    ///
    /// Fails   with the entry's wrong key, and a sentence
    fn check(&self, ingest: &Ingest) -> Result<(), Fault> {
        let _ = ingest;
        Ok(())
    }

    /// Reads until the input ends, and publishes. It is dropped to stop it.
    ///
    /// Fails   with a sentence; it is run again then. `Ok` is the end of the input for good.
    fn run(&self, entry: Entry) -> Run;
}

/// Outputs of one kind.
pub trait Output: Send + Sync + 'static {
    /// Checks an entry of the configuration, before anything is opened.
    ///
    /// Fails   with the entry's wrong key, and a sentence
    fn check(&self, egress: &Egress) -> Result<(), Fault> {
        let _ = egress;
        Ok(())
    }

    /// Subscribes and writes, until [`Exit::recv`] returns `None`.
    ///
    /// Fails   with a sentence; it is run again then. `Ok` is the end of the output.
    fn run(&self, exit: Exit) -> Run;
}

/// What is wrong with an entry of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The key.
    pub key: &'static str,
    /// A sentence.
    pub why: String,
}

/// The inputs and outputs that a program registers.
#[derive(Clone, Default)]
pub struct Ends {
    inputs: Vec<(&'static str, Arc<dyn Input>)>,
    outputs: Vec<(&'static str, Arc<dyn Output>)>,
}

impl fmt::Debug for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inputs = self.inputs.iter().map(|(start, _)| start);
        let outputs = self.outputs.iter().map(|(start, _)| start);
        f.debug_list().entries(inputs).entries(outputs).finish()
    }
}

impl Ends {
    /// Adds inputs for URLs that begin with `start`; the longest start wins, an empty one takes all.
    #[must_use]
    pub fn with_input(mut self, start: &'static str, input: impl Input) -> Self {
        self.inputs.push((start, Arc::new(input)));
        self
    }

    /// Adds outputs, likewise.
    #[must_use]
    pub fn with_output(mut self, start: &'static str, output: impl Output) -> Self {
        self.outputs.push((start, Arc::new(output)));
        self
    }

    fn input(&self, url: &str) -> Option<&Arc<dyn Input>> {
        longest(&self.inputs, url)
    }

    fn output(&self, url: &str) -> Option<&Arc<dyn Output>> {
        longest(&self.outputs, url)
    }

    /// Checks the inputs and outputs of a configuration; opens nothing.
    ///
    /// Fails   with the mistake's line and key; if nothing is registered for an entry, as well
    pub fn check(&self, config: &Config) -> Result<(), TextError> {
        for (place, ingest) in config.ingest.iter().enumerate() {
            let checked = self.input(&ingest.from).map(|input| input.check(ingest));
            if let Err(Fault { key, why }) =
                checked.unwrap_or_else(|| nothing("from", &ingest.from))
            {
                return Err(config.mistake(&format!("ingest[{place}].{key}"), &why));
            }
        }
        for (place, egress) in config.egress.iter().enumerate() {
            let checked = self.output(&egress.to).map(|output| output.check(egress));
            if let Err(Fault { key, why }) = checked.unwrap_or_else(|| nothing("to", &egress.to)) {
                return Err(config.mistake(&format!("egress[{place}].{key}"), &why));
            }
        }
        Ok(())
    }
}

fn longest<'a, T>(known: &'a [(&'static str, T)], url: &str) -> Option<&'a T> {
    let fitting = known.iter().filter(|(start, _)| url.starts_with(start));
    let longest = fitting.max_by_key(|(start, _)| start.len());
    longest.map(|(_, one)| one)
}

fn nothing(key: &'static str, url: &str) -> Result<(), Fault> {
    let shown: String = url.chars().take(80).collect();
    let why = format!(
        "this program has nothing for `{shown}`: a relay-only build has no inputs and outputs at all"
    );
    Err(Fault { key, why })
}
