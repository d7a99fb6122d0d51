//! The header of a PES packet.
//!
//! The idea: times and alignment are read; every other option is kept unchanged, with its stuffing.
//! Teletext needs that: its header has a fixed length, so that data units fill transport packets
//! exactly.
//!
//! Sources: ISO/IEC 13818-1 §2.4.3.6, §2.4.3.7; table 2-22 for the streams without an optional
//! header; ETSI EN 300 472 §4.2 (a header of 45 bytes for teletext).

use bytes::Bytes;

/// Bytes up to and including the packet length.
pub(super) const HEAD_BYTES: usize = 6;

/// Bits of the two flag bytes that are kept unchanged: all but the marker, the alignment and the
/// times.
pub(super) const FIRST_KEPT: u8 = 0x3b;
pub(super) const SECOND_KEPT: u8 = 0x3f;

/// Maximum bytes of options in a header.
pub(super) const OPTION_BYTES_MAX: usize = 255;

/// Bytes of one timestamp.
pub(super) const TIME_BYTES: usize = 5;

/// The parsed PES header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) stream_id: u8,
    pub(super) aligned: bool,
    /// 33 bits.
    pub(super) pts: Option<u64>,
    /// 33 bits.
    pub(super) dts: Option<u64>,
    /// The other options: the kept bits of the two flag bytes, then the bytes after the times,
    /// stuffing included. Empty if none is set.
    pub(super) options: Bytes,
    /// Offset of the payload.
    pub(super) bytes: usize,
}

/// Returns the length of a whole PES packet, once its head has arrived; `None` if the header leaves
/// it open.
pub(super) fn whole_bytes(packet: &[u8]) -> Option<usize> {
    match packet {
        [_, _, _, _, 0, 0, ..] => None,
        [_, _, _, _, high, low, ..] => {
            Some(HEAD_BYTES + usize::from(u16::from_be_bytes([*high, *low])))
        }
        _ => None,
    }
}

/// Reads the header; `None` if the bytes are not a PES packet or end inside its header.
pub(super) fn read(packet: &[u8]) -> Option<Header> {
    let &[0, 0, 1, stream_id, _, _, ref rest @ ..] = packet else {
        return None;
    };
    let mut header = Header {
        stream_id,
        aligned: false,
        pts: None,
        dts: None,
        options: Bytes::new(),
        bytes: HEAD_BYTES,
    };
    if !has_options(stream_id) {
        return Some(header);
    }
    let &[first, second, len, ref rest @ ..] = rest else {
        return None;
    };
    let options = rest.get(..usize::from(len))?;
    if first >> 6 != 2 {
        return None;
    }
    header.aligned = first & 0x04 != 0;
    header.bytes += 3 + options.len();
    let mut rest = options;
    let mut time = |is_set: bool| {
        let (time, tail) = rest.split_first_chunk().filter(|_| is_set)?;
        rest = tail;
        Some(read_time(*time))
    };
    header.pts = time(second & 0x80 != 0);
    header.dts = time(second & 0xc0 == 0xc0);
    let flags = [first & FIRST_KEPT, second & SECOND_KEPT];
    if flags != [0, 0] || !rest.is_empty() {
        header.options = [&flags, rest].concat().into();
    }
    Some(header)
}

/// Writes a header for `data_bytes` of payload. The length is left open if it does not fit.
pub(super) fn write(header: &Header, data_bytes: usize) -> Vec<u8> {
    let mut options = Vec::with_capacity(10);
    let mut flags = 0;
    // A decoding time is only allowed beside a presentation time.
    if let Some(pts) = header.pts {
        let dts = header.dts.filter(|&dts| dts != pts);
        flags = if dts.is_some() { 0xc0 } else { 0x80 };
        write_time(&mut options, flags >> 6, pts);
        if let Some(dts) = dts {
            write_time(&mut options, 1, dts);
        }
    }
    let mut first = 0x80 | u8::from(header.aligned) << 2;
    if let [kept_first, kept_second, kept @ ..] = &header.options[..] {
        first |= kept_first & FIRST_KEPT;
        flags |= kept_second & SECOND_KEPT;
        let room = OPTION_BYTES_MAX - options.len();
        options.extend_from_slice(&kept[..kept.len().min(room)]);
    }
    let mut rest = Vec::new();
    if has_options(header.stream_id) {
        rest.extend_from_slice(&[first, flags, options.len() as u8]);
        rest.extend_from_slice(&options);
    }
    let len = u16::try_from(rest.len() + data_bytes).unwrap_or(0);
    let mut out = vec![0, 0, 1, header.stream_id];
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(&rest);
    out
}

/// Returns whether a stream id has an optional header.
fn has_options(stream_id: u8) -> bool {
    !matches!(stream_id, 0xbc | 0xbe | 0xbf | 0xf0..=0xf2 | 0xf8 | 0xff)
}

fn read_time(b: [u8; 5]) -> u64 {
    let b = b.map(u64::from);
    (b[0] >> 1 & 7) << 30 | b[1] << 22 | (b[2] >> 1) << 15 | b[3] << 7 | b[4] >> 1
}

fn write_time(out: &mut Vec<u8>, mark: u8, time: u64) {
    out.extend_from_slice(&[
        mark << 4 | (time >> 29) as u8 & 0x0e | 1,
        (time >> 22) as u8,
        (time >> 14) as u8 | 1,
        (time >> 7) as u8,
        (time << 1) as u8 | 1,
    ]);
}
