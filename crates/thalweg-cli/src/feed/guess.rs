//! Guesses the format of bytes that are not MPEG-TS, by magic numbers.
//!
//! *What it does not do.* It parses none of those formats, and words a guess as a guess.

use std::fmt::Write as _;

/// Bytes shown of an unknown format.
const SHOWN_BYTES: usize = 8;

/// Returns `look like an MP4 file`, or `begin with 00 00 01 02 …`.
pub fn guess_format(head: &[u8]) -> String {
    let known = match head {
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => Some("an MP4 or MOV file"),
        [0x1a, 0x45, 0xdf, 0xa3, ..] => Some("a Matroska or WebM file"),
        [0, 0, 1, 0xba, ..] => Some("an MPEG program stream"),
        [0, 0, 1, ..] | [0, 0, 0, 1, ..] => Some("raw video without MPEG-TS around it"),
        [b'F', b'L', b'V', ..] => Some("an FLV file"),
        [b'R', b'I', b'F', b'F', ..] => Some("an AVI or WAV file"),
        [b'O', b'g', b'g', b'S', ..] => Some("an Ogg file"),
        [0x06, 0x0e, 0x2b, 0x34, ..] => Some("an MXF file or KLV metadata"),
        [b'#', b'E', b'X', b'T', b'M', ..] => Some("an HLS playlist, not what it lists"),
        [0xff, second, ..] if second & 0xf6 == 0xf0 => Some("raw AAC audio"),
        [b'I', b'D', b'3', ..] => Some("raw audio"),
        _ if head.len() >= 4 && head.iter().all(|byte| (0x20..0x7f).contains(byte)) => Some("text"),
        _ => None,
    };
    if let Some(known) = known {
        return format!("look like {known}");
    }
    let mut text = "begin with".to_owned();
    for byte in head.iter().take(SHOWN_BYTES) {
        let _ = write!(text, " {byte:02x}");
    }
    text
}
