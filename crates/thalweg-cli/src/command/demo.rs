//! `thalweg demo`: shows on one machine what planning is worth.

use std::path::PathBuf;

use clap::Args;

use crate::demo::{self, Options, console};
use crate::exit::Outcome;
use crate::input::whole;

const EXAMPLES: &str = "\
Examples:
  thalweg demo
  thalweg demo --video clip.mp4
  thalweg demo --world worlds/demo.toml --seconds 60
  thalweg demo --headless --seconds 20 --json | jq .planned.psnr_y_mean_db

Two fabrics of the same nodes and links run side by side in this process, each link a QUIC connection over loopback
through a shaper with the world's rate, delay, loss and queue. Both get the same frames at the same moment. There are
two fabrics so that the two streams do not share the slow link.

A frame is due at the stream's deadline after its capture, and is shown if its base layer has arrived by then.
`latency_ms` is the time from a frame's capture to the arrival of its base layer, in time or not.";

/// Send one camera's video over the same bad links twice: unplanned and planned.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// How long to run [default: until Ctrl-C; 20 with --headless].
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..=86_400))]
    seconds: Option<u64>,

    /// The world to use: its first stream is shown, and needs one sink and layers.
    #[arg(long, value_name = "FILE")]
    world: Option<PathBuf>,

    /// A video instead of the built-in scene: Y4M, or any format that an `ffmpeg` on the PATH reads.
    #[arg(long, value_name = "FILE")]
    video: Option<PathBuf>,

    /// Serve no console page.
    #[arg(long)]
    headless: bool,

    /// Print one JSON object at the end.
    #[arg(long)]
    json: bool,

    /// The console page's port; if it is in use, the next free one.
    #[arg(long, value_name = "PORT", default_value_t = console::PORT, value_parser = whole::<u16>(1..=65_535))]
    port: u16,
}

/// Runs the demo.
pub async fn run(arguments: &Arguments) -> Outcome {
    let Arguments {
        seconds,
        world,
        video,
        headless,
        json,
        port,
    } = arguments;
    let options = Options {
        seconds: *seconds,
        world: world.clone(),
        video: video.clone(),
        headless: *headless,
        json: *json,
        port: *port,
    };
    Box::pin(demo::run(options)).await
}
