//! What receivers say, from all of them together.
//!
//! *The idea.* A task for each receiver takes from its stream of receipts. Anybody on the map may announce a stream of that
//! name; so an ADU counts only if the receiver itself publishes its stream. The node says so with it, and the map is not asked: who
//! reads late, as after Ctrl-Z, would not find there any more what has ended meanwhile.

use std::path::{Path, PathBuf};

use thalweg_core::adu::Adu;
use thalweg_core::id::{NodeId, StreamName};
use thalweg_core::transfer::{Receipt, TransferId};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::handle::{SubscribeOptions, SubscriberEvent};
use crate::local::{Client, LocalError, LocalSubscriber};

/// Receipts that wait: a receiver says two a second.
const WAITING_MAX: usize = 64;

/// What was heard.
#[derive(Debug)]
pub(super) enum Heard {
    /// A receipt of a receiver.
    Receipt { target: usize, receipt: Receipt },
    /// A sentence about its stream.
    Notice { target: usize, text: String },
}

/// Listens to receivers until it is dropped.
pub(super) struct Ears {
    heard: mpsc::Receiver<Result<Heard, LocalError>>,
    _tasks: JoinSet<()>,
}

/// One receiver's stream.
struct Ear {
    socket: PathBuf,
    target: usize,
    key: NodeId,
    name: StreamName,
    subscriber: LocalSubscriber,
}

impl Ears {
    /// Subscribes to the receipts of every receiver, whose streams are named by `road`.
    pub(super) async fn open(
        socket: &Path,
        road: TransferId,
        targets: &[(NodeId, String)],
    ) -> Result<Self, LocalError> {
        let (tell, heard) = mpsc::channel(WAITING_MAX);
        let mut tasks = JoinSet::new();
        for (target, (key, _)) in targets.iter().enumerate() {
            let name = road.receipts_stream(key);
            let client = Client::connect(socket).await?;
            let options = SubscribeOptions {
                name: name.clone(),
                in_sequence: false,
            };
            let ear = Ear {
                socket: socket.to_path_buf(),
                target,
                key: *key,
                name,
                subscriber: client.subscribe(options).await?,
            };
            tasks.spawn(ear.listen(tell.clone()));
        }
        Ok(Self {
            heard,
            _tasks: tasks,
        })
    }

    /// Waits for the next that is said.
    pub(super) async fn hear(&mut self) -> Result<Heard, LocalError> {
        let gone = || Err(LocalError::Gone(std::io::ErrorKind::ConnectionReset.into()));
        self.heard.recv().await.unwrap_or_else(gone)
    }

    /// Returns what was said already.
    pub(super) fn try_hear(&mut self) -> Option<Result<Heard, LocalError>> {
        self.heard.try_recv().ok()
    }
}

impl Ear {
    async fn listen(mut self, tell: mpsc::Sender<Result<Heard, LocalError>>) {
        loop {
            let heard = match self.next().await {
                Ok(Some(heard)) => Ok(heard),
                Ok(None) => continue,
                Err(error) => Err(error),
            };
            let is_over = heard.is_err();
            // Who listened has gone, or will make new ears.
            if tell.send(heard).await.is_err() || is_over {
                return;
            }
        }
    }

    async fn next(&mut self) -> Result<Option<Heard>, LocalError> {
        let target = self.target;
        match self.subscriber.recv().await? {
            Some(SubscriberEvent::Notice(text)) => Ok(Some(Heard::Notice { target, text })),
            Some(SubscriberEvent::Adu(Adu { payload, .. })) => {
                if self.subscriber.source() != Some(self.key) {
                    return Ok(None);
                }
                match Receipt::decode(&payload) {
                    Ok(receipt) => Ok(Some(Heard::Receipt { target, receipt })),
                    Err(error) => {
                        tracing::debug!(%error, "a receipt is none");
                        Ok(None)
                    }
                }
            }
            // The receiver ended its stream: it has gone, and may come again.
            None => {
                let options = SubscribeOptions {
                    name: self.name.clone(),
                    in_sequence: false,
                };
                let client = Client::connect(&self.socket).await?;
                self.subscriber = client.subscribe(options).await?;
                Ok(None)
            }
        }
    }
}
