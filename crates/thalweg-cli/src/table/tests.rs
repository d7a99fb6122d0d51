//! Proves the layout.

use super::*;

#[test]
fn columns_are_as_wide_as_their_widest_cell_and_empty_ones_are_left_out() {
    let rows = [
        ["node", "nothing", "rate"],
        ["a", "", "→ 1"],
        ["long name", "", ""],
    ]
    .map(|row| row.map(String::from));
    assert_eq!(
        lay_out(&rows, Colour::NEVER),
        "node       rate\na          → 1\nlong name\n"
    );
}
