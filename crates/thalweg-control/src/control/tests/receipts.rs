//! Proves which receipts count, and which ADUs belong to which programs when a stream outlives its
//! first subscribers.

use alloc::vec;
use alloc::vec::Vec;

use thalweg_base::id::Epoch;
use thalweg_base::seen::{Held, News};
use thalweg_base::time::Duration;

use super::grafts::{replays, restart_sink};
use super::{A, B, C, Fabric, name, publication};
use crate::session::{LEASE, RENEW};

#[test]
fn receipt_counts_after_clock_set_back() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C]]);
    fabric.subscribe(C);
    let stream = fabric.publish(A, publication(None, false));
    let has = |fabric: &mut Fabric, floor| {
        let held = Held {
            floor,
            ranges: vec![],
        };
        fabric.at(C, |c, now, _| c.handle_held(stream, held, News::Usual, now));
        fabric.pass(Duration::from_secs(1));
        let receipts = fabric.node(A).acknowledged.last();
        receipts.map(|(_, held)| held.floor)
    };
    assert_eq!(has(&mut fabric, 7), Some(7));
    restart_sink(&mut fabric, Duration::from_secs(10));
    fabric.pass(RENEW);
    assert_eq!(has(&mut fabric, 2), Some(2));
    let receipts = fabric.node(A).acknowledged.iter();
    let receipts: Vec<u64> = receipts.map(|(_, held)| held.floor).collect();
    assert!(
        receipts.contains(&u64::MAX),
        "the restarted sink begins again: {receipts:?}"
    );
}

#[test]
fn returning_subscriber_starts_again() {
    let mut fabric = Fabric::linked(&[[A, B]]);
    fabric.subscribe(B);
    let stream = fabric.publish(A, publication(None, false));
    let held = Held {
        floor: 3,
        ranges: vec![],
    };
    fabric.nodes.get_mut(&B).expect("linked").restarts.clear();
    for is_ended in [false, true] {
        let held = held.clone();
        let news = if is_ended { News::Ended } else { News::Usual };
        fabric.at(B, |c, now, _| c.handle_held(stream, held, news, now));
        fabric.at(B, |c, now, keys| c.unsubscribe(&name(), now, keys));
        fabric.settle();
        fabric.subscribe(B);
        let former = Some(Epoch(1));
        let restarts = &fabric.node(B).restarts;
        assert_eq!(
            restarts,
            &[(stream, former)],
            "an ended stream does not begin again"
        );
        assert_eq!(replays(&fabric, A).len(), if is_ended { 3 } else { 2 });
    }
}

#[test]
fn next_subscriber_gets_own_plan() {
    let mut fabric = Fabric::linked(&[[A, B]]);
    fabric.subscribe(B);
    let stream = fabric.publish(A, publication(None, false));
    let served = |fabric: &Fabric| fabric.plan_path(A, stream).0;
    assert_eq!(served(&fabric), Epoch(1));
    fabric.at(B, |c, now, keys| c.unsubscribe(&name(), now, keys));
    fabric.settle();
    fabric.subscribe(B);
    assert_eq!(
        fabric.node(B).restarts.last(),
        Some(&(stream, Some(Epoch(1))))
    );
    assert_eq!(served(&fabric), Epoch(2));
    // The plan of the former program is still installed, and renewed.
    fabric.pass(LEASE);
    assert_eq!(served(&fabric), Epoch(2));
    assert_eq!(fabric.node(B).goes_on, []);
}

#[test]
fn lost_unsubscribe_is_repeated() {
    let mut fabric = Fabric::linked(&[[A, B]]);
    fabric.subscribe(B);
    let stream = fabric.publish(A, publication(None, false));
    let wires = core::mem::take(&mut fabric.wires);
    fabric.at(B, |c, now, keys| c.unsubscribe(&name(), now, keys));
    fabric.settle();
    fabric.wires = wires;
    fabric.subscribe(B);
    assert_eq!(fabric.plan_path(A, stream).0, Epoch(2));
    assert_eq!(replays(&fabric, A), [1, 2]);
}

#[test]
fn plan_goes_on_if_all_unsubscribes_lost() {
    let mut fabric = Fabric::linked(&[[A, B]]);
    fabric.subscribe(B);
    let stream = fabric.publish(A, publication(None, false));
    let wires = core::mem::take(&mut fabric.wires);
    fabric.at(B, |c, now, keys| c.unsubscribe(&name(), now, keys));
    fabric.subscribe(B);
    fabric.settle();
    fabric.wires = wires;
    fabric.pass(RENEW + Duration::from_secs(1));
    assert_eq!(fabric.plan_path(A, stream).0, Epoch(1));
    assert_eq!(fabric.node(B).goes_on, [stream]);
}

#[test]
fn restarted_sink_takes_over_its_plan() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C]]);
    fabric.subscribe(C);
    let stream = fabric.publish(A, publication(None, false));
    fabric.nodes.remove(&C);
    fabric.wires.retain(|wire| *wire != [B, C]);
    fabric.pass(Duration::from_millis(500));
    fabric.start(C, Duration::from_secs(2_000));
    fabric.link([B, C]);
    fabric.pass(RENEW);
    let parts = fabric.node(C).controller.parts().installations().count();
    assert!(parts > 0, "its source has sent its part again");
    fabric.subscribe(C);
    assert_eq!(fabric.node(C).restarts, [(stream, None)]);
    let receipts = |fabric: &Fabric| fabric.node(A).acknowledged.len();
    let before = receipts(&fabric);
    let held = Held {
        floor: 2,
        ranges: vec![],
    };
    fabric.at(C, |c, now, _| c.handle_held(stream, held, News::Usual, now));
    fabric.pass(Duration::from_secs(1));
    let since: Vec<u64> = fabric.node(A).acknowledged[before..]
        .iter()
        .map(|(_, held)| held.floor)
        .collect();
    assert_eq!(since, [2], "and not for everything");
}
