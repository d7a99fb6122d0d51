//! How what is received is written.
//!
//! *What it does not do.* It decodes nothing.

use anyhow::Context as _;
use bytes::Bytes;
use thalweg_base::adu::Header;
use thalweg_base::description::Description;
use thalweg_base::id::StreamName;
use thalweg_io::format::{Fault, Faults, Format, Joiner};
use thalweg_io::url::{End, Sink};
use thalweg_media::rtp::Splitter;
use thalweg_media::ts::{Subscriber as Remux, Withheld};

/// How what is received is written.
pub enum Writer {
    /// As a transport stream.
    Ts(Remux),
    /// As RTP packets.
    Rtp(Splitter),
    /// As messages.
    Messages(Box<dyn Joiner>, Faults),
}

impl Writer {
    /// Returns a writer at the start of an output.
    pub fn new(format: Format, to: &End) -> Self {
        match format {
            Format::Ts => Self::Ts(Remux::new()),
            Format::Rtp(carried) if matches!(to, End::Datagrams { .. }) => {
                let (source, first) = Sink::draw();
                Self::Rtp(Splitter::new(carried, source, first))
            }
            _ => Self::Messages(format.joiner(), Faults::default()),
        }
    }

    /// Returns the units of a transport stream that were not written, by cause.
    pub fn withheld(&self) -> Option<Withheld> {
        match self {
            Self::Ts(remux) => Some(remux.withheld()),
            Self::Rtp(_) | Self::Messages(..) => None,
        }
    }

    /// Returns the bytes of a payload, or a sentence about one that cannot be written; empty if an equal
    /// sentence was told before.
    pub fn join(&mut self, payload: &Bytes) -> Result<Bytes, String> {
        match self {
            Self::Ts(remux) => remux.handle_payload(payload).map_err(|error| {
                tracing::debug!(%error, "an ADU is not a media unit");
                String::new()
            }),
            Self::Rtp(_) => Ok(payload.clone()),
            Self::Messages(joiner, faults) => {
                let told = |fault: Fault| faults.handle(&fault).unwrap_or_default();
                joiner.join(payload).map_err(told)
            }
        }
    }

    /// Writes the bytes of an ADU.
    pub async fn write(
        &mut self,
        sink: &mut Sink,
        header: &Header,
        bytes: &[u8],
    ) -> anyhow::Result<()> {
        match self {
            Self::Ts(_) if bytes.is_empty() => Ok(()),
            Self::Ts(_) => sink.write(bytes, header.media_time.as_90khz()).await,
            Self::Rtp(splitter) => {
                let packets = splitter.split(bytes, header.media_time);
                sink.write_datagrams(&packets).await
            }
            Self::Messages(..) => sink.write_message(bytes).await,
        }
    }
}

/// Returns how a stream is written without a format: as its encoding is.
pub fn format(
    stream: &StreamName,
    to: &End,
    described: Option<&Description>,
) -> anyhow::Result<Format> {
    let encoding = described.map_or("", |described| &described.encoding);
    let usual = if encoding.is_empty() {
        Some(Format::Ts)
    } else {
        Format::of_encoding(encoding, matches!(to, End::Datagrams { .. }))
    };
    let format = usual.with_context(|| {
        format!(
            "`{stream}` carries {encoding}: say how its messages are written, such as --format length"
        )
    })?;
    to.check_out(format)?;
    Ok(format)
}
