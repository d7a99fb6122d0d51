//! Proves that admitted nodes find each other by mDNS, and that strangers are not dialled.
//!
//! *How.* Nodes on all interfaces of this machine, without configured addresses. On a machine that
//! does not loop multicast packets back, the test prints so and proves nothing: it checks that
//! first with two plain sockets.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use thalweg_net::{LinkEvent, Reach};

use crate::node::{Node, Seen, options};

/// The group of mDNS (RFC 6762 §3).
const GROUP: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 251);

/// Returns whether this machine receives its own multicast packets.
fn has_multicast() -> bool {
    let probe = || -> std::io::Result<bool> {
        let listener = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        listener.join_multicast_v4(&GROUP, &Ipv4Addr::UNSPECIFIED)?;
        listener.set_read_timeout(Some(Duration::from_secs(2)))?;
        let sender = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        sender.set_multicast_loop_v4(true)?;
        sender.send_to(b"thalweg", (GROUP, listener.local_addr()?.port()))?;
        let mut bytes = [0; 16];
        Ok(listener.recv(&mut bytes)? == 7)
    };
    probe().unwrap_or(false)
}

async fn announced() -> Node {
    let mut options = options(1);
    options.listen = vec![SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))];
    options.reach = Reach::Anywhere;
    options.mdns = true;
    Node::start_with(options).await
}

#[tokio::test(flavor = "multi_thread")]
async fn mdns_links_admitted_nodes_only() {
    if !has_multicast() {
        eprintln!("this machine brings no multicast packet back: nothing is proved");
        return;
    }
    let (a, b, stranger) = (announced().await, announced().await, announced().await);
    // The order of admission and discovery does not matter.
    a.admits(&b);
    b.admits(&a);
    stranger.admits(&a);
    let up = |seen| match seen {
        Seen::Link(LinkEvent::Up(link)) => Some(link.peer()),
        _ => None,
    };
    assert_eq!(a.next(up).await, b.id());
    assert_eq!(b.next(up).await, a.id());
    assert!(a.endpoint.link(stranger.id()).is_none());
    assert!(
        a.endpoint
            .peers()
            .iter()
            .all(|(peer, _)| *peer != stranger.id())
    );
}
