//! Finds the quality layers in a codestream written by `OpenJPEG`.
//!
//! The idea: the encoder is asked for PLT markers (packet lengths); in layer order, each run of
//! `resolutions × components` packets is one layer. The markers are read here and not sent.
//!
//! Sources: ISO/IEC 15444-1 A.4.2 (SOT), A.7.3 (PLT).

use super::header::{SOD, SOT, Shape};

const PLT: u16 = 0xff58;
const COM: u16 = 0xff64;

/// Splits a codestream into its layers, in order.
///
/// Fails   with text on what differs from this build's profile
pub(super) fn split(codestream: &[u8], shape: Shape) -> Result<Vec<&[u8]>, String> {
    let mut main = Vec::new();
    shape.main_header(&mut main);
    let rest = codestream
        .strip_prefix(main.as_slice())
        .ok_or("the encoder's main header is not the one of this profile")?;
    let mut reader = Reader { rest };
    let mut lengths = Vec::new();
    loop {
        match reader.marker()? {
            COM | SOT => drop(reader.segment()?),
            PLT => read_lengths(reader.segment()?, &mut lengths)?,
            SOD => break,
            other => return Err(format!("unexpected marker {other:#06x} before the packets")),
        }
    }
    let per_layer = shape.packets_per_layer();
    if lengths.len() != per_layer * usize::from(shape.layers) {
        return Err(format!(
            "{} packets were written, {} layers of {per_layer} are due",
            lengths.len(),
            shape.layers
        ));
    }
    let mut rest = reader.rest;
    let mut layers = Vec::with_capacity(usize::from(shape.layers));
    for packets in lengths.chunks_exact(per_layer) {
        let bytes = packets.iter().sum();
        let (layer, tail) = rest
            .split_at_checked(bytes)
            .ok_or("packet lengths run past the end of the codestream")?;
        layers.push(layer);
        rest = tail;
    }
    Ok(layers)
}

/// Reads the packet lengths of one PLT segment: seven bits per byte, the high bit marks a
/// continuation.
fn read_lengths(segment: &[u8], lengths: &mut Vec<usize>) -> Result<(), String> {
    let (_index, bytes) = segment.split_first().ok_or("an empty plt segment")?;
    let mut length = 0usize;
    for byte in bytes {
        length = (length << 7) | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            lengths.push(length);
            length = 0;
        }
    }
    Ok(())
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], String> {
        let (head, rest) = self
            .rest
            .split_at_checked(bytes)
            .ok_or("the codestream ends inside a header")?;
        self.rest = rest;
        Ok(head)
    }

    fn marker(&mut self) -> Result<u16, String> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn segment(&mut self) -> Result<&'a [u8], String> {
        let bytes = usize::from(self.marker()?);
        self.take(bytes.saturating_sub(2))
    }
}
