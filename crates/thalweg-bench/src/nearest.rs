//! Suggestions for a mistyped name.
//!
//! *Sources.* The edit distance of Levenshtein.

use strsim::levenshtein as distance;

/// Returns at most three of the names, the nearest first; names that share less than half with the word
/// are left out.
pub(crate) fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let word = word.to_ascii_lowercase();
    let mut ranked: Vec<(usize, &str)> = names
        .into_iter()
        .map(|name| (distance(&word, &name.to_ascii_lowercase()), name))
        .filter(|(distance, name)| 2 * distance <= name.chars().count().max(word.chars().count()))
        .collect();
    ranked.sort_unstable();
    ranked.dedup();
    ranked.into_iter().take(3).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    //! Checks the distance by hand, and that only near names are suggested.

    use super::{distance, nearest};

    #[test]
    fn distances_match_textbook() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("same", "same"), 0);
    }

    #[test]
    fn near_names_come_nearest_first() {
        let names = ["BM-D1", "BM-D2", "BM-P3", "delivery"];
        assert_eq!(nearest("bm-d", names), ["BM-D1", "BM-D2", "BM-P3"]);
        assert_eq!(nearest("delivry", names), ["delivery"]);
        assert!(nearest("zzzzzz", names).is_empty());
    }
}
