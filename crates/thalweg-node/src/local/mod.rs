//! The node's Unix socket: publish, subscribe and ask from another process of the same machine.
//!
//! *The idea.* One connection, one thing: its first frame says what is wanted, and then ADUs flow one way. Frames are
//! a kind, a length and a body; ADUs have the very header that they have on the network, with what is left of their
//! deadline, so that the two processes need no common clock. Back-pressure is the socket's own.
//!
//! ```text
//! client → node   Publish{…}    ADU …  Finish          node → client   Accepted  tidings …  Summary{…} | Refused
//! client → node   Subscribe{…}                         node → client   Accepted  Source | ADU | Notice …  End
//! client → node   Status                               node → client   Status{…}
//! ```
//!
//! Tidings are whether anybody receives the stream, what its links can send, and what of it did not arrive.
//!
//! Who may open the socket may use the node: it is made with mode 0600.
//!
//! *What it does not do.* Large payloads in shared memory come with the upper API.
//!
//! *Sources.* docs/protocol.md §8.

mod client;
mod frame;
mod server;
mod ticket;

pub use client::{Client, LocalError, LocalPublisher, LocalSubscriber, LocalTracer};
pub(crate) use server::{Server, is_socket};
