//! Proves that the admin API answers consistently, and reports that its port is taken.

use std::net::SocketAddr;

use thalweg_net::Identity;
use thalweg_node::config::Config;
use thalweg_node::{Node, NodeError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::fabric;

const ANY_PORT: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    get_as(&format!("host: {address}\r\n"), address, path).await
}

async fn get_as(host: &str, address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\n{host}connection: close\r\n\r\n");
    stream
        .write_all(request.as_bytes())
        .await
        .expect("it reads");
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .await
        .expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .expect("a status");
    (status, body.to_string())
}

/// Connects and sends a part of a request.
async fn send_partial(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all(b"GET /hea").await.expect("it reads");
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_block_no_request() {
    let node = fabric::start_with("solo", &[], |config| config.api = Some(ANY_PORT.into())).await;
    let api = node.api.expect("it is served");
    let mut dribbling = Vec::new();
    for round in 0..130 {
        dribbling.push(send_partial(api).await);
        if round % 20 == 0 {
            assert_eq!(get(api, "/healthz").await, (200, "ok\n".to_string()));
        }
    }
    assert_eq!(get(api, "/healthz").await, (200, "ok\n".to_string()));
    // The oldest connections were replaced by later ones; the others reach their time limit.
    let mut answer = String::new();
    for stream in &mut dribbling[..60] {
        // A connection closed with unread data may be reset.
        let _ = stream.read_to_string(&mut answer).await;
    }
    assert_eq!(answer, "");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connection_is_closed() {
    let node = fabric::start_with("solo", &[], |config| config.api = Some(ANY_PORT.into())).await;
    let mut stream = send_partial(node.api.expect("it is served")).await;
    let mut answer = String::new();
    let ended = stream.read_to_string(&mut answer);
    let ended = tokio::time::timeout(fabric::PATIENCE, ended).await;
    ended.expect("in time").expect("it ends");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_host_is_refused() {
    let node = fabric::start_with("solo", &[], |config| config.api = Some(ANY_PORT.into())).await;
    let api = node.api.expect("it is served");
    for path in ["/metrics", "/api/status"] {
        let rebound = format!("host: rebound.example:{}\r\n", api.port());
        let (status, body) = get_as(&rebound, api, path).await;
        assert_eq!(status, 421, "{path}: {body}");
        assert!(body.contains("rebound.example"), "{body}");
        let here = format!("host: localhost:{}\r\n", api.port());
        assert_eq!(get_as(&here, api, path).await.0, 200, "{path}");
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_metrics_and_status_are_served() {
    let node = fabric::start_with("solo", &[], |config| config.api = Some(ANY_PORT.into())).await;
    let api = node.api.expect("it is served");
    assert_eq!(get(api, "/healthz").await, (200, "ok\n".to_string()));
    let (status, metrics) = get(api, "/metrics").await;
    assert_eq!(status, 200);
    assert!(
        metrics.contains("# TYPE thalweg_nodes gauge\nthalweg_nodes 1\n"),
        "{metrics}"
    );
    for part in ["status", "nodes", "links", "streams", "plans", "routes"] {
        let (status, body) = get(api, &format!("/api/{part}")).await;
        assert_eq!(status, 200, "{part}");
        let json: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        assert!(
            json.is_array() || json["node"]["name"] == "solo",
            "{part}: {body}"
        );
    }
    let (status, body) = get(api, "/api/nonsense").await;
    assert!(
        status == 404 && body.contains("status, nodes, links"),
        "{body}"
    );
    let mut config = Config::new("other".parse().expect("a name"), "unused.key".into());
    config.api = Some(api);
    let taken = Node::with_identity(config, Identity::ephemeral())
        .await
        .err()
        .expect("taken");
    assert!(matches!(taken, NodeError::Api { .. }), "{taken}");
    assert!(taken.to_string().contains(&api.to_string()), "{taken}");
    node.stop().await;
}
