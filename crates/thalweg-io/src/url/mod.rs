//! Inputs and outputs by URL: files, pipes, sockets, serial lines, programs.
//!
//! *The idea.* `--from` and `--to` name an [`End`]. A [`Source`] returns bytes in slices of any size; a
//! [`Sink`] takes whole messages, or whole transport packets. A format interprets the bytes.
//!
//! | end | `--from` | `--to` |
//! |---|---|---|
//! | a path | read once or repeatedly | created, or truncated |
//! | `-` | standard input | standard output |
//! | `udp://[address]:port` | bound; RTP or plain packets; joins a multicast group | seven packets each |
//! | `rtp://[address]:port` | the same | the same in RTP |
//! | `tcp://address:port` | connected; `?listen` waits for one connection | the same |
//! | `unix://path` | connected; `?listen` waits for one connection | the same |
//! | `serial://device?baud=9600` | read raw; opened again if it vanishes | written raw |
//! | `exec:command` | the standard output of a program | its standard input |
//! | `test://telemetry?rate=10&bytes=100` | JSON lines; `&count=N` ends it | |
//!
//! *What it does not do.* It does not pace and does not cut.

mod program;
mod serial;
mod sink;
mod source;
mod stream;
mod telemetry;

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use thalweg_net::error::NoHost;
use thalweg_net::{NoPlace, Place};

