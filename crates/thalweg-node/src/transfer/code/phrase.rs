//! A phrase that one person tells another: `7-otter-lantern`.
//!
//! *The idea.* The number identifies the sender and is public; the words prove the right to receive
//! and never leave the two ends. Two words of 256 are 16 bits, which suffice since a wrong phrase
//! can be tried only three times, and never offline (`proof`).
//!
//! *What it does not do.* It accepts no word outside of its list: such a word is a typing error,
//! and costs no try.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::rand;
use strsim::levenshtein;

use super::words::WORDS;

/// The number of words in a phrase.
const COUNT: usize = 2;

/// The largest number. One or two digits are easier to say than three.
const NUMBER_MAX: u16 = 999;

/// The largest number that is drawn while a smaller one is free.
const NUMBER_USUAL: u16 = 99;

/// A phrase: a number and two words.
#[derive(Clone, PartialEq, Eq)]
pub struct Phrase {
    number: u16,
    words: [&'static str; COUNT],
}

/// Why a text is not a phrase.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadPhrase(String);

impl Phrase {
    /// Draws a phrase with a free number.
    ///
    /// Fails   if no number is free, or the system has no random numbers
    pub(super) fn draw(taken: &[u16]) -> Option<Self> {
        let free = |number: &u16| !taken.contains(number);
        let usual: Vec<u16> = (1..=NUMBER_USUAL).filter(free).collect();
        let all = || (1..=NUMBER_MAX).filter(free).collect();
        let free = if usual.is_empty() { all() } else { usual };
        let mut chance = [0; 4 + COUNT];
        rand::fill(&mut chance).ok()?;
        let ([a, b, c, d], words) = chance.split_first_chunk()?;
        // Modulo bias: below one millionth for at most a thousand numbers; besides, the number is
        // public.
        let number = u32::from_be_bytes([*a, *b, *c, *d]) as usize % free.len().max(1);
        Some(Self {
            number: *free.get(number)?,
            words: [WORDS[usize::from(words[0])], WORDS[usize::from(words[1])]],
        })
    }

    /// Returns the number, which is public.
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
    /// Omits the words, since many people may read a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Phrase({}-…)", self.number)
    }
}

impl FromStr for Phrase {
    type Err = BadPhrase;

    /// Parses a phrase as people type it: in any case, with spaces or hyphens.
    fn from_str(text: &str) -> Result<Self, BadPhrase> {
        let lower = text.to_lowercase();
        let parts = lower.split(|c: char| c == '-' || c.is_whitespace());
        let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
        let Some(&[number, first, second]) = parts.get(..).filter(|all| all.len() == 1 + COUNT)
        else {
            return Err(BadPhrase(
                "a phrase is a number and two words, such as `7-otter-lantern`".into(),
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
