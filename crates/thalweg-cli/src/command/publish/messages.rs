//! Publishes messages of any format but MPEG-TS: lines, packets, records, sentences.
//!
//! *The idea.* Each message that a format cuts is an ADU. The command line says its importance, or names the
//! field that does. What a format cannot use is told once a kind and counted.
//!
//! *What it does not do.* It interprets no message beyond those fields.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration as StdDuration, Instant as StdInstant};

use anyhow::Context as _;
use bytes::Bytes;
use serde_json::{Value, json};
use thalweg_base::adu::{Importance, MediaTime};
use thalweg_base::needs::Needs;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize};
use thalweg_io::format::{Cutter, Faults, FieldReader, Fields, Format};
use thalweg_io::url::{End, Source};
use thalweg_media::Marks;

use super::{Arguments, SUBSCRIBER_WAIT};
use crate::exit::{Code, Failure, OrCode as _, Outcome, fail};
use crate::lasting::LastingPublisher;
use crate::pace::{Pacer, Speed};
use crate::progress::Progress;
use crate::shutdown::Shutdown;
use crate::terminal;

/// How long messages are read ahead to measure their rate.
const AHEAD: StdDuration = StdDuration::from_secs(2);

/// Bound of the read-ahead: a file has no rate of its own.
const AHEAD_BYTES_MAX: usize = 64 << 10;

/// The rate that a source without one asks of a link.
const RATE_DEFAULT: Bitrate = Bitrate::from_bps(1_000_000);

/// The least rate: a stream without a rate has no plan.
const RATE_MIN: Bitrate = Bitrate::from_bps(8_000);

/// The importance of messages of which nothing says more: half of the scale is above it.
const IMPORTANCE_DEFAULT: u8 = 128;

/// How often a silent source is asked whether there is something to tell.
const LOOK: StdDuration = StdDuration::from_secs(1);

/// Messages of a source.
struct Messages {
    source: Source,
    cutter: Box<dyn Cutter>,
    importance: Importance,
    fields: FieldReader,
    faults: Faults,
    ahead: VecDeque<(Marks, Bytes)>,
    begun: StdInstant,
    has_ended: bool,
    count: u64,
}

impl Messages {
    fn new(source: Source, format: Format, arguments: &Arguments) -> Self {
        let fields = Fields {
            importance: arguments.importance_from.clone(),
            time: arguments.time_from.clone(),
            key: arguments.key_from.clone(),
        };
        Self {
            source,
            cutter: format.cutter(),
            importance: Importance(arguments.importance.unwrap_or(IMPORTANCE_DEFAULT)),
            fields: FieldReader::new(fields),
            faults: Faults::default(),
            ahead: VecDeque::new(),
            begun: StdInstant::now(),
            has_ended: false,
            count: 0,
        }
    }

    /// Reads ahead for [`AHEAD`] and returns the rate that the stream needs.
    async fn measure(&mut self, notify: &impl Fn(&str)) -> io::Result<Bitrate> {
        let end = tokio::time::Instant::now() + AHEAD;
        let mut bytes = 0;
        while bytes < AHEAD_BYTES_MAX {
            match tokio::time::timeout_at(end, self.read_on(notify)).await {
                Ok(Ok(Some(message))) => {
                    bytes += message.1.len();
                    self.ahead.push_back(message);
                }
                Ok(Ok(None)) => return Ok(RATE_DEFAULT),
                Ok(Err(error)) => return Err(error),
                Err(_) => {
                    let size = DataSize::from_bytes(bytes as u64);
                    return Ok((size / AHEAD.into()).max(RATE_MIN));
                }
            }
        }
        Ok(RATE_DEFAULT)
    }

    /// Returns the next message, or `None` at the end. Cancel safe.
    async fn next(&mut self, notify: &impl Fn(&str)) -> io::Result<Option<(Marks, Bytes)>> {
        match self.ahead.pop_front() {
            Some(message) => Ok(Some(message)),
            None => self.read_on(notify).await,
        }
    }

    async fn read_on(&mut self, notify: &impl Fn(&str)) -> io::Result<Option<(Marks, Bytes)>> {
        loop {
            match self.cutter.poll_cut() {
                Some(Ok((_, message))) => return Ok(Some((self.mark(&message, notify), message))),
                Some(Err(fault)) if fault.is_final() => return Err(io::Error::other(fault)),
                Some(Err(fault)) => {
                    if let Some(sentence) = self.faults.handle(&fault) {
                        notify(&sentence);
                    }
                }
                None if self.has_ended => return Ok(None),
                None => {
                    let read = tokio::time::timeout(LOOK, self.source.read()).await;
                    self.source
                        .take_notices()
                        .iter()
                        .for_each(|said| notify(said));
                    let Ok(read) = read else {
                        continue;
                    };
                    if let Some(bytes) = read? {
                        self.cutter.handle_bytes(&bytes);
                    } else {
                        self.has_ended = true;
                        self.cutter.handle_end();
                    }
                }
            }
        }
    }

    /// Returns the marks of a message: its time is that of its arrival unless a field says it.
    fn mark(&mut self, message: &[u8], notify: &impl Fn(&str)) -> Marks {
        self.count += 1;
        let arrived = MediaTime::from_micros(self.begun.elapsed().as_micros() as u64);
        let mut marks = Marks {
            importance: self.importance,
            media_time: arrived,
            decode_time: arrived,
            ..Marks::default()
        };
        for said in self.fields.apply(message, &mut marks) {
            notify(&said);
        }
        marks
    }