use crate::format::Format;

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
    /// A TCP connection.
    Tcp {
        /// The address to connect to or to listen on.
        address: SocketAddr,
        /// Whether to listen.
        listens: bool,
    },
    /// A connection over a Unix socket.
    Unix {
        /// The socket.
        path: PathBuf,
        /// Whether to listen.
        listens: bool,
    },
    /// A serial line.
    Serial {
        /// The device.
        path: PathBuf,
        /// Its rate.
        baud: u32,
    },
    /// A program, run by the shell.
    Program(String),
    /// Made-up telemetry.
    Telemetry {
        /// Messages a second.
        rate: u32,
        /// Bytes of each.
        bytes: usize,
        /// How many.
        count: u64,
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
    /// An option with a value that is no number in its bounds.
    #[error("`{0}` is not a number from {1} to {2}")]
    Number(String, u64, u64),
    /// A scheme without what it names.
    #[error("{0}")]
    Nothing(&'static str),
    /// A scheme that is not supported.
    #[error("`{0}` is not supported: use {ENDS}")]
    Scheme(String),
    /// An empty text.
    #[error("the name is empty: use {ENDS}")]
    Empty,
}

/// A format needs datagrams, and the end has none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("--format {format} needs datagrams, and {end} has none: use udp://, or `--format length`")]
pub struct NoDatagrams {
    /// The format.
    format: Format,
    /// The end.
    end: End,
}

impl End {
    /// Checks that messages of a format keep their bounds when they are written to this end.
    pub fn check_out(&self, format: Format) -> Result<(), NoDatagrams> {
        if format.needs_datagrams_out() {
            return self.check(format);
        }
        Ok(())
    }

    /// Checks that messages of a format can be read at this end.
    pub fn check(&self, format: Format) -> Result<(), NoDatagrams> {
        if format.needs_datagrams() && !matches!(self, Self::Datagrams { .. }) {
            let end = self.clone();
            return Err(NoDatagrams { format, end });
        }
        Ok(())
    }
}

/// What an end may be, for a sentence.
const ENDS: &str = "a file, `-`, udp://address:port, rtp://address:port, tcp://address:port, unix://path, \
                    serial://device, exec:command or test://telemetry";

/// The rate of a serial line unless it is given: that of NMEA 0183 instruments is 4,800, of most others this.
const BAUD: u32 = 9_600;

impl FromStr for End {
    type Err = BadEnd;

    fn from_str(text: &str) -> Result<Self, BadEnd> {
        let short = || text.chars().take(SHOWN_MAX).collect();
        if let Some(command) = text.strip_prefix("exec:") {
            if command.trim().is_empty() {
                return Err(BadEnd::Nothing("no command: write exec:'journalctl -f'"));
            }
            return Ok(Self::Program(command.into()));
        }
        match text.split_once("://") {
            Some((scheme @ ("udp" | "rtp"), rest)) => Ok(Self::Datagrams {
                address: address(rest)?,
                rtp: scheme == "rtp",
            }),
            Some(("tcp", rest)) => {
                let (rest, listens) = listening(rest)?;
                let address = address(rest)?;
                Ok(Self::Tcp { address, listens })
            }
            Some(("unix", rest)) => {
                let (rest, listens) = listening(rest)?;
                let path = path(rest, "no path: write unix:///run/sensor.sock")?;
                Ok(Self::Unix { path, listens })
            }
            Some(("serial", rest)) => {
                let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
                let [baud] = numbers(options, [("baud", u64::from(BAUD), 50, 4_000_000)])?;
                let path = path(rest, "no device: write serial:///dev/ttyUSB0?baud=9600")?;
                let baud = baud as u32;
                Ok(Self::Serial { path, baud })
            }
            Some(("test", rest)) => {
                let (kind, options) = rest.split_once('?').unwrap_or((rest, ""));
                if kind != "telemetry" {
                    return Err(BadEnd::Scheme(short()));
                }
                let [rate, bytes, count] = numbers(
                    options,
                    [
                        ("rate", 10, 1, 100_000),
                        ("bytes", 100, 1, 1 << 20),
                        ("count", u64::MAX, 1, u64::MAX),
                    ],
                )?;
                let (rate, bytes) = (rate as u32, bytes as usize);
                Ok(Self::Telemetry { rate, bytes, count })
            }
            Some(_) => Err(BadEnd::Scheme(short())),
            None if text == "-" => Ok(Self::Standard),
            None if text.is_empty() => Err(BadEnd::Empty),
            None => Ok(Self::File(PathBuf::from(text))),
        }
    }
}

fn path(text: &str, advice: &'static str) -> Result<PathBuf, BadEnd> {
    if text.is_empty() {
        return Err(BadEnd::Nothing(advice));
    }
    Ok(text.into())
}

/// Takes `?listen` off; any other option is refused.
fn listening(text: &str) -> Result<(&str, bool), BadEnd> {
    match text.split_once('?') {
        None => Ok((text, false)),
        Some((text, "listen")) => Ok((text, true)),
        Some((_, option)) => Err(BadEnd::Option(option.chars().take(SHOWN_MAX).collect())),
    }
}

/// Reads options that are numbers, each with its name, default and bounds.
fn numbers<const N: usize>(
    options: &str,
    known: [(&str, u64, u64, u64); N],
) -> Result<[u64; N], BadEnd> {
    let mut values = known.map(|(_, default, ..)| default);
    for option in options.split('&').filter(|option| !option.is_empty()) {
        let short = || option.chars().take(SHOWN_MAX).collect();
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let place = known.iter().position(|(known, ..)| *known == name);
        let place = place.ok_or_else(|| BadEnd::Option(short()))?;
        let (_, _, least, most) = known[place];
        let value: Option<u64> = value.parse().ok();
        let value = value.filter(|value| (least..=most).contains(value));
        values[place] = value.ok_or_else(|| BadEnd::Number(short(), least, most))?;
    }
    Ok(values)
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
            Self::Tcp { address, listens } => write!(f, "tcp://{address}{}", listen(*listens)),
            Self::Unix { path, listens } => {
                write!(f, "unix://{}{}", path.display(), listen(*listens))
            }
            Self::Serial { path, baud } => write!(f, "serial://{}?baud={baud}", path.display()),
            Self::Program(command) => write!(f, "exec:{command}"),
            Self::Telemetry { rate, bytes, .. } => {
                write!(f, "test://telemetry?rate={rate}&bytes={bytes}")
            }
        }
    }
}

const fn listen(listens: bool) -> &'static str {
    if listens { "?listen" } else { "" }
}
