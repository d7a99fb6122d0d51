//! Media formats above the lift: the formats of cameras, players and screens, split into ADU
//! payloads and reassembled.
//!
//! The idea: every room is a pure function or a state machine on bytes, without clock, socket,
//! thread or randomness. All that the media tells about an ADU (importance, layer, dependence,
//! media time) is in one type, [`Marks`].
//!
//! - [`ts`]: MPEG-TS to access units and back; [`ts::Publisher`] and [`ts::Subscriber`] are its two ends.
//! - [`rtp`]: RTP, and MPEG-TS within it.
//! - [`nal`]: importance of H.264 and H.265 access units.
//! - [`layered`]: pictures as one base and seven enhancements (JPEG 2000).
//! - [`picture`]: 4:2:0 pictures, PSNR, Y4M. [`scene`]: a moving picture that needs no file.
//!
//! What it does not do: decode H.264 or H.265; touch files or sockets.

mod crc;
pub mod layered;
mod marks;
pub mod nal;
pub mod picture;
pub mod rtp;
pub mod scene;
pub mod ts;

pub use marks::Marks;