    fn report(&self, format: Format) -> Value {
        let faults: serde_json::Map<_, _> = self
            .faults
            .counts()
            .map(|(kind, count)| (kind.to_owned(), count.into()))
            .collect();
        let fields: serde_json::Map<_, _> = self
            .fields
            .wrong()
            .map(|(what, count)| (what.to_owned(), count.into()))
            .collect();
        json!({
            "format": format.to_string(),
            "messages": self.count,
            "faults": faults,
            "fields": fields,
        })
    }
}

/// Publishes until the source ends or a request to stop.
pub async fn run(arguments: &Arguments, format: Format, needs: Needs) -> Outcome {
    let from = &arguments.from;
    if format.needs_datagrams() && !matches!(from, End::Datagrams { .. }) {
        return fail(
            Code::BadInput,
            format!(
                "--format packets needs datagrams, and {from} has none: use udp://, or `--format length`"
            ),
        );
    }
    if arguments.repeat {
        return fail(Code::BadInput, "--loop repeats MPEG-TS only");
    }
    let mut shutdown = Shutdown::listen()?;
    let source = tokio::select! {
        source = Source::open_pieces(from) => source.or_code(super::source_code(from))?,
        () = shutdown.requested() => return Ok(Code::Done),
    };
    let mut messages = Messages::new(source, format, arguments);
    let rate = tokio::select! {
        rate = messages.measure(&terminal::print_notice) => {
            rate.with_context(|| format!("cannot read {from}"))?
        }
        () = shutdown.requested() => return Ok(Code::Done),
    };
    if messages.has_ended && messages.ahead.is_empty() {
        return fail(
            Code::Failed,
            format!("{from} has no message of `--format {format}`"),
        );
    }
    let is_live = messages.source.is_live();
    let waits = !arguments.no_wait && arguments.hold.is_none() && !is_live;
    let mut publication = super::publication(arguments, needs, arguments.bitrate.unwrap_or(rate));
    // Text packs well; how well is measured by whoever packs it.
    publication.pack_ratio = None;
    let mut publisher = tokio::select! {
        publisher = super::open(arguments, publication, waits) => publisher?,
        () = shutdown.requested() => return Ok(Code::Done),
    };
    let mut progress = Progress::start("publishing", false);
    let mut is_stopped = false;
    let sent = tokio::select! {
        sent = async {
            wait(arguments, waits, &mut publisher).await?;
            send(arguments, &mut messages, &mut publisher, &mut progress).await
        } => sent,
        () = shutdown.requested() => { is_stopped = true; Ok(()) }
    };
    let summary = super::finish(publisher, &mut shutdown, is_stopped).await;
    let passed = progress.finish();
    let Some(mut summary) = summary? else {
        super::report_left(arguments, &passed);
        return Ok(Code::Done);
    };
    report(arguments, &messages, format, &passed, &mut summary)?;
    sent?;
    Ok(Code::Done)
}

/// Prints what became of the stream, and what was wrong with its source.
fn report(
    arguments: &Arguments,
    messages: &Messages,
    format: Format,
    passed: &str,
    summary: &mut Value,
) -> Result<(), Failure> {
    let from = &arguments.from;
    super::print_summary(passed, summary);
    summary["source"] = messages.report(format);
    if arguments.json {
        terminal::print(&format!("{summary}\n"))?;
    }
    for (what, count) in messages.faults.counts().filter(|(_, count)| *count > 1) {
        terminal::print_notice(&format!(
            "in {from}: {count} times {}",
            what.replace('_', " ")
        ));
    }
    for (what, count) in messages.fields.wrong().filter(|(_, count)| *count > 1) {
        terminal::print_notice(&format!("in {from}: {count} times: {what}"));
    }
    Ok(())
}

/// Waits for a subscriber: a live source for a while, what can wait for as long as it takes.
async fn wait(
    arguments: &Arguments,
    waits: bool,
    publisher: &mut LastingPublisher,
) -> Result<(), Failure> {
    if arguments.no_wait || arguments.hold.is_some() || publisher.is_wanted() {
        return Ok(());
    }
    if !waits {
        return match tokio::time::timeout(SUBSCRIBER_WAIT, publisher.wanted()).await {
            Ok(wanted) => Ok(wanted?),
            Err(_) => Ok(()),
        };
    }
    let name = &arguments.name;
    terminal::print_notice(&format!("`{name}` has no subscriber yet; waiting"));
    Ok(publisher.wanted().await?)
}

async fn send(
    arguments: &Arguments,
    messages: &mut Messages,
    publisher: &mut LastingPublisher,
    progress: &mut Progress,
) -> Result<(), Failure> {
    // Only a field tells when a message of a file is due.
    let is_paced = arguments.time_from.is_some() && !messages.source.is_live();
    let mut pacer = Pacer::new(if is_paced {
        arguments.speed
    } else {
        Speed::Max
    });
    let start = StdInstant::now();
    loop {
        let notify = |said: &str| progress.notify(said);
        let message = tokio::select! {
            biased;
            message = messages.next(&notify) => message,
            error = publisher.gone() => {
                publisher.reconnect_after(error).await?;
                continue;
            }
        };
        let message =
            message.with_context(|| format!("cannot read more from {}", arguments.from))?;
        let Some((marks, payload)) = message else {
            return Ok(());
        };
        let now = Instant::ZERO + start.elapsed().into();
        let wait = pacer.wait(now, marks.clock, marks.decode_time);
        if wait > Duration::ZERO {
            tokio::time::sleep(wait.into()).await;
        }
        progress.count(payload.len());
        publisher.send(super::outgoing(marks, payload)).await?;
    }
}
