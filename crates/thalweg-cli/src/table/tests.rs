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

#[test]
fn columns_stand_under_each_other_on_a_terminal_also_where_characters_are_wide() {
    let rows = [
        ["name", "slots"],
        ["漢字漢字", "1"],
        ["e\u{301}te\u{301}", "2"],
        ["📷 truck", "3"],
    ]
    .map(|row| row.map(String::from));
    assert_eq!(
        lay_out(&rows, Colour::NEVER),
        "name      slots\n漢字漢字  1\ne\u{301}te\u{301}       2\n📷 truck  3\n"
    );
}
