//! Files over streams: what to send, what to resend, and what to accept.
//!
//! *The idea.* A transfer is a stream of full reliability and lowest importance, plus a small
//! return stream per receiver. The sender sends parcels: an offer, parts of the manifest, blocks of
//! the files. A receipt reports how far the receiver is in the stream and which blocks are missing.
//! Each hop keeps the order, so a missing block that was sent before the latest arrival is lost and
//! is resent; nothing else is sent twice. No state can be damaged by a crash: a restarted receiver
//! verifies the blocks that it has and reports the missing ones.
//!
//! ```text
//!            files/ID/TAGS    offer … manifest … block … block … offer
//!  Sender  ═══════════════════════════════════════════════════════════► Receiver   one stream for all
//!          ◄─────────────────────────────────────────────────────────── Receipt    one for each
//!            receipts/ID/TAG  at 17 of stream S, missing 3–5, 9
//! ```
//!
//! A transfer's id is a hash over names, sizes and hashes of its files ([`Manifest::id`]). The id
//! is part of the stream's name, which the sender's signed record announces. So a manifest is
//! accepted if it has that id, and a block if it fits the hash tree: no node on the path can change
//! a byte unnoticed.
//!
//! | module | what it holds |
//! |---|---|
//! | [`name`] | ids, names of streams, names of files |
//! | [`tree`] | the hashes of blocks, and of files from them |
//! | [`manifest`] | the files of a transfer, and the position of each block |
//! | [`block`] | the choice of the block size |
//! | [`have`] | the set of blocks that are present |
//! | [`message`] | encoding of parcels and receipts |
//! | [`meeting`] | encoding of the messages before a transfer by phrase |
//! | [`Sender`], [`Receiver`] | the two state machines |
//!
//! *What it does not do.* It opens no file and no stream: `thalweg-node` does. It sends no folders;
//! use an archive.
//!
//! *Sources.* docs/concepts/files.md; spec RA-5, RA-28; Aumasson, Neves, O'Connor, Wilcox-O'Hearn, "BLAKE3",
//! 2020, §2.1.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

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
