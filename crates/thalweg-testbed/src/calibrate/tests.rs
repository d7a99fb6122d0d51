//! Proves that bounds are told from both sides. The measuring itself is `cargo xtask testbed --calibrate`.

use super::{Figure, Quantity, SUBJECTS, world};

#[test]
fn a_figure_at_its_bound_is_within_and_beyond_it_is_out() {
    for (quantity, world, bound) in [
        (Quantity::Rate, 200.0, 6.0),
        (Quantity::Delay, 50.0, 1.0),
        (Quantity::Loss, 2.0, 0.5),
    ] {
        for sign in [-1.0, 1.0] {
            let figure =
                |share: f64| Figure::new("x", quantity, world, world + sign * bound * share);
            assert!(figure(0.999).is_within(), "{quantity:?}");
            assert!(!figure(1.001).is_within(), "{quantity:?}");
        }
        assert!(!Figure::new("x", quantity, world, f64::NAN).is_within());
    }
}

#[test]
fn the_world_of_calibration_makes_sense() {
    let world = world();
    assert_eq!(world.faults(), []);
    assert_eq!(
        (world.links.len(), world.nodes.len()),
        (SUBJECTS.len(), 2 * SUBJECTS.len())
    );
}
