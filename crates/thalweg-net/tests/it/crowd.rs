//! Proves that a flood of dials delays no honest dial for ever, is counted, and costs a stream that
//! flows meanwhile neither an ADU nor its order.

use std::net::SocketAddr;

use thalweg_link::tcp_mux::Pacing;
use thalweg_net::{Carriage, Outcome};
use tokio::net::{TcpSocket, TcpStream};

use crate::node::{Node, Over, bounded, by, header, pair_over, pattern};

/// More connections than there are places for handshakes; the rest queue.
const FLOOD: usize = 100;

/// Opens connections from another host than the nodes', on which nothing is said.
async fn flood(target: SocketAddr) -> Vec<TcpStream> {
    let mut silent = Vec::new();
    for _ in 0..FLOOD {
        let socket = TcpSocket::new_v4().expect("a socket");
        let from = "127.0.0.9:0".parse().expect("an address");
        socket.bind(from).expect("all of 127/8 is this machine");
        silent.push(bounded(socket.connect(target)).await.expect("it listens"));
    }
    silent
}

#[tokio::test(flavor = "multi_thread")]
async fn flood_of_dials_harms_no_stream() {
    const ADUS: u64 = 200;
    let over = Over::Tcp(Pacing::Kernel);
    let (_a, b, link) = pair_over(over).await;
    let streaming = tokio::spawn(async move {
        for sequence in 0..ADUS {
            let sending = link.send_adu(header(sequence), pattern(4_000), by(Carriage::Stream));
            assert_eq!(bounded(sending).await, Outcome::Acknowledged);
        }
    });
    let silent = flood(b.endpoint.listening_tcp()[0]).await;
    // All places are taken: the host that has most of them makes room for another.
    let c = Node::start_over(over).await;
    c.admits(&b);
    b.admits(&c);
    let dialled = c.dial(&b).await;
    assert!(b.admission.refused_dials() >= 1);
    let sending = dialled.send_adu(header(ADUS), pattern(100), by(Carriage::Stream));
    assert_eq!(bounded(sending).await, Outcome::Acknowledged);
    bounded(streaming).await.expect("each ADU has arrived");
    let mut sequences = Vec::new();
    while (sequences.len() as u64) < ADUS {
        let (header, payload) = b.next_adu().await;
        if header.sequence.0 < ADUS {
            assert_eq!(payload.expect("whole"), pattern(4_000));
            sequences.push(header.sequence.0);
        }
    }
    assert_eq!(sequences, (0..ADUS).collect::<Vec<_>>());
    drop(silent);
}
