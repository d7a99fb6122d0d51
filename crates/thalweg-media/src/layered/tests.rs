//! Proves layered video on the built-in scene: each layer improves the picture, budgets hold, and
//! anything but a whole prefix of layers, in order, is an error.

use bytes::Bytes;
use proptest::prelude::*;

use super::header::Shape;
use super::*;
use crate::picture::{Yuv420, psnr};
use crate::scene::Scene;

const BUDGETS: [usize; LAYERS] = [1000, 1000, 1500, 2000, 3000, 5000, 9000, 16000];

fn scene(index: u64) -> Yuv420 {
    Scene::new(352, 288).expect("a legal size").frame(index)
}

fn layers(index: u64) -> Vec<Bytes> {
    let encoder = Encoder::new(352, 288, &BUDGETS).expect("legal budgets");
    encoder
        .encode(&scene(index))
        .expect("a picture of this size")
}

#[test]
fn every_layer_betters_the_picture() {
    let picture = scene(31);
    let layers = layers(31);
    assert_eq!(layers.len(), LAYERS);
    let mut before = 26.0;
    for last in 0..LAYERS {
        let decoded = decode(&layers[..=last]).expect("a whole prefix");
        let ratio = psnr(&picture, &decoded).expect("same size");
        assert!(
            ratio.y_db > before + 0.5,
            "layer {last}: {ratio:?} after {before} dB"
        );
        before = ratio.y_db;
    }
    assert!(before > 50.0);
}

#[test]
fn budgets_hold_for_every_frame() {
    for index in [0, 5, 100, 1234] {
        let mut budget = 0;
        let mut bytes = 0;
        for (layer, payload) in layers(index).iter().enumerate() {
            budget += BUDGETS[layer];
            bytes += payload.len();
            assert!(
                bytes <= budget,
                "frame {index}, layer {layer}: {bytes} of {budget}"
            );
            assert!(
                bytes * 100 >= budget * 90,
                "frame {index}, layer {layer}: {bytes} of {budget}"
            );
        }
    }
}

#[test]
fn exhausted_picture_stays_in_budget() {
    let grey = Yuv420::grey(64, 64).expect("a legal size");
    let encoder = Encoder::new(64, 64, &[500, 500, 500]).expect("legal budgets");
    let layers = encoder.encode(&grey).expect("a picture of this size");
    assert!(layers.iter().map(Bytes::len).sum::<usize>() < 200);
    let decoded = decode(&layers).expect("whole");
    assert!(psnr(&grey, &decoded).expect("same size").y_db > 50.0);
}

#[test]
fn odd_shapes_are_coded() {
    for (width, height) in [(32, 32), (34, 50), (640, 34), (130, 258)] {
        let picture = Scene::new(width, height).expect("a legal size").frame(9);
        let encoder = Encoder::new(width, height, &[400, 400]).expect("legal budgets");
        let layers = encoder.encode(&picture).expect("a picture of this size");
        assert_eq!(peek_size(&layers[0]), Ok((width, height)));
        assert!(decode(&layers[..1]).is_ok());
        assert!(decode(&layers).is_ok());
    }
}

#[test]
fn budgets_and_sizes_are_checked() {
    let new = |width, height, budgets: &[usize]| Encoder::new(width, height, budgets).err();
    for budgets in [&[][..], &[63], &[100, 31], &[100; 16], &[usize::MAX, 100]] {
        assert!(matches!(
            new(64, 64, budgets),
            Some(LayeredError::Budgets(_))
        ));
    }
    assert!(matches!(
        new(30, 64, &[100]),
        Some(LayeredError::Small { .. })
    ));
    assert!(matches!(
        new(64, 65, &[100]),
        Some(LayeredError::Picture(_))
    ));
    let encoder = Encoder::new(64, 64, &[100]).expect("legal budgets");
    assert!(matches!(
        encoder.encode(&scene(0)),
        Err(LayeredError::Codec(_))
    ));
}

/// A payload with a valid check around any bytes.
fn sealed(first: u8, rest: &[u8]) -> Vec<u8> {
    let check = check(first, rest).to_be_bytes();
    [&[first], &check[..], rest].concat()
}

