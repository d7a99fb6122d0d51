//! What has come of one stream to the node of its sink, and when its source is to hear of that.
//!
//! *The idea.* Usually a sink says once a second what it has. The end of a stream is told at once, and so is much that has come since it
//! was told last: a source that keeps what is not acknowledged waits when it keeps all that it may, and is to hear of it before that.
//!
//! *What it does not do.* It sends nothing and keeps no ADU.

use super::{Held, Seen};
use crate::adu::{Flags, Header};
use crate::event::DropCause;
use crate::id::Epoch;
use crate::limits::{KEEP_ADUS_MAX, KEEP_BYTES_MAX};

/// A quarter of what a source keeps: told of so much at a time, it always has room while the sink takes what comes.
const MUCH: (u64, u64) = (KEEP_BYTES_MAX.as_bytes() / 4, KEEP_ADUS_MAX as u64 / 4);

/// How soon a source is to hear of what has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum News {
    /// With the next regular receipt.
    Usual,
    /// At once: much has come.
    Much,
    /// At once: the end of the stream has come.
    Ended,
}

/// What has come of one stream.
#[derive(Debug, Default)]
pub struct Received {
    seen: Seen,
    news: Option<News>,
    /// Payload and ADUs since it was told last.
    untold: (u64, u64),
}

impl Received {
    /// Takes in that an ADU with so much payload is here whole; returns how soon that is to be told.
    ///
    /// Fails   it is not for those who want the stream
    pub fn insert(&mut self, header: &Header, payload_bytes: usize) -> Result<News, DropCause> {
        let taken = self.seen.insert(header.epoch, header.sequence);
        if taken == Err(DropCause::Duplicate) {
            return Err(DropCause::Duplicate);
        }
        let (bytes, adus) = &mut self.untold;
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

    /// Returns what has come, if more has since it was told last, and how soon that is to be told; it counts as told.
    pub fn take_news(&mut self) -> Option<(Held, News)> {
        let news = self.news.take()?;
        self.untold = (0, 0);
        Some((self.seen.held(), news))
    }

    /// Returns how soon it is to be told what has come, if anything has.
    pub const fn news(&self) -> Option<News> {
        self.news
    }

    /// As [`Seen::begin_anew`].
    pub fn begin_anew(&mut self, former: Option<Epoch>) {
        self.seen.begin_anew(former);
    }

    /// As [`Seen::go_on`].
    pub const fn go_on(&mut self) {
        self.seen.go_on();
    }
}
