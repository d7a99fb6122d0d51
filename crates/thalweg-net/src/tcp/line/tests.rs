//! Proves that what a peer sends behind its last word is neither taken for its word nor waited for.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use rustls::ClientConnection;

use super::*;
use crate::identity::Identity;
use crate::tcp::tls::Tls;

/// Far above what a handshake takes, also on a busy machine.
const WAIT: Duration = Duration::from_secs(40);

/// More than the cipher takes in at once.
const BEHIND: [u8; 10_000] = [0x17; 10_000];

/// Returns the two ends of a handshake of which the client has said all, and the server has not heard the end.
fn nearly_met() -> (ClientConnection, Secret, Vec<u8>) {
    let (here, there) = (Identity::ephemeral(), Identity::ephemeral());
    let tls = |identity| Tls::new(identity, &[]).expect("a cipher");
    let client = tls(&here).client(there.id(), ALPN);
    let mut client = client.expect("a handshake");
    let server = tls(&there).server().expect("a handshake");
    let mut server = Secret(Box::new(server.into()));
    let hello = written(&mut client);
    assert_eq!(taken(&mut server, &hello), (Rest::More, Vec::new()));
    let mut answer = Vec::new();
    while server.0.wants_write() {
        server.0.write_tls(&mut answer).expect("there is room");
    }
    let mut rest = answer.as_slice();
    while !rest.is_empty() {
        client.read_tls(&mut rest).expect("there is room");
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

fn taken(secret: &mut Secret, bytes: &[u8]) -> (Rest, Vec<u8>) {
    let mut heard = Vec::new();
    let rest = secret.take(bytes, &mut |bytes| heard.extend_from_slice(bytes));
    (rest.expect("it is the client's cipher"), heard)
}

/// Takes in these bytes elsewhere, so that a taking that never ends is seen.
fn taken_in_time(mut secret: Secret, bytes: Vec<u8>) -> (Rest, Vec<u8>) {
    let (done, ended) = channel();
    // Not joined: one that never ends goes with the process.
    thread::spawn(move || done.send(taken(&mut secret, &bytes)));
    ended.recv_timeout(WAIT).expect("the taking ends")
}

#[test]
fn what_comes_behind_the_last_word_is_left_alone() {
    let (mut client, server, mut bytes) = nearly_met();
    let mut writer = client.writer();
    io::Write::write_all(&mut writer, b"the last word").expect("there is room");
    client.send_close_notify();
    bytes.extend(written(&mut client));
    bytes.extend(BEHIND);
    let (rest, heard) = taken_in_time(server, bytes);
    assert_eq!(
        (rest, heard.as_slice()),
        (Rest::Over, &b"the last word"[..])
    );
}

#[test]
fn a_last_word_that_was_heard_before_is_the_last() {
    let (mut client, mut server, mut bytes) = nearly_met();
    client.send_close_notify();
    bytes.extend(written(&mut client));
    assert_eq!(taken(&mut server, &bytes), (Rest::Over, Vec::new()));
    let heard = taken_in_time(server, BEHIND.to_vec());
    assert_eq!(heard, (Rest::Over, Vec::new()));
}
