//! Magic Wormhole: files by a code, over a mailbox and a transit relay of our own.
//!
//! It carries no stream: only `BM-R1` runs it, with its own commands. Its servers are plugins of
//! `twist`, which the interpreter runs.

use super::Peer;
use super::install::{Package, Program};

pub(super) const PEER: Peer = Peer {
    name: "magic-wormhole",
    carries: "files over TCP, encrypted: by a code, through its own relay",
    programs: &[
        Program {
            name: "wormhole",
            package: Package::Wheel {
                name: "magic-wormhole",
                version: "0.24.0",
            },
            version_flag: "--version",
        },
        Program {
            name: "magic-wormhole-mailbox-server",
            package: Package::Python { version: "0.8.0" },
            version_flag: "",
        },
        Program {
            name: "magic-wormhole-transit-relay",
            package: Package::Python { version: "0.5.0" },
            version_flag: "",
        },
    ],
    piece_bytes: 0,
    start: None,
    fans: &[],
    chain: None,
};
