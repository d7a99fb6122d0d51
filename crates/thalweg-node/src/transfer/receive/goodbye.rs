//! The last word of a receiver, to all that send it the same files.
//!
//! *The idea.* Several nodes may send what one of them has brought, and each waits to hear that it is there. What is said reaches those
//! whose plans are in force, and the plan of one that has only begun takes a round trip or two. So the map is asked who sends, the
//! plans who hears, and the word is said until it has been said to all; then the stream of receipts ends. Who has
//! begun while it did finds it announced and would never hear: for that one it is published once more.
//!
//! ```text
//! say ─► look: who sends ⊆ who hears? ─ no ─► say, wait, look again       3 s at most
//!              └ yes ─► say ─► finish ─► look: somebody new? ─ yes ─► publish, say …
//! ```
//!
//! *What it does not do.* It does not know what was heard: a stream of receipts is sent again until it arrives, as long as its node runs.

use std::collections::BTreeSet;

use thalweg_core::id::{NodeId, StreamId};
use thalweg_core::needs::WEIGHT_USUAL;
use thalweg_core::transfer::TransferId;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::super::map::{Map, Stream};
use super::super::send::{outgoing, publication};
use super::super::{Event, TransferError, publish};
use super::{GOODBYE_MAX, LOOK_EVERY, Transfer};
use crate::local::LocalPublisher;

impl Transfer<'_> {
    /// Says the last word, whatever it is, to everybody who sends this; who does not listen yet is waited for a little.
    pub(super) async fn take_leave(
        &mut self,
        mut publisher: LocalPublisher,
        events: &mut (dyn FnMut(Event) + Send),
    ) -> Result<(), TransferError> {
        let until = Instant::now() + GOODBYE_MAX;
        let mut told = BTreeSet::new();
        loop {
            if let Ok(said) = timeout_at(until, self.tell_all(&mut publisher, &mut told)).await {
                said?;
            }
            let Ok(Ok(_)) = timeout(GOODBYE_MAX, publisher.finish()).await else {
                return Ok(());
            };
            // The nodes of all who were told have it now.
            let look = Map::look(&self.options.socket);
            let Ok(Ok(map)) = timeout_at(until + GOODBYE_MAX, look).await else {
                return Ok(());
            };
            let streams = self.streams(&map);
            let heard = streams.filter(|stream| told.contains(&stream.publisher_key));
            let heard: Vec<StreamId> = heard.filter_map(Stream::id).collect();
            self.heard.extend(heard);
            if Instant::now() >= until || self.is_told(&map, &told) {
                return Ok(());
            }
            let receipts = publication(self.receipts.clone(), false, WEIGHT_USUAL);
            let again = publish(&self.options.socket, receipts, events);
            match timeout_at(until, again).await {
                Ok(again) => publisher = again?,
                Err(_) => return Ok(()),
            }
        }
    }

    /// Says it until everybody who sends this has been told, and somebody has.
    async fn tell_all(
        &mut self,
        publisher: &mut LocalPublisher,
        told: &mut BTreeSet<NodeId>,
    ) -> Result<(), TransferError> {
        // Who heard all along need not wait for a look at the map.
        self.say(publisher).await?;
        loop {
            let map = Map::look(&self.options.socket).await?;
            let heard: Vec<NodeId> = map.served(&self.receipts).collect();
            if !heard.is_empty() {
                self.say(publisher).await?;
                told.extend(heard);
            }
            if !told.is_empty() && self.is_told(&map, told) {
                return Ok(());
            }
            sleep(LOOK_EVERY).await;
        }
    }

    async fn say(&mut self, publisher: &mut LocalPublisher) -> Result<(), TransferError> {
        if publisher.is_wanted() {
            self.receiver.handle_wanted(self.clock.now());
            if let Some(receipt) = self.receiver.poll_receipt(self.clock.now()) {
                publisher.send(outgoing(receipt.encode().into())).await?;
            }
        }
        Ok(())
    }

    /// Returns whether all who send this have been told; the record of a node that was killed stays on the map for minutes.
    fn is_told(&self, map: &Map, told: &BTreeSet<NodeId>) -> bool {
        let mut senders = self.streams(map).map(|stream| stream.publisher_key);
        senders.all(|sender| told.contains(&sender) || !map.is_reached(sender))
    }

    /// Returns the streams that bring this to this node.
    fn streams<'m>(&self, map: &'m Map) -> impl Iterator<Item = &'m Stream> {
        map.streams().iter().filter(|stream| {
            // Who sends it to others too has another name for it, and listens to the same receipts.
            let is_same = || TransferId::of_stream(&stream.name, &map.own()) == Some(self.id);
            stream.name == self.name || self.opener.is_none() && is_same()
        })
    }
}
