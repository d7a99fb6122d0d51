//! Proves that two nodes in one process cannot run with one key file, and that it is free once a
//! node has ended.

use tempfile::tempdir;
use thalweg_node::{Config, Node, NodeError};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn key_file_serves_one_node() {
    let folder = tempdir().expect("a directory");
    let config = |name: &str| Config::new(name.parse().expect("a name"), folder.path().join("key"));
    let first = Node::load(config("a")).await.expect("nobody else has it");
    let second = Node::load(config("b")).await.err();
    assert!(
        matches!(&second, Some(error @ NodeError::KeyTaken { .. }) if !error.is_input()),
        "{second:?}"
    );
    first.run(async {}).await.expect("it stops");
    let third = Node::load(config("b")).await.expect("free again");
    // A node that never ran releases the file as well.
    drop(third);
    Node::load(config("a")).await.expect("free again");
}
