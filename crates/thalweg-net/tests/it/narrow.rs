//! Proves that a path too small for QUIC is reported, and replaced by TCP if there is a TCP
//! address, whether it is too small from the start or becomes so; and that a path that shrinks to
//! no less than QUIC's minimum keeps its link.
//!
//! *How.* Two endpoints on loopback and a proxy between them that drops packets above a limit, set
//! for each direction.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use thalweg_base::time::Duration;
use thalweg_net::{
    Addresses, Carriage, CloseCode, DownCause, Link, LinkEvent, Options, Outcome, PeerState, Reach,
    Transport, Unreachable,
};
use tokio::net::UdpSocket;
use tokio::task::AbortHandle;

use crate::node::{Node, Seen, bounded, by, header, loopback, options, pattern};

/// A UDP payload limit of a usual path, and one that is too small for QUIC.
const WIDE: usize = 1_500;
const SMALL: usize = 572;

/// A UDP proxy between a dialling end and another, with a payload limit in each direction.
struct Proxy {
    address: SocketAddr,
    there_max: Arc<AtomicUsize>,
    back_max: Arc<AtomicUsize>,
    task: AbortHandle,
}

impl Proxy {
    async fn start(to: SocketAddr) -> Self {
        let near = UdpSocket::bind(loopback(1)).await.expect("a free port");
        let address = near.local_addr().expect("it is bound");
        let [there_max, back_max] = [WIDE, WIDE].map(|most| Arc::new(AtomicUsize::new(most)));
        let most = [Arc::clone(&there_max), Arc::clone(&back_max)];
        let task = tokio::spawn(run(near, to, most)).abort_handle();
        Self {
            address,
            there_max,
            back_max,
            task,
        }
    }

