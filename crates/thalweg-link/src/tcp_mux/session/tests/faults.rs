//! Carriers that stall, are cut and come back: every byte still arrives once.

use proptest::prelude::*;
use thalweg_base::random::SplitMix;

use super::*;

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
fn stalled_carrier_loses_no_byte() {
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
        // Bytes that had arrived and were not yet acknowledged came again, and were recognized.
        let known = world
            .sides
            .iter()
            .map(|side| side.session.carried().duplicate_bytes);
        assert!(known.sum::<u64>() > 0, "{pacing:?}");
        assert_eq!(world.sides[0].session.carriers_missing(), 0);
    }
}

#[test]
fn cut_carrier_waits_for_redial() {
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
fn one_way_stall_moves_both_ways() {
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
fn brief_stall_keeps_carrier() {
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
fn stalling_carriers_change_rarely() {
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
fn failed_carrier_counts_datagram() {
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
fn reset_around_failover_ends_stream() {
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
    fn random_faults_lose_no_byte(seed: u64, is_acked: bool) {
        let mut rng = SplitMix::new(seed);
        let mut world = World::new(if is_acked { Pacing::Acked } else { Pacing::Kernel });
        let sizes: Vec<usize> = (0..12).map(|_| rng.next_below(90_000) as usize).collect();
        offer(&mut world, &sizes);
        for _ in 0..1_500 {
            world.step();
            let numbers: Vec<u64> = world.pipes.keys().copied().collect();
            let Some(number) = numbers.get(rng.next_below(3) as usize).copied() else {
                continue;
            };
            match rng.next_below(300) {
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
