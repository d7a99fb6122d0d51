//! Messages of a source, with the marks that an ADU's header takes from them.
//!
//! *The idea.* Each message that a format cuts is an ADU. Its importance is given, or in a field of it.
//! The first fault of each kind is reported, and all are counted. The first messages are read ahead,
//! because a stream is announced with its rate.
//!
//! *What it does not do.* It interprets no message beyond those fields, and publishes nothing.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration as StdDuration, Instant as StdInstant};

use bytes::Bytes;
use serde_json::{Value, json};
use thalweg_base::adu::{Importance, MediaTime};
use thalweg_base::units::{Bitrate, DataSize};
use thalweg_io::format::{Cutter, Faults, FieldReader, Fields, Format};
use thalweg_io::url::{End, Source};
use thalweg_media::Marks;
use thalweg_node::Outgoing;

use crate::terminal;

/// How long a live source is kept for a waiting subscriber, which hears of the stream and is
/// planned for within a second or two, even over a few hops.
pub const SUBSCRIBER_WAIT: StdDuration = StdDuration::from_secs(3);

/// How long messages are read ahead to measure their rate.
const AHEAD: StdDuration = StdDuration::from_secs(2);

/// Bound of the read-ahead: a file has no rate of its own.
const AHEAD_BYTES_MAX: usize = 64 << 10;

/// The rate announced for a source with a rate that cannot be measured.
const RATE_DEFAULT: Bitrate = Bitrate::from_bps(1_000_000);

/// Minimum announced rate: a stream with a rate of zero is refused.
const RATE_MIN: Bitrate = Bitrate::from_bps(8_000);

/// Default importance of a message: the middle of the scale.
const IMPORTANCE_DEFAULT: u8 = 128;

/// Interval at which a silent source is checked for notices.
const LOOK: StdDuration = StdDuration::from_secs(1);

/// Messages of a source.
pub struct Messages {
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
    /// Returns the messages of a source from its start, with an importance unless a field has it.
    pub fn new(source: Source, format: Format, importance: Option<u8>, fields: Fields) -> Self {
        Self {
            source,
            cutter: format.cutter(),
            importance: Importance(importance.unwrap_or(IMPORTANCE_DEFAULT)),
            fields: FieldReader::new(fields),
            faults: Faults::default(),
            ahead: VecDeque::new(),
            begun: StdInstant::now(),
            has_ended: false,
            count: 0,
        }
    }

    /// Returns whether the source is live.
    pub fn is_live(&self) -> bool {
        self.source.is_live()
    }

    /// Returns whether the source has ended without a message.
    pub fn is_empty(&self) -> bool {
        self.has_ended && self.ahead.is_empty()
    }

    /// Reads ahead for [`AHEAD`] and returns the rate that the stream needs.
    pub async fn measure(&mut self, notify: &impl Fn(&str)) -> io::Result<Bitrate> {
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

    /// Returns the first message that was read ahead.
    pub fn sample(&self) -> Option<&[u8]> {
        self.ahead.front().map(|(_, message)| &message[..])
    }

    /// Returns the next message, or `None` at the end. Cancel safe.
    pub async fn next(&mut self, notify: &impl Fn(&str)) -> io::Result<Option<(Marks, Bytes)>> {
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

    /// Prints how often something was wrong that was told once.
    pub fn print_repeated(&self, from: &End) {
        for (what, count) in self.faults.counts().filter(|(_, count)| *count > 1) {
            let what = what.replace('_', " ");
            terminal::print_notice(&format!("in {from}: {count} times {what}"));
        }
        for (what, count) in self.fields.wrong().filter(|(_, count)| *count > 1) {
            terminal::print_notice(&format!("in {from}: {count} times: {what}"));
        }
    }

    /// Returns what was read, and what was wrong with it, as JSON.
    pub fn report(&self, format: Format) -> Value {
        json!({
            "format": format.to_string(),
            "messages": self.count,
            "faults": object(self.faults.counts()),
            "fields": object(self.fields.wrong()),
        })
    }
}

/// Returns counts by name as JSON.
fn object<'n>(counts: impl Iterator<Item = (&'n str, u64)>) -> Value {
    Value::Object(
        counts
            .map(|(name, count)| (name.to_owned(), count.into()))
            .collect(),
    )
}

/// Returns a payload to publish, marked as its format says.
pub fn outgoing(marks: Marks, payload: Bytes) -> Outgoing {
    Outgoing {
        media_time: marks.media_time,
        importance: marks.importance,
        layer: marks.layer,
        flags: marks.flags,
        depends_on: marks.depends_on,
        payload,
    }
}
