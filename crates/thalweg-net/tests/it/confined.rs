//! Proves that an endpoint that reaches what is configured alone uses no other way, and all that is configured.
//!
//! *How.* Two endpoints on loopback addresses of their own, one of which dials the other through a line that delays. Where neither is
//! confined, iroh finds the way around it, and so shows that there is one and how long that takes; all others began before.

use std::net::{Ipv4Addr, SocketAddr};

use thalweg_core::units::Bitrate;
use thalweg_net::link::Remote;
use thalweg_net::{Carriage, CloseCode, Link, Options, Outcome, Reach, Shaper};

use crate::node::{Node, bounded, by, header, line, loopback, options, pattern};

fn reaching(reach: Reach, listen: SocketAddr) -> Options {
    let mut options = options(1);
    options.listen = vec![listen];
    options.reach = reach;
    options
}

/// A link through a line, at both its ends.
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

    /// Returns whether anything goes past the line, at either end.
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
async fn one_confined_end_keeps_a_link_on_the_address_that_is_configured() {
    use Reach::{Anywhere, Configured};
    let mut stay = Vec::new();
    for ends in [
        (Configured, Configured),
        (Configured, Anywhere),
        (Anywhere, Configured),
    ] {
        stay.push((ends, Pair::through_a_line(ends.0, ends.1).await));
    }
    let free = Pair::through_a_line(Anywhere, Anywhere).await;
    bounded(async {
        while !free.is_around() {
            for (_, pair) in &stay {
                let sending = pair
                    .link
                    .send_adu(header(1), pattern(1000), by(Carriage::Stream));
                assert_eq!(sending.await, Outcome::Acknowledged);
            }
        }
    })
    .await;
    for (ends, pair) in &stay {
        assert!(!pair.is_around(), "{ends:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn confined_endpoint_reaches_a_configured_address_from_any_and_is_reached_at_any() {
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
    // What the machine's interfaces are called is nobody's business.
    assert_eq!(a.endpoint.addresses(), []);
    assert_eq!(c.endpoint.addresses(), [c.address()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn confined_endpoint_is_reached_at_any_address_by_one_that_it_has_dialled() {
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
