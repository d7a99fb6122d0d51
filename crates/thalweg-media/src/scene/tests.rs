//! Proves that the scene is identical everywhere, moves enough to reveal freezing, and can be drawn
//! at any legal size.

use super::*;
use crate::picture::psnr;

/// FNV-1a of the three planes.
fn digest(picture: &Yuv420) -> u64 {
    picture
        .planes()
        .iter()
        .flat_map(|plane| plane.samples)
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
}

#[test]
fn frame_depends_on_its_number_only() {
    let scene = Scene::new(352, 288).expect("a legal size");
    let again = Scene::new(352, 288).expect("a legal size");
    assert_eq!(digest(&scene.frame(77)), digest(&again.frame(77)));
    assert_ne!(digest(&scene.frame(77)), digest(&scene.frame(78)));
    assert_eq!(
        digest(&scene.frame(0)),
        DIGEST_0,
        "the scene's bytes changed"
    );
    assert_eq!(
        digest(&scene.frame(100)),
        DIGEST_100,
        "the scene's bytes changed"
    );
}

const DIGEST_0: u64 = 4_451_099_460_718_108_533;
const DIGEST_100: u64 = 5_911_957_512_610_269_928;

#[test]
fn frozen_picture_soon_differs() {
    let scene = Scene::new(352, 288).expect("a legal size");
    for start in (0..600).step_by(37) {
        let ratio = psnr(&scene.frame(start), &scene.frame(start + 12)).expect("same size");
        assert!(ratio.y_db < 22.0, "frame {start}: {} dB", ratio.y_db);
    }
}

#[test]
fn any_legal_size_and_time_is_drawn() {
    for (width, height) in [(2, 2), (16, 16), (640, 480), (354, 290), (64, 512)] {
        let scene = Scene::new(width, height)
            .expect("a legal size")
            .with_rate(0);
        for index in [0, 1, 86_400 * 30, u64::MAX] {
            let picture = scene.frame(index);
            assert_eq!((picture.width(), picture.height()), (width, height));
        }
    }
    assert!(Scene::new(351, 288).is_err());
}
