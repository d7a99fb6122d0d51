//! Where media comes from and goes to: files, pipes, UDP.
//!
//! *The idea.* `--from` and `--to` name an [`End`]. A [`Source`] gives transport stream bytes in slices of any size; a
//! [`Sink`] takes whole transport packets. What the bytes mean is `thalweg-media`'s.
//!
//! | end | `--from` | `--to` |
//! |---|---|---|
//! | a path | read once, or again and again | made anew |
//! | `-` | standard input | standard output |
//! | `udp://[address]:port` | bound; plain packets, cut anywhere, or RTP, told apart; a multicast group is joined | seven packets a datagram |
//! | `rtp://[address]:port` | the same | the same in RTP |
//!
//! *What it does not do.* It waits for nothing but its end: pacing is [`crate::pace`]'s.

mod sink;
mod source;

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use thalweg_net::error::NoHost;
use thalweg_net::{NoPlace, Place};

pub use sink::Sink;
pub use source::{Seen, Source};

/// Options of ffmpeg's `udp://` that say how it reads and sends, and nothing of what: they are left aside.
const MEANINGLESS: &[&str] = &[
    "pkt_size",
    "buffer_size",
    "fifo_size",
    "overrun_nonfatal",
    "reuse",
];

/// How much of a word that is no end is shown.
const SHOWN_MAX: usize = 80;

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
    #[error("{0}; write udp://127.0.0.1:5004, udp://[::1]:5004, or udp://:5004")]
    Address(NoPlace),
    /// Port 0, which stands for any.
    #[error("port 0 is no port where something comes from or goes to: write another")]
    NoPort,
    /// A host that is not found.
    #[error(transparent)]
    Host(#[from] NoHost),
    /// An option as ffmpeg has them, which would change what is read or sent.
    #[error("`{0}` is an option that has no meaning here: leave it out")]
    Option(String),
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
        let short = || text.chars().take(SHOWN_MAX).collect();
        match text.split_once("://") {
            Some((scheme @ ("udp" | "rtp"), rest)) => Ok(Self::Datagrams {
                address: address(rest)?,
                rtp: scheme == "rtp",
            }),
            Some(_) => Err(BadEnd::Scheme(short())),
            None if text == "-" => Ok(Self::Standard),
            None if text.is_empty() => Err(BadEnd::Empty),
            None => Ok(Self::File(PathBuf::from(text))),
        }
    }
}

/// Reads `address:port`; players write `@` before it, ffmpeg options behind it, and an absent address is every one of this machine's. A name
/// is looked up once.
fn address(text: &str) -> Result<SocketAddr, BadEnd> {
    let (text, options) = text.split_once('?').unwrap_or((text, ""));
    let options = options.split('&').filter(|option| !option.is_empty());
    for option in options {
        let (name, _) = option.split_once('=').unwrap_or((option, ""));
        if !MEANINGLESS.contains(&name) {
            return Err(BadEnd::Option(option.chars().take(SHOWN_MAX).collect()));
        }
    }
    let text = text.strip_prefix('@').unwrap_or(text);
    let text = text.strip_suffix('/').unwrap_or(text);
    let whole = match text.strip_prefix(':') {
        Some(port) => format!("{}:{port}", Ipv4Addr::UNSPECIFIED),
        None => text.into(),
    };
    let address = match whole.parse().map_err(BadEnd::Address)? {
        Place::Address(address) => address,
        // The first is what others take who look it up.
        Place::Host(host) => host.look_up_blocking()?[0],
    };
    if address.port() == 0 {
        return Err(BadEnd::NoPort);
    }
    Ok(address)
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
