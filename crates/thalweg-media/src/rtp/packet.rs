//! The RTP packet.

/// Bytes of the fixed header.
pub(super) const FIXED_BYTES: usize = 12;

/// Why a datagram is not an RTP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RtpError {
    /// It ends within its header, extension or padding.
    #[error("rtp packet of {bytes} bytes is cut short")]
    Short {
        /// Its length.
        bytes: usize,
    },
    /// It is not of version 2.
    #[error("rtp version {found} is not 2")]
    Version {
        /// The version found.
        found: u8,
    },
    /// Its payload is of another type than is expected.
    #[error("rtp payload type {found} is not {expected}")]
    PayloadType {
        /// The type found.
        found: u8,
        /// The type expected.
        expected: u8,
    },
}

/// The fields of the fixed header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// For MPEG-TS: the clock jumped.
    pub marker: bool,
    /// 33 for MPEG-TS.
    pub payload_type: u8,
    /// Increases by one per packet.
    pub sequence: u16,
    /// 90 kHz for MPEG-TS.
    pub timestamp: u32,
    /// The source.
    pub ssrc: u32,
}

impl Header {
    /// Writes the header without sources, extension or padding.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(2 << 6);
        out.push(u8::from(self.marker) << 7 | self.payload_type & 0x7f);
        out.extend_from_slice(&self.sequence.to_be_bytes());
        out.extend_from_slice(&self.timestamp.to_be_bytes());
        out.extend_from_slice(&self.ssrc.to_be_bytes());
    }
}

/// A header and the payload after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The fixed header.
    pub header: Header,
    /// Without contributing sources, extension and padding.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads a datagram.
    ///
    /// Fails   [`RtpError::Short`], [`RtpError::Version`]; never panics
    pub fn read(datagram: &'a [u8]) -> Result<Self, RtpError> {
        let bytes = datagram.len();
        let short = RtpError::Short { bytes };
        let (fixed, mut rest) = datagram.split_first_chunk::<FIXED_BYTES>().ok_or(short)?;
        let [first, second, s0, s1, t0, t1, t2, t3, i0, i1, i2, i3] = *fixed;
        if first >> 6 != 2 {
            return Err(RtpError::Version { found: first >> 6 });
        }
        rest = rest.get(4 * usize::from(first & 0x0f)..).ok_or(short)?;
        if first & 0x10 != 0 {
            let (&[_, _, l0, l1], tail) = rest.split_first_chunk().ok_or(short)?;
            let words = usize::from(u16::from_be_bytes([l0, l1]));
            rest = tail.get(4 * words..).ok_or(short)?;
        }
        if first & 0x20 != 0 {
            // The last byte counts the padding, itself included.
            let padding = usize::from(*rest.last().ok_or(short)?);
            let end = rest.len().checked_sub(padding).filter(|_| padding > 0);
            rest = &rest[..end.ok_or(short)?];
        }
        Ok(Self {
            header: Header {
                marker: second & 0x80 != 0,
                payload_type: second & 0x7f,
                sequence: u16::from_be_bytes([s0, s1]),
                timestamp: u32::from_be_bytes([t0, t1, t2, t3]),
                ssrc: u32::from_be_bytes([i0, i1, i2, i3]),
            },
            payload: rest,
        })
    }
}
