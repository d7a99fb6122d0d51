//! Carriers that stall, are cut, come back: every byte arrives once all the same.

use proptest::prelude::*;

use super::*;
use crate::random::SplitMix;

/// Sends streams of these sizes from both ends.
fn offer(world: &mut World, sizes: &[usize]) {
    for ((n, size), rank) in (0..).zip(sizes).zip([0, 1, 2].into_iter().cycle()) {
        for side in &mut world.sides {
            side.send(rank, pattern(n, *size));
        }
    }
}

fn assert_whole(world: &World, sizes: &[usize]) {
    for side in &world.sides {
        let mut finished = side.finished.clone();
        finished.sort_unstable();
        let all: Vec<_> = (0..sizes.len() as u64).map(StreamNumber).collect();
        assert_eq!(finished, all, "each ends once");
        for (n, size) in sizes.iter().enumerate() {
            let read = side.read.get(&StreamNumber(n as u64)).cloned();
            assert_eq!(read.unwrap_or_default(), pattern(n as u64, *size));
        }
    }
}

const SIZES: [usize; 6] = [400_000, 3, 0, 70_000, 1_200, 250_000];

#[test]
fn a_stalled_carrier_is_left_and_every_byte_arrives_once() {
    for pacing in [Pacing::Kernel, Pacing::Acked] {
        let mut world = World::new(pacing);
        offer(&mut world, &SIZES);
        world.steps(36);
        world.stall(0, true);
        world.settle(20_000);
        assert_whole(&world, &SIZES);
        for side in &world.sides {
            assert_eq!(side.session.active(), Some(CarrierNumber(1)));
            assert_eq!(side.session.carried().failovers, 1);
            assert!(side.session.carried().resent_bytes > 0);
        }
        // What had arrived and was not yet acknowledged came again, and was known.
        let known = world
            .sides
            .iter()
            .map(|side| side.session.carried().duplicate_bytes);
        assert!(known.sum::<u64>() > 0, "{pacing:?}");
        assert_eq!(world.sides[0].session.carriers_missing(), 0);
    }
}

#[test]
fn a_cut_carrier_is_left_at_once_and_without_a_standby_waited_for() {
    let mut world = World::new(Pacing::Kernel);
    offer(&mut world, &SIZES);
    world.steps(25);
    world.redials = false;
    world.lose(1);
    world.lose(0);
    assert!(
        world
            .sides
            .iter()
            .all(|side| side.session.active().is_none())
    );
    world.steps(500);
    assert_eq!(world.sides[0].session.carriers_missing(), 2);
    world.redials = true;
    world.settle(20_000);
    assert_whole(&world, &SIZES);
}

#[test]
fn when_one_way_stalls_the_other_way_moves_too() {
    let mut world = World::new(Pacing::Kernel);
    offer(&mut world, &SIZES);
    world.steps(25);
    if let Some(pipes) = world.pipes.get_mut(&0) {
        pipes[0].is_stalled = true;
    }
    world.settle(20_000);
    assert_whole(&world, &SIZES);
    let active: Vec<_> = world
        .sides
        .iter()
        .map(|side| side.session.active())
        .collect();
    assert_eq!(active[0], active[1]);
}

#[test]
fn a_carrier_that_stalls_for_a_moment_is_kept() {
    let mut world = World::new(Pacing::Kernel);
    offer(&mut world, &SIZES);
    world.steps(25);
    world.stall(0, true);
    world.steps(100);
    world.stall(0, false);
    world.settle(20_000);
    assert_whole(&world, &SIZES);
    assert_eq!(world.sides[0].session.carried().failovers, 0);
}

#[test]
fn carriers_that_all_stall_are_changed_rarely() {
    let mut world = World::new(Pacing::Kernel);
    offer(&mut world, &[40_000_000]);
    world.steps(25);
    for _ in 0..7_500 {
        for number in world.pipes.keys().copied().collect::<Vec<_>>() {
            world.stall(number, true);
        }
        world.step();
    }
    let carried = world.sides[0].session.carried();
    // At 0.2, 1.2, 3.2 and 7.2 s; each end may have been the one to change.
    assert!((3..=4).contains(&carried.failovers), "{carried:?}");
    assert!(carried.stalls_held > 0);
}

#[test]
fn a_datagram_under_way_on_a_failed_carrier_is_counted_and_not_doubled() {
    let mut world = World::new(Pacing::Kernel);
    world.stall(0, true);
    world.sides[0]
        .session
        .send_datagram(pattern(1, 100))
        .expect("there is room");
    world.steps(2_000);
    assert_eq!(world.sides[0].session.carried().datagrams_lost, 1);
    assert_eq!(world.sides[1].session.poll_datagram(), None);
}

#[test]
fn streams_reset_around_a_failover_end_and_hold_up_nobody() {
    let mut world = World::new(Pacing::Kernel);
    offer(&mut world, &SIZES);
    world.steps(25);
    world.stall(0, true);
    world.steps(5);
    let given_up = StreamNumber(0);
    world.sides[0].session.reset(given_up, StreamCode::Expired);
    world.sides[0]
        .writing
        .retain(|(stream, _)| *stream != given_up);
    world.settle(20_000);
    assert_eq!(world.sides[1].reset, [(given_up, StreamCode::Expired)]);
    assert_eq!(world.sides[1].finished.len(), SIZES.len() - 1);
    assert!(world.sides[1].session.receiving.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn whatever_happens_to_carriers_every_byte_arrives_once_and_in_order(seed: u64, is_acked: bool) {
        let mut dice = SplitMix::new(seed);
        let mut world = World::new(if is_acked { Pacing::Acked } else { Pacing::Kernel });
        let sizes: Vec<usize> = (0..12).map(|_| dice.next_below(90_000) as usize).collect();
        offer(&mut world, &sizes);
        for _ in 0..1_500 {
            world.step();
            let numbers: Vec<u64> = world.pipes.keys().copied().collect();
            let Some(number) = numbers.get(dice.next_below(3) as usize).copied() else {
                continue;
            };
            match dice.next_below(300) {
                0 => world.lose(number),
                1 | 2 => world.stall(number, true),
                3..=9 => world.stall(number, false),
                _ => {}
            }
        }
        for number in world.pipes.keys().copied().collect::<Vec<_>>() {
            world.stall(number, false);
        }
        world.settle(60_000);
        assert_whole(&world, &sizes);
    }
}
