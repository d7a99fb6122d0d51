//! A picture as the page reads it.

use bytes::{BufMut as _, Bytes, BytesMut};
use thalweg_media::picture::Yuv420;

/// Which picture a frame on the WebSocket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// What the camera saw.
    Original = 0,
    /// What the unplanned fabric shows.
    Unplanned = 1,
    /// What the planned fabric shows.
    Planned = 2,
}

/// Packs a picture as the page reads it: kind, width, height, planes.
pub fn frame(kind: Kind, picture: &Yuv420) -> Bytes {
    let planes = picture.planes();
    let samples: usize = planes.iter().map(|plane| plane.samples.len()).sum();
    let mut out = BytesMut::with_capacity(5 + samples);
    out.put_u8(kind as u8);
    out.put_u16(picture.width() as u16);
    out.put_u16(picture.height() as u16);
    for plane in planes {
        out.put_slice(plane.samples);
    }
    out.freeze()
}
