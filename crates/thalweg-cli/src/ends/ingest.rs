//! An `[[ingest]]`: a URL's messages, published by the node itself.
//!
//! *The idea.* A file and `test://` come to an end; whatever else ends (a program, a connection) is
//! opened again by the supervisor. As with `thalweg publish`, what can wait waits for a subscriber.

use std::time::Instant as StdInstant;

use anyhow::Context as _;
use thalweg_base::description::Description;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::Bitrate;
use thalweg_io::format::{Field, Fields, Format};
use thalweg_io::url::{End, Source};
use thalweg_media::ts::{DataPid, Marked};
use thalweg_node::config::Ingest;
use thalweg_node::ends::{Entry, EntryPublisher, Fault};

use super::data::DataStreams;
use super::messages::{Messages, SUBSCRIBER_WAIT, outgoing};
use super::{fault, open, parse, read_format};
use crate::feed::Feed;
use crate::pace::{Pacer, Speed};

/// Checks an entry of the configuration.
pub fn check(ingest: &Ingest) -> Result<(), Fault> {
    let end = parse(&ingest.from, "from")?;
    let format = read_format(ingest.format.as_deref())?;
    fields(ingest)?;
    let Some(end) = end else {
        return Ok(());
    };
    let format = format.unwrap_or_else(|| usual(&end));
    let said = ingest.importance.is_some()
        || ingest.importance_from.is_some()
        || ingest.time_from.is_some()
        || ingest.key_from.is_some();
    if format != Format::Ts && ingest.split_data {
        let why = format!("only MPEG-TS has data to split, and the format is {format}");
        return Err(fault("split_data", &why));
    }
    if format == Format::Ts && said {
        let why = "MPEG-TS says importance and time itself: give another format, such as \"lines\"";
        return Err(fault("format", &why));
    }
    end.check(format).map_err(|why| fault("format", &why))
}

fn usual(end: &End) -> Format {
    match end {
        End::Telemetry { .. } => Format::Lines,
        _ => Format::Ts,
    }
}

fn fields(ingest: &Ingest) -> Result<Fields, Fault> {
    let field = |key: &'static str, text: &Option<String>| {
        let field = text.as_deref().map(str::parse::<Field>).transpose();
        field.map_err(|why| fault(key, &why))
    };
    Ok(Fields {
        importance: field("importance_from", &ingest.importance_from)?,
        time: field("time_from", &ingest.time_from)?,
        key: field("key_from", &ingest.key_from)?,
    })
}

/// How long the end of a source waits for data that is not sent on.
const DATA_END_MAX: std::time::Duration = std::time::Duration::from_secs(10);

/// What cuts the source.
enum Reader {
    Ts(Box<Feed>),
    Messages(Box<Messages>),
}

impl Reader {
    fn is_live(&self) -> bool {
        match self {
            Self::Ts(feed) => feed.is_live(),
            Self::Messages(messages) => messages.is_live(),
        }
    }

    /// Reads ahead and returns the rate; `None` if the source ended without a message.
    async fn measure(&mut self, notify: &impl Fn(&str)) -> std::io::Result<Option<Bitrate>> {
        match self {
            Self::Ts(feed) => feed.measure().await,
            Self::Messages(messages) => {
                let rate = messages.measure(notify).await?;
                Ok((!messages.is_empty()).then_some(rate))
            }
        }
    }

    fn encoding(&self, format: Format) -> &'static str {
        match self {
            Self::Ts(_) => format.encoding(None),
            Self::Messages(messages) => format.encoding(messages.sample()),
        }
    }

    async fn next(&mut self, notify: &impl Fn(&str)) -> std::io::Result<Option<Marked>> {
        match self {
            Self::Ts(feed) => feed.next().await,
            Self::Messages(messages) => {
                let message = messages.next(notify).await?;
                Ok(message.map(|(marks, payload)| Marked {
                    data: None,
                    marks,
                    payload,
                }))
            }
        }
    }

    /// Returns the PIDs of data beside the picture, each with its rate.
    fn data_pids(&self) -> Vec<(DataPid, Bitrate)> {
        match self {
            Self::Ts(feed) => feed.data_pids(),
            Self::Messages(_) => Vec::new(),
        }
    }
}

