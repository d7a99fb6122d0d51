//! Who may do what in a fabric: grants by its owner's key, and their end.
//!
//! *The idea.* A fabric is its owner's key. What a node may do stands in a grant that the owner has signed, or a delegate
//! whom the owner lets invite others; so any node can check any other, near or far, without asking anybody. What was
//! granted ends by itself at its expiry, or at once by a signed revocation. Each node keeps a [`Roll`] of those that it
//! has seen a good grant of; a fabric without an owner has a roll on which everybody stands with all rights.
//!
//! ```text
//! owner ──signs──► grant of a delegate (with `invite`) ──signs──► grant of a node        no longer chain than this
//!   └───signs────► grant of a node
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `rights` | what can be granted |
//! | `roll` | who has it now: credentials and warrants in, rights out |
//! | `invitations` | tickets that were given out, and what is left of them |
//!
//! *What it does not do.* It holds no key and reads no clock: signatures are checked by a function that is passed in, and
//! the time of day is an argument. The bytes are those of [`crate::wire::admission`].
//!
//! *Sources.* docs/admission.md; docs/decisions/0014-rights-by-signed-grants.md.

mod invitations;
mod rights;
mod roll;
#[cfg(test)]
mod tests;

pub use invitations::{Invitation, Invitations, NotRedeemed, Redeemed};
pub use rights::{BadRight, Rights, UnixTime};
pub use roll::{Expelled, News, Roll, Unfit, Verify};
