//! The program's roles in its children: the producer of a stream, or a subscriber at one of its sinks.
//!
//! A role uses its node's local socket like any program, and exchanges lines with the testbed on its
//! standard input and output. It writes a note per ADU to a file, with the time on the machine's one
//! clock; comparing the files gives the results. When its node ends it waits for the next.
//!
//! ```text
//! role → testbed   ready            it publishes, or has subscribed
//! testbed → role   begin NANOS      when the world begins or began
//! role → testbed   summary {…}      the node's final report of the stream; from a producer
//! role → testbed   over             its stream has ended
//! testbed → role   (end of file)    the role shall end
//! ```

pub mod note;
mod produce;
mod subscribe;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use thalweg_base::time::Instant;
use thalweg_planner::model::{Stream, World};
use thalweg_world::Format;

pub use produce::produce;
pub use subscribe::subscribe;

use crate::system::clock;

/// The role can begin.
pub const READY: &str = "ready";

/// Gives the time at which the world begins.
pub const BEGIN: &str = "begin";

/// Carries the node's final report of the stream.
pub const SUMMARY: &str = "summary";

/// The role's stream has ended.
pub const OVER: &str = "over";

/// Interval between attempts to connect to the node.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// The arguments of a role.
#[derive(Clone, Debug, clap::Args)]
pub struct Part {
    /// The world, as JSON.
    #[arg(long)]
    pub world: PathBuf,
    /// The index of the stream in the world.
    #[arg(long)]
    pub stream: usize,
    /// The node's local socket.
    #[arg(long)]
    pub socket: PathBuf,
    /// The file for the notes.
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

/// Returns a fingerprint of a payload.
pub fn fingerprint(payload: &Bytes) -> u64 {
    let hash = blake3::hash(payload);
    let head = hash.as_bytes().first_chunk().expect("a hash has 32 bytes");
    u64::from_le_bytes(*head)
}

/// Prints a line for the testbed.
fn print_line(word: &str) {
    println!("{word}");
}

/// Sleeps until a moment on the machine's clock, to a fraction of a millisecond.
async fn sleep_until(moment: Instant) {
    /// Longer than the granularity of the runtime's timers, which is a millisecond.
    const TICKS: Duration = Duration::from_millis(2);
    let left = || Duration::from(moment.saturating_since(clock::now()));
    if left() > TICKS {
        tokio::time::sleep(left().saturating_sub(TICKS)).await;
    }
    std::thread::sleep(left());
}
