//! Rights in a fabric: granted with the owner's key, and how they end.
//!
//! *The idea.* A fabric is its owner's key. The rights of a node stand in a grant signed by the
//! owner, or by a delegate with the owner's right to invite. So any node can check any other, near
//! or far, without asking a third. A grant ends at its expiry, or at once by a signed revocation.
//! Each node keeps a [`Roll`] of the nodes with a valid grant; in a fabric without an owner, every
//! node has all rights.
//!
//! ```text
//! owner ──signs──► grant of a delegate (with `invite`) ──signs──► grant of a node        the longest chain
//!   └───signs────► grant of a node
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `rights` | what can be granted |
//! | `roll` | the members and their rights: credentials and warrants in, rights out |
//! | `invitations` | tickets that were issued, and their remaining uses |
//!
//! *What it does not do.* It holds no key and reads no clock: a function that is passed in checks
//! signatures, and the time of day is an argument. The encoding is in [`thalweg_base::wire::admission`].
//!
//! *Sources.* docs/concepts/admission.md; docs/decisions/0014-rights-by-signed-grants.md.

mod invitations;
mod roll;
#[cfg(test)]
mod tests;

pub use invitations::{Invitation, Invitations, NotRedeemed, Redeemed};
pub use roll::{Expelled, News, Roll, Unfit, Verify};
pub use thalweg_base::rights::{BadRight, Rights, UnixTime};
