//! The 188-byte packet.
//!
//! Sources: ISO/IEC 13818-1 §2.4.3.2 (packet), §2.4.3.4 (adaptation field).

/// Bytes of a transport packet.
pub const PACKET_BYTES: usize = 188;
/// The first byte of every packet.
pub(super) const SYNC: u8 = 0x47;
/// The PID of packets without content.
pub(super) const NULL_PID: u16 = 0x1fff;

/// One packet, read but not copied.
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are the format's own flags, not states"
)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet<'a> {
    pub(super) pid: u16,
    /// Whether a PES packet or section begins in it.
    pub(super) starts: bool,
    /// Whether it was damaged in transmission.
    pub(super) error: bool,
    pub(super) scrambled: bool,
    pub(super) counter: u8,
    pub(super) discontinuity: bool,
    pub(super) random_access: bool,
    /// Whether its adaptation field holds stuffing, as nothing more was to be sent.
    pub(super) stuffed: bool,
    /// `None` without payload; may be empty.
    pub(super) payload: Option<&'a [u8]>,
    pub(super) raw: &'a [u8; PACKET_BYTES],
}

impl<'a> Packet<'a> {
    /// Reads a packet; `None` if its adaptation field is invalid.
    pub(super) fn read(raw: &'a [u8; PACKET_BYTES]) -> Option<Self> {
        let control = raw[3] >> 4 & 3;
        let (mut flags, mut start, mut stuffed) = (0, 4, false);
        if control & 2 != 0 {
            let len = usize::from(raw[4]);
            if len > 0 {
                flags = raw[5];
            }
            start = 5 + len;
            stuffed = raw.get(5..start).is_some_and(is_stuffed);
        }
        if raw[0] != SYNC || control == 0 || start > PACKET_BYTES {
            return None;
        }
        Some(Self {
            pid: u16::from_be_bytes([raw[1] & 0x1f, raw[2]]),
            starts: raw[1] & 0x40 != 0,
            error: raw[1] & 0x80 != 0,
            scrambled: raw[3] & 0xc0 != 0,
            counter: raw[3] & 0x0f,
            discontinuity: flags & 0x80 != 0,
            random_access: flags & 0x40 != 0,
            stuffed,
            payload: (control & 1 != 0).then(|| &raw[start..]),
            raw,
        })
    }
}

/// Returns whether an adaptation field, without its length byte, is only stuffing: it has no
/// content, or is longer than its content.
fn is_stuffed(field: &[u8]) -> bool {
    let Some((&flags, rest)) = field.split_first() else {
        return true;
    };
    let set = |bit: u8| usize::from(flags >> bit & 1);
    let mut used = 6 * set(4) + 6 * set(3) + set(2);
    // Private data and the extension are preceded by their length.
    for bit in [1, 0] {
        if set(bit) == 1 {
            used += 1 + rest.get(used).map_or(0, |&len| usize::from(len));
        }
    }
    flags == 0 || rest.len() > used
}

/// The content of an adaptation field.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Adaptation {
    pub(super) discontinuity: bool,
    pub(super) random_access: bool,
    /// Clock reference in 90 kHz ticks.
    pub(super) pcr_90khz: Option<u64>,
}

impl Adaptation {
    /// Its length, including the length byte.
    fn bytes(self) -> usize {
        match self {
            Self {
                pcr_90khz: Some(_), ..
            } => 8,
            Self {
                discontinuity: false,
                random_access: false,
                ..
            } => 0,
            _ => 2,
        }
    }

    fn write(self, field: &mut [u8]) {
        let Some((len, rest)) = field.split_first_mut() else {
            return;
        };
        *len = rest.len() as u8;
        rest.fill(0xff);
        if let Some((flags, rest)) = rest.split_first_mut() {
            *flags = u8::from(self.discontinuity) << 7 | u8::from(self.random_access) << 6;
            if let Some(pcr) = self.pcr_90khz {
                *flags |= 0x10;
                // 33 bits of base, 6 reserved ones, 9 bits of extension 0.
                let field = (pcr & 0x1_ffff_ffff) << 15 | 0x7e00;
                rest[..6].copy_from_slice(&field.to_be_bytes()[2..]);
            }
        }
    }
}

/// Writes one packet with as much of `payload` as fits; returns how much that was. The counter is
/// that of the packet's PID and increases if the packet has a payload.
pub(super) fn write(
    out: &mut Vec<u8>,
    pid: u16,
    starts: bool,
    adaptation: Adaptation,
    counter: &mut u8,
    payload: &[u8],
) -> usize {
    let room = PACKET_BYTES - 4 - adaptation.bytes();
    let taken = payload.len().min(room);
    let field = PACKET_BYTES - 4 - taken;
    let control = u8::from(field > 0) << 1 | u8::from(taken > 0);
    let [high, low] = pid.to_be_bytes();
    out.extend_from_slice(&[
        SYNC,
        u8::from(starts) << 6 | high & 0x1f,
        low,
        control << 4 | *counter & 0x0f,
    ]);
    let start = out.len();
    out.resize(start + field, 0xff);
    adaptation.write(&mut out[start..]);
    out.extend_from_slice(&payload[..taken]);
    if taken > 0 {
        *counter = (*counter + 1) & 0x0f;
    }
    taken
}
