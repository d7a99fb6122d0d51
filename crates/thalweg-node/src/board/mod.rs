//! What this node's inputs and outputs do now, and requests to start, stop and change them.
//!
//! *The idea.* Each input and output has a meter that its task writes; the status reads all of them
//! without asking a task. Requests go to the supervisor (`ends`) as orders, each with its answer.
//!
//! *What it does not do.* It runs none of them.

mod meter;

use std::sync::{Arc, Mutex, PoisonError};

use thalweg_base::id::StreamName;
use thalweg_world::text::TextError;
use tokio::sync::{mpsc, oneshot};

use crate::config::Config;
use crate::status::EndStatus;

pub(crate) use meter::{Meter, Phase};

/// An input or an output.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum EndKind {
    /// An input, `[[ingest]]`.
    Ingest,
    /// An output, `[[egress]]`.
    Egress,
}

impl EndKind {
    /// Returns its name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Egress => "egress",
        }
    }
}

/// A request to the supervisor.
pub(crate) enum Order {
    /// Check the inputs and outputs of a configuration.
    Check {
        config: Box<Config>,
        reply: oneshot::Sender<Result<(), TextError>>,
    },
    /// Start new ones, stop removed ones, restart changed ones; replies one phrase each.
    Apply {
        config: Box<Config>,
        reply: oneshot::Sender<Vec<String>>,
    },
    /// Start or stop one; replies a sentence.
    Set {
        kind: EndKind,
        name: StreamName,
        runs: bool,
        reply: oneshot::Sender<Result<String, String>>,
    },
}

/// The meters of all inputs and outputs, and the way to the supervisor.
#[derive(Debug)]
pub(crate) struct Board {
    meters: Mutex<Vec<Arc<Meter>>>,
    orders: mpsc::UnboundedSender<Order>,
}

impl Board {
    /// Returns a board, and the orders for its supervisor. Unbounded: a person gives them.
    pub(crate) fn new() -> (Arc<Self>, mpsc::UnboundedReceiver<Order>) {
        let (orders, received) = mpsc::unbounded_channel();
        let meters = Mutex::default();
        (Arc::new(Self { meters, orders }), received)
    }

    /// Shows these from now on.
    pub(crate) fn show(&self, meters: Vec<Arc<Meter>>) {
        // Each change is one assignment: nothing is left half done.
        *self.meters.lock().unwrap_or_else(PoisonError::into_inner) = meters;
    }

    /// Returns the state of each.
    pub(crate) fn statuses(&self) -> Vec<EndStatus> {
        let meters = self.meters.lock().unwrap_or_else(PoisonError::into_inner);
        meters.iter().map(|meter| meter.status()).collect()
    }

    /// Sends an order; `None` if the supervisor is gone.
    pub(crate) async fn ask<T>(
        &self,
        order: impl FnOnce(oneshot::Sender<T>) -> Order,
    ) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.orders.send(order(reply)).ok()?;
        answer.await.ok()
    }
}
