//! Suggestions for a mistyped name.
//!
//! *Sources.* The edit distance of Levenshtein.

use strsim::levenshtein as distance;

/// How many names are suggested.
const OFFERED: usize = 3;

/// Returns up to [`OFFERED`] names, the nearest first; a name must differ in at most half of its
/// characters.
pub(super) fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let word = word.to_ascii_lowercase();
    let mut ranked: Vec<(usize, &str)> = names
        .into_iter()
        .map(|name| (distance(&word, &name.to_ascii_lowercase()), name))
        .filter(|(distance, name)| {
            2 * distance <= 1 + name.chars().count().max(word.chars().count())
        })
        .collect();
    ranked.sort_unstable();
    ranked.truncate(OFFERED);
    ranked.into_iter().map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    //! Proves the distance against known values, and that only near names are suggested.

    use super::{distance, nearest};

    #[test]
    fn distances_match_known_values() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("same", "same"), 0);
    }

    #[test]
    fn near_names_come_nearest_first() {
        let names = ["camera", "cam", "audio"];
        assert_eq!(nearest("cma", names), ["cam", "camera"]);
        assert_eq!(nearest("Camra", names), ["camera", "cam"]);
        assert!(nearest("zzzzzz", names).is_empty());
    }
}
