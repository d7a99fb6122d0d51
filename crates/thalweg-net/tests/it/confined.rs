//! Proves that an endpoint with reach `Configured` uses only configured addresses, and each of
//! them.
//!
//! *How.* Two endpoints on different loopback addresses, one of which dials the other through a
//! delaying line. In a pair without a confined end, iroh finds the direct path; this shows that the
//! path exists and how long iroh needs to find it. The confined pairs start before that pair.

use std::net::{Ipv4Addr, SocketAddr};

use thalweg_base::units::Bitrate;
use thalweg_net::link::Remote;
use thalweg_net::{Carriage, CloseCode, Link, Options, Outcome, Reach, Shaper};

use crate::node::{Node, bounded, by, header, line, loopback, options, pattern};

fn reaching(reach: Reach, listen: SocketAddr) -> Options {
    let mut options = options(1);
    options.listen = vec![listen];
    options.reach = reach;
    options
}

/// Both ends of a link through a line.
struct Pair {
    a: Node,
    b: Node,
    link: Link,
    line: Shaper,
}

impl Pair {
    async fn through_a_line(dialler: Reach, dialled: Reach) -> Self {
        let a = Node::start_with(reaching(dialler, loopback(1))).await;
        let b = Node::start_with(reaching(dialled, loopback(2))).await;
        a.admits(&b);
        b.admits(&a);
        let line = line(&a, &b, Bitrate::from_kbps(20_000)).await;
        let link = bounded(a.endpoint.dial(b.id(), &[line.address()])).await;
        let link = link.expect("the line carries the handshake");
        Self { a, b, link, line }
    }

    /// Returns whether either end uses a path that bypasses the line.
    fn is_around(&self) -> bool {
        let ends = [
            (&self.a, self.line.address()),
            (&self.b, self.line.far_address()),
        ];
        ends.iter().any(|(node, address)| {
            let links = node.endpoint.links();
            let mut paths = links.iter().flat_map(|link| link.stats().paths);
            paths.any(|path| path.remote != Remote::Address(*address))
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_confined_end_pins_the_path() {
    use Reach::{Anywhere, Configured};
    let mut confined_pairs = Vec::new();
    for ends in [
        (Configured, Configured),
        (Configured, Anywhere),
        (Anywhere, Configured),
    ] {
        confined_pairs.push((ends, Pair::through_a_line(ends.0, ends.1).await));
    }
    let free = Pair::through_a_line(Anywhere, Anywhere).await;
    bounded(async {
        while !free.is_around() {
            for (_, pair) in &confined_pairs {
                let sending = pair
                    .link
                    .send_adu(header(1), pattern(1000), by(Carriage::Stream));
                assert_eq!(sending.await, Outcome::Acknowledged);
            }
        }
    })
    .await;
    for (ends, pair) in &confined_pairs {
        assert!(!pair.is_around(), "{ends:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn confined_node_is_reached_at_any_address() {
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let a = Node::start_with(reaching(Reach::Configured, any)).await;
    let b = Node::start_with(reaching(Reach::Configured, any)).await;
    let c = Node::start_with(reaching(Reach::Configured, loopback(3))).await;
    for (one, other) in [(&a, &b), (&a, &c), (&c, &b)] {
        one.admits(other);
        other.admits(one);
        let mut to = other.address();
        if to.ip().is_unspecified() {
            to.set_ip(loopback(7).ip());
        }
        let link = bounded(one.endpoint.dial(other.id(), &[to])).await;
        let link = link.expect("it is reached");
        let sent = bounded(link.send_adu(header(1), pattern(1 << 20), by(Carriage::Stream)));
        assert_eq!(sent.await, Outcome::Acknowledged);
        assert!(other.next_adu().await.1.is_ok());
        let paths = link.stats().paths;
        assert_eq!(paths.len(), 1, "{paths:?}");
        assert_eq!(paths[0].remote, Remote::Address(to));
    }
    // A confined node sends no interface addresses.
    assert_eq!(a.endpoint.addresses(), []);
    assert_eq!(c.endpoint.addresses(), [c.address()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn confined_node_is_dialled_back() {
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let a = Node::start_with(reaching(Reach::Configured, any)).await;
    let b = Node::start_with(reaching(Reach::Configured, any)).await;
    a.admits(&b);
    b.admits(&a);
    let at = |node: &Node, number| SocketAddr::new(loopback(number).ip(), node.address().port());
    let link = bounded(b.endpoint.dial(a.id(), &[at(&a, 1)])).await;
    let link = link.expect("it is reached");
    link.close(CloseCode::Shutdown, "the other is to dial");
    bounded(link.closed()).await;
    while a.endpoint.link(b.id()).is_some() {
        tokio::task::yield_now().await;
    }
    let link = bounded(a.endpoint.dial(b.id(), &[at(&b, 7)])).await;
    let link = link.expect("it is reached");
    let sent = bounded(link.send_adu(header(1), pattern(1000), by(Carriage::Stream)));
    assert_eq!(sent.await, Outcome::Acknowledged);
}
