//! Files over streams: what is sent, what is sent again, and what is believed.
//!
//! *The idea.* A transfer is a stream of full reliability and least importance, and for each receiver a small stream
//! back. The sender gives parcels: an offer, parts of the manifest, blocks of the files. The receiver says how far it
//! has got in the stream and what it is still missing. What is missing and lies behind what has arrived is lost, for
//! each hop keeps the order, and goes again; nothing else is ever sent twice. There is no state that a crash could
//! damage: a receiver that begins anew looks at what it has, and says what it misses.
//!
//! ```text
//!            files/ID/TAGS    offer … manifest … block … block … offer
//!  Sender  ═══════════════════════════════════════════════════════════► Receiver   one stream for all receivers
//!          ◄─────────────────────────────────────────────────────────── Receipt    one stream for each
//!            receipts/ID/TAG  at 17 of stream S, missing 3–5, 9
//! ```
//!
//! A transfer's id is a hash over names, sizes and the hashes of its files ([`Manifest::id`]). It stands in the name of
//! its stream, which the sender's record announces under the sender's signature; so the manifest is believed if it has
//! that id, and a block if it has its place in the tree of hashes: nobody on the way can change a byte unnoticed.
//!
//! | room | what lives there |
//! |---|---|
//! | [`name`] | ids, names of streams, names of files |
//! | [`tree`] | the hashes of blocks, and of files by them |
//! | [`manifest`] | what a transfer has, and where each block lies |
//! | [`block`] | how large a block should be |
//! | [`have`] | which blocks are there |
//! | [`message`] | parcels and receipts as bytes |
//! | [`meeting`] | what is said before a transfer by phrase, as bytes |
//! | [`Sender`], [`Receiver`] | the two machines |
//!
//! *What it does not do.* It opens no file and no stream: `thalweg-node` does. It sends no folders: an archive does.
//!
//! *Sources.* docs/files.md; spec RA-5, RA-28; Aumasson, Neves, O'Connor, Wilcox-O'Hearn, "BLAKE3", 2020, §2.1.

pub mod block;
pub mod have;
pub mod manifest;
pub mod meeting;
pub mod message;
pub mod name;
mod ranges;
pub mod receiver;
pub mod sender;
pub mod tree;

#[cfg(test)]
mod tests;

pub use have::Have;
pub use manifest::{File, Layout, Manifest, ManifestError, Place};
pub use message::{Parcel, Receipt, State};
pub use name::{FileName, TransferId};
pub use receiver::{Receiver, Taken};
pub use sender::{Next, Progress, Sender};
