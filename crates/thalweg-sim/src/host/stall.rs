//! Programs that take nothing, and nodes that stand still: what a person does with Ctrl-Z, and a machine that runs out of memory.
//!
//! *The idea.* A stalled program has the product's own [`Mailbox`] for each stream that ends on its node, beside the subscriber of
//! the world. What it must never do is cost that one anything, or take more memory than a mailbox may. A frozen host runs nothing;
//! what comes for it waits in its sockets, and what they have no room for is lost.
//!
//! *What it does not do.* It is counted in no account: the subscriber of the world says what became of an ADU there.

use std::collections::{BTreeMap, VecDeque};

use thalweg_core::adu::Adu;
use thalweg_core::id::StreamId;
use thalweg_core::limits::{MAILBOX_BYTES_MAX, MAILBOX_EXCESS_BYTES_MAX};
use thalweg_core::mailbox::{Mail, Mailbox, TAKE_GRACE};
use thalweg_core::needs::Reliability;
use thalweg_core::time::Instant;

use super::{Host, Parcel};
use crate::watch::Watch;

/// Datagrams that wait in the sockets of a frozen host: about what Linux gives a UDP socket.
const SOCKET_DATAGRAMS_MAX: usize = 256;

/// A further program that receives every stream which ends on its node.
#[derive(Debug, Default)]
pub(super) struct Stalled {
    /// The token of an ADU is what its stream promises.
    mailboxes: BTreeMap<StreamId, Mailbox<Reliability>>,
    /// It takes what comes.
    is_resumed: bool,
}

/// What waits in the sockets of a host that stands still.
#[derive(Debug, Default)]
pub(super) struct Frozen(VecDeque<(usize, Parcel)>);

impl Host {
    /// A further program begins to receive here, and takes nothing; or takes what comes from now on.
    pub fn handle_stall(&mut self, is_resumed: bool, watch: &mut Watch<'_>) {
        self.stalled.get_or_insert_default().is_resumed = is_resumed;
        self.take_stalled(watch);
        self.settle(watch);
    }

    /// Puts an ADU into the mailbox of the stalled program, if there is one.
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
        // What it misses is its own affair.
        let _ = mailbox.put(adu.clone(), reliability, (reliability, false), now);
        while mailbox.poll_dropped().is_some() {}
        let most = MAILBOX_BYTES_MAX.as_bytes() + MAILBOX_EXCESS_BYTES_MAX.as_bytes();
        let (_, bytes) = mailbox.size();
        if bytes > most {
            let what = format!("{bytes} bytes wait for a program that takes nothing");
            watch.violate(self.place, None, what);
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
                    watch.violate(place, None, "an ADU is taken after its deadline");
                }
            }
        }
    }

    /// Returns whether a stream is held up by the stalled program.
    pub(super) fn is_pressed(&self, stream: StreamId) -> bool {
        let stalled = self.stalled.as_ref();
        let mailbox = stalled.and_then(|stalled| stalled.mailboxes.get(&stream));
        mailbox.is_some_and(|mailbox| mailbox.is_pressed(false))
    }

    /// Stands still from now on.
    pub fn handle_freeze(&mut self, watch: &mut Watch<'_>) {
        self.frozen.get_or_insert_default();
        watch.fates.handle_frozen(self.place, watch.now);
    }

    /// Keeps a datagram if the host stands still; gives it back if not.
    pub(super) fn keep_if_frozen(&mut self, from: usize, parcel: Parcel) -> Option<Parcel> {
        let Some(Frozen(waiting)) = &mut self.frozen else {
            return Some(parcel);
        };
        if waiting.len() < SOCKET_DATAGRAMS_MAX {
            waiting.push_back((from, parcel));
        }
        None
    }

    /// Goes on, with what waits in its sockets.
    pub fn handle_thaw(&mut self, watch: &mut Watch<'_>) {
        let Some(Frozen(waiting)) = self.frozen.take() else {
            return;
        };
        watch.fates.handle_thawed(self.place, watch.now);
        // Timers are looked at first: they are long due, and the sockets are read by tasks that those wake.
        self.handle_timeout(watch);
        for (from, parcel) in waiting {
            self.handle_parcel(from, parcel, watch);
        }
    }

    /// Returns when it has something to do though nothing comes: while it stands still, never.
    pub(super) fn unless_frozen(&self, due: Instant) -> Instant {
        if self.frozen.is_some() {
            Instant::NEVER
        } else {
            due
        }
    }
}
