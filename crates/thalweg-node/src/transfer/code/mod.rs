//! Files for who has a phrase, not for a node that is named.
//!
//! *The idea.* The phrase has a number, which says on the map who sends, and two words, which both ends prove to each other without
//! saying them. Who has proved them gets a transfer of its own, sealed by a key that only the two have: everybody else in the
//! fabric, relays included, sees that something is sent, and not what.
//!
//! | room | what lives there |
//! |---|---|
//! | `phrase`, `words` | a phrase as text |
//! | `proof` | the exchange, and the keys that follow |
//! | `keeper` | how often, how long, for how many |
//! | `host`, `guest` | the two ends, with their streams |
//!
//! *What it does not do.* It invents no cryptography.
//!
//! *Sources.* docs/files.md §7; docs/decisions/0020; spec RA-28.

pub(super) mod guest;
mod host;
mod keeper;
mod phrase;
pub(super) mod proof;
#[cfg(test)]
mod tests;
mod words;

pub use host::{CodeOptions, send_by_code};
pub use phrase::{BadPhrase, Phrase};
