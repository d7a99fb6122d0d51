//! The node, asked again and again.

use anyhow::anyhow;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant, MissedTickBehavior, interval_at, timeout};

use super::reading::Reading;
use crate::exit::{Code, Failure, OrCode as _};
use crate::socket::Socket;

/// How long a node may take to answer before it counts as gone: a status takes it milliseconds.
const PATIENCE: Duration = Duration::from_secs(3);

/// Who asks a node.
#[derive(Clone, Debug)]
pub struct Feed {
    socket: Socket,
    every: Duration,
}

impl Feed {
    /// Returns who asks the node at a socket this often.
    pub const fn new(socket: Socket, every: Duration) -> Self {
        Self { socket, every }
    }

    /// Asks once.
    pub async fn ask(&mut self) -> Result<Reading, Failure> {
        let status = timeout(PATIENCE, self.status()).await;
        let status = status.unwrap_or_else(|_| {
            let seconds = PATIENCE.as_secs();
            Err(anyhow!(
                "it has taken a question and not answered for {seconds} s"
            ))
            .or_code(Code::NoNode)
        })?;
        serde_json::from_value(status)
            .map_err(|error| anyhow!("the node's status cannot be read: {error}"))
            .or_code(Code::Failed)
    }

    /// Waits for the next moment and asks.
    pub async fn next(&mut self) -> Result<Reading, Failure> {
        tokio::time::sleep(self.every).await;
        self.ask().await
    }

    /// Asks until nobody listens, and tells what was answered or why nothing was.
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

    async fn status(&self) -> Result<Value, Failure> {
        Ok(self.socket.connect().await?.status().await?)
    }
}
