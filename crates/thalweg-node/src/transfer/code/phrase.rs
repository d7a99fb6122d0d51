//! A phrase that one person says to another: `7-otter-lantern`.
//!
//! *The idea.* The number says who sends, to everybody; the words say who may have it, and never leave the two ends. Two words
//! of 256 are 16 bits, which are enough where a wrong one can be tried three times and not at leisure (`proof`).
//!
//! *What it does not do.* It takes no word that is not in its list: that one is mistyped, and no try is spent on it.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::rand;
use strsim::levenshtein;

use super::words::WORDS;

/// Words of a phrase.
const COUNT: usize = 2;

/// The largest number; one digit or two are easier to say than three.
const NUMBER_MAX: u16 = 999;

/// What is drawn of, while one of them is free.
const NUMBER_USUAL: u16 = 99;

/// A number and two words.
#[derive(Clone, PartialEq, Eq)]
pub struct Phrase {
    number: u16,
    words: [&'static str; COUNT],
}

/// A text that is no phrase.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadPhrase(String);

impl Phrase {
    /// Draws one whose number nobody has.
    ///
    /// Fails   no number is free, or the system has no randomness
    pub(super) fn draw(taken: &[u16]) -> Option<Self> {
        let free = |number: &u16| !taken.contains(number);
        let usual: Vec<u16> = (1..=NUMBER_USUAL).filter(free).collect();
        let all = || (1..=NUMBER_MAX).filter(free).collect();
        let free = if usual.is_empty() { all() } else { usual };
        let mut chance = [0; 4 + COUNT];
        rand::fill(&mut chance).ok()?;
        let ([a, b, c, d], words) = chance.split_first_chunk()?;
        // Of a thousand, the error of the remainder is below a millionth; and the number is no secret.
        let number = u32::from_be_bytes([*a, *b, *c, *d]) as usize % free.len().max(1);
        Some(Self {
            number: *free.get(number)?,
            words: [WORDS[usize::from(words[0])], WORDS[usize::from(words[1])]],
        })
    }

    /// Returns the number, which is no secret.
    pub(super) const fn number(&self) -> u16 {
        self.number
    }
}

impl fmt::Display for Phrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.number, self.words.join("-"))
    }
}

impl fmt::Debug for Phrase {
    /// Writes no word: a log is read by more people than one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Phrase({}-…)", self.number)
    }
}

impl FromStr for Phrase {
    type Err = BadPhrase;

    /// Reads one as people type it: in any case, with spaces or hyphens between.
    fn from_str(text: &str) -> Result<Self, BadPhrase> {
        let lower = text.to_lowercase();
        let parts = lower.split(|c: char| c == '-' || c.is_whitespace());
        let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
        let Some(&[number, first, second]) = parts.get(..).filter(|all| all.len() == 1 + COUNT)
        else {
            return Err(BadPhrase(
                "a phrase is a number and two words, as `7-otter-lantern`".into(),
            ));
        };
        let number = number.parse().ok();
        let number = number.filter(|number| (1..=NUMBER_MAX).contains(number));
        let number = number.ok_or_else(|| {
            BadPhrase(format!(
                "a phrase begins with a number from 1 to {NUMBER_MAX}"
            ))
        })?;
        Ok(Self {
            number,
            words: [word(first)?, word(second)?],
        })
    }
}

fn word(typed: &str) -> Result<&'static str, BadPhrase> {
    if let Ok(place) = WORDS.binary_search(&typed) {
        return Ok(WORDS[place]);
    }
    let near = WORDS.iter().min_by_key(|word| levenshtein(typed, word));
    let near = near.filter(|word| levenshtein(typed, word) <= 2);
    let hint = near.map_or("ask for it again".into(), |near| format!("is it `{near}`?"));
    let typed: String = typed
        .chars()
        .take(20)
        .flat_map(char::escape_debug)
        .collect();
    Err(BadPhrase(format!(
        "`{typed}` is no word of a phrase; {hint}"
    )))
}
