//! Proves that ranges of seeds are parsed, and that others are refused with a sentence.

use super::Seeds;

#[test]
fn range_of_seeds_excludes_its_end() {
    assert_eq!(
        "0..1000".parse(),
        Ok(Seeds {
            first: 0,
            end: 1_000
        })
    );
    for bad in ["7", "7..", "7..7", "9..7", "a..b", "0..=9"] {
        let error = bad.parse::<Seeds>().expect_err(bad);
        assert!(error.contains(bad), "{error}");
    }
}
