//! Sections: assembly from packets, and the two tables, PAT and PMT.
//!
//! Sources: ISO/IEC 13818-1 §2.4.4.

use bytes::Bytes;

use super::{Elementary, Programme};
use crate::crc;

/// The longest PAT or PMT section: its 12-bit length is bounded at 1021 by the standard, after 3 bytes.
pub(super) const SECTION_BYTES_MAX: usize = 1024;

const PAT_ID: u8 = 0x00;
const PMT_ID: u8 = 0x02;

/// Collects the sections of one PID.
#[derive(Debug, Clone, Default)]
pub(super) struct Assembly {
    bytes: Vec<u8>,
    open: bool,
}

impl Assembly {
    /// Drops an incomplete section.
    pub(super) fn reset(&mut self) {
        self.bytes.clear();
        self.open = false;
    }

    /// Accepts a packet's payload; returns the sections that it completes.
    pub(super) fn push(&mut self, starts: bool, payload: &[u8]) -> Vec<Vec<u8>> {
        let mut whole = Vec::new();
        if !starts {
            self.extend(payload, &mut whole);
            return whole;
        }
        let Some((&pointer, rest)) = payload.split_first() else {
            return whole;
        };
        let (tail, fresh) = rest.split_at(rest.len().min(usize::from(pointer)));
        self.extend(tail, &mut whole);
        self.reset();
        self.open = true;
        self.extend(fresh, &mut whole);
        whole
    }

    fn extend(&mut self, bytes: &[u8], whole: &mut Vec<Vec<u8>>) {
        if !self.open {
            return;
        }
        self.bytes.extend_from_slice(bytes);
        while let [table, high, low, ..] = self.bytes[..] {
            let len = 3 + usize::from(u16::from_be_bytes([high & 0x0f, low]));
            if table == 0xff || len > SECTION_BYTES_MAX {
                // Stuffing, or another table: nothing more until the next start.
                self.reset();
            } else if self.bytes.len() >= len {
                let rest = self.bytes.split_off(len);
                whole.push(core::mem::replace(&mut self.bytes, rest));
            } else {
                return;
            }
        }
    }
}

/// The content of a PAT.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Association {
    pub(super) transport_stream_id: u16,
    pub(super) network_pid: Option<u16>,
    /// Programme number and PID of its PMT.
    pub(super) programmes: Vec<(u16, u16)>,
}

/// The content of a PMT; the reader adds the facts of the PAT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Map {
    pub(super) number: u16,
    pub(super) clock_pid: u16,
    pub(super) descriptors: Bytes,
    pub(super) streams: Vec<Elementary>,
}

/// The section is invalid: its CRC, or its format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Broken;

/// Reads a PAT; `None` for another table, or one that is not in force yet.
pub(super) fn read_pat(section: &[u8]) -> Result<Option<Association>, Broken> {
    let Some((id, body)) = open(section, PAT_ID)? else {
        return Ok(None);
    };
    let mut pat = Association {
        transport_stream_id: id,
        ..Association::default()
    };
    for entry in body.chunks_exact(4) {
        let number = u16::from_be_bytes([entry[0], entry[1]]);
        let pid = u16::from_be_bytes([entry[2] & 0x1f, entry[3]]);
        if number == 0 {
            pat.network_pid = Some(pid);
        } else {
            pat.programmes.push((number, pid));
        }
    }
    Ok(Some(pat))
}

/// Reads a PMT; `None` for another table (a PMT's PID may carry private ones too), or one that is
/// not in force yet.
pub(super) fn read_pmt(section: &[u8]) -> Result<Option<Map>, Broken> {
    let Some((number, body)) = open(section, PMT_ID)? else {
        return Ok(None);
    };
    read_map(number, body).map(Some).ok_or(Broken)
}

fn read_map(number: u16, body: &[u8]) -> Option<Map> {
    let (&[p0, p1, l0, l1], rest) = body.split_first_chunk()?;
    let len = usize::from(u16::from_be_bytes([l0 & 0x0f, l1]));
    let (descriptors, mut rest) = rest.split_at_checked(len)?;
    let mut streams = Vec::new();
    while let Some((&[stream_type, e0, e1, l0, l1], tail)) = rest.split_first_chunk() {
        let len = usize::from(u16::from_be_bytes([l0 & 0x0f, l1]));
        let (descriptors, tail) = tail.split_at_checked(len)?;
        streams.push(Elementary {
            pid: u16::from_be_bytes([e0 & 0x1f, e1]),
            stream_type,
            descriptors: Bytes::copy_from_slice(descriptors),
        });
        rest = tail;
    }
    Some(Map {
        number,
        clock_pid: u16::from_be_bytes([p0 & 0x1f, p1]),
        descriptors: Bytes::copy_from_slice(descriptors),
        streams,
    })
}

/// Checks a long section; returns its extension and its body between header and CRC, if it is of
/// this table and in force.
fn open(section: &[u8], table: u8) -> Result<Option<(u16, &[u8])>, Broken> {
    let &[id, syntax, _, e0, e1, version, _, _, ref rest @ ..] = section else {
        return Err(Broken);
    };
    if id != table {
        return Ok(None);
    }
    let body = rest.len().checked_sub(4).ok_or(Broken)?;
    if syntax & 0x80 == 0 || crc::extend(crc::START, section) != 0 {
        return Err(Broken);
    }
    let is_in_force = version & 1 == 1;
    Ok(is_in_force.then(|| (u16::from_be_bytes([e0, e1]), &rest[..body])))
}

/// Writes the PAT of these programmes.
pub(super) fn write_pat<'a>(
    programmes: impl Iterator<Item = &'a Programme> + Clone,
    version: u8,
) -> Vec<u8> {
    let last = programmes.clone().last();
    let mut body = Vec::new();
    if let Some(pid) = last.and_then(|programme| programme.network_pid) {
        put(&mut body, &[0, 0xe000 | pid]);
    }
    for programme in programmes {
        put(&mut body, &[programme.number, 0xe000 | programme.table_pid]);
    }
    let id = last.map_or(1, |programme| programme.transport_stream_id);
    close(PAT_ID, id, version, &body)
}

/// Writes the PMT of a programme.
pub(super) fn write_pmt(programme: &Programme, version: u8) -> Vec<u8> {
    close(PMT_ID, programme.number, version, &pmt_body(programme))
}

/// Returns whether the programme's PMT fits into one section.
pub(super) fn pmt_fits(programme: &Programme) -> bool {
    pmt_body(programme).len() + 12 <= SECTION_BYTES_MAX
}

fn pmt_body(programme: &Programme) -> Vec<u8> {
    let mut body = Vec::new();
    let len = programme.descriptors.len() as u16;
    put(&mut body, &[0xe000 | programme.clock_pid, 0xf000 | len]);
    body.extend_from_slice(&programme.descriptors);
    for stream in &programme.streams {
        body.push(stream.stream_type);
        let len = stream.descriptors.len() as u16;
        put(&mut body, &[0xe000 | stream.pid, 0xf000 | len]);
        body.extend_from_slice(&stream.descriptors);
    }
    body
}

fn close(table: u8, extension: u16, version: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![table];
    put(&mut out, &[0xb000 | (body.len() + 9) as u16, extension]);
    out.extend_from_slice(&[0xc1 | (version & 0x1f) << 1, 0, 0]);
    out.extend_from_slice(body);
    let crc = crc::extend(crc::START, &out);
    out.extend_from_slice(&crc.to_be_bytes());
    out
}

fn put(out: &mut Vec<u8>, words: &[u16]) {
    for word in words {
        out.extend_from_slice(&word.to_be_bytes());
    }
}
