//! Where media comes from and goes to: files, pipes, UDP.
//!
//! *The idea.* `--from` and `--to` name an [`End`]. A [`Source`] gives transport stream bytes in slices of any size; a
//! [`Sink`] takes whole transport packets. What the bytes mean is `thalweg-media`'s.
//!
//! | end | `--from` | `--to` |
//! |---|---|---|
//! | a path | read once, or again and again | made anew |
//! | `-` | standard input | standard output |
//! | `udp://[address]:port` | bound; plain packets or RTP, told apart; a multicast group is joined | seven packets a datagram |
//! | `rtp://[address]:port` | the same | the same in RTP |
//!
//! *What it does not do.* It waits for nothing but its end: pacing is [`crate::pace`]'s.

mod sink;
mod source;

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

pub use sink::Sink;
pub use source::Source;

/// What `--from` or `--to` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// A file, or anything that opens like one.
    File(PathBuf),
    /// Standard input or output.
    Standard,
    /// Datagrams.
    Datagrams {
        /// Where they come from or go to.
        address: SocketAddr,
        /// Whether they are to be RTP when sent.
        rtp: bool,
    },
}

/// The text names no end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadEnd {
    /// No address and port after `udp://` or `rtp://`.
    #[error(
        "`{0}` has no address and port: write udp://127.0.0.1:5004, udp://[::1]:5004, or udp://:5004"
    )]
    Address(String),
    /// A scheme that is not read here.
    #[error("`{0}` cannot be used here: use a file, `-`, udp://address:port or rtp://address:port")]
    Scheme(String),
    /// Nothing was named.
    #[error("an empty name is no file: use a file, `-`, udp://address:port or rtp://address:port")]
    Empty,
}

impl FromStr for End {
    type Err = BadEnd;

    fn from_str(text: &str) -> Result<Self, BadEnd> {
        let short = || text.chars().take(80).collect();
        match text.split_once("://") {
            Some((scheme @ ("udp" | "rtp"), rest)) => Ok(Self::Datagrams {
                address: address(rest).ok_or_else(|| BadEnd::Address(short()))?,
                rtp: scheme == "rtp",
            }),
            Some(_) => Err(BadEnd::Scheme(short())),
            None if text == "-" => Ok(Self::Standard),
            None if text.is_empty() => Err(BadEnd::Empty),
            None => Ok(Self::File(PathBuf::from(text))),
        }
    }
}

/// Reads `address:port`; players write `@` before it, and an absent address is every one of this machine's.
fn address(text: &str) -> Option<SocketAddr> {
    let text = text.strip_prefix('@').unwrap_or(text);
    let text = text.strip_suffix('/').unwrap_or(text);
    let address = match text.strip_prefix(':') {
        Some(port) => SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port.parse().ok()?),
        None => text.parse().ok()?,
    };
    (address.port() != 0).then_some(address)
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Standard => f.write_str("-"),
            Self::Datagrams { address, rtp } => {
                write!(f, "{}://{address}", if *rtp { "rtp" } else { "udp" })
            }
        }
    }
}
