//! The ADUs of one stream that its sink's node has received, and when to report them to the source.
//!
//! *The idea.* Usually a sink sends a receipt once a second. The end of a stream is reported at
//! once, as is much progress since the last receipt: a source that must keep unacknowledged ADUs
//! blocks when its store is full, and needs the receipt before.
//!
//! *What it does not do.* It sends nothing and stores no ADU.

use thalweg_base::adu::{Flags, Header};
use thalweg_base::event::DropCause;
use thalweg_base::id::Epoch;
use thalweg_base::limits::{KEEP_ADUS_MAX, KEEP_BYTES_MAX};
use thalweg_base::seen::{Held, News, Seen};

/// A quarter of what a source keeps (bytes, ADUs): with a receipt for each, the store never fills
/// while the sink keeps up.
const MUCH: (u64, u64) = (KEEP_BYTES_MAX.as_bytes() / 4, KEEP_ADUS_MAX as u64 / 4);

/// The received ADUs of one stream.
#[derive(Debug, Default)]
pub struct Received {
    seen: Seen,
    news: Option<News>,
    /// Payload bytes and ADUs since the last report.
    unreported: (u64, u64),
}

impl Received {
    /// Handles an ADU that has arrived completely; returns how soon to report it.
    ///
    /// Fails   if it is a duplicate, or not for the present subscribers
    pub fn insert(&mut self, header: &Header, payload_bytes: usize) -> Result<News, DropCause> {
        let taken = self.seen.insert(header.epoch, header.sequence);
        if taken == Err(DropCause::Duplicate) {
            return Err(DropCause::Duplicate);
        }
        let (bytes, adus) = &mut self.unreported;
        *bytes += payload_bytes as u64;
        *adus += 1;
        let news = if header.flags.contains(Flags::END) {
            News::Ended
        } else if *bytes >= MUCH.0 || *adus >= MUCH.1 {
            News::Much
        } else {
            News::Usual
        };
        self.news = self.news.max(Some(news));
        taken.map(|()| news)
    }

    /// Returns what has arrived, if that changed since the last call, and how soon to report it; it
    /// counts as reported.
    pub fn take_news(&mut self) -> Option<(Held, News)> {
        let news = self.news.take()?;
        self.unreported = (0, 0);
        Some((self.seen.held(), news))
    }

    /// Returns how soon to report what has arrived, if anything has.
    pub const fn news(&self) -> Option<News> {
        self.news
    }

    /// Calls [`Seen::begin_anew`].
    pub fn begin_anew(&mut self, former: Option<Epoch>) {
        self.seen.begin_anew(former);
    }

    /// Calls [`Seen::go_on`].
    pub const fn go_on(&mut self) {
        self.seen.go_on();
    }
}
