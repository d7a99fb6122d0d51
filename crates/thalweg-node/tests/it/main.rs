//! The node through its public interface: real nodes, real QUIC over loopback, bounded waits, no
//! timing asserts.

mod accounts;
mod admin;
mod admission;
mod chain;
mod contention;
mod continuity;
mod crowd;
mod direct;
mod fabric;
mod files;
mod given;
mod local;
mod measured;
mod outbox;
mod over_tcp;
mod recast;
mod relayed;
mod reroute;
mod sendable;
mod trace;
mod twice;
mod watched;