    fn set(&self, there: usize, back: usize) {
        self.there_max.store(there, Ordering::Relaxed);
        self.back_max.store(back, Ordering::Relaxed);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Forwards packets within the limit. Each sender has its own socket behind the proxy, as behind a
/// NAT.
async fn run(near: UdpSocket, to: SocketAddr, [there, back]: [Arc<AtomicUsize>; 2]) {
    let near = Arc::new(near);
    let mut far: Vec<(SocketAddr, Arc<UdpSocket>)> = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        // The error is an ICMP answer to an earlier packet.
        let Ok((bytes, from)) = near.recv_from(&mut buffer).await else {
            continue;
        };
        let known = far.iter().find(|(address, _)| *address == from);
        let socket = if let Some((_, socket)) = known {
            Arc::clone(socket)
        } else {
            let socket = UdpSocket::bind(loopback(1)).await.expect("a free port");
            let socket = Arc::new(socket);
            far.push((from, Arc::clone(&socket)));
            tokio::spawn(return_to(
                Arc::clone(&socket),
                Arc::clone(&near),
                from,
                Arc::clone(&back),
            ));
            socket
        };
        if bytes <= there.load(Ordering::Relaxed) {
            let _ = socket.send_to(&buffer[..bytes], to).await;
        }
    }
}

async fn return_to(
    far: Arc<UdpSocket>,
    near: Arc<UdpSocket>,
    to: SocketAddr,
    most: Arc<AtomicUsize>,
) {
    let mut buffer = vec![0; 1 << 16];
    loop {
        if let Ok((bytes, _)) = far.recv_from(&mut buffer).await
            && bytes <= most.load(Ordering::Relaxed)
        {
            let _ = near.send_to(&buffer[..bytes], to).await;
        }
    }
}

fn confined() -> Options {
    let mut options = options(1);
    options.reach = Reach::Configured;
    // So that these tests use TCP only for paths that were found too small.
    options.tcp.head_start = Duration::from_secs(3_600);
    options
}

/// Two nodes that admit each other, with a proxy before the second, which also listens on TCP.
async fn pair() -> (Node, Node, Proxy) {
    let a = Node::start_with(confined()).await;
    let mut there = confined();
    there.tcp.listen = vec![loopback(1)];
    let b = Node::start_with(there).await;
    a.admits(&b);
    b.admits(&a);
    let proxy = Proxy::start(b.address()).await;
    (a, b, proxy)
}

async fn next_up(node: &Node) -> Link {
    node.next(|seen| match seen {
        Seen::Link(LinkEvent::Up(link)) => Some(link),
        _ => None,
    })
    .await
}

async fn next_down(node: &Node) -> DownCause {
    node.next(|seen| match seen {
        Seen::Link(LinkEvent::Down { cause, .. }) => Some(cause),
        _ => None,
    })
    .await
}

async fn next_reason(node: &Node) -> Unreachable {
    node.next(|seen| match seen {
        Seen::Link(LinkEvent::Unreachable { reason, .. }) => Some(reason),
        _ => None,
    })
    .await
}

/// Sends ADUs that need a full packet and a small one each, until the link has ended.
fn send_on(link: Link) {
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(std::time::Duration::from_millis(20));
        for sequence in 0.. {
            ticks.tick().await;
            if link.is_closed() {
                return;
            }
            let adu = link.send_adu(header(sequence), pattern(1_500), by(Carriage::Stream));
            adu.detach(0);
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn small_path_is_reported() {
    let (a, b, proxy) = pair().await;
    proxy.set(SMALL, SMALL);
    a.endpoint.keep_dialled(b.id(), &[proxy.address], 1);
    let reason = next_reason(&a).await;
    assert!(matches!(reason, Unreachable::Narrow { .. }), "{reason}");
    let text = reason.to_string();
    assert!(text.contains(&proxy.address.to_string()), "{text}");
    assert!(text.contains("1,200 bytes"), "{text}");
    assert!(matches!(
        &a.endpoint.peers()[..],
        [(_, PeerState::Unreachable(_))]
    ));
    // The path is repaired: the next dial gets through.
    proxy.set(WIDE, WIDE);
    assert_eq!(next_up(&a).await.transport(), Transport::Quic);
}

#[tokio::test(flavor = "multi_thread")]
async fn small_path_falls_back_to_tcp() {
    let (a, b, proxy) = pair().await;
    proxy.set(SMALL, SMALL);
    let addresses = Addresses {
        udp: vec![proxy.address],
        ..b.addresses()
    };
    a.endpoint.keep_dialled(b.id(), addresses, 1);
    assert_eq!(next_up(&a).await.transport(), Transport::Tcp);
}

#[tokio::test(flavor = "multi_thread")]
async fn shrunk_path_ends_link() {
    let (a, b, proxy) = pair().await;
    a.endpoint.keep_dialled(b.id(), &[proxy.address], 1);
    let link = next_up(&a).await;
    proxy.set(SMALL, SMALL);
    send_on(link);
    assert_eq!(next_down(&a).await, DownCause::Narrow);
    let reason = next_reason(&a).await;
    assert!(matches!(reason, Unreachable::Narrow { .. }), "{reason}");
    let there = next_down(&b).await;
    let code = CloseCode::Narrow;
    assert!(
        matches!(&there, DownCause::ByPeer { code: by, .. } if *by == code),
        "{there}"
    );
    proxy.set(WIDE, WIDE);
    assert_eq!(next_up(&a).await.transport(), Transport::Quic);
}

#[tokio::test(flavor = "multi_thread")]
async fn shrunk_path_falls_back_to_tcp() {
    let (a, b, proxy) = pair().await;
    let addresses = Addresses {
        udp: vec![proxy.address],
        ..b.addresses()
    };
    a.endpoint.keep_dialled(b.id(), addresses, 1);
    let link = next_up(&a).await;
    assert_eq!(link.transport(), Transport::Quic);
    proxy.set(SMALL, SMALL);
    send_on(link);
    let link = next_up(&a).await;
    assert_eq!(link.transport(), Transport::Tcp);
    let adu = link.send_adu(header(0), pattern(100_000), by(Carriage::Stream));
    assert_eq!(bounded(adu).await, Outcome::Acknowledged);
}

#[tokio::test(flavor = "multi_thread")]
async fn dialled_end_detects_small_path() {
    let (a, b, proxy) = pair().await;
    a.endpoint.keep_dialled(b.id(), &[proxy.address], 1);
    next_up(&a).await;
    let link = next_up(&b).await;
    proxy.set(WIDE, SMALL);
    send_on(link);
    assert_eq!(next_down(&b).await, DownCause::Narrow);
    let there = next_down(&a).await;
    assert!(matches!(there, DownCause::ByPeer { .. }), "{there}");
    let reason = next_reason(&a).await;
    assert!(matches!(reason, Unreachable::Narrow { .. }), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn shrunk_mtu_keeps_link() {
    let (a, b, proxy) = pair().await;
    a.endpoint.keep_dialled(b.id(), &[proxy.address], 1);
    let link = next_up(&a).await;
    // Whatever MTU the link has found by now, packets of QUIC's minimum size still pass.
    for most in [1_252, 1_200] {
        proxy.set(most, most);
        for sequence in 0..20 {
            let adu = link.send_adu(header(sequence), pattern(20_000), by(Carriage::Stream));
            assert_eq!(bounded(adu).await, Outcome::Acknowledged, "{most} bytes");
        }
    }
    assert!(a.endpoint.links()[0].is_same(&link));
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_handshake_reply_is_reported() {
    let (a, b, proxy) = pair().await;
    proxy.set(WIDE, SMALL);
    a.endpoint.keep_dialled(b.id(), &[proxy.address], 1);
    let reason = next_reason(&a).await;
    assert!(
        matches!(reason, Unreachable::NoHandshake { .. }),
        "{reason}"
    );
}
