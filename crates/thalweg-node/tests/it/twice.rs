//! Proves that in one process too no two nodes run with one key file, and that it is free again when a node has ended.

use tempfile::tempdir;
use thalweg_node::{Config, Node, NodeError};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_one_nodes_until_that_node_is_no_more() {
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
    // One that never ran gives it back as well.
    drop(third);
    Node::load(config("a")).await.expect("free again");
}
