//! Proves that bytes after a peer's `close_notify` are neither decoded nor waited for.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use rustls::ClientConnection;

use super::*;
use crate::identity::Identity;
use crate::tcp::tls::Tls;

/// Far more than a handshake takes, also on a busy machine.
const WAIT: Duration = Duration::from_secs(40);

/// More than rustls accepts at once.
const BEHIND: [u8; 10_000] = [0x17; 10_000];

/// Returns a client with a completed handshake, a server that lacks the client's last bytes, and
/// those bytes.
fn half_handshake() -> (ClientConnection, Encrypted, Vec<u8>) {
    let (client_key, server_key) = (Identity::ephemeral(), Identity::ephemeral());
    let tls = |identity| Tls::new(identity, &[]).expect("a cipher");
    let client = tls(&client_key).client(server_key.id(), ALPN);
    let mut client = client.expect("a handshake");
    let server = tls(&server_key).server().expect("a handshake");
    let mut server = Encrypted(Box::new(server.into()));
    let hello = written(&mut client);
    assert_eq!(taken(&mut server, &hello), (Input::More, Vec::new()));
    let mut answer = Vec::new();
    while server.0.wants_write() {
        server.0.write_tls(&mut answer).expect("there is room");
    }
    let mut input = answer.as_slice();
    while !input.is_empty() {
        client.read_tls(&mut input).expect("there is room");
        client.process_new_packets().expect("the server's key");
    }
    assert!(!client.is_handshaking());
    let finished = written(&mut client);
    (client, server, finished)
}

fn written(client: &mut ClientConnection) -> Vec<u8> {
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).expect("there is room");
    }
    bytes
}

fn taken(encrypted: &mut Encrypted, bytes: &[u8]) -> (Input, Vec<u8>) {
    let mut decoded = Vec::new();
    let input = encrypted.take(bytes, &mut |bytes| decoded.extend_from_slice(bytes));
    (input.expect("it is the client's cipher"), decoded)
}

/// Decrypts in a thread, so that a call that never returns is noticed.
fn taken_in_time(mut encrypted: Encrypted, bytes: Vec<u8>) -> (Input, Vec<u8>) {
    let (done, ended) = channel();
    // Not joined: one that never returns ends with the process.
    thread::spawn(move || done.send(taken(&mut encrypted, &bytes)));
    ended.recv_timeout(WAIT).expect("the taking ends")
}

#[test]
fn bytes_after_close_are_ignored() {
    let (mut client, server, mut bytes) = half_handshake();
    let mut writer = client.writer();
    io::Write::write_all(&mut writer, b"the last word").expect("there is room");
    client.send_close_notify();
    bytes.extend(written(&mut client));
    bytes.extend(BEHIND);
    let (input, decoded) = taken_in_time(server, bytes);
    assert_eq!(
        (input, decoded.as_slice()),
        (Input::End, &b"the last word"[..])
    );
}

#[test]
fn early_close_is_final() {
    let (mut client, mut server, mut bytes) = half_handshake();
    client.send_close_notify();
    bytes.extend(written(&mut client));
    assert_eq!(taken(&mut server, &bytes), (Input::End, Vec::new()));
    let decoded = taken_in_time(server, BEHIND.to_vec());
    assert_eq!(decoded, (Input::End, Vec::new()));
}
