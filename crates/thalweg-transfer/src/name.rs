//! Names of transfers, their streams and their files.
//!
//! *The idea.* The names of a transfer's streams tell a node before it subscribes which transfer it
//! is, and for which nodes. They contain digits of the targets' keys, enough to recognise a target
//! but not to authenticate it: the offer has the full keys.
//!
//! ```text
//! files/0f3a…(32 digits)/1d00aa31 7be2f09c …      from the sender; 8 digits per target, concatenated
//! receipts/0f3a…(32 digits)/1d00aa31              from a target
//!
//! codes/7/35300a16                                answers of the sender with the phrase of this number
//! asks/7/35300a16/5e5510aa                        to that sender from a node with such a phrase; random
//! coded/91c2…(32 digits)/1d00aa31                 encrypted files to an admitted receiver; random digits
//! ```
//!
//! A file's name is one path component: any bytes without special meaning in a path.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr as _;

use thalweg_base::id::{NodeId, StreamName};
use thalweg_base::limits::{TRANSFER_NAME_BYTES_MAX, TRANSFER_TARGETS_MAX};

/// Prefix of streams of files.
const FILES: &str = "files/";

/// Prefix of streams of receipts.
const RECEIPTS: &str = "receipts/";

/// Prefix of the answer streams of senders with a phrase.
const CODES: &str = "codes/";

/// Prefix of the ask streams of receivers with a phrase.
const ASKS: &str = "asks/";

/// Prefix of streams of files encrypted for the owner of a phrase.
const CODED: &str = "coded/";

/// Digits of an id.
const ID_DIGITS: usize = 32;

/// Digits of a key in a name.
const TAG_DIGITS: usize = 8;

/// The id of a transfer: the first half of a hash over the names, sizes and hashes of its files.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferId(pub [u8; 16]);

/// The name of a file: 1 to 255 bytes without `/` and zero; neither `.` nor `..`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileName(Vec<u8>);

/// The bytes are no valid name of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` cannot name a received file: use 1 to {TRANSFER_NAME_BYTES_MAX} bytes without `/` and zero, and not `.` or `..`"
)]
pub struct BadFileName(String);

impl FileName {
    /// Returns the name if it is valid.
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
    /// Writes the name for people, with control characters escaped.
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
    /// Returns the name of the stream of files to these nodes.
    ///
    /// Fails   without targets, or with more than `limits::TRANSFER_TARGETS_MAX`
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

    /// Returns the name of a target's stream of receipts.
    pub fn receipts_stream(&self, target: &NodeId) -> StreamName {
        let name = alloc::format!("{RECEIPTS}{self}/{}", tag(target));
        StreamName::from_str(&name).expect("digits and slashes, 50 of them")
    }

    /// Returns the id of a stream's transfer, if the stream is for this node.
    pub fn of_stream(name: &StreamName, target: &NodeId) -> Option<Self> {
        let (id, tags) = name.as_str().strip_prefix(FILES)?.split_once('/')?;
        let is_meant = tags
            .as_bytes()
            .chunks(TAG_DIGITS)
            .any(|there| there == tag(target).as_bytes());
        is_meant.then(|| Self::parse(id)).flatten()
    }

    /// Returns the name of the stream of encrypted files to the owner of the phrase.
    pub fn coded_stream(&self, target: &NodeId) -> StreamName {
        let name = alloc::format!("{CODED}{self}/{}", tag(target));
        StreamName::from_str(&name).expect("digits and slashes, 47 of them")
    }

    /// Parses 32 hexadecimal digits.
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

/// Returns whether a stream's name is one that a file transfer makes.
pub fn is_of_transfer(name: &StreamName) -> bool {
    let name = name.as_str();
    let has_id = |rest: &str| {
        let id = rest.split_once('/').map(|(id, _)| TransferId::parse(id));
        id.flatten().is_some()
    };
    let has_number = |rest: &str| {
        let (number, rest) = rest.split_once('/').unwrap_or_default();
        let tag = rest.split('/').next().unwrap_or_default();
        let is_tag = tag.len() == TAG_DIGITS && tag.bytes().all(|c| c.is_ascii_hexdigit());
        is_tag && number.parse::<u16>().is_ok()
    };
    let [of_files, of_codes] = [&[FILES, RECEIPTS, CODED][..], &[CODES, ASKS]];
    let rest = |starts: &[&str]| starts.iter().find_map(|start| name.strip_prefix(start));
    rest(of_files).is_some_and(has_id) || rest(of_codes).is_some_and(has_number)
}

/// Returns the name of the stream on which a sender answers the owners of the phrase of this
/// number.
pub fn code_stream(number: u16, sender: &NodeId) -> StreamName {
    let name = alloc::format!("{CODES}{number}/{}", tag(sender));
    StreamName::from_str(&name).expect("digits and slashes, 20 of them")
}

/// Returns the number of a sender's answer stream; `sender` is the node that announces it.
pub fn code_of_stream(name: &StreamName, sender: &NodeId) -> Option<u16> {
    let (number, of) = name.as_str().strip_prefix(CODES)?.split_once('/')?;
    (of == tag(sender)).then(|| number.parse().ok()).flatten()
}

/// Returns the name of a stream that asks this sender; `chance` distinguishes two on one node.
pub fn ask_stream(number: u16, sender: &NodeId, chance: u32) -> StreamName {
    let name = alloc::format!("{ASKS}{number}/{}/{chance:08x}", tag(sender));
    StreamName::from_str(&name).expect("digits and slashes, 28 of them")
}

/// Returns whether a stream asks this sender about this number.
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
