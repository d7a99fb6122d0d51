//! The node's Unix socket: publish, subscribe and query from another process on the same machine.
//!
//! *The idea.* One connection serves one purpose: its first frame is the request, and then ADUs
//! flow one way. A frame is a kind, a length and a body. ADUs have the same header as on the
//! network, with the time left to their deadline, so the two processes need no common clock.
//! Backpressure is the socket's own; a subscriber that pulls, or has a policy, asks for its ADUs.
//!
//! ```text
//! client → node   Publish{…}  ADU …  Finish    node → client   Accepted  news …  Summary{…} | Refused
//! client → node   Subscribe{…}  Request …      node → client   Accepted  Source | ADU | Notice …  End
//! client → node   Status                       node → client   Status{…}
//! client → node   Drops{name}                  node → client   Accepted  Dropped{…} …
//! client → node   Watch{pattern}               node → client   Names{…} …
//! ```
//!
//! News report whether the stream has subscribers, what its links can send, and its losses.
//!
//! Any process that can open the socket may use the node; the socket is created with mode 0600.
//!
//! *What it does not do.* Large payloads in shared memory come with the upper API.
//!
//! *Sources.* docs/reference/protocol.md §8.

mod client;
mod credit;
mod drops;
mod frame;
mod request;
mod server;
mod ticket;

pub use client::{
    Client, LocalError, LocalMatching, LocalPublisher, LocalSubscriber, LocalTracer, Requests,
};
pub use drops::LocalDrops;
pub(crate) use server::{Server, is_socket};