#[test]
fn invalid_prefix_is_an_error() {
    let whole = layers(3);
    let none: [Bytes; 0] = [];
    assert_eq!(decode(&none), Err(LayeredError::Empty));
    let wrong = |prefix: &[&[u8]]| decode(prefix).expect_err("not a prefix");
    assert!(matches!(
        wrong(&[&whole[1]]),
        LayeredError::Order { place: 0, found: 1 }
    ));
    let gap = wrong(&[&whole[0], &whole[2]]);
    assert!(matches!(gap, LayeredError::Order { place: 1, found: 2 }));
    let mut ninth = whole.clone();
    ninth.push(sealed(0x18, &[0]).into());
    assert!(matches!(
        decode(&ninth),
        Err(LayeredError::Order { place: 8, .. })
    ));
    assert_eq!(
        wrong(&[&sealed(0x20, &[])]),
        LayeredError::Version { found: 2 }
    );
    assert!(matches!(
        wrong(&[&sealed(0x10, &[0; 4])]),
        LayeredError::Short { bytes: 7, .. }
    ));
    assert!(matches!(
        wrong(&[&[]]),
        LayeredError::Short { bytes: 0, .. }
    ));
    let huge = sealed(0x10, &[0xff, 0xfe, 0xff, 0xfe, 0x84]);
    assert!(matches!(wrong(&[&huge]), LayeredError::Picture(_)));
    let deep = sealed(0x10, &[1, 0x60, 1, 0x20, 0x8f]);
    assert!(matches!(wrong(&[&deep]), LayeredError::Shape { .. }));
    let mut excess = vec![0, 64, 0, 64, 0x82];
    excess.resize(100_000, 0);
    assert!(matches!(
        wrong(&[&sealed(0x10, &excess)]),
        LayeredError::Excess { .. }
    ));
}

#[test]
fn truncated_layer_is_an_error() {
    let whole = layers(3);
    for cut in 0..whole[0].len() {
        assert!(decode(&[&whole[0][..cut]]).is_err(), "base cut at {cut}");
    }
    for cut in 0..whole[1].len() {
        let prefix = [whole[0].clone(), whole[1].slice(..cut)];
        assert!(decode(&prefix).is_err(), "enhancement cut at {cut}");
    }
}

#[test]
fn headers_match_the_standard() {
    let shape = Shape::new(352, 288, 8).expect("a legal size");
    let mut header = Vec::new();
    shape.main_header(&mut header);
    assert_eq!(&header[..6], &[0xff, 0x4f, 0xff, 0x51, 0, 47]);
    assert_eq!(&header[8..16], &[0, 0, 1, 0x60, 0, 0, 1, 0x20]);
    assert_eq!(&header[51..55], &[0xff, 0x52, 0, 12]);
    assert_eq!(
        header.len(),
        2 + 49 + 14 + 5 + 2 * (3 * usize::from(shape.levels) + 1)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_decode_or_fail(payloads in proptest::collection::vec(
        proptest::collection::vec(any::<u8>(), 0..300), 0..4,
    )) {
        let _ = decode(&payloads);
    }

    #[test]
    fn any_packets_decode_or_fail(
        width in 16..80u8, height in 16..80u8, layers in 1..16u8, levels in 0..7u8,
        packets in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        let shape = [0, width * 2, 0, height * 2, layers << 4 | levels];
        let base = sealed(0x10, &[&shape[..], &packets].concat());
        let _ = decode(&[&base]);
        let _ = decode(&[base, sealed(0x11, &packets)]);
    }

    #[test]
    fn damage_is_detected_and_survived(at in 0..989usize, xor in 1..=255u8) {
        static LAYERS: std::sync::OnceLock<Vec<Bytes>> = std::sync::OnceLock::new();
        let whole = LAYERS.get_or_init(|| layers(8));
        let mut base = whole[0].to_vec();
        let at = at.min(base.len() - 1);
        base[at] ^= xor;
        prop_assert!(decode(&[&base]).is_err());
        if at >= HEAD_BYTES {
            let _ = decode(&[sealed(0x10, &base[HEAD_BYTES..]).into(), whole[1].clone()]);
        }
    }
}
