//! Media inputs and outputs: files, pipes, UDP.
//!
//! *The idea.* `--from` and `--to` name an [`End`]. A [`Source`] returns transport stream bytes in slices
//! of any size; a [`Sink`] takes whole transport packets. `thalweg-media` interprets the bytes.
//!
//! | end | `--from` | `--to` |
//! |---|---|---|
//! | a path | read once or repeatedly | created, or truncated |
//! | `-` | standard input | standard output |
//! | `udp://[address]:port` | bound; RTP or plain packets; joins a multicast group | seven packets each |
//! | `rtp://[address]:port` | the same | the same in RTP |
//!
//! *What it does not do.* It does not pace: [`crate::pace`] does.

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
pub use source::{ReceivedInput, Source};

/// Options of ffmpeg's `udp://` that affect only how ffmpeg reads and sends. They are ignored.
const IGNORED_OPTIONS: &[&str] = &[
    "pkt_size",
    "buffer_size",
    "fifo_size",
    "overrun_nonfatal",
    "reuse",
];

/// Characters of a bad value that an error shows.
const SHOWN_MAX: usize = 80;

/// An input or output, as `--from` or `--to` names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// A file, or anything that opens like one.
    File(PathBuf),
    /// Standard input or output.
    Standard,
    /// Datagrams.
    Datagrams {
        /// The address to receive on or to send to.
        address: SocketAddr,
        /// Whether to send RTP.
        rtp: bool,
    },
}

/// The text names no input or output.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadEnd {
    /// No address and port after `udp://` or `rtp://`.
    #[error("{0}; write udp://127.0.0.1:5004, udp://[::1]:5004 or udp://:5004")]
    Address(NoPlace),
    /// Port 0, which means any port.
    #[error("port 0 cannot be used: give another port")]
    NoPort,
    /// The host name cannot be resolved.
    #[error(transparent)]
    Host(#[from] NoHost),
    /// An ffmpeg option that would change what is read or sent.
    #[error("option `{0}` is not supported: leave it out")]
    Option(String),
    /// A scheme that is not supported.
    #[error("`{0}` is not supported: use a file, `-`, udp://address:port or rtp://address:port")]
    Scheme(String),
    /// An empty text.
    #[error("the name is empty: use a file, `-`, udp://address:port or rtp://address:port")]
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

/// Parses `address:port`. A `@` before it (players) and ffmpeg's options after it are accepted;
/// without an address it means every address of this machine. A host name is looked up once.
fn address(text: &str) -> Result<SocketAddr, BadEnd> {
    let (text, options) = text.split_once('?').unwrap_or((text, ""));
    let options = options.split('&').filter(|option| !option.is_empty());
    for option in options {
        let (name, _) = option.split_once('=').unwrap_or((option, ""));
        if !IGNORED_OPTIONS.contains(&name) {
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
        // The first address, as resolvers order them and other programs take it.
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
