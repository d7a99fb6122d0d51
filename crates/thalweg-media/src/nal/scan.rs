//! The Annex B scanner.

/// Returns the NAL units of a byte stream, without start codes and trailing zeros. Bytes before the
/// first start code and empty units are skipped.
pub fn nal_units(data: &[u8]) -> NalUnits<'_> {
    let rest = start_code(data).map_or(&data[..0], |at| &data[at + 3..]);
    NalUnits { rest }
}

/// Iterates over NAL units; see [`nal_units`].
#[derive(Debug, Clone)]
pub struct NalUnits<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for NalUnits<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        while !self.rest.is_empty() {
            let unit = match start_code(self.rest) {
                Some(at) => {
                    let unit = &self.rest[..at];
                    self.rest = &self.rest[at + 3..];
                    unit
                }
                None => core::mem::take(&mut self.rest),
            };
            let end = unit.iter().rposition(|&b| b != 0).map_or(0, |at| at + 1);
            if end > 0 {
                return Some(&unit[..end]);
            }
        }
        None
    }
}

/// Returns the position of the first `00 00 01`.
fn start_code(data: &[u8]) -> Option<usize> {
    let mut at = 2;
    while let Some(&byte) = data.get(at) {
        // The third byte determines the next candidate: most bytes are above 1 and allow three
        // steps.
        match byte {
            0 => at += 1,
            1 if data[at - 1] == 0 && data[at - 2] == 0 => return Some(at - 2),
            _ => at += 3,
        }
    }
    None
}
