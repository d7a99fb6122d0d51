//! What transfers, their streams and their files are called.
//!
//! *The idea.* The names of a transfer's streams say everything that a node must know before it subscribes: which
//! transfer it is, and for whom. They hold digits of the targets' keys, which are enough to find out and not enough to
//! be sure: the offer has the keys themselves.
//!
//! ```text
//! files/0f3a…(32 digits)/1d00aa31 7be2f09c …      from the sender; 8 digits for each target, together
//! receipts/0f3a…(32 digits)/1d00aa31              from a target
//!
//! codes/7/35300a16                                from who sends by the phrase of this number: answers
//! asks/7/35300a16/5e5510aa                        from who has a phrase of this number: to that sender, by chance
//! coded/91c2…(32 digits)/1d00aa31                 the files, sealed, to who has proved it; the digits are chance too
//! ```
//!
//! A file's name is one part of a path and is any bytes but those that have a meaning in one.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr as _;

use crate::id::{NodeId, StreamName};
use crate::limits::{TRANSFER_NAME_BYTES_MAX, TRANSFER_TARGETS_MAX};

/// The streams of files.
const FILES: &str = "files/";

/// The streams of receipts.
const RECEIPTS: &str = "receipts/";

/// The streams of those who send by a phrase.
const CODES: &str = "codes/";

/// The streams of those who have one.
const ASKS: &str = "asks/";

/// The streams of files that are sealed for who has the phrase.
const CODED: &str = "coded/";

/// Digits of an id.
const ID_DIGITS: usize = 32;

/// Digits of a key.
const TAG_DIGITS: usize = 8;

/// What a transfer is known by: the first half of a hash over the names, sizes and hashes of its files.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferId(pub [u8; 16]);

/// The name of a file: 1 to 255 bytes, neither `/` nor zero among them, and neither `.` nor `..`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileName(Vec<u8>);

/// Bytes that cannot name a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` cannot name a received file: use 1 to {TRANSFER_NAME_BYTES_MAX} bytes without `/` and zero, and not `.` or `..`"
)]
pub struct BadFileName(String);

impl FileName {
    /// Returns the name, if it is one.
    pub fn new(bytes: &[u8]) -> Result<Self, BadFileName> {
        let is_name = (1..=TRANSFER_NAME_BYTES_MAX).contains(&bytes.len())
            && !bytes.contains(&b'/')
            && !bytes.contains(&0)
            && bytes != b"."
            && bytes != b"..";
        if is_name {
            Ok(Self(bytes.to_vec()))
        } else {
            Err(BadFileName(
                String::from_utf8_lossy(&bytes[..bytes.len().min(80)])
                    .escape_debug()
                    .collect(),
            ))
        }
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for FileName {
    /// Writes it for people: what a terminal would act on is escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = String::from_utf8_lossy(&self.0);
        let escape = |c: char| {
            c.escape_debug()
                .try_for_each(|c| fmt::Write::write_char(f, c))
        };
        text.chars().try_for_each(escape)
    }
}

impl TransferId {
    /// Returns the name of the stream that brings the files to these nodes.
    ///
    /// Fails   none, or more than `limits::TRANSFER_TARGETS_MAX` of them
    pub fn files_stream(&self, targets: &[NodeId]) -> Option<StreamName> {
        if targets.is_empty() || targets.len() > TRANSFER_TARGETS_MAX {
            return None;
        }
        let mut name = alloc::format!("{FILES}{self}/");
        for target in targets {
            name.push_str(&tag(target));
        }
        StreamName::from_str(&name).ok()
    }

    /// Returns the name of the stream by which one of them answers.
    pub fn receipts_stream(&self, target: &NodeId) -> StreamName {
        let name = alloc::format!("{RECEIPTS}{self}/{}", tag(target));
        StreamName::from_str(&name).expect("digits and slashes, 50 of them")
    }

    /// Returns the transfer that a stream brings, if it is one for this node.
    pub fn of_stream(name: &StreamName, target: &NodeId) -> Option<Self> {
        let (id, tags) = name.as_str().strip_prefix(FILES)?.split_once('/')?;
        let is_meant = tags
            .as_bytes()
            .chunks(TAG_DIGITS)
            .any(|there| there == tag(target).as_bytes());
        is_meant.then(|| Self::parse(id)).flatten()
    }

    /// Returns the name of the stream that brings sealed files to the one who has the phrase.
    pub fn coded_stream(&self, target: &NodeId) -> StreamName {
        let name = alloc::format!("{CODED}{self}/{}", tag(target));
        StreamName::from_str(&name).expect("digits and slashes, 47 of them")
    }

    /// Reads 32 hexadecimal digits.
    pub fn parse(digits: &str) -> Option<Self> {
        let is_hex = digits.len() == ID_DIGITS && digits.bytes().all(|c| c.is_ascii_hexdigit());
        if !is_hex {
            return None;
        }
        let mut id = [0; 16];
        for (byte, digits) in id.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
            let digits = core::str::from_utf8(digits).ok()?;
            *byte = u8::from_str_radix(digits, 16).ok()?;
        }
        Some(Self(id))
    }
}

/// Returns the name of the stream on which a sender answers those who have a phrase of this number.
pub fn code_stream(number: u16, sender: &NodeId) -> StreamName {
    let name = alloc::format!("{CODES}{number}/{}", tag(sender));
    StreamName::from_str(&name).expect("digits and slashes, 20 of them")
}

/// Returns the number of a stream on which a sender answers; `sender` is who announces it.
pub fn code_of_stream(name: &StreamName, sender: &NodeId) -> Option<u16> {
    let (number, of) = name.as_str().strip_prefix(CODES)?.split_once('/')?;
    (of == tag(sender)).then(|| number.parse().ok()).flatten()
}

/// Returns the name of a stream on which somebody asks that sender; `chance` keeps two at one node apart.
pub fn ask_stream(number: u16, sender: &NodeId, chance: u32) -> StreamName {
    let name = alloc::format!("{ASKS}{number}/{}/{chance:08x}", tag(sender));
    StreamName::from_str(&name).expect("digits and slashes, 28 of them")
}

/// Returns whether somebody asks this sender on a stream, by this number.
pub fn is_ask(name: &StreamName, number: u16, sender: &NodeId) -> bool {
    let start = alloc::format!("{ASKS}{number}/{}/", tag(sender));
    name.as_str().starts_with(&start)
}

fn tag(node: &NodeId) -> String {
    alloc::format!("{node}").chars().take(TAG_DIGITS).collect()
}

impl fmt::Display for TransferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TransferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TransferId({self})")
    }
}
