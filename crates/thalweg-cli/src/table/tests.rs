//! Proves the layout.

use super::*;

#[test]
fn columns_fit_their_widest_cell() {
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
fn wide_characters_keep_columns_aligned() {
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
