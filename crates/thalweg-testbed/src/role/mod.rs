//! What the program is for itself in its children: the producer of a stream, or a subscriber at one of its sinks.
//!
//! *The idea.* A role talks to its node as any program does, by the local socket, and to the testbed by lines on its
//! standard input and output. What it gave or was given it writes down, a line an ADU, with the time on the machine's one
//! clock; who compares the two files knows everything. When its node goes it waits for the next.
//!
//! ```text
//! role → testbed   ready            it publishes, or has subscribed
//! testbed → role   begin NANOS      the world began, or begins, then
//! role → testbed   summary {…}      what the node says became of the stream; from a producer
//! role → testbed   over             its stream has ended
//! testbed → role   (end of file)    nothing more is wanted
//! ```
//!
//! *What it does not do.* It judges nothing.

pub mod note;
mod produce;
mod subscribe;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use thalweg_core::model::{Stream, World};
use thalweg_core::time::Instant;
use thalweg_world::Format;

pub use produce::produce;
pub use subscribe::subscribe;

use crate::system::clock;

/// The role says that it can begin.
pub const READY: &str = "ready";

/// The testbed says when the world began.
pub const BEGIN: &str = "begin";

/// The role says what its node says of the stream.
pub const SUMMARY: &str = "summary";

/// The role says that its stream has ended.
pub const OVER: &str = "over";

/// How long a role waits before it looks for its node again.
const AGAIN: Duration = Duration::from_millis(50);

/// What a role is told on its command line.
#[derive(Clone, Debug, clap::Args)]
pub struct Part {
    /// The world, as JSON.
    #[arg(long)]
    pub world: PathBuf,
    /// The place of the stream in the world.
    #[arg(long)]
    pub stream: usize,
    /// The node's local socket.
    #[arg(long)]
    pub socket: PathBuf,
    /// Where to write down what happened.
    #[arg(long)]
    pub notes: PathBuf,
}

impl Part {
    fn load(&self) -> anyhow::Result<(World, Stream)> {
        let text = std::fs::read_to_string(&self.world).context("the world cannot be read")?;
        let world = thalweg_world::load_str(&text, Format::Json, "the testbed's world")?;
        let stream = world.streams.get(self.stream).cloned();
        let stream = stream.context("the world has no such stream")?;
        Ok((world, stream))
    }
}

/// Returns what tells payloads apart.
pub fn fingerprint(payload: &Bytes) -> u64 {
    let hash = blake3::hash(payload);
    let head = hash.as_bytes().first_chunk().expect("a hash has 32 bytes");
    u64::from_le_bytes(*head)
}

/// Says a word to the testbed.
fn say(word: &str) {
    println!("{word}");
}

/// Sleeps until a moment on the machine's clock, to a fraction of a millisecond.
async fn sleep_until(moment: Instant) {
    /// The run-time's timers go by milliseconds.
    const TICKS: Duration = Duration::from_millis(2);
    let left = || Duration::from(moment.saturating_since(clock::now()));
    if left() > TICKS {
        tokio::time::sleep(left().saturating_sub(TICKS)).await;
    }
    std::thread::sleep(left());
}
