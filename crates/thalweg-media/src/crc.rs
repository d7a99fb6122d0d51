//! CRC-32/MPEG-2: of PAT and PMT sections, and of layered video payloads.
//!
//! The idea: one table of 256 words, made at compile time; most significant bit first, no
//! reflection, no final inversion, so that the CRC of a section with its CRC appended is zero.
//!
//! Sources: ISO/IEC 13818-1 Annex A.

const POLYNOMIAL: u32 = 0x04c1_1db7;

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u32) << 24;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc >> 31 == 1 {
                crc << 1 ^ POLYNOMIAL
            } else {
                crc << 1
            };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// The CRC before any byte.
pub(crate) const START: u32 = 0xffff_ffff;

/// Continues a CRC over more bytes.
pub(crate) fn extend(crc: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(crc, |crc, &byte| {
        crc << 8 ^ TABLE[(crc >> 24) as usize ^ usize::from(byte)]
    })
}

#[cfg(test)]
mod tests {
    //! Proves the CRC by its published check value.

    #[test]
    fn crc_matches_check_value() {
        assert_eq!(super::extend(super::START, b"123456789"), 0x0376_e6e7);
    }
}
