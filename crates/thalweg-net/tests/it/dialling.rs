//! Proves that a failed dial has a reason, that kept peers are redialled, and that crossing dials
//! leave one link.

use thalweg_net::{
    BindError, Carriage, Clock, CloseCode, Endpoint, Identity, LinkEvent, Outcome, PeerState,
    Unreachable,
};

use crate::node::{Node, Seen, bounded, by, header, options, pair, pattern};

#[tokio::test(flavor = "multi_thread")]
async fn port_in_use_is_named() {
    let first = Node::start(1).await;
    let mut options = options(1);
    options.listen = vec![first.address()];
    let clock = first.endpoint.clock();
    let receiver = std::sync::Arc::new(Deaf);
    let bound = Endpoint::bind(options, receiver, clock).await;
    let error = bound.map(|_| ()).expect_err("the port is taken");
    assert!(
        matches!(&error, BindError::Listen { address, .. } if *address == first.address()),
        "{error}"
    );
    assert!(
        error.to_string().contains(&first.address().to_string()),
        "{error}"
    );
    assert!(error.to_string().contains("in use"), "{error}");
}

struct Deaf;

impl thalweg_net::Receiver for Deaf {
    async fn handle_adu(&self, _: &thalweg_net::Link, _: thalweg_net::Arriving) {}
    async fn handle_control(&self, _: &thalweg_net::Link, _: bytes::Bytes) {}
    fn handle_link(&self, _: LinkEvent) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_key_is_reported() {
    let (a, b) = (Node::start(1).await, Node::start(1).await);
    let absent = Identity::ephemeral().id();
    a.admission.admit(absent);
    let error = bounded(a.endpoint.dial(absent, &[b.address()]))
        .await
        .expect_err("b has another key");
    assert!(matches!(&error, Unreachable::WrongKey { .. }), "{error}");
    assert!(
        error.to_string().contains(&b.address().to_string()),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn other_protocol_is_reported() {
    let a = Node::start(1).await;
    let other = iroh::Endpoint::builder(iroh::endpoint::presets::Minimal)
        .alpns(vec![b"thalweg/2".to_vec()])
        .clear_ip_transports()
        .bind_addr("127.0.0.1:0")
        .expect("an address")
        .bind()
        .await
        .expect("loopback can be listened on");
    let accepting = tokio::spawn({
        let other = other.clone();
        async move {
            while let Some(incoming) = other.accept().await {
                let _ = incoming.await;
            }
        }
    });
    let peer = thalweg_base::id::NodeId(*other.id().as_bytes());
    a.admission.admit(peer);
    let error = bounded(a.endpoint.dial(peer, &other.bound_sockets()))
        .await
        .expect_err("no common protocol");
    assert!(matches!(&error, Unreachable::Version { .. }), "{error}");
    assert!(error.to_string().contains("thalweg/1"), "{error}");
    accepting.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_address_times_out() {
    let a = Node::start(1).await;
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let address = silent.local_addr().expect("it is bound");
    let absent = Identity::ephemeral().id();
    a.admission.admit(absent);
    let error = bounded(a.endpoint.dial(absent, &[address]))
        .await
        .expect_err("nobody answers");
    assert!(matches!(&error, Unreachable::TimedOut { .. }), "{error}");
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    let own = a.endpoint.dial(a.id(), &[a.address()]).await;
    assert_eq!(own.expect_err("own key"), Unreachable::OwnKey(a.id()));
}

#[tokio::test(flavor = "multi_thread")]
async fn crossing_dials_leave_one_link() {
    for _ in 0..5 {
        let (a, b) = (Node::start(1).await, Node::start(1).await);
        a.admits(&b);
        b.admits(&a);
        let dial = |from: &Node, to: &Node| {
            let (endpoint, peer, address) = (from.endpoint.clone(), to.id(), to.address());
            tokio::spawn(async move {
                let link = endpoint.dial(peer, &[address]).await.expect("admitted");
                // At once, on the link that the dial returned: it may be about to be replaced.
                (0..20)
                    .map(|sequence| {
                        let sending =
                            link.send_adu(header(sequence), pattern(5000), by(Carriage::Stream));
                        tokio::spawn(sending)
                    })
                    .collect::<Vec<_>>()
            })
        };
        let (from_a, from_b) = (dial(&a, &b), dial(&b, &a));
        for sendings in [from_a, from_b] {
            for sending in bounded(sendings).await.expect("dialled") {
                let outcome = bounded(sending).await.expect("sent");
                // ADUs on a replaced link are reported as lost; no other failure is allowed.
                assert!(
                    matches!(outcome, Outcome::Acknowledged | Outcome::LinkLost),
                    "{outcome:?}"
                );
            }
        }
        let (at_a, at_b) = (a.endpoint.links(), b.endpoint.links());
        assert_eq!((at_a.len(), at_b.len()), (1, 1));
        assert_ne!(
            at_a[0].is_dialled(),
            at_b[0].is_dialled(),
            "it is the same connection"
        );
        let sending = at_a[0].send_adu(header(99), pattern(1), by(Carriage::Stream));
        assert_eq!(bounded(sending).await, Outcome::Acknowledged);
        a.endpoint
            .shutdown(thalweg_base::time::Duration::from_secs(1))
            .await;
        b.endpoint
            .shutdown(thalweg_base::time::Duration::from_secs(1))
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn returning_peer_is_redialled() {
    let a = Node::start(1).await;
    let identity = Identity::ephemeral();
    let mut b_options = options(1);
    b_options.identity = identity.clone();
    b_options.admission.admit(a.id());
    a.admission.admit(identity.id());
    let b = Node::start_with(b_options.clone()).await;
    let address = b.address();
    a.endpoint.keep_dialled(b.id(), &[address], 1);
    let up = |seen| matches!(seen, Seen::Link(LinkEvent::Up(_))).then_some(());
    a.next(up).await;
    bounded(
        b.endpoint
            .shutdown(thalweg_base::time::Duration::from_secs(1)),
    )
    .await;
    a.next(|seen| matches!(seen, Seen::Link(LinkEvent::Down { .. })).then_some(()))
        .await;
    drop(b);
    // The socket is closed when the last task that had it has ended.
    bounded(async {
        while std::net::UdpSocket::bind(address).is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    b_options.listen = vec![address];
    let b = Node::start_with(b_options).await;
    a.next(up).await;
    assert_eq!(a.endpoint.links()[0].peer(), b.id());
    bounded(async {
        while a.endpoint.peers() != [(b.id(), PeerState::Up)] {
            tokio::task::yield_now().await;
        }
    })
    .await;
    a.endpoint.forget(b.id());
    assert!(a.endpoint.peers().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn short_links_back_off() {
    let (a, b) = (Node::start(1).await, Node::start(1).await);
    a.admits(&b);
    b.admits(&a);
    a.endpoint.keep_dialled(b.id(), &[b.address()], 1);
    let start = tokio::time::Instant::now();
    for _ in 0..5 {
        let up = |seen| match seen {
            Seen::Link(LinkEvent::Up(link)) => Some(link),
            _ => None,
        };
        let link = b.next(up).await;
        link.close(CloseCode::Overload, "not now");
    }
    // The pauses are 0.2, 0.4, 0.8 and 1.6 s, each at most a quarter shorter. No link lasts,
    // however busy the machine.
    let elapsed = start.elapsed();
    assert!(
        elapsed >= std::time::Duration::from_millis(2_250),
        "{elapsed:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_address_is_reported() {
    let a = Node::start(1).await;
    let absent = Identity::ephemeral().id();
    a.admission.admit(absent);
    let error = bounded(a.endpoint.dial(absent, &[])).await;
    assert_eq!(
        error.expect_err("no address"),
        Unreachable::NoAddress(absent)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn own_reach_needs_own_address() {
    for listen in [vec![], vec!["0.0.0.0:0".parse().expect("an address")]] {
        let mut options = options(1);
        options.listen = listen;
        let bound = Endpoint::bind(options, std::sync::Arc::new(Deaf), Clock::start()).await;
        let error = bound.map(|_| ()).expect_err("not confined");
        assert!(matches!(&error, BindError::Unconfined(_)), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn second_dial_returns_existing_link() {
    let (a, b, link) = pair().await;
    let again = bounded(a.endpoint.dial(b.id(), &[]))
        .await
        .expect("there is one");
    assert!(again.is_same(&link));
}
