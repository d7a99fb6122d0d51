//! The receipts of all receivers.
//!
//! *The idea.* A task for each receiver reads its stream of receipts. Any node may announce a
//! stream of that name, so an ADU counts only if the receiver itself publishes it. The node reports
//! the source with the ADU. The map is no substitute: a late reader, as after Ctrl-Z, would not
//! find a stream there that has ended meanwhile.

use std::path::{Path, PathBuf};

use thalweg_base::adu::Adu;
use thalweg_base::id::{NodeId, StreamName};
use thalweg_transfer::{Receipt, TransferId};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::handle::{SubscribeOptions, SubscriberEvent};
use crate::local::{Client, LocalError, LocalSubscriber};

/// Capacity of the queue of receipts: a receiver sends two per second.
const WAITING_MAX: usize = 64;

/// An event of a stream of receipts.
#[derive(Debug)]
pub(super) enum ReceiptEvent {
    /// A receipt of a receiver.
    Receipt { target: usize, receipt: Receipt },
    /// A notice about its stream.
    Notice { target: usize, text: String },
}

/// Listens to the receivers until it is dropped.
pub(super) struct ReceiptListener {
    events: mpsc::Receiver<Result<ReceiptEvent, LocalError>>,
    _tasks: JoinSet<()>,
}

/// One receiver's stream of receipts.
struct ReceiptStream {
    socket: PathBuf,
    target: usize,
    key: NodeId,
    name: StreamName,
    subscriber: LocalSubscriber,
}

impl ReceiptListener {
    /// Subscribes to the receipts of every receiver, on streams named by `public_id`.
    pub(super) async fn open(
        socket: &Path,
        public_id: TransferId,
        targets: &[(NodeId, String)],
    ) -> Result<Self, LocalError> {
        let (sender, events) = mpsc::channel(WAITING_MAX);
        let mut tasks = JoinSet::new();
        for (target, (key, _)) in targets.iter().enumerate() {
            let name = public_id.receipts_stream(key);
            let client = Client::connect(socket).await?;
            let options = SubscribeOptions::new(name.clone(), false);
            let stream = ReceiptStream {
                socket: socket.to_path_buf(),
                target,
                key: *key,
                name,
                subscriber: client.subscribe(options).await?,
            };
            tasks.spawn(stream.listen(sender.clone()));
        }
        Ok(Self {
            events,
            _tasks: tasks,
        })
    }

    /// Waits for the next event.
    pub(super) async fn next(&mut self) -> Result<ReceiptEvent, LocalError> {
        let gone = || Err(LocalError::Gone(std::io::ErrorKind::ConnectionReset.into()));
        self.events.recv().await.unwrap_or_else(gone)
    }

    /// Returns the next event if it is already here.
    pub(super) fn try_next(&mut self) -> Option<Result<ReceiptEvent, LocalError>> {
        self.events.try_recv().ok()
    }
}

impl ReceiptStream {
    async fn listen(mut self, sender: mpsc::Sender<Result<ReceiptEvent, LocalError>>) {
        loop {
            let event = match self.next().await {
                Ok(Some(event)) => Ok(event),
                Ok(None) => continue,
                Err(error) => Err(error),
            };
            let is_over = event.is_err();
            // The listener has gone, or will subscribe again after the error.
            if sender.send(event).await.is_err() || is_over {
                return;
            }
        }
    }

    async fn next(&mut self) -> Result<Option<ReceiptEvent>, LocalError> {
        let target = self.target;
        match self.subscriber.recv().await? {
            Some(SubscriberEvent::Notice(text)) => Ok(Some(ReceiptEvent::Notice { target, text })),
            Some(SubscriberEvent::Adu(Adu { payload, .. })) => {
                if self.subscriber.source() != Some(self.key) {
                    return Ok(None);
                }
                match Receipt::decode(&payload) {
                    Ok(receipt) => Ok(Some(ReceiptEvent::Receipt { target, receipt })),
                    Err(error) => {
                        tracing::debug!(%error, "invalid receipt");
                        Ok(None)
                    }
                }
            }
            // The receiver has ended its stream; it may return.
            None => {
                let options = SubscribeOptions::new(self.name.clone(), false);
                let client = Client::connect(&self.socket).await?;
                self.subscriber = client.subscribe(options).await?;
                Ok(None)
            }
        }
    }
}
