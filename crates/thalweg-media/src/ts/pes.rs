//! The header of a PES packet.
//!
//! Sources: ISO/IEC 13818-1 §2.4.3.6, §2.4.3.7; table 2-22 for the streams without an optional header.

/// Bytes up to and with the packet length.
pub(super) const HEAD_BYTES: usize = 6;

/// What is kept of a PES header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) stream_id: u8,
    pub(super) aligned: bool,
    /// 33 bits.
    pub(super) pts: Option<u64>,
    /// 33 bits.
    pub(super) dts: Option<u64>,
    /// Where the payload begins.
    pub(super) bytes: usize,
}

/// The length of a whole PES packet, once its head is there; `None` where the header leaves it open.
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
    if second & 0x80 != 0 {
        header.pts = options.first_chunk().copied().map(read_time);
    }
    if second & 0xc0 == 0xc0 {
        header.dts = options
            .get(5..)
            .and_then(<[u8]>::first_chunk)
            .copied()
            .map(read_time);
    }
    Some(header)
}

/// Writes a header for `data_bytes` of payload. The length is left open where it does not fit.
pub(super) fn write(header: &Header, data_bytes: usize) -> Vec<u8> {
    let mut options = Vec::with_capacity(10);
    let mut flags = 0;
    // A decoding time may stand only beside a presentation time.
    if let Some(pts) = header.pts {
        let dts = header.dts.filter(|&dts| dts != pts);
        flags = if dts.is_some() { 0xc0 } else { 0x80 };
        write_time(&mut options, flags >> 6, pts);
        if let Some(dts) = dts {
            write_time(&mut options, 1, dts);
        }
    }
    let mut rest = Vec::new();
    if has_options(header.stream_id) {
        rest.extend_from_slice(&[
            0x80 | u8::from(header.aligned) << 2,
            flags,
            options.len() as u8,
        ]);
        rest.extend_from_slice(&options);
    }
    let len = u16::try_from(rest.len() + data_bytes).unwrap_or(0);
    let mut out = vec![0, 0, 1, header.stream_id];
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(&rest);
    out
}

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
