//! Proves which plans get copies (those started and not ended), and of which ADUs.

use std::num::NonZeroU8;
use std::sync::Arc;

use thalweg_base::id::{Epoch, NodeId, Sequence, StreamId};
use thalweg_base::needs::{Order, Reliability};
use thalweg_control::control::{Installation, Secrets};
use thalweg_control::session::Feed;
use thalweg_dataplane::packet::Pool;

use super::super::{Forwarder, Route};

const STREAM: StreamId = StreamId(7);

fn route(forwarder: &Forwarder, epoch: u32, base: Option<u32>, next: Option<u8>) -> Arc<Route> {
    let installation = Installation {
        name: "cam".parse().expect("a name"),
        stream: STREAM,
        epoch: Epoch(epoch),
        source: NodeId([1; 32]),
        previous: NodeId([2; 32]),
        next: next.map(|node| NodeId([node; 32])),
        adapters: Vec::new(),
        reliability: Reliability::UntilDeadline,
        order: Order::Sequence,
        weight: NonZeroU8::MIN,
        plaintext: true,
        base: base.map(Epoch),
    };
    let secrets = Secrets {
        key: None,
        instance: 0,
    };
    let (pool, ledger) = (Pool::new(0), &forwarder.ledger);
    let built = Route::build(installation, secrets, pool, ledger, &forwarder.arrivals);
    Arc::new(built.expect("nothing but a way"))
}

fn cast(forwarder: &Forwarder) -> Vec<u32> {
    let branches = forwarder.casts.of((STREAM, Epoch(1)));
    let epochs = branches.having(Sequence(0)).map(|branch| branch.epoch.0);
    epochs.collect()
}

#[tokio::test]
async fn grafted_plan_gets_copies() {
    let forwarder = Arc::new(Forwarder::new(thalweg_net::Clock::start(), Pool::new(0)));
    for (epoch, base, next) in [
        (1, None, Some(9)),
        (2, Some(1), None),
        (3, Some(1), Some(8)),
    ] {
        forwarder.install(route(&forwarder, epoch, base, next));
    }
    assert!(cast(&forwarder).is_empty());
    for epoch in [1, 2, 3, 4, 2] {
        forwarder.cast(STREAM, Epoch(epoch), Feed::Live);
    }
    assert_eq!(cast(&forwarder), [2, 3]);
    // A plan that is installed again keeps its copies, over its new route.
    let again = route(&forwarder, 3, Some(1), Some(7));
    forwarder.install(Arc::clone(&again));
    let branches = forwarder.casts.of((STREAM, Epoch(1)));
    let mut routes = branches
        .having(Sequence(0))
        .map(|branch| branch.with.route());
    assert!(routes.any(|route| Arc::ptr_eq(route, &again)));
    forwarder.cast(STREAM, Epoch(3), Feed::Off);
    assert_eq!(cast(&forwarder), [2]);
    forwarder.remove(STREAM, Epoch(2));
    assert!(cast(&forwarder).is_empty());
}

#[tokio::test]
async fn replaced_plan_keeps_older_adus() {
    let forwarder = Arc::new(Forwarder::new(thalweg_net::Clock::start(), Pool::new(0)));
    for (epoch, base) in [(1, None), (2, Some(1)), (3, Some(1))] {
        forwarder.install(route(&forwarder, epoch, base, Some(9)));
    }
    forwarder.cast(STREAM, Epoch(2), Feed::Live);
    let end = Feed::Until(Sequence(43));
    // Epoch 3 is as on a restarted node that has forgotten its casts.
    for epoch in [2, 3] {
        forwarder.cast(STREAM, Epoch(epoch), end);
    }
    // Neither a stale command nor a new route extends the bound.
    forwarder.cast(STREAM, Epoch(2), Feed::Live);
    forwarder.install(route(&forwarder, 2, Some(1), Some(7)));
    let branches = forwarder.casts.of((STREAM, Epoch(1)));
    let having = |sequence| branches.having(Sequence(sequence)).count();
    assert_eq!([0, 42, 43, u64::MAX].map(having), [2, 2, 0, 0]);
}
