//! Proves that a node ends once it has lost a task without which it cannot run.

use std::future::pending;
use std::time::Duration;

use tempfile::tempdir;
use thalweg_net::Identity;
use tokio::time::timeout;

use super::{Node, NodeError};
use crate::config::Config;
use crate::input::{Command, Input};
use crate::local::{Client, LocalError};

/// Far above the second in which a failed node is gone, since the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(20);

async fn node(socket: Option<&std::path::Path>) -> Node {
    let identity = Identity::ephemeral();
    let mut config = Config::new("alone".parse().expect("a name"), "unused".into());
    config.socket = socket.map(Into::into);
    let node = Node::with_identity(config, identity).await;
    node.expect("a port is free")
}

#[tokio::test]
async fn control_panic_ends_node() {
    let node = node(None).await;
    let handle = node.handle();
    let panic = handle.inputs.send(Input::Command(Command::Panic));
    panic.await.expect("the control task runs");
    let ended = timeout(PATIENCE, node.run(pending())).await;
    let error = ended.expect("it ends").expect_err("it has failed");
    assert!(matches!(error, NodeError::Failed(_)), "{error}");
    assert_eq!(
        error.to_string(),
        "the control task has panicked (as the test wants it): the node cannot go on without it"
    );
    assert!(handle.status().await.is_none());
}

#[tokio::test]
async fn vital_task_end_ends_node() {
    let node = node(None).await;
    node.vital.spawn("the task of the test", async {});
    let ended = timeout(PATIENCE, node.run(pending())).await;
    let error = ended.expect("it ends").expect_err("it has failed");
    assert!(
        error
            .to_string()
            .starts_with("the task of the test has ended"),
        "{error}"
    );
}

#[tokio::test]
async fn node_without_control_refuses() {
    let folder = tempdir().expect("a directory");
    let socket = folder.path().join("s");
    let mut node = node(Some(&socket)).await;
    let control = node.tasks.last().expect("the control task");
    control.abort();
    let local = node.local.take().expect("it is configured");
    let (_stop, stopping) = tokio::sync::watch::channel(false);
    tokio::spawn(local.run(stopping));
    let client = Client::connect(&socket).await.expect("it listens");
    let answer = timeout(PATIENCE, client.status())
        .await
        .expect("it answers");
    assert!(
        matches!(&answer, Err(LocalError::Refused(reason)) if reason.contains("stopped")),
        "{answer:?}"
    );
    let client = Client::connect(&socket).await.expect("it listens");
    let options = crate::SubscribeOptions::new("a/b".parse().expect("a name"), true);
    let answer = timeout(PATIENCE, client.subscribe(options)).await;
    let answer = answer.expect("it answers").map(|_| ());
    assert!(matches!(answer, Err(LocalError::Refused(_))), "{answer:?}");
}
