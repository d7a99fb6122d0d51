//! What each fuzz target does with a byte string. The targets call these, and so does the test that replays the corpora.
//!
//! *The idea.* A decoder is total: any byte string is a value or an error. And what decodes says the same after it is
//! encoded and decoded again, so that a relay that rewrites a message changes nothing.
//!
//! *To add one:* a function here and its line in [`TARGETS`], a file in `fuzz_targets/` and its `[[bin]]`, and some
//! files in `corpus/NAME/`. The replay test fails while one of them is missing.

use thalweg_core::time::Instant;
use thalweg_core::units::{Bitrate, DataSize};
use thalweg_core::wire::{adu, control, record};

/// A target by its name.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: &[Target] = &[
    ("adu_header", adu_header),
    ("control", control),
    ("control_body", control_body),
    ("record", record),
    ("units", units),
];

/// The header of an ADU, as it stands at the head of a stream or datagram.
pub fn adu_header(bytes: &[u8]) {
    let now = Instant::ZERO;
    let Ok(Some(decoded)) = adu::decode_header(bytes, now) else {
        return;
    };
    assert!(decoded.header_bytes <= bytes.len());
    let mut again = Vec::new();
    adu::encode_header(&decoded.header, decoded.payload_bytes, now, &mut again);
    let again = adu::decode_header(&again, now)
        .expect("what was encoded decodes")
        .expect("a whole header needs no more bytes");
    assert_eq!(again.header, decoded.header);
    assert_eq!(again.payload_bytes, decoded.payload_bytes);
}

/// A control frame between neighbours.
pub fn control(bytes: &[u8]) {
    if let Ok(message) = control::decode(bytes) {
        assert_eq!(control::decode(&control::encode(&message)), Ok(message));
    }
}

/// What an envelope holds.
pub fn control_body(bytes: &[u8]) {
    if let Ok(body) = control::decode_body(bytes) {
        assert_eq!(control::decode_body(&control::encode_body(&body)), Ok(body));
    }
}

/// A node's record.
pub fn record(bytes: &[u8]) {
    if let Ok(record) = record::decode(bytes) {
        assert_eq!(record::decode(&record::encode(&record)), Ok(record));
    }
}

/// Rates and sizes as a person writes them: `2 Mbit/s`, `64 KiB`.
pub fn units(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(rate) = text.parse::<Bitrate>() {
        assert!(
            rate.to_string().parse::<Bitrate>().is_ok(),
            "`{text}` is shown as `{rate}`, which does not parse"
        );
    }
    if let Ok(size) = text.parse::<DataSize>() {
        assert!(
            size.to_string().parse::<DataSize>().is_ok(),
            "`{text}` is shown as `{size}`, which does not parse"
        );
    }
}
