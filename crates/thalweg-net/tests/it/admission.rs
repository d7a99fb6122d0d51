//! Proves that only admitted keys get a link; others receive the reason and leave no state.

use thalweg_net::{Admission, CloseCode, DownCause, LinkEvent, Unreachable};

use crate::node::{Node, Over, Seen, bounded, pair_over};

#[tokio::test(flavor = "multi_thread")]
async fn admitted_peers_have_a_link_each() {
    for over in Over::ALL {
        let (a, b, link) = pair_over(over).await;
        assert_eq!(link.peer(), b.id());
        let at_b = b
            .next(|seen| match seen {
                Seen::Link(LinkEvent::Up(link)) => Some(link),
                _ => None,
            })
            .await;
        assert_eq!(at_b.peer(), a.id());
        assert!(link.is_dialled() && !at_b.is_dialled());
        assert_eq!((a.endpoint.links().len(), b.endpoint.links().len()), (1, 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stranger_is_refused_with_reason() {
    for over in Over::ALL {
        let (a, b) = Node::start_two(over).await;
        a.admits(&b);
        let refused = bounded(a.endpoint.dial(b.id(), b.addresses()))
            .await
            .expect_err("b admits nobody");
        assert!(
            matches!(&refused, Unreachable::NotAdmitted { peer, .. } if *peer == b.id()),
            "{refused}"
        );
        assert!(
            refused.to_string().contains("does not admit the key"),
            "{refused}"
        );
        assert_eq!(b.admission.refusals(), 1);
        assert!(b.endpoint.links().is_empty());
        assert!(a.endpoint.links().is_empty());
        assert!(
            b.rest().await.is_empty(),
            "nothing was told to b's receiver"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unadmitted_peer_is_not_dialled() {
    for over in Over::ALL {
        let (a, b) = Node::start_two(over).await;
        b.admits(&a);
        let refused = bounded(a.endpoint.dial(b.id(), b.addresses())).await;
        assert_eq!(
            refused.expect_err("a admits nobody"),
            Unreachable::NotAdmittedHere(b.id())
        );
        assert_eq!(b.admission.refusals(), 0, "nothing was sent");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn revoked_peer_loses_its_link() {
    for over in Over::ALL {
        let (a, b, link) = pair_over(over).await;
        b.next(|seen| matches!(seen, Seen::Link(LinkEvent::Up(_))).then_some(()))
            .await;
        b.admission.revoke(a.id());
        let cause = bounded(link.closed()).await;
        assert!(
            matches!(
                &cause,
                DownCause::ByPeer {
                    code: CloseCode::NotAdmitted,
                    ..
                }
            ),
            "{cause}"
        );
    }
}

#[test]
fn empty_admission_admits_none() {
    assert!(!Admission::nobody().admits(thalweg_base::id::NodeId([0; 32])));
}
