//! Encodes a picture to its layers.

use bytes::{BufMut, Bytes, BytesMut};

use super::header::Shape;
use super::{
    BASE_BYTES_MIN, BASE_HEAD_BYTES, HEAD_BYTES, LAYERS_MAX, LayeredError, VERSION, check,
    openjpeg, packets,
};
use crate::picture::Yuv420;

/// Encodes pictures of one size into layers of given byte budgets.
///
/// The budgets hold for every picture: payload `i` never exceeds the sum of the budgets up to `i`
/// less the size of the payloads before it, so each prefix stays within its cumulative budget. It
/// falls short of it only by the gaps between the codec's truncation points, or when the picture is
/// exhausted.
///
/// Measured over 24 frames of the built-in scene at 352×288, release build, one of two cores in a
/// shared cloud machine, encoding 12 to 16 ms a frame (24 to 26 ms at 640×480);
/// `examples/ladder.rs` prints it:
///
/// ```text
/// layers  budget  least sent   most  Y dB   Cb dB  Cr dB  decode ms
///      1    1000         947   1000  28.68  32.56  33.93      1.1
///      2    2000        1939   2000  31.56  34.92  36.90      1.2
///      3    3500        3410   3500  34.19  36.71  39.30      1.8
///      4    5500        5407   5500  36.65  39.34  42.27      2.0
///      5    8500        8410   8500  39.48  42.51  44.79      2.4
///      6   13500       13340  13498  43.20  45.54  47.14      3.7
///      7   22500       22310  22498  48.08  50.12  50.95      5.0
///      8   38500       38139  38500  54.11  56.41  55.93      8.0
/// ```
#[derive(Debug, Clone)]
pub struct Encoder {
    shape: Shape,
    /// Cumulative packet bytes after each layer, framing excluded.
    targets: Vec<usize>,
}

impl Encoder {
    /// Returns an encoder for a size and the byte budget of each layer, base first, framing
    /// included.
    ///
    /// Fails   [`LayeredError::Picture`] or [`LayeredError::Small`] for the size,
    ///         [`LayeredError::Budgets`]
    pub fn new(width: u32, height: u32, layer_bytes: &[usize]) -> Result<Self, LayeredError> {
        let refuse = || LayeredError::Budgets(layer_bytes.to_vec());
        let (&base, above) = layer_bytes.split_first().ok_or_else(refuse)?;
        let total = layer_bytes
            .iter()
            .try_fold(0usize, |sum, &n| sum.checked_add(n));
        let bounded = total.is_some_and(|n| n <= thalweg_base::limits::ADU_PAYLOAD_BYTES_MAX);
        if layer_bytes.len() > LAYERS_MAX
            || base < BASE_BYTES_MIN
            || above.iter().any(|&n| n < 32)
            || !bounded
        {
            return Err(refuse());
        }
        let shape = Shape::new(width, height, layer_bytes.len())?;
        let mut sum = 0;
        let targets = layer_bytes
            .iter()
            .enumerate()
            .map(|(layer, &bytes)| {
                sum += bytes
                    - if layer == 0 {
                        BASE_HEAD_BYTES
                    } else {
                        HEAD_BYTES
                    };
                sum
            })
            .collect();
        Ok(Self { shape, targets })
    }

    /// Number of layers.
    pub fn layers(&self) -> usize {
        self.targets.len()
    }

    /// Encodes one picture; returns the payload of each layer, base first.
    ///
    /// Cost    0.08 to 0.14 µs a luma sample in a release build
    /// Fails   [`LayeredError::Codec`]; a picture of another size is refused by it too
    pub fn encode(&self, picture: &Yuv420) -> Result<Vec<Bytes>, LayeredError> {
        let shape = self.shape;
        if (picture.width(), picture.height()) != (shape.width, shape.height) {
            return Err(LayeredError::Codec(format!(
                "the picture is {}x{}, the encoder was made for {}x{}",
                picture.width(),
                picture.height(),
                shape.width,
                shape.height
            )));
        }
        let codestream =
            openjpeg::encode(picture, shape, &self.targets).map_err(LayeredError::Codec)?;
        let layers = packets::split(&codestream, shape).map_err(LayeredError::Codec)?;
        Ok(layers
            .iter()
            .enumerate()
            .map(|(layer, packets)| frame(shape, layer, packets))
            .collect())
    }
}

/// Puts the framing before a layer's packets.
fn frame(shape: Shape, layer: usize, packets: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(BASE_HEAD_BYTES + packets.len());
    let first = VERSION << 4 | layer as u8;
    out.put_u8(first);
    out.put_u16(0);
    if layer == 0 {
        out.put_u16(shape.width as u16);
        out.put_u16(shape.height as u16);
        out.put_u8(shape.layers << 4 | shape.levels);
    }
    out.put_slice(packets);
    let check = check(first, &out[HEAD_BYTES..]);
    out[1..HEAD_BYTES].copy_from_slice(&check.to_be_bytes());
    out.freeze()
}
