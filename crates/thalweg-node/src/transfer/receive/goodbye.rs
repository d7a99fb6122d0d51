//! The final receipt of a receiver, to every node that sends it the same files.
//!
//! *The idea.* Several nodes may send files that another has already delivered, and each waits for
//! a receipt. A receipt reaches senders with a plan in force, and a sender that has just begun
//! needs a round trip or two for its plan. So the map shows the senders and the plans show which of
//! them are served; the receipt is repeated until it has gone to all. Then the stream of receipts
//! ends. A sender that begins meanwhile finds the stream announced but would never get the receipt;
//! for it the stream is published once more.
//!
//! ```text
//! send ─► map: all senders served? ─ no ─► send, wait, look again       3 s at most
//!              └ yes ─► send ─► finish ─► map: a new sender? ─ yes ─► publish, send …
//! ```
//!
//! *What it does not do.* It does not learn what has arrived: a stream of receipts is resent until
//! it arrives, as long as its node runs.

use std::collections::BTreeSet;

use thalweg_base::id::{NodeId, StreamId};
use thalweg_base::needs::WEIGHT_USUAL;
use thalweg_transfer::TransferId;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::super::map::{Map, Stream};
use super::super::send::{outgoing, publication};
use super::super::{Event, FINAL_RECEIPT_MAX, POLL_EVERY, TransferError, publish};
use super::Transfer;
use crate::local::LocalPublisher;

impl Transfer<'_> {
    /// Sends the final receipt, of whatever kind, to every sender; waits briefly for senders
    /// without a plan yet.
    pub(super) async fn send_final_receipt(
        &mut self,
        mut publisher: LocalPublisher,
        events: &mut (dyn FnMut(Event) + Send),
    ) -> Result<(), TransferError> {
        let until = Instant::now() + FINAL_RECEIPT_MAX;
        let mut notified = BTreeSet::new();
        loop {
            if let Ok(said) =
                timeout_at(until, self.notify_all(&mut publisher, &mut notified)).await
            {
                said?;
            }
            let Ok(Ok(_)) = timeout(FINAL_RECEIPT_MAX, publisher.finish()).await else {
                return Ok(());
            };
            // All notified senders' nodes have the receipt now.
            let fetch = Map::fetch(&self.options.socket);
            let Ok(Ok(map)) = timeout_at(until + FINAL_RECEIPT_MAX, fetch).await else {
                return Ok(());
            };
            let streams = self.streams(&map);
            let heard = streams.filter(|stream| notified.contains(&stream.publisher_key));
            let heard: Vec<StreamId> = heard.filter_map(Stream::id).collect();
            self.heard.extend(heard);
            if Instant::now() >= until || self.are_all_notified(&map, &notified) {
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

    /// Repeats the receipt until every sender, and at least one, was served.
    async fn notify_all(
        &mut self,
        publisher: &mut LocalPublisher,
        notified: &mut BTreeSet<NodeId>,
    ) -> Result<(), TransferError> {
        // Senders that were served all along need no look at the map.
        self.send_receipt(publisher).await?;
        loop {
            let map = Map::fetch(&self.options.socket).await?;
            let heard: Vec<NodeId> = map.served(&self.receipts).collect();
            if !heard.is_empty() {
                self.send_receipt(publisher).await?;
                notified.extend(heard);
            }
            if !notified.is_empty() && self.are_all_notified(&map, notified) {
                return Ok(());
            }
            sleep(POLL_EVERY).await;
        }
    }

    async fn send_receipt(&mut self, publisher: &mut LocalPublisher) -> Result<(), TransferError> {
        if publisher.is_wanted() {
            self.receiver.handle_wanted(self.clock.now());
            if let Some(receipt) = self.receiver.poll_receipt(self.clock.now()) {
                publisher.send(outgoing(receipt.encode().into())).await?;
            }
        }
        Ok(())
    }

    /// Returns whether all senders were notified. The record of a killed node stays on the map for
    /// minutes, so unreachable senders are skipped.
    fn are_all_notified(&self, map: &Map, notified: &BTreeSet<NodeId>) -> bool {
        let mut senders = self.streams(map).map(|stream| stream.publisher_key);
        senders.all(|sender| notified.contains(&sender) || !map.is_reached(sender))
    }

    /// Returns the streams that bring these files to this node.
    fn streams<'m>(&self, map: &'m Map) -> impl Iterator<Item = &'m Stream> {
        map.streams().iter().filter(|stream| {
            // A sender to several receivers uses another name, and listens to the same receipts.
            let is_same = || TransferId::of_stream(&stream.name, &map.own()) == Some(self.id);
            stream.name == self.name || self.opener.is_none() && is_same()
        })
    }
}
