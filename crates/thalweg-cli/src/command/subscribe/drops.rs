//! `--drops FILE`: what was dropped of the stream, a JSON object a line.
//!
//! *The idea.* The node has records of drops: in this program's mailbox, and of the stream elsewhere on
//! the node. They come over a connection of their own, so that they flow while the program reads nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use thalweg_base::id::StreamName;
use thalweg_node::local::{Client, LocalDrops, LocalError};
use tokio::fs::File;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::Duration;

use crate::exit::{Code, Failure, OrCode as _};
use crate::lasting::Backoff;
use crate::terminal;

/// How long the node may take to report the last drops: records are open for a tenth of a second, and looked
/// at as often.
const LAST: Duration = Duration::from_millis(400);

/// The file of one run, for all its streams.
#[derive(Clone)]
pub(super) struct Drops {
    file: Arc<Mutex<File>>,
}

/// Writes the drops of one stream until it is dropped.
pub(super) struct Following(JoinHandle<()>);

impl Drops {
    /// Makes the file, if there is to be one.
    pub(super) async fn create(path: Option<&PathBuf>) -> Result<Option<Self>, Failure> {
        let Some(path) = path else {
            return Ok(None);
        };
        let file = File::create(path).await;
        let file = file
            .with_context(|| format!("cannot write to {}", path.display()))
            .or_code(Code::BadInput)?;
        let file = Arc::new(Mutex::new(file));
        Ok(Some(Self { file }))
    }

    /// Writes the drops of a stream from now on, also when the node is back after it was gone.
    pub(super) async fn follow(
        &self,
        socket: &Path,
        name: StreamName,
    ) -> Result<Following, LocalError> {
        let mut drops =
            LocalDrops::follow(Client::connect(socket).await?, name.clone(), true).await?;
        let (file, socket) = (Arc::clone(&self.file), socket.to_owned());
        let write = async move {
            loop {
                while let Ok(new) = drops.recv().await {
                    let lines: serde_json::Result<Vec<String>> =
                        new.iter().map(serde_json::to_string).collect();
                    let text = lines.unwrap_or_default().join("\n") + "\n";
                    let mut file = file.lock().await;
                    let written = file.write_all(text.as_bytes()).await;
                    if let Err(error) = written.and(file.flush().await) {
                        return terminal::print_notice(&format!("--drops: {error}"));
                    }
                }
                let mut backoff = Backoff::new();
                drops = loop {
                    backoff.wait().await;
                    let Ok(client) = Client::connect(&socket).await else {
                        continue;
                    };
                    if let Ok(drops) = LocalDrops::follow(client, name.clone(), true).await {
                        break drops;
                    }
                };
            }
        };
        Ok(Following(tokio::spawn(write)))
    }
}

impl Following {
    /// Waits for the last drops.
    pub(super) async fn finish(self) {
        tokio::time::sleep(LAST).await;
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.0.abort();
    }
}
