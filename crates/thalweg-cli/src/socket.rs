//! Finds the Unix socket of this machine's node.

use std::path::PathBuf;

use anyhow::anyhow;
use serde_json::Value;
use thalweg_node::local::Client;

use tokio::time::{Duration, timeout};

use crate::exit::{Code, Failure, OrCode as _, fail};

/// How long a node may take to answer before it counts as gone. A status takes it milliseconds.
const PATIENCE: Duration = Duration::from_secs(3);

/// The `--node` option of `ls`, `top`, `route`, `trace`, `timeline`, `publish`, `subscribe`, `send` and
/// `receive`.
#[derive(Clone, Debug, clap::Args)]
pub struct Socket {
    #[expect(clippy::doc_markdown, reason = "clap prints it as it stands")]
    /// The node's Unix socket [default: $XDG_RUNTIME_DIR/thalweg/node.sock].
    #[arg(long = "node", value_name = "SOCKET", env = "THALWEG_SOCKET")]
    path: Option<PathBuf>,
}

impl Socket {
    /// Connects to the node.
    pub async fn connect(&self) -> Result<Client, Failure> {
        Client::connect(&self.path()?).await.or_code(Code::NoNode)
    }

    /// Asks the node for its status; fails after [`PATIENCE`].
    pub async fn status(&self) -> Result<Value, Failure> {
        let ask = async { Ok(self.connect().await?.status().await?) };
        timeout(PATIENCE, ask).await.unwrap_or_else(|_| {
            let seconds = PATIENCE.as_secs();
            Err(anyhow!(
                "the node accepted the connection but has not answered for {seconds} s"
            ))
            .or_code(Code::NoNode)
        })
    }

    /// Returns the path of the node's socket.
    pub fn path(&self) -> Result<PathBuf, Failure> {
        if let Some(path) = &self.path {
            return Ok(path.clone());
        }
        match std::env::var_os("XDG_RUNTIME_DIR") {
            Some(folder) => Ok(PathBuf::from(folder).join("thalweg").join("node.sock")),
            None => fail(
                Code::NoNode,
                "no node socket given: pass --node SOCKET or set THALWEG_SOCKET (the node's configuration names its socket under `socket`)",
            ),
        }
    }
}
