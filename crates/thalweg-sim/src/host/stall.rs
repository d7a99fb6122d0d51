//! Stalled programs: a program stopped with Ctrl-Z.
//!
//! A stalled program has the product's own [`Mailbox`] for each stream that ends on its node, beside
//! the world's subscriber. It must cost that subscriber nothing and use no more memory than a mailbox
//! may. It appears in no account.

use std::collections::BTreeMap;

use thalweg_base::adu::Adu;
use thalweg_base::id::StreamId;
use thalweg_base::limits::{MAILBOX_BYTES_MAX, MAILBOX_EXCESS_BYTES_MAX};
use thalweg_base::needs::Reliability;
use thalweg_base::time::Instant;
use thalweg_dataplane::mailbox::{Mail, Mailbox, TAKE_GRACE};

use crate::watch::Watch;

/// An additional program that receives every stream that ends on its node.
#[derive(Debug, Default)]
pub(super) struct Stalled {
    /// One mailbox per stream; the token of an ADU is its stream's reliability.
    mailboxes: BTreeMap<StreamId, Mailbox<Reliability>>,
    /// It takes what comes.
    is_resumed: bool,
}

impl Stalled {
    /// Lets the program take what comes from now on, or stalls it.
    pub(super) fn resume(
        &mut self,
        is_resumed: bool,
        now: Instant,
        place: usize,
        watch: &mut Watch<'_>,
    ) {
        self.is_resumed = is_resumed;
        self.take(now, place, watch);
    }

    /// Puts an ADU into the program's mailbox.
    pub(super) fn post(
        &mut self,
        adu: &Adu,
        reliability: Reliability,
        now: Instant,
        place: usize,
        watch: &mut Watch<'_>,
    ) {
        let mailbox = self.mailboxes.entry(adu.header.stream);
        let mailbox = mailbox.or_insert_with(|| Mailbox::new(true));
        // Drops here concern only the stalled program, which is in no account.
        let _ = mailbox.put(adu.clone(), reliability, (reliability, false), now);
        while mailbox.poll_dropped().is_some() {}
        let most = MAILBOX_BYTES_MAX.as_bytes() + MAILBOX_EXCESS_BYTES_MAX.as_bytes();
        let (_, bytes) = mailbox.size();
        if bytes > most {
            let what = format!("{bytes} bytes are queued for a stalled program");
            watch.add_violation(place, None, what);
        }
        self.take(now, place, watch);
    }

    fn take(&mut self, now: Instant, place: usize, watch: &mut Watch<'_>) {
        if !self.is_resumed {
            return;
        }
        for mailbox in self.mailboxes.values_mut() {
            while let Some(mail) = mailbox.take(now) {
                if let Mail::Adu(adu, reliability) = mail
                    && adu.header.deadline + TAKE_GRACE < now
                    && !reliability.is_ordered()
                {
                    watch.add_violation(place, None, "an ADU was taken after its deadline");
                }
            }
        }
    }

    /// Returns whether the program exerts backpressure on a stream.
    pub(super) fn is_pressed(&self, stream: StreamId) -> bool {
        let mailbox = self.mailboxes.get(&stream);
        mailbox.is_some_and(|mailbox| mailbox.is_pressed(false))
    }
}
