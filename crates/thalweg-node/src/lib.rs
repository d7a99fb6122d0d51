//! The Thalweg daemon as a library.
//!
//! *The idea.* [`Node::load`] assembles a node from a [`Config`] and [`Node::run`] runs it until it
//! is told to stop; the daemon, the demo, the tests and every other program start a node this way.
//! A [`Handle`] publishes and subscribes; [`local`] does the same from another process.
//!
//! | room | what lives there |
//! |---|---|
//! | [`config`] | the configuration file and its checks |
//! | [`node`] | assembly and shutdown |
//! | `control` | the driver of `thalweg_control::control`: records, plans, subscriptions |
//! | `input` | what comes to the control task: events, requests and their answers |
//! | `forward` | the data path: `thalweg_dataplane::route` with links, mailboxes, counters |
//! | [`fabric`] | the node's state of its fabric, tickets as text, joining |
//! | `envelope` | stream keys, sealed for one node |
//! | `board` | what inputs and outputs do, and requests to start and stop them |
//! | [`ends`] | inputs and outputs: what a program registers, and their supervision |
//! | [`handle`] | publish and subscribe, in this process |
//! | [`local`] | the same over a Unix socket |
//! | [`transfer`] | files, sent and received over the local socket |
//! | `waiting` | connections without a request yet |
//! | `admin` | health, metrics and status over HTTP |
//! | [`status`] | the status of a node, as data |
//!
//! *What it does not do.* It knows no media: a relay that links no codec cannot leak through one.
#![forbid(unsafe_code)]

mod admin;
mod board;
pub mod config;
mod continuity;
mod control;
pub mod ends;
mod envelope;
mod error;
pub mod fabric;
mod forward;
pub mod handle;
mod input;
pub mod local;
pub mod node;
pub mod program;
pub mod status;
pub mod transfer;
mod waiting;

pub use config::{Config, ConfigError, DEFAULT_CONFIG};
pub use handle::{
    AlignedEvent, AlignedSubscriber, Drops, Handle, Losses, Matching, Outgoing, Publication,
    PublishError, PublishSummary, Publisher, Receive, Selection, Sendable, SubscribeOptions,
    Subscriber, SubscriberEvent, Tracer,
};
pub use input::{
    AdmissionError, HopCost, InviteRequest, Reloaded, RouteError, TraceError, TraceEvent, TracedAdu,
};
pub use node::{Node, NodeError, Report};
pub use status::Status;
pub use thalweg_base::mailbox::{Depth, MailboxError, MailboxOptions, Policy};
pub use thalweg_dataplane::align::Aligned;
