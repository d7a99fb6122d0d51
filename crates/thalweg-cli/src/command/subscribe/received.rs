//! What is received of one stream: how it is written, and what was not.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use bytes::Bytes;
use thalweg_base::adu::{Adu, Header};
use thalweg_base::description::Description;
use thalweg_base::id::{Sequence, StreamId, StreamName};
use thalweg_io::format::Format;
use thalweg_io::url::{End, Sink};
use thalweg_media::ts::Withheld;
use thalweg_node::SubscriberEvent;
use thalweg_node::local::{LocalError, LocalSubscriber};

use crate::ends::writer::{Writer, format as usual_format};
use crate::exit::{Code, Failure, OrCode as _};
use crate::lasting;
use crate::progress::{Counts, Progress};

use super::wishes::Pull;

/// A stream as it is received, over several subscriptions if its node restarts meanwhile.
pub(super) struct Received {
    target: Target,
    /// How messages are written, if the user says it.
    format: Option<Format>,
    /// From the first ADU on: before, the stream's encoding is unknown.
    output: Option<Output>,
    /// ADUs that have come, and their payload.
    counts: Counts,
    /// Bytes written.
    written: u64,
    /// Payloads that the format cannot write.
    unreadable: u64,
    /// ADUs that were given up as missing, or that passed while the node was gone, as far as is known.
    missing: u64,
    /// Stream and sequence of the last ADU.
    last: Option<(StreamId, Sequence)>,
}

/// Where a stream is written.
pub(super) enum Target {
    /// To an end that is open already.
    Open(StreamName, End, Option<Sink>),
    /// Into a new file of this folder, with the stream's name.
    Folder(PathBuf, StreamName),
}

/// An output that is written to.
struct Output {
    sink: Sink,
    writer: Writer,
    /// The file, if it is one in a folder.
    path: Option<PathBuf>,
}

/// Why the subscription stopped before the end of the stream.
pub(super) enum Stop {
    /// The node is gone, and may come back.
    Gone(LocalError),
    /// The output cannot be written, or the node refused.
    Failed(Failure),
}

impl Received {
    pub(super) fn new(target: Target, format: Option<Format>) -> Self {
        Self {
            target,
            format,
            output: None,
            counts: Counts::default(),
            written: 0,
            unreadable: 0,
            missing: 0,
            last: None,
        }
    }

    pub(super) const fn counts(&self) -> Counts {
        self.counts
    }

    pub(super) const fn written(&self) -> u64 {
        self.written
    }

    pub(super) const fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// Returns the number of ADUs that are known to be missing.
    pub(super) const fn missing(&self) -> u64 {
        self.missing
    }

    /// Returns the units of a transport stream that were not written, by cause; `None` for messages.
    pub(super) fn withheld(&self) -> Option<Withheld> {
        let writer = self.output.as_ref().map(|output| &output.writer);
        writer.map_or(Some(Withheld::default()), Writer::withheld)
    }

    /// Returns the file in a folder, once it is there.
    pub(super) fn path(&self) -> Option<&Path> {
        self.output.as_ref()?.path.as_deref()
    }

    /// Ends the output.
    pub(super) async fn finish(&mut self) -> anyhow::Result<()> {
        let output = self.output.take();
        let waiting = match &mut self.target {
            Target::Open(.., sink) => sink.take(),
            Target::Folder(..) => None,
        };
        match output.map(|output| output.sink).or(waiting) {
            Some(sink) => sink.finish().await,
            None => Ok(()),
        }
    }

