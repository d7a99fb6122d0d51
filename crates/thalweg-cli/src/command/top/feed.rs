//! Polls the node's status.

use anyhow::anyhow;
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant, MissedTickBehavior, interval_at};

use super::reading::Reading;
use crate::exit::{Code, Failure, OrCode as _};
use crate::socket::Socket;

/// Polls a node.
#[derive(Clone, Debug)]
pub struct Feed {
    socket: Socket,
    every: Duration,
}

impl Feed {
    /// Polls the node at a socket with this interval.
    pub const fn new(socket: Socket, every: Duration) -> Self {
        Self { socket, every }
    }

    /// Polls once.
    pub async fn ask(&mut self) -> Result<Reading, Failure> {
        let status = self.socket.status().await?;
        serde_json::from_value(status)
            .map_err(|error| anyhow!("the node's status cannot be read: {error}"))
            .or_code(Code::Failed)
    }

    /// Waits for the next tick and polls.
    pub async fn next(&mut self) -> Result<Reading, Failure> {
        tokio::time::sleep(self.every).await;
        self.ask().await
    }

    /// Polls until the receiver is gone, and sends each answer or error.
    pub async fn run(mut self, tell: mpsc::Sender<Result<Reading, String>>) {
        let mut ticks = interval_at(Instant::now() + self.every, self.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let answer = self.ask().await.map_err(|failure| failure.sentence());
            if tell.send(answer).await.is_err() {
                return;
            }
        }
    }
}
