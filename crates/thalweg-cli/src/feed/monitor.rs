//! Reads a feed, and reports to the person at the terminal when no usable units arrive.
//!
//! *The idea.* Each wait for a unit is cut into intervals of a few seconds; after each, `watch` returns
//! what to report. At the end, a source without usable units is a failure that states what arrived instead.
//!
//! *What it does not do.* It decides nothing about the reports: `watch` and `trouble` do.

use std::io;
use std::pin::pin;
use std::time::{Duration, Instant};

use thalweg_base::units::Bitrate;
use thalweg_media::ts::{Lack, Marked};

use super::Feed;
use super::guess::guess_format;
use super::watch::Watch;
use crate::exit::{Code, Outcome, fail};
use crate::terminal;
use thalweg_io::url::{End, Source};

/// How long units may arrive without timestamps before the rate is measured by this machine's clock.
const UNTIMED: Duration = Duration::from_secs(5);

/// Reads a feed and watches it for silence.
pub struct Monitor {
    start: Instant,
    /// When the first usable unit arrived, since `start`.
    usable: Option<Duration>,
    watch: Watch,
}

impl Monitor {
    /// Starts to watch an input.
    pub fn open(from: &End) -> Self {
        Self {
            start: Instant::now(),
            usable: None,
            watch: Watch::new(name(from), Duration::ZERO),
        }
    }

    /// Opens the input; reports that a pipe has no writer yet, since opening it waits for one.
    pub async fn source(&self, from: &End) -> anyhow::Result<Source> {
        let mut open = pin!(Source::open(from));
        let patience = self.watch.patience(self.start.elapsed());
        tokio::select! {
            source = &mut open => return source,
            () = tokio::time::sleep(patience) => {}
        }
        let from = name(from);
        terminal::print_notice(&format!(
            "{from} is a pipe that no program writes to yet; waiting"
        ));
        open.await
    }

    /// Measures the rate of a feed; see [`Feed::measure`]. For units without timestamps it uses
    /// this machine's clock.
    pub async fn measure(&mut self, feed: &mut Feed) -> io::Result<Option<Bitrate>> {
        self.watch.begin(self.start.elapsed());
        loop {
            let patience = self.watch.patience(self.start.elapsed());
            let rate = tokio::select! {
                rate = feed.measure() => Some(rate),
                () = tokio::time::sleep(patience) => None,
            };
            // The caller reports the end of the feed.
            let is_over = matches!(rate, Some(Ok(None) | Err(_)));
            if !is_over && let Some(sentence) = self.check(feed, rate.is_some()) {
                terminal::print_notice(&sentence);
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

    /// Returns the next unit of a feed; see [`Feed::next`]. `say` gets a sentence when none comes for long.
    pub async fn next(
        &mut self,
        feed: &mut Feed,
        notify: impl Fn(&str),
    ) -> io::Result<Option<Marked>> {
        self.watch.begin(self.start.elapsed());
        loop {
            let patience = self.watch.patience(self.start.elapsed());
            let unit = tokio::select! {
                unit = feed.next() => Some(unit),
                () = tokio::time::sleep(patience) => None,
            };
            if !matches!(unit, Some(Ok(None) | Err(_)))
                && let Some(sentence) = self.check(feed, unit.is_some())
            {
                notify(&sentence);
            }
            if let Some(unit) = unit {
                return unit;
            }
        }
    }

    fn check(&mut self, feed: &Feed, has_unit: bool) -> Option<String> {
        let now = self.start.elapsed();
        self.watch.check(now, feed.snapshot(), has_unit)
    }
}

/// Returns the name of an input for a sentence.
fn name(from: &End) -> String {
    match from {
        End::Standard => "standard input".to_owned(),
        _ => from.to_string(),
    }
}

/// Ends a run in which the source gave no usable unit.
pub fn nothing(from: &End, feed: &Feed) -> Outcome {
    let trouble = feed.trouble().sentence();
    let trouble = trouble.map_or_else(String::new, |trouble| format!(" ({trouble})"));
    let seen = feed.seen();
    let what = match feed.lack() {
        _ if seen.bytes == 0 => "it is empty".to_owned(),
        Some(Lack::Packets) => format!(
            "there are no packets in its {} bytes, which {}",
            seen.bytes,
            guess_format(&seen.head)
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

/// Ends a run that was asked to end before a unit was usable: a failure if bytes had arrived.
pub fn stopped(from: &End, feed: &Feed) -> Outcome {
    match feed.lack() {
        Some(_) if feed.seen().bytes > 0 => nothing(from, feed),
        _ => {
            terminal::print_notice(&format!(
                "nothing was published: too little was received from {}",
                name(from)
            ));
            Ok(Code::Done)
        }
    }
}
