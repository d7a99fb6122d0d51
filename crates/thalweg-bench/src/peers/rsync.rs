//! `rsync`: from a program to a daemon, one hop at a time; it relays nothing, so a relay is another run
//! of it.
//!
//! It carries no stream: only `BM-R1` runs it, with its own commands.

use super::Peer;
use super::install::{Package, Program};

pub(super) const PEER: Peer = Peer {
    name: "rsync",
    carries: "files over TCP, plain: to a daemon, hop by hop",
    programs: &[Program {
        name: "rsync",
        package: Package::Debian("rsync"),
        version_flag: "--version",
    }],
    piece_bytes: 0,
    start: None,
    fans: &[],
    chain: None,
};
