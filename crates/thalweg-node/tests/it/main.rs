//! The node, through its public verbs: real nodes, real QUIC over loopback, bounded waits, no timing asserts.

mod chain;
mod fabric;
