//! `thalweg subscribe NAME --to …`: a stream of the fabric becomes a transport stream.
//!
//! *The idea.* ADUs come in sequence, each is written as soon as it is there. The stream may come later than its
//! subscriber: that is said, and waited for.
//!
//! *What it does not do.* It decodes nothing: what was published is what ffmpeg and VLC get, less what was lost.

use std::fmt::Write as _;

use clap::Args;
use serde_json::json;
use thalweg_core::adu::Adu;
use thalweg_core::id::StreamName;
use thalweg_media::ts::{Subscriber as Remux, Withheld};
use thalweg_node::local::LocalSubscriber;
use thalweg_node::{SubscribeOptions, SubscriberEvent};

use crate::ends::{End, Sink};
use crate::exit::{Code, Failure, OrCode as _, Outcome, fail};
use crate::progress::Progress;
use crate::shutdown::Shutdown;
use crate::socket::Socket;
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  thalweg subscribe truck/cam1 --to clip.ts
  thalweg subscribe truck/cam1 --to - | ffplay -
  thalweg subscribe truck/cam1 --to udp://127.0.0.1:5004    # then: vlc udp://@:5004

It waits when nobody publishes the stream yet. Ctrl-C ends it; what was written is whole.";

/// Receive a stream as MPEG-TS into a file, a pipe or UDP.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The stream's name, such as truck/cam1.
    name: StreamName,

    /// A file, `-` for standard output, udp://address:port or rtp://address:port.
    #[arg(long, value_name = "TARGET")]
    to: End,

    /// At the end print what came and what was left out as a JSON object; not with `--to -`.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    socket: Socket,
}

/// What was written, and what was not.
#[derive(Clone, Copy, Debug, Default)]
struct Left {
    /// Bytes written.
    written: u64,
    /// Payloads that are no media units.
    unreadable: u64,
}

/// Receives until the stream ends or somebody asks to stop.
pub async fn run(arguments: &Arguments) -> Outcome {
    if arguments.json && arguments.to == End::Standard {
        let sentence =
            "--json and `--to -` both write to standard output: give --to another target";
        return fail(Code::BadInput, sentence);
    }
    let mut shutdown = Shutdown::listen()?;
    let client = arguments.socket.connect().await?;
    let mut sink = Sink::open(&arguments.to).await.or_code(Code::Failed)?;
    let options = SubscribeOptions {
        name: arguments.name.clone(),
        in_sequence: true,
    };
    let mut subscriber = client.subscribe(options).await.or_code(Code::Failed)?;
    let mut progress = Progress::start("receiving", matches!(arguments.to, End::Standard));
    let mut remux = Remux::new();
    let mut left = Left::default();
    let received = tokio::select! {
        received = receive(&mut subscriber, &mut sink, &mut remux, &mut progress, &mut left) => received,
        () = shutdown.asked() => Ok(()),
    };
    let finished = sink.finish();
    let counts = progress.counts();
    let passed = progress.finish();
    let withheld = remux.withheld();
    terminal::tell(&format!(
        "received {passed}; missing {}, unreadable {}, {}",
        subscriber.skipped(),
        left.unreadable,
        in_words(&withheld)
    ));
    if arguments.json {
        let report = json!({
            "adus": counts.adus,
            "bytes": counts.bytes,
            "missing": subscriber.skipped(),
            "unreadable": left.unreadable,
            "withheld": {
                "without_tables": withheld.without_tables,
                "before_key": withheld.before_key,
                "crowded_out": withheld.crowded_out,
                "tables": withheld.tables,
            },
            "written_bytes": left.written,
        });
        terminal::print(&format!("{report}\n"))?;
    }
    received?;
    finished?;
    if counts.adus > 0 && left.written == 0 {
        let sentence = format!(
            "nothing was written to {}: of {} ADUs that came none could be used",
            arguments.to, counts.adus
        );
        return fail(Code::Failed, sentence);
    }
    Ok(Code::Done)
}

/// What was withheld, and why: what every subscription tells, and of the rest what happened.
fn in_words(withheld: &Withheld) -> String {
    let mut text = format!("before the first key picture {}", withheld.before_key);
    for (count, what) in [
        (withheld.without_tables, "before the tables"),
        (withheld.crowded_out, "of more than 64 programmes"),
        (withheld.tables, "on PIDs of tables"),
    ] {
        if count > 0 {
            let _ = write!(text, ", {what} {count}");
        }
    }
    text
}

async fn receive(
    subscriber: &mut LocalSubscriber,
    sink: &mut Sink,
    remux: &mut Remux,
    progress: &mut Progress,
    left: &mut Left,
) -> Result<(), Failure> {
    while let Some(event) = subscriber.recv().await? {
        match event {
            SubscriberEvent::Notice(notice) => progress.say(&notice),
            SubscriberEvent::Adu(Adu { header, payload }) => {
                progress.count(payload.len());
                match remux.handle_payload(&payload) {
                    Ok(packets) if packets.is_empty() => {}
                    Ok(packets) => {
                        sink.write(&packets, header.media_time.as_90khz()).await?;
                        left.written += packets.len() as u64;
                    }
                    Err(error) => {
                        left.unreadable += 1;
                        tracing::debug!(%error, "an ADU is no media unit");
                    }
                }
            }
        }
    }
    Ok(())
}
