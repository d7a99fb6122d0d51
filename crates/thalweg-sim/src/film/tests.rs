//! Proves that a film's layers keep to their rates and that each further layer improves the picture.

use thalweg_base::needs::Needs;
use thalweg_base::units::Bitrate;
use thalweg_planner::model::{Layer, Stream, Traffic};

use super::{Film, FilmError, PICTURES, Shown};

pub(crate) fn stream(kbps: &[u64]) -> Stream {
    let layer = |kbps: &u64| Layer {
        rate: Bitrate::from_kbps(*kbps),
        utility: 1.0 / 3.0,
    };
    Stream {
        name: "s".parse().expect("a valid name"),
        from: "a".parse().expect("a valid name"),
        to: vec!["b".parse().expect("a valid name")],
        layers: kbps.iter().map(layer).collect(),
        needs: Needs::default(),
        importance: Stream::IMPORTANCE_DEFAULT,
        pack_ratio: None,
        seal_overhead: None,
        traffic: Traffic {
            frames: 12.0,
            video: true,
            ..Traffic::default()
        },
    }
}

#[test]
fn layer_keeps_rate_and_adds_quality() {
    let film = Film::new(&stream(&[60, 120, 240])).expect("room for three layers");
    for (layer, most) in [(0u8, 625), (1, 625 + 1_250), (2, 625 + 1_250 + 2_500)] {
        for frame in 0..PICTURES as u64 {
            let prefix: usize = (0..=layer).map(|l| film.payload(frame, l).len()).sum();
            assert!(prefix <= most, "frame {frame} layer {layer}: {prefix}");
        }
    }
    assert_eq!(film.payload(3, 1), film.payload(3 + PICTURES as u64, 1));
    let looks = |shown| film.compare(2, shown).expect("one size").y_db;
    let ladder = [
        looks(Shown::Grey),
        looks(Shown::Picture(2, 1)),
        looks(Shown::Picture(2, 2)),
        looks(Shown::Picture(2, 3)),
    ];
    assert!(ladder.is_sorted_by(|a, b| a < b), "{ladder:?}");
    assert!(looks(Shown::Picture(20, 3)) < looks(Shown::Picture(2, 1)));
}

#[test]
fn too_small_layers_are_refused() {
    let error = Film::new(&stream(&[60, 6, 240])).expect_err("6 kbit/s are no layer");
    assert!(matches!(&error, FilmError::Budgets { .. }));
    assert!(error.to_string().contains("`s`"), "{error}");
}
