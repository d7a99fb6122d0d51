//! Files for the holder of a phrase instead of a named node.
//!
//! *The idea.* The phrase has a number, by which the sender is found on the map, and two words,
//! which both ends prove to each other without revealing them. Each receiver that proves them gets
//! a transfer of its own, sealed with a key that only the two ends have. Other nodes, including
//! relays, see that something is sent, and not what.
//!
//! | room | what lives there |
//! |---|---|
//! | `phrase`, `words` | a phrase as text |
//! | `proof` | the exchange, and the keys derived from it |
//! | `keeper` | limits: tries, time, receivers |
//! | `host`, `guest` | the two ends, with their streams |
//!
//! *What it does not do.* It invents no cryptography.
//!
//! *Sources.* docs/concepts/files.md §7; docs/decisions/0020; spec RA-28.

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
