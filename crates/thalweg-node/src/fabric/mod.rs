//! Belonging to a fabric: what a node keeps of it, tickets as text, and joining.
//!
//! *The idea.* A node that belongs to a fabric with an owner has a small file beside its key: its own grant, what is
//! revoked, whom to dial, and what is left of the tickets that it gave out. `thalweg join` writes the first such file, the
//! running node all later ones. Rights themselves are decided in `thalweg_core::admission`.
//!
//! | file | what it is |
//! |---|---|
//! | `state` | the file |
//! | `ticket` | tickets as text, with a checksum |
//! | `join` | redeeming a ticket, before the node runs |
//!
//! *What it does not do.* It keeps no list of members: they show their grants, and neighbours pass them on.
//!
//! *Sources.* docs/admission.md.

pub mod join;
pub(crate) mod state;
#[cfg(test)]
mod tests;
pub mod ticket;

pub use join::{JoinError, Joined, join};
pub use state::StateError;
pub use ticket::TicketError;

use thalweg_core::wire::admission::SECRET_BYTES;

/// What precedes a ticket's secret in its digest, which is what an inviter keeps of it.
const SECRET_CONTEXT: &[u8] = b"thalweg ticket secret v1";

/// Returns the digest by which an inviter knows a ticket's secret again.
pub(crate) fn secret_digest(secret: &[u8; SECRET_BYTES]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(SECRET_CONTEXT);
    hasher.update(secret);
    *hasher.finalize().as_bytes()
}
