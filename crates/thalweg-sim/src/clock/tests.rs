//! Proves that a clock never goes backwards and that its inverse is the earliest moment showing that time.

use thalweg_base::random::SplitMix;
use thalweg_base::time::{Duration, Instant};

use super::Clock;

#[test]
fn inverse_is_earliest_moment() {
    let mut rng = SplitMix::new(1);
    for ppm in [-1_000, -37, 0, 1, 1_000] {
        let clock = Clock::new(Duration::from_millis(1_234), ppm);
        let mut before = Instant::ZERO;
        for _ in 0..1_000 {
            let world = Instant::from_nanos(rng.next_below(1 << 40));
            let local = clock.local(world);
            let back = clock.world(local);
            assert!(back <= world, "{ppm}: {back} after {world}");
            assert!(clock.local(back) >= local, "{ppm}");
            if back > Instant::ZERO {
                let earlier = Instant::from_nanos(back.as_nanos() - 1);
                assert!(clock.local(earlier) < local, "{ppm}");
            }
            let next = before + Duration::from_nanos(rng.next_below(1 << 30));
            assert!(clock.local(next) >= clock.local(before), "{ppm}");
            before = next;
        }
    }
}

#[test]
fn never_and_past_map_to_bounds() {
    let clock = Clock::new(Duration::from_secs(5), 10);
    assert!(clock.world(Instant::NEVER).is_never());
    assert_eq!(
        clock.world(Instant::ZERO + Duration::from_secs(1)),
        Instant::ZERO
    );
}
