//! Chooses the transfer to receive from those on the map.
//!
//! *The idea.* A node learns of every stream on the map; the names of file streams contain their
//! receivers. The first one for this node is received until it is complete. If its sender has gone,
//! another transfer may replace it, and it is found again when the sender is back. The one
//! abandoned last is tried after all others, so that two stalled ones do not block a third.
//!
//! *What it does not do.* It receives one transfer at a time.

use thalweg_base::id::{NodeId, StreamId, StreamName};
use thalweg_transfer::TransferId;

use super::super::code::guest;
use super::super::map::{Map, Stream};
use super::super::{Event, POLL_EVERY, TransferError, reconnect};
use super::{Abandoned, ReceiveOptions, Received, Transfer};

/// Maximum number of remembered streams that are done or refused; their senders take a moment to
/// end them.
const DONE_MAX: usize = 64;

/// Receives transfers into a folder, one after the other.
#[derive(Debug)]
pub struct Inbox {
    options: ReceiveOptions,
    /// The only accepted sender, once it was found; it may leave the map and return.
    from: Option<NodeId>,
    /// Streams that are done or refused, where the senders' nodes have the final receipt; the newest
    /// first.
    done: Vec<StreamId>,
    /// Streams with names that only look as if they were for this node.
    not_ours: Vec<StreamName>,
    /// The transfer abandoned last.
    last_abandoned: Option<StreamName>,
    /// Whether the node has answered once; from then on, its absence is waited out.
    has_answered: bool,
}

impl Inbox {
    /// Returns an empty inbox.
    pub const fn new(options: ReceiveOptions) -> Self {
        Self {
            options,
            from: None,
            done: Vec::new(),
            not_ours: Vec::new(),
            last_abandoned: None,
            has_answered: false,
        }
    }

    /// Returns the options of all transfers.
    pub(super) const fn options(&self) -> &ReceiveOptions {
        &self.options
    }

    /// Waits for a transfer to this node, and returns once it is complete and in place. Call it
    /// again for the next transfer, also after one that failed ([`TransferError::is_of_one`]).
    ///
    /// Fails   if a name is taken; the disk is full; blocks were changed on their way; the node goes
    ///         away and does not return. Received parts are kept for another run
    pub async fn receive(
        &mut self,
        mut events: impl FnMut(Event) + Send,
    ) -> Result<Received, TransferError> {
        let events: &mut (dyn FnMut(Event) + Send) = &mut events;
        if let Some(phrase) = &self.options.phrase {
            let found = guest::find_transfer(&self.options.socket, phrase, &mut *events).await?;
            let mut transfer = Transfer::by_code(self, found).await?;
            transfer.receive(events).await?;
            return Ok(transfer.report());
        }
        let mut has_notified = false;
        loop {
            let (id, stream, own) = self.wait(&mut has_notified, events).await?;
            let mut transfer = Transfer::new(self, id, &stream, own);
            let ended = transfer.receive(events).await;
            let (carrier, name) = (transfer.stream, transfer.name.clone());
            let heard = std::mem::take(&mut transfer.heard);
            let abandoned = transfer.abandoned;
            let received = ended.map(|()| abandoned.is_none().then(|| transfer.report()));
            match abandoned {
                // The map may show it a moment longer, or show its successor already.
                Some(Abandoned::Gone) => self.last_abandoned = Some(name.clone()),
                Some(Abandoned::NotOurs) => self.not_ours.push(name.clone()),
                None => {}
            }
            if let Some(ended) = received.transpose() {
                if !heard.contains(&carrier) {
                    // If it is still offered once nothing else is, its sender gets the receipt
                    // again.
                    self.last_abandoned = Some(name);
                }
                self.done.splice(..0, heard);
                self.done.truncate(DONE_MAX);
                return ended;
            }
        }
    }

    /// Waits until the map shows a transfer for this node.
    async fn wait(
        &mut self,
        has_notified: &mut bool,
        events: &mut (dyn FnMut(Event) + Send),
    ) -> Result<(TransferId, Stream, NodeId), TransferError> {
        loop {
            let map = match Map::fetch(&self.options.socket).await {
                Ok(map) => map,
                Err(error) if self.has_answered => {
                    tracing::debug!(%error, "no status");
                    reconnect(&self.options.socket, events).await?;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            if !self.has_answered {
                map.check_rights()?;
            }
            self.has_answered = true;
            if let (None, Some(word)) = (self.from, &self.options.from) {
                let key = map.find(word)?;
                if key == map.own() {
                    let sentence = format!("{word} is this node, which sends nothing to itself");
                    return Err(TransferError::Node(sentence));
                }
                self.from = Some(key);
            }
            let left = self.last_abandoned.as_ref();
            let other = left.and_then(|left| self.choose(&map, Some(left)));
            if let Some((id, stream)) = other.or_else(|| self.choose(&map, None)) {
                return Ok((id, stream.clone(), map.own()));
            }
            if !std::mem::replace(has_notified, true) {
                events(Event::Notice("waiting for files".into()));
            }
            tokio::time::sleep(POLL_EVERY).await;
        }
    }

    /// Returns whether a stream's publisher is accepted as a sender.
    pub(super) fn is_accepted(&self, stream: &Stream) -> bool {
        self.from.is_none_or(|from| from == stream.publisher_key)
    }

    /// Returns a transfer offered to this node, other than `except`.
    pub(super) fn choose<'m>(
        &self,
        map: &'m Map,
        except: Option<&StreamName>,
    ) -> Option<(TransferId, &'m Stream)> {
        map.streams().iter().find_map(|stream| {
            let id = TransferId::of_stream(&stream.name, &map.own())?;
            let is_done = stream.id().is_some_and(|id| self.done.contains(&id));
            let is_other = except != Some(&stream.name) && !self.not_ours.contains(&stream.name);
            (self.is_accepted(stream) && !is_done && is_other).then_some((id, stream))
        })
    }
}
