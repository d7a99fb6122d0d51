//! Proves what each bias drops first, that no layer outranks one it needs, and that tables are
//! checked.

use alloc::string::ToString as _;
use alloc::vec;
use alloc::vec::Vec;

use super::{AdaptationPolicy, BadPolicy, LEVELS, Table, level_of};
use crate::limits::LAYERS_MAX;

const EIGHT: u8 = 8;

/// Returns pictures and layers of two groups, the first dropped first.
fn dropped_first(policy: AdaptationPolicy) -> Vec<(u64, u8)> {
    let mut pieces: Vec<(u64, u8)> = (0..16)
        .flat_map(|picture| (0..EIGHT).map(move |layer| (picture, layer)))
        .collect();
    pieces.sort_by_key(|(picture, layer)| policy.importance(*picture, *layer, EIGHT));
    pieces
}

#[test]
fn levels_form_dyadic_hierarchy() {
    let levels: Vec<_> = (0..9).map(level_of).collect();
    assert_eq!(levels, [0, 3, 2, 3, 1, 3, 2, 3, 0]);
}

#[test]
fn temporal_bias_keeps_pictures_before_layers() {
    let order = dropped_first(AdaptationPolicy::Temporal);
    let (refinements, bases) = order.split_at(16 * 7);
    assert!(refinements.iter().all(|(_, layer)| *layer > 0));
    // Then pictures are dropped evenly: first every second.
    assert!(bases[..8].iter().all(|(picture, _)| picture % 2 == 1));
}

#[test]
fn spatial_bias_keeps_pictures_whole() {
    let order = dropped_first(AdaptationPolicy::Spatial);
    let (odd, rest) = order.split_at(8 * 8);
    assert!(odd.iter().all(|(picture, _)| picture % 2 == 1));
    assert!(rest.iter().all(|(picture, _)| picture % 2 == 0));
}

#[test]
fn no_layer_outranks_one_it_needs() {
    for policy in [
        AdaptationPolicy::Layers,
        AdaptationPolicy::Temporal,
        AdaptationPolicy::Spatial,
    ] {
        for layers in 1..=LAYERS_MAX as u8 {
            for picture in 0..8 {
                let of = |layer| policy.importance(picture, layer, layers);
                assert!(
                    (1..layers).all(|layer| of(layer) <= of(layer - 1)),
                    "{policy}"
                );
            }
        }
    }
}

#[test]
fn table_applies_and_its_last_layer_repeats() {
    let rows = vec![vec![250, 200], vec![240, 190], vec![230, 180], vec![220, 0]];
    let policy = AdaptationPolicy::Table(Table::new(&rows).expect("a valid table"));
    let of = |picture, layer| policy.importance(picture, layer, EIGHT).0;
    assert_eq!(
        [of(0, 0), of(4, 1), of(2, 0), of(1, 1), of(1, 7)],
        [250, 190, 230, 0, 0]
    );
}

#[test]
fn invalid_tables_are_rejected() {
    let rows = |rows: usize, layers: usize| vec![vec![9; layers]; rows];
    assert_eq!(Table::new(&rows(3, 8)), Err(BadPolicy::Rows { rows: 3 }));
    assert_eq!(
        Table::new(&rows(LEVELS, 0)),
        Err(BadPolicy::Layers { row: 0, layers: 0 })
    );
    let layers = LAYERS_MAX + 1;
    assert_eq!(
        Table::new(&rows(LEVELS, layers)),
        Err(BadPolicy::Layers { row: 0, layers })
    );
    assert!(Table::new(&rows(LEVELS, LAYERS_MAX)).is_ok());
    let mut uneven = rows(LEVELS, 2);
    uneven[2].pop();
    assert_eq!(
        Table::new(&uneven),
        Err(BadPolicy::Layers { row: 2, layers: 1 })
    );
    let mut inverted = rows(LEVELS, 2);
    inverted[1] = vec![5, 6];
    let refused = Table::new(&inverted).expect_err("layer 1 needs layer 0");
    assert_eq!(refused, BadPolicy::Inverted { row: 1, layer: 1 });
    assert!(
        refused
            .to_string()
            .contains("matters more than the layer below it")
    );
}
