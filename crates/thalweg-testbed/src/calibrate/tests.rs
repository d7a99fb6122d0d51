//! Checks the bounds from both sides. The measurement itself is `cargo xtask testbed --calibrate`.

use super::{Figure, Quantity, SUBJECTS, world};

#[test]
fn bound_separates_figures() {
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
fn calibration_world_is_valid() {
    let world = world();
    assert_eq!(world.faults(), []);
    assert_eq!(
        (world.links.len(), world.nodes.len()),
        (SUBJECTS.len(), 2 * SUBJECTS.len())
    );
}