/// Publishes the data of these PIDs where that is not done yet.
async fn open_data(
    entry: &Entry,
    pids: Vec<(DataPid, Bitrate)>,
    data: &mut DataStreams,
) -> anyhow::Result<()> {
    for opening in data.open(pids)? {
        entry.notify(&opening.sentence());
        let described = opening.data.description();
        let publisher = entry.publish_beside(opening.name, opening.rate, described);
        let (mut publisher, mut messages) = (publisher.await?, opening.messages);
        data.spawn(async move {
            // It fails only with the node.
            while let Some(message) = messages.recv().await {
                if publisher.send(message).await.is_err() {
                    return;
                }
            }
            publisher.finish().await;
        });
    }
    Ok(())
}

/// Reads and publishes until the source ends.
pub async fn run(entry: &Entry) -> anyhow::Result<()> {
    let ingest = entry.ingest();
    let from = &ingest.from;
    let end = open(from, &ingest.folder).await?;
    let bad = |fault: Fault| anyhow::anyhow!("`{}`: {}", fault.key, fault.why);
    let format = read_format(ingest.format.as_deref()).map_err(bad)?;
    let format = format.unwrap_or_else(|| usual(&end));
    let mut reader = if format == Format::Ts {
        let feed = Feed::new(Source::open(&end).await?, false).split(ingest.split_data);
        Reader::Ts(Box::new(feed))
    } else {
        let source = Source::open_pieces(&end).await?;
        let fields = fields(ingest).map_err(bad)?;
        let messages = Messages::new(source, format, ingest.importance, fields);
        Reader::Messages(Box::new(messages))
    };
    let notify = |said: &str| entry.notify(said);
    let rate = reader.measure(&notify).await;
    let rate = rate.map_err(|error| named(error, "cannot read", from))?;
    let rate = rate.with_context(|| format!("{from} ended without a message of `{format}`"))?;
    let description = Description::encoded(reader.encoding(format));
    let mut publisher = entry.publish(rate, description).await?;
    let mut data = DataStreams::new(ingest.stream.clone());
    open_data(entry, reader.data_pids(), &mut data).await?;
    let is_live = reader.is_live();
    wait(ingest, is_live, &mut publisher).await?;
    let is_file = matches!(end, End::File(_)) && !is_live;
    let is_paced = is_file && (format == Format::Ts || ingest.time_from.is_some());
    let mut pacer = Pacer::new(if is_paced {
        Speed::Times(1.0)
    } else {
        Speed::Max
    });
    let begun = StdInstant::now();
    loop {
        let next = reader.next(&notify).await;
        let next = next.map_err(|error| named(error, "cannot read more from", from))?;
        let Some(Marked {
            data: of,
            marks,
            payload,
        }) = next
        else {
            break;
        };
        let now = Instant::ZERO + begun.elapsed().into();
        let wait = pacer.wait(now, marks.clock, marks.decode_time);
        if wait > Duration::ZERO {
            tokio::time::sleep(wait.into()).await;
        }
        let message = outgoing(marks, payload);
        let Some(of) = of else {
            publisher.send(message).await?;
            continue;
        };
        if !data.has(of) {
            open_data(entry, reader.data_pids(), &mut data).await?;
        }
        data.send(of, message);
    }
    if is_file || matches!(end, End::Telemetry { .. }) {
        for sentence in data.finish(DATA_END_MAX).await {
            entry.notify(&sentence);
        }
        publisher.finish().await;
        return Ok(());
    }
    anyhow::bail!("{from} has ended")
}

/// Returns an error that names the source once: a program's does.
fn named(error: std::io::Error, what: &str, from: &str) -> anyhow::Error {
    if error.to_string().contains(from) {
        return error.into();
    }
    anyhow::Error::new(error).context(format!("{what} {from}"))
}

/// Waits for a subscriber, if the source can wait.
async fn wait(
    ingest: &Ingest,
    is_live: bool,
    publisher: &mut EntryPublisher,
) -> anyhow::Result<()> {
    if ingest.needs.hold > Duration::ZERO {
        return Ok(());
    }
    if !is_live {
        return Ok(publisher.wanted().await?);
    }
    let waited = tokio::time::timeout(SUBSCRIBER_WAIT, publisher.wanted()).await;
    Ok(waited.unwrap_or(Ok(()))?)
}
