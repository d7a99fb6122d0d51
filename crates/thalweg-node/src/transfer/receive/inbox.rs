//! Which of the transfers on the map is taken.
//!
//! *The idea.* A node learns of every stream on the map; those of files say in their names for whom they are. The first one
//! for this node is taken, and kept until it is whole; whose sender has gone makes room for another, and is found again when
//! it is back. What was left last comes after all others, so that two that stand still do not hold up a third.
//!
//! *What it does not do.* It receives one transfer at a time.

use thalweg_core::id::{NodeId, StreamId, StreamName};
use thalweg_core::transfer::TransferId;

use super::super::code::guest;
use super::super::map::{Map, Stream};
use super::super::{Event, TransferError, reconnect};
use super::{LOOK_EVERY, Left, ReceiveOptions, Received, Transfer};

/// Streams of transfers that are remembered as done or refused, for their senders take a moment to end.
const DONE_MAX: usize = 64;

/// What comes to a folder, one transfer after the other.
#[derive(Debug)]
pub struct Inbox {
    options: ReceiveOptions,
    /// The only node that may send, once it was found: it may leave the map and come back.
    from: Option<NodeId>,
    /// Streams of transfers that are done or refused, whose senders' nodes have heard so; the newest first.
    done: Vec<StreamId>,
    /// Streams whose names only look as if they were for this node.
    not_ours: Vec<StreamName>,
    /// The one that was left last.
    left: Option<StreamName>,
    /// Whether the node has answered: one that goes away then is waited for.
    has_looked: bool,
}

impl Inbox {
    /// Returns an inbox in which nothing has been received.
    pub const fn new(options: ReceiveOptions) -> Self {
        Self {
            options,
            from: None,
            done: Vec::new(),
            not_ours: Vec::new(),
            left: None,
            has_looked: false,
        }
    }

    /// Returns what is received, and where to.
    pub(super) const fn options(&self) -> &ReceiveOptions {
        &self.options
    }

    /// Waits for a transfer to this node, and returns when it is whole and in its place. Called again it takes another, after
    /// one that failed too ([`TransferError::is_of_one`]).
    ///
    /// Fails   a name that is taken; a full disk; blocks that are changed on their way; a node that goes away and does not
    ///         come back. What has come is kept for another run
    pub async fn receive(
        &mut self,
        mut events: impl FnMut(Event) + Send,
    ) -> Result<Received, TransferError> {
        let events: &mut (dyn FnMut(Event) + Send) = &mut events;
        if let Some(phrase) = &self.options.phrase {
            let way = guest::meet(&self.options.socket, phrase, &mut *events).await?;
            let mut transfer = Transfer::by_code(self, way).await?;
            transfer.receive(events).await?;
            return Ok(transfer.report());
        }
        let mut has_told = false;
        loop {
            let (id, stream, own) = self.wait(&mut has_told, events).await?;
            let mut transfer = Transfer::new(self, id, &stream, own);
            let ended = transfer.receive(events).await;
            let (carrier, name) = (transfer.stream, transfer.name.clone());
            let heard = std::mem::take(&mut transfer.heard);
            let left = transfer.left;
            let received = ended.map(|()| left.is_none().then(|| transfer.report()));
            match left {
                // The map may show it for a moment more; the next may be there already.
                Some(Left::Gone) => self.left = Some(name.clone()),
                Some(Left::NotOurs) => self.not_ours.push(name.clone()),
                None => {}
            }
            if let Some(ended) = received.transpose() {
                if !heard.contains(&carrier) {
                    // It is told once more if it is offered yet when nothing else is.
                    self.left = Some(name);
                }
                self.done.splice(..0, heard);
                self.done.truncate(DONE_MAX);
                return ended;
            }
        }
    }

    /// Waits until the map shows a transfer.
    async fn wait(
        &mut self,
        has_told: &mut bool,
        events: &mut (dyn FnMut(Event) + Send),
    ) -> Result<(TransferId, Stream, NodeId), TransferError> {
        loop {
            let map = match Map::look(&self.options.socket).await {
                Ok(map) => map,
                Err(error) if self.has_looked => {
                    tracing::debug!(%error, "no status");
                    reconnect(&self.options.socket, events).await?;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            if !self.has_looked {
                map.allow()?;
            }
            self.has_looked = true;
            if let (None, Some(word)) = (self.from, &self.options.from) {
                let key = map.find(word)?;
                if key == map.own() {
                    let sentence = format!("{word} is this node, which sends nothing to itself");
                    return Err(TransferError::Node(sentence));
                }
                self.from = Some(key);
            }
            let left = self.left.as_ref();
            let other = left.and_then(|left| self.choose(&map, Some(left)));
            if let Some((id, stream)) = other.or_else(|| self.choose(&map, None)) {
                return Ok((id, stream.clone(), map.own()));
            }
            if !std::mem::replace(has_told, true) {
                events(Event::Notice("waiting for files".into()));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Returns whether what a stream brings may be received from its publisher.
    pub(super) fn is_meant(&self, stream: &Stream) -> bool {
        self.from.is_none_or(|from| from == stream.publisher_key)
    }

    /// Returns a transfer that is offered to this node, other than one.
    pub(super) fn choose<'m>(
        &self,
        map: &'m Map,
        except: Option<&StreamName>,
    ) -> Option<(TransferId, &'m Stream)> {
        map.streams().iter().find_map(|stream| {
            let id = TransferId::of_stream(&stream.name, &map.own())?;
            let is_done = stream.id().is_some_and(|id| self.done.contains(&id));
            let is_other = except != Some(&stream.name) && !self.not_ours.contains(&stream.name);
            (self.is_meant(stream) && !is_done && is_other).then_some((id, stream))
        })
    }
}
