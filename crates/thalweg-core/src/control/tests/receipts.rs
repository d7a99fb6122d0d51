//! Proves what sinks are heeded in, and what is whose where a stream comes yet and others want it than before.

use alloc::vec;
use alloc::vec::Vec;

use super::grafts::{replays, restart_sink};
use super::{A, B, C, Fabric, name, publication};
use crate::id::Epoch;
use crate::mailbox::{Held, News};
use crate::session::{LEASE, RENEW};
use crate::time::Duration;

#[test]
fn what_a_sink_has_is_heeded_after_its_clock_was_set_back_between_two_lives() {
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
        let heard = fabric.node(A).acknowledged.last();
        heard.map(|(_, held)| held.floor)
    };
    assert_eq!(has(&mut fabric, 7), Some(7));
    restart_sink(&mut fabric, Duration::from_secs(10));
    fabric.pass(RENEW);
    assert_eq!(has(&mut fabric, 2), Some(2));
    let heard = fabric.node(A).acknowledged.iter();
    let heard: Vec<u64> = heard.map(|(_, held)| held.floor).collect();
    assert!(heard.contains(&u64::MAX), "it begins anew: {heard:?}");
}

#[test]
fn to_who_leaves_and_comes_back_at_once_what_it_had_is_new_and_is_given_again() {
    let mut fabric = Fabric::linked(&[[A, B]]);
    fabric.subscribe(B);
    let stream = fabric.publish(A, publication(None, false));
    let held = Held {
        floor: 3,
        ranges: vec![],
    };
    fabric.nodes.get_mut(&B).expect("linked").anew.clear();
    for is_ended in [false, true] {
        let held = held.clone();
        let news = if is_ended { News::Ended } else { News::Usual };
        fabric.at(B, |c, now, _| c.handle_held(stream, held, news, now));
        fabric.at(B, |c, now, keys| c.unsubscribe(&name(), now, keys));
        fabric.settle();
        fabric.subscribe(B);
        let former = Some(Epoch(1));
        let anew = &fabric.node(B).anew;
        assert_eq!(anew, &[(stream, former)], "not what has ended");
        assert_eq!(replays(&fabric, A).len(), if is_ended { 3 } else { 2 });
    }
}

#[test]
fn who_comes_after_another_is_served_by_a_plan_of_its_own() {
    let mut fabric = Fabric::linked(&[[A, B]]);
    fabric.subscribe(B);
    let stream = fabric.publish(A, publication(None, false));
    let served = |fabric: &Fabric| fabric.way(A, stream).0;
    assert_eq!(served(&fabric), Epoch(1));
    fabric.at(B, |c, now, keys| c.unsubscribe(&name(), now, keys));
    fabric.settle();
    fabric.subscribe(B);
    assert_eq!(fabric.node(B).anew.last(), Some(&(stream, Some(Epoch(1)))));
    assert_eq!(served(&fabric), Epoch(2));
    // The plan of the one before lies yet, and is kept up.
    fabric.pass(LEASE);
    assert_eq!(served(&fabric), Epoch(2));
    assert_eq!(fabric.node(B).goes_on, []);
}

#[test]
fn who_comes_after_another_is_so_too_if_the_word_of_that_ones_leaving_was_lost() {
    let mut fabric = Fabric::linked(&[[A, B]]);
    fabric.subscribe(B);
    let stream = fabric.publish(A, publication(None, false));
    let wires = core::mem::take(&mut fabric.wires);
    fabric.at(B, |c, now, keys| c.unsubscribe(&name(), now, keys));
    fabric.settle();
    fabric.wires = wires;
    fabric.subscribe(B);
    assert_eq!(fabric.way(A, stream).0, Epoch(2));
    assert_eq!(replays(&fabric, A), [1, 2]);
}

#[test]
fn where_every_word_of_a_leaving_was_lost_the_plan_goes_on_for_who_came_after() {
    let mut fabric = Fabric::linked(&[[A, B]]);
    fabric.subscribe(B);
    let stream = fabric.publish(A, publication(None, false));
    let wires = core::mem::take(&mut fabric.wires);
    fabric.at(B, |c, now, keys| c.unsubscribe(&name(), now, keys));
    fabric.subscribe(B);
    fabric.settle();
    fabric.wires = wires;
    fabric.pass(RENEW + Duration::from_secs(1));
    assert_eq!(fabric.way(A, stream).0, Epoch(1));
    assert_eq!(fabric.node(B).goes_on, [stream]);
}

#[test]
fn to_who_begins_where_a_plan_is_that_nobody_has_left_all_that_it_brings_is_new() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C]]);
    fabric.subscribe(C);
    let stream = fabric.publish(A, publication(None, false));
    fabric.nodes.remove(&C);
    fabric.wires.retain(|wire| *wire != [B, C]);
    fabric.pass(Duration::from_millis(500));
    fabric.start(C, Duration::from_secs(2_000));
    fabric.link([B, C]);
    fabric.pass(RENEW);
    let parts = fabric.node(C).controller.installations().count();
    assert!(parts > 0, "its source has told it again");
    fabric.subscribe(C);
    assert_eq!(fabric.node(C).anew, [(stream, None)]);
    let heard = |fabric: &Fabric| fabric.node(A).acknowledged.len();
    let before = heard(&fabric);
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
