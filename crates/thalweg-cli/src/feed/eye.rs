//! A feed with an eye on it: units as they come, and a word to the person at the terminal when none do.
//!
//! *The idea.* Each wait for a unit is cut into pieces of a few seconds, and after each `watch` says what
//! there is to say. At the end a source of which nothing could be used is a failure that says what came
//! instead.
//!
//! *What it does not do.* It decides nothing of that; `watch` and `trouble` do.

use std::io;
use std::pin::pin;
use std::time::{Duration, Instant};

use bytes::Bytes;
use thalweg_base::units::Bitrate;
use thalweg_media::Marks;
use thalweg_media::ts::Lack;

use super::Feed;
use super::looks::look;
use super::watch::Watch;
use crate::ends::{End, Source};
use crate::exit::{Code, Outcome, fail};
use crate::terminal;

/// How long the medium's own time is waited for once units come: streams without times have none.
const UNTIMED: Duration = Duration::from_secs(5);

/// Watches a feed.
pub struct Eye {
    start: Instant,
    /// When the first usable unit was seen.
    usable: Option<Duration>,
    watch: Watch,
}

impl Eye {
    /// Begins to watch what comes from an end.
    pub fn open(from: &End) -> Self {
        Self {
            start: Instant::now(),
            usable: None,
            watch: Watch::new(name(from), Duration::ZERO),
        }
    }

    /// Opens the end; a pipe opens only when another program writes to it, which is told.
    pub async fn source(&self, from: &End) -> anyhow::Result<Source> {
        let mut open = pin!(Source::open(from));
        let patience = self.watch.patience(self.start.elapsed());
        tokio::select! {
            source = &mut open => return source,
            () = tokio::time::sleep(patience) => {}
        }
        let from = name(from);
        terminal::tell(&format!(
            "{from} is a pipe that no program writes to yet; waiting"
        ));
        open.await
    }

    /// Measures the rate of a feed; see [`Feed::measure`]. Where units say nothing of time, by the
    /// clock here.
    pub async fn measure(&mut self, feed: &mut Feed) -> io::Result<Option<Bitrate>> {
        self.watch.begin(self.start.elapsed());
        loop {
            let patience = self.watch.patience(self.start.elapsed());
            let rate = tokio::select! {
                rate = feed.measure() => Some(rate),
                () = tokio::time::sleep(patience) => None,
            };
            // An end is told by itself.
            let is_over = matches!(rate, Some(Ok(None) | Err(_)));
            if !is_over && let Some(sentence) = self.look(feed, rate.is_some()) {
                terminal::tell(&sentence);
            }
            if let Some(rate) = rate {
                return rate;
            }
            let now = self.start.elapsed();
            if feed.units() > 0 {
                let passed = now.saturating_sub(*self.usable.get_or_insert(now));
                if passed >= UNTIMED {
                    return Ok(Some(feed.rate_over(passed.into())));
                }
            }
        }
    }

    /// Gives the next unit of a feed; see [`Feed::next`]. `say` gets a sentence when none comes for long.
    pub async fn next(
        &mut self,
        feed: &mut Feed,
        say: impl Fn(&str),
    ) -> io::Result<Option<(Marks, Bytes)>> {
        self.watch.begin(self.start.elapsed());
        loop {
            let patience = self.watch.patience(self.start.elapsed());
            let unit = tokio::select! {
                unit = feed.next() => Some(unit),
                () = tokio::time::sleep(patience) => None,
            };
            if !matches!(unit, Some(Ok(None) | Err(_)))
                && let Some(sentence) = self.look(feed, unit.is_some())
            {
                say(&sentence);
            }
            if let Some(unit) = unit {
                return unit;
            }
        }
    }

    fn look(&mut self, feed: &Feed, has_unit: bool) -> Option<String> {
        let now = self.start.elapsed();
        self.watch.look(now, feed.sight(), has_unit)
    }
}

/// What an end is called in a sentence.
fn name(from: &End) -> String {
    match from {
        End::Standard => "standard input".to_owned(),
        _ => from.to_string(),
    }
}

/// Ends a run in which the source gave nothing that can be used.
pub fn nothing(from: &End, feed: &Feed) -> Outcome {
    let trouble = feed.trouble().sentence();
    let trouble = trouble.map_or_else(String::new, |trouble| format!(" ({trouble})"));
    let seen = feed.seen();
    let what = match feed.lack() {
        _ if seen.bytes == 0 => "it is empty".to_owned(),
        Some(Lack::Packets) => format!(
            "there are no packets in its {} bytes, which {}",
            seen.bytes,
            look(&seen.head)
        ),
        Some(lack) => format!("it has {lack}"),
        None => "it has nothing".to_owned(),
    };
    fail(
        Code::Failed,
        format!(
            "{} holds no MPEG-TS that can be sent: {what}{trouble}",
            name(from)
        ),
    )
}

/// Ends a run that was asked to end before anything could be used: a failure if something had come.
pub fn stopped(from: &End, feed: &Feed) -> Outcome {
    match feed.lack() {
        Some(_) if feed.seen().bytes > 0 => nothing(from, feed),
        _ => {
            terminal::tell(&format!(
                "nothing was published: too little has come from {}",
                name(from)
            ));
            Ok(Code::Done)
        }
    }
}
