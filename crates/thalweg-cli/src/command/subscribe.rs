//! `thalweg subscribe NAME --to …`: a stream of the fabric becomes a transport stream.
//!
//! *The idea.* ADUs come in sequence, each is written as soon as it is there. The stream may come later than its
//! subscriber: that is said, and waited for.
//!
//! *What it does not do.* It decodes nothing: what was published is what ffmpeg and VLC get, less what was lost.

use clap::Args;
use thalweg_core::adu::Adu;
use thalweg_core::id::StreamName;
use thalweg_media::ts::Subscriber as Remux;
use thalweg_node::local::LocalSubscriber;
use thalweg_node::{SubscribeOptions, SubscriberEvent};

use crate::ends::{End, Sink};
use crate::exit::{Code, Failure, OrCode as _, Outcome};
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

    #[command(flatten)]
    socket: Socket,
}

/// What was not written, and why.
#[derive(Clone, Copy, Debug, Default)]
struct Left {
    /// Payloads that are no media units.
    unreadable: u64,
}

/// Receives until the stream ends or somebody asks to stop.
pub async fn run(arguments: &Arguments) -> Outcome {
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
    let passed = progress.finish();
    terminal::tell(&format!(
        "received {passed}; missing {}, unreadable {}, before the first key picture {}",
        subscriber.skipped(),
        left.unreadable,
        remux.withheld()
    ));
    received?;
    finished?;
    Ok(Code::Done)
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
                    Ok(packets) => sink.write(&packets, header.media_time.as_90khz()).await?,
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
