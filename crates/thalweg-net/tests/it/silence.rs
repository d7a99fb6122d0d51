//! Proves that the link with a killed and restarted peer is replaced long before the old
//! connection's idle timeout, and that a link goes on undisturbed if its peer only stalled or its
//! path was cut for a while.

use std::net::SocketAddr;
use std::time::Duration;

use thalweg_base::time::Duration as Span;
use thalweg_base::units::Bitrate;
use thalweg_net::shaper::Direction;
use thalweg_net::{
    Carriage, DownCause, Identity, Impairment, Link, LinkEvent, Options, Outcome, Shaper,
};
use tokio::runtime::{Builder, Runtime};

use crate::node::{Node, Seen, bounded, by, header, impairment, line, options, pattern};

/// Longer than any wait in a test, so that no connection reaches its idle timeout.
const PATIENT: Span = Span::from_secs(3_600);

const RATE: Bitrate = Bitrate::from_kbps(20_000);

fn patient(host: u8) -> Options {
    let mut options = options(host);
    options.idle_timeout = PATIENT;
    options
}

fn set(shaper: &Shaper, up: bool) {
    for direction in [Direction::AToB, Direction::BToA] {
        let way = Impairment {
            up,
            ..impairment(RATE)
        };
        shaper.set(direction, way);
    }
}

async fn next_up(node: &Node) -> Link {
    node.next(|seen| match seen {
        Seen::Link(LinkEvent::Up(link)) => Some(link),
        _ => None,
    })
    .await
}

/// Starts a node on a runtime of its own, which can be dropped like a killed process.
async fn start_apart(options: Options) -> (Node, Runtime) {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("threads can be had");
    let node = runtime.spawn(Node::start_with(options));
    (node.await.expect("it starts"), runtime)
}

/// Kills the node and waits until its address is free.
async fn kill(node: Node, runtime: Runtime) -> SocketAddr {
    let address = node.address();
    let killed = tokio::task::spawn_blocking(move || {
        drop(runtime);
        // The node's handle still holds the socket.
        drop(node);
    });
    killed.await.expect("all tasks can be dropped");
    bounded(async {
        while std::net::UdpSocket::bind(address).is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn restarted_peer_replaces_its_link() {
    let a = Node::start_with(patient(1)).await;
    let mut b_options = patient(2);
    b_options.identity = Identity::ephemeral();
    b_options.admission.admit(a.id());
    a.admission.admit(b_options.identity.id());
    let (b, runtime) = start_apart(b_options.clone()).await;
    let shaper = line(&a, &b, RATE).await;
    a.endpoint.keep_dialled(b.id(), &[shaper.address()], 1);
    let old = next_up(&a).await;
    // Not even its close frame gets through.
    set(&shaper, false);
    b_options.listen = vec![kill(b, runtime).await];
    let b = Node::start_with(b_options).await;
    set(&shaper, true);
    let lost = old.send_adu(header(1), pattern(100), by(Carriage::Stream));
    assert_eq!(bounded(lost).await, Outcome::LinkLost);
    let (gone, cause) = a
        .next(|seen| match seen {
            Seen::Link(LinkEvent::Down { link, cause }) => Some((link, cause)),
            _ => None,
        })
        .await;
    assert!(gone.is_same(&old));
    assert_eq!(cause, DownCause::Replaced);
    let (new, there) = (next_up(&a).await, next_up(&b).await);
    assert!(!new.is_same(&old) && new.is_dialled() && !there.is_dialled());
    let sending = new.send_adu(header(2), pattern(100), by(Carriage::Stream));
    assert_eq!(bounded(sending).await, Outcome::Acknowledged);
    assert_eq!(
        b.next_adu().await.0.sequence.0,
        2,
        "only the second is there"
    );
    assert_eq!((a.endpoint.links().len(), b.endpoint.links().len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn brief_cut_keeps_link() {
    let (a, b) = (
        Node::start_with(patient(1)).await,
        Node::start_with(patient(2)).await,
    );
    a.admits(&b);
    b.admits(&a);
    let shaper = line(&a, &b, RATE).await;
    a.endpoint.keep_dialled(b.id(), &[shaper.address()], 1);
    b.endpoint.keep_dialled(a.id(), &[shaper.far_address()], 2);
    let link = bounded(async {
        loop {
            // Two crossing dials leave one link; which one is settled after both handshakes.
            tokio::time::sleep(Duration::from_millis(500)).await;
            if let ([link], [_]) = (&a.endpoint.links()[..], &b.endpoint.links()[..]) {
                return link.clone();
            }
        }
    })
    .await;
    a.rest().await;
    b.rest().await;
    for round in 0..2 {
        set(&shaper, false);
        let sending = link.send_adu(header(round), pattern(100), by(Carriage::Stream));
        let sending = tokio::spawn(sending);
        // QUIC's probes back off meanwhile, so a new handshake may well complete before the next
        // probe.
        tokio::time::sleep(Duration::from_millis(1_700 + 600 * round)).await;
        set(&shaper, true);
        let outcome = bounded(sending).await.expect("it is sent");
        assert_eq!(outcome, Outcome::Acknowledged);
        // Time for another connection to take over, which it must not.
        tokio::time::sleep(Duration::from_millis(1_500)).await;
    }
    assert_unchanged(&a, &b, &link, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn brief_stall_keeps_link() {
    let a = Node::start_with(patient(1)).await;
    let (b, runtime) = start_apart(patient(1)).await;
    a.admits(&b);
    b.admits(&a);
    a.endpoint.keep_dialled(b.id(), &[b.address()], 1);
    let link = next_up(&a).await;
    next_up(&b).await;
    let sending = link.send_adu(header(0), pattern(100), by(Carriage::Stream));
    assert_eq!(bounded(sending).await, Outcome::Acknowledged);
    // Its only thread. Packets to its socket, also of a handshake, queue meanwhile.
    runtime.spawn(async { std::thread::sleep(Duration::from_millis(2_500)) });
    let sending = link.send_adu(header(1), pattern(100), by(Carriage::Stream));
    assert_eq!(bounded(sending).await, Outcome::Acknowledged);
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_unchanged(&a, &b, &link, 2).await;
    tokio::task::spawn_blocking(move || drop(runtime))
        .await
        .expect("all tasks can be dropped");
}

/// Asserts that the link is unchanged and that this many ADUs arrived over it.
async fn assert_unchanged(a: &Node, b: &Node, link: &Link, adus: u64) {
    assert!(a.endpoint.links()[0].is_same(link));
    let (at_a, at_b) = (a.rest().await, b.rest().await);
    let of_links = |seen: &&Seen| matches!(seen, Seen::Link(_));
    assert_eq!(at_a.iter().chain(&at_b).filter(of_links).count(), 0);
    let arrived: Vec<_> = at_b
        .iter()
        .filter_map(|seen| match seen {
            Seen::Adu(header, payload) => Some((header.sequence.0, payload.is_ok())),
            _ => None,
        })
        .collect();
    let all: Vec<_> = (0..adus).map(|sequence| (sequence, true)).collect();
    assert_eq!(arrived, all);
}
