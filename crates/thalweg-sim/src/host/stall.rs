//! Stalled programs and frozen nodes: a program stopped with Ctrl-Z, a machine that ran out of memory.
//!
//! A stalled program has the product's own [`Mailbox`] for each stream that ends on its node, beside
//! the world's subscriber. It must cost that subscriber nothing and use no more memory than a mailbox
//! may. It appears in no account. A frozen host runs nothing; datagrams wait in its sockets, and the
//! ones beyond their capacity are lost.

use std::collections::{BTreeMap, VecDeque};

use thalweg_base::adu::Adu;
use thalweg_base::id::StreamId;
use thalweg_base::limits::{MAILBOX_BYTES_MAX, MAILBOX_EXCESS_BYTES_MAX};
use thalweg_base::needs::Reliability;
use thalweg_base::time::Instant;
use thalweg_dataplane::mailbox::{Mail, Mailbox, TAKE_GRACE};

use super::{Host, Parcel};
use crate::watch::Watch;

/// Datagrams that wait in the sockets of a frozen host: about Linux's default for a UDP socket.
const SOCKET_DATAGRAMS_MAX: usize = 256;

/// An additional program that receives every stream that ends on its node.
#[derive(Debug, Default)]
pub(super) struct Stalled {
    /// One mailbox per stream; the token of an ADU is its stream's reliability.
    mailboxes: BTreeMap<StreamId, Mailbox<Reliability>>,
    /// It takes what comes.
    is_resumed: bool,
}

/// Datagrams waiting in the sockets of a frozen host, with their sender.
#[derive(Debug, Default)]
pub(super) struct Frozen(VecDeque<(usize, Parcel)>);

impl Host {
    /// Adds a stalled program to this host, or lets it take what comes from now on.
    pub fn handle_stall(&mut self, is_resumed: bool, watch: &mut Watch<'_>) {
        self.stalled.get_or_insert_default().is_resumed = is_resumed;
        self.take_stalled(watch);
        self.settle(watch);
    }

    /// Puts an ADU into the stalled program's mailbox, if there is one.
    pub(super) fn post_stalled(
        &mut self,
        adu: &Adu,
        reliability: Reliability,
        watch: &mut Watch<'_>,
    ) {
        let now = self.now(watch);
        let Some(stalled) = &mut self.stalled else {
            return;
        };
        let mailbox = stalled.mailboxes.entry(adu.header.stream);
        let mailbox = mailbox.or_insert_with(|| Mailbox::new(true));
        // Drops here concern only the stalled program, which is in no account.
        let _ = mailbox.put(adu.clone(), reliability, (reliability, false), now);
        while mailbox.poll_dropped().is_some() {}
        let most = MAILBOX_BYTES_MAX.as_bytes() + MAILBOX_EXCESS_BYTES_MAX.as_bytes();
        let (_, bytes) = mailbox.size();
        if bytes > most {
            let what = format!("{bytes} bytes are queued for a stalled program");
            watch.add_violation(self.place, None, what);
        }
        self.take_stalled(watch);
    }

    fn take_stalled(&mut self, watch: &mut Watch<'_>) {
        let now = self.now(watch);
        let place = self.place;
        let Some(stalled) = self.stalled.as_mut().filter(|one| one.is_resumed) else {
            return;
        };
        for mailbox in stalled.mailboxes.values_mut() {
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

    /// Returns whether the stalled program exerts backpressure on a stream.
    pub(super) fn is_pressed(&self, stream: StreamId) -> bool {
        let stalled = self.stalled.as_ref();
        let mailbox = stalled.and_then(|stalled| stalled.mailboxes.get(&stream));
        mailbox.is_some_and(|mailbox| mailbox.is_pressed(false))
    }

    /// Freezes the host.
    pub fn handle_freeze(&mut self, watch: &mut Watch<'_>) {
        self.frozen.get_or_insert_default();
        watch.fates.handle_frozen(self.place, watch.now);
    }

    /// Keeps a datagram if the host is frozen, else returns it.
    pub(super) fn keep_if_frozen(&mut self, from: usize, parcel: Parcel) -> Option<Parcel> {
        let Some(Frozen(waiting)) = &mut self.frozen else {
            return Some(parcel);
        };
        if waiting.len() < SOCKET_DATAGRAMS_MAX {
            waiting.push_back((from, parcel));
        }
        None
    }

    /// Thaws the host and handles the datagrams waiting in its sockets.
    pub fn handle_thaw(&mut self, watch: &mut Watch<'_>) {
        let Some(Frozen(waiting)) = self.frozen.take() else {
            return;
        };
        watch.fates.handle_thawed(self.place, watch.now);
        // Timers come first: they are long due, and the tasks that read the sockets are woken by them.
        self.handle_timeout(watch);
        for (from, parcel) in waiting {
            self.handle_parcel(from, parcel, watch);
        }
    }

    /// Returns `due`, or never while the host is frozen.
    pub(super) fn delay_if_frozen(&self, due: Instant) -> Instant {
        if self.frozen.is_some() {
            Instant::NEVER
        } else {
            due
        }
    }
}
