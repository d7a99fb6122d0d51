//! Membership in a fabric: a node's state of it, tickets as text, and joining.
//!
//! *The idea.* A node of a fabric with an owner has a small file beside its key: its own grant, the
//! revocations, nodes to dial, and the remaining uses of its tickets. `thalweg join` writes the
//! first version, the running node all later ones. `thalweg_control::admission` decides rights.
//!
//! | file | what it is |
//! |---|---|
//! | `state` | the file |
//! | `ticket` | tickets as text, with a checksum |
//! | `join` | redeeming a ticket, before the node runs |
//!
//! *What it does not do.* It keeps no list of members: members show their grants, and neighbours
//! pass these on.
//!
//! *Sources.* docs/concepts/admission.md.

pub mod join;
pub(crate) mod state;
#[cfg(test)]
mod tests;
pub mod ticket;

pub use join::{JoinError, Joined, join};
pub use state::StateError;
pub use ticket::TicketError;

use thalweg_base::wire::admission::SECRET_BYTES;

/// Domain separation for the digest of a ticket's secret; the inviter keeps only the digest.
const SECRET_CONTEXT: &[u8] = b"thalweg ticket secret v1";

/// Returns the digest by which an inviter recognises a ticket's secret.
pub(crate) fn secret_digest(secret: &[u8; SECRET_BYTES]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(SECRET_CONTEXT);
    hasher.update(secret);
    *hasher.finalize().as_bytes()
}
