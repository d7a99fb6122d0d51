//! Decodes a prefix of layers to a picture.

use super::header::Shape;
use super::{BASE_HEAD_BYTES, HEAD_BYTES, LayeredError, VERSION, check, openjpeg};
use crate::picture::Yuv420;

/// Decodes a prefix of a picture's layers: the base, or the base and the enhancements that follow it.
///
/// Shape   `prefix[n]`, `1 ≤ n ≤ layers`, base first
/// Cost    memory: about 24 bytes a luma sample within the codec; sides are bounded by
///         `picture::SIDE_MAX`
/// Fails   [`LayeredError`] for anything that is not such a prefix, whole and in order; also where
///         the codec only warns, since the bytes then differ from those sent
pub fn decode<B: AsRef<[u8]>>(prefix: &[B]) -> Result<Yuv420, LayeredError> {
    let (shape, codestream) = join(prefix)?;
    let [y, u, v] = openjpeg::decode(&codestream, shape).map_err(LayeredError::Codec)?;
    Ok(Yuv420::new(shape.width, shape.height, y, u, v)?)
}

/// Returns the width and height that a base layer announces, checked, without decoding it.
///
/// Fails   as [`decode`] does for a base
pub fn peek_size(base: &[u8]) -> Result<(u32, u32), LayeredError> {
    let (shape, _) = read_base(base)?;
    Ok((shape.width, shape.height))
}

/// Joins a prefix to a whole codestream, with a header for as many layers as there are.
pub(super) fn join<B: AsRef<[u8]>>(prefix: &[B]) -> Result<(Shape, Vec<u8>), LayeredError> {
    let (base, above) = prefix.split_first().ok_or(LayeredError::Empty)?;
    let (announced, base) = read_base(base.as_ref())?;
    if prefix.len() > usize::from(announced.layers) {
        return Err(LayeredError::Order {
            place: usize::from(announced.layers),
            found: usize::from(announced.layers),
        });
    }
    let shape = Shape {
        layers: prefix.len() as u8,
        ..announced
    };
    let mut parts = vec![base];
    for (place, payload) in (1..).zip(above) {
        let (layer, packets) = read_layer(payload.as_ref(), place)?;
        if layer != place {
            return Err(LayeredError::Order {
                place,
                found: layer,
            });
        }
        parts.push(packets);
    }
    let bytes = parts.iter().map(|part| part.len()).sum::<usize>();
    // Noise at full precision codes to less than twice its samples.
    if bytes > 3 * (shape.width * shape.height) as usize + 65_536 {
        return Err(LayeredError::Excess {
            bytes,
            width: shape.width,
            height: shape.height,
        });
    }
    let mut out = Vec::with_capacity(bytes + 192);
    shape.main_header(&mut out);
    Shape::tile_header(&mut out, bytes as u32);
    for part in parts {
        out.extend_from_slice(part);
    }
    Shape::end(&mut out);
    Ok((shape, out))
}

fn read_base(payload: &[u8]) -> Result<(Shape, &[u8]), LayeredError> {
    let (layer, rest) = read_layer(payload, 0)?;
    if layer != 0 {
        return Err(LayeredError::Order {
            place: 0,
            found: layer,
        });
    }
    let Some((&[w0, w1, h0, h1, counts], packets)) =
        rest.split_first_chunk::<{ BASE_HEAD_BYTES - HEAD_BYTES }>()
    else {
        return Err(LayeredError::Short {
            layer,
            bytes: payload.len(),
        });
    };
    let shape = Shape {
        width: u32::from(u16::from_be_bytes([w0, w1])),
        height: u32::from(u16::from_be_bytes([h0, h1])),
        layers: counts >> 4,
        levels: counts & 0x0f,
    };
    Ok((shape.checked()?, packets))
}

/// Reads the header common to all layers; returns the layer and the rest.
fn read_layer(payload: &[u8], place: usize) -> Result<(usize, &[u8]), LayeredError> {
    let bytes = payload.len();
    let Some((&[first, c0, c1], rest)) = payload.split_first_chunk::<HEAD_BYTES>() else {
        return Err(LayeredError::Short {
            layer: place,
            bytes,
        });
    };
    if first >> 4 != VERSION {
        return Err(LayeredError::Version { found: first >> 4 });
    }
    let layer = usize::from(first & 0x0f);
    if check(first, rest) != u16::from_be_bytes([c0, c1]) {
        return Err(LayeredError::Damaged { layer, bytes });
    }
    Ok((layer, rest))
}
