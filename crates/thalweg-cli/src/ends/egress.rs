//! An `[[egress]]`: a stream, written to a URL by the node itself.
//!
//! *The idea.* A file is appended to, so that a restart of the node or of its stream loses nothing that
//! was recorded. Between two streams of the name the output stays open.

use anyhow::Context as _;
use thalweg_io::format::Format;
use thalweg_io::url::Sink;
use thalweg_node::ends::Exit;

use super::writer::{self, Writer};
use super::{open, read_format};

/// Subscribes and writes until the output is to stop.
pub async fn run(mut exit: Exit) -> anyhow::Result<()> {
    let to = exit.egress().to.clone();
    let end = open(&to, &exit.egress().folder).await?;
    let format = read_format(exit.egress().format.as_deref());
    let stated: Option<Format> =
        format.map_err(|fault| anyhow::anyhow!("`format`: {}", fault.why))?;
    let mut sink = Sink::append(&end).await?;
    let mut writer: Option<Writer> = None;
    while let Some(adu) = exit.recv().await {
        let writer = match &mut writer {
            Some(writer) => writer,
            none => {
                let stream = &exit.egress().stream;
                let format = match stated {
                    Some(format) => format,
                    None => writer::format(stream, &end, exit.description())?,
                };
                none.insert(Writer::new(format))
            }
        };
        match writer.join(&adu.payload) {
            Ok(bytes) => {
                let written = writer.write(&mut sink, &adu.header, &bytes).await;
                written.with_context(|| format!("cannot write to {to}"))?;
            }
            Err(said) if said.is_empty() => {}
            Err(said) => exit.notify(&said),
        }
    }
    sink.finish().await
}