    /// Writes what a subscription delivers, until the end of its stream, or of what `pull` asks for.
    /// `notify` gets sentences for people.
    pub(super) async fn receive(
        &mut self,
        subscriber: &mut LocalSubscriber,
        pull: &mut Pull,
        progress: &Progress,
        notify: impl Fn(&str),
    ) -> Result<(), Stop> {
        pull.handle_subscribed();
        let requests = subscriber.requests();
        let mut is_back = true;
        let ended = loop {
            let event = tokio::select! {
                biased;
                event = subscriber.recv() => event,
                () = pull.run(&requests) => Ok(None),
            };
            let event = match event {
                Ok(Some(event)) => event,
                Ok(None) => break Ok(()),
                Err(error) if lasting::is_gone(&error) => break Err(Stop::Gone(error)),
                Err(error) => break Err(Stop::Failed(error.into())),
            };
            match event {
                SubscriberEvent::Notice(notice) => notify(&notice),
                SubscriberEvent::Adu(Adu { header, payload }) => {
                    pull.handle_adu();
                    if !self.is_new(&header, &mut is_back) {
                        continue;
                    }
                    self.counts.adus += 1;
                    self.counts.bytes += payload.len() as u64;
                    progress.count(payload.len());
                    let described = subscriber.description();
                    let written = self.write(&header, &payload, described, &notify);
                    if let Err(failure) = written.await {
                        break Err(Stop::Failed(failure));
                    }
                }
            }
        };
        self.missing += subscriber.skipped();
        ended
    }

    /// Records an ADU and returns whether it is new: a node that is back delivers the newest ADU
    /// again. The sequence of the first new ADU after the outage shows how many are missing.
    fn is_new(&mut self, header: &Header, is_back: &mut bool) -> bool {
        let known = self.last.filter(|(stream, _)| *stream == header.stream);
        if let Some((_, last)) = known {
            if header.sequence <= last {
                return false;
            }
            if *is_back {
                self.missing += header.sequence.0 - last.0 - 1;
            }
        }
        *is_back = false;
        self.last = Some((header.stream, header.sequence));
        true
    }

    async fn write(
        &mut self,
        header: &Header,
        payload: &Bytes,
        described: Option<&Description>,
        notify: &impl Fn(&str),
    ) -> Result<(), Failure> {
        let output = if let Some(output) = &mut self.output {
            output
        } else {
            let opened = Output::open(&mut self.target, self.format, described).await?;
            self.output.insert(opened)
        };
        let bytes = match output.writer.join(payload) {
            Ok(bytes) => bytes,
            Err(sentence) => {
                self.unreadable += 1;
                if !sentence.is_empty() {
                    notify(&sentence);
                }
                return Ok(());
            }
        };
        let Output { sink, writer, .. } = output;
        writer.write(sink, header, &bytes).await?;
        self.written += bytes.len() as u64;
        Ok(())
    }
}

impl Output {
    /// Opens the output of a stream, now that its encoding is known.
    async fn open(
        target: &mut Target,
        format: Option<Format>,
        described: Option<&Description>,
    ) -> Result<Self, Failure> {
        match target {
            Target::Open(name, end, sink) => {
                let format = choose(format, described, (name, end))?;
                let sink = match sink.take() {
                    Some(sink) => sink,
                    None => Sink::open(end).await?,
                };
                Ok(Self {
                    sink,
                    writer: Writer::new(format, end),
                    path: None,
                })
            }
            Target::Folder(folder, name) => {
                let end = End::File(folder.clone());
                let format = choose(format, described, (name, &end))?;
                let encoding = described.map_or("", |described| &described.encoding);
                let path = new_file(folder, name, format.extension(encoding))?;
                let sink = Sink::open(&End::File(path.clone())).await?;
                Ok(Self {
                    sink,
                    writer: Writer::new(format, &end),
                    path: Some(path),
                })
            }
        }
    }
}

/// Returns how a stream is written: as the user says, else as its encoding is.
fn choose(
    format: Option<Format>,
    described: Option<&Description>,
    (name, end): (&StreamName, &End),
) -> Result<Format, Failure> {
    match format {
        Some(format) => Ok(format),
        None => usual_format(name, end, described).or_code(Code::BadInput),
    }
}

/// Returns the path of a new file, so that what an earlier run has written stays, and makes its folders.
fn new_file(folder: &Path, name: &StreamName, extension: &str) -> Result<PathBuf, Failure> {
    let of = |number: u32| match number {
        1 => folder.join(format!("{name}.{extension}")),
        _ => folder.join(format!("{name}.{number}.{extension}")),
    };
    let path = (1..=u32::MAX).map(of).find(|path| !path.exists());
    let path = path.unwrap_or_else(|| of(1));
    if let Some(parent) = path.parent() {
        let made = std::fs::create_dir_all(parent);
        made.with_context(|| format!("cannot make {}", parent.display()))?;
    }
    Ok(path)
}
