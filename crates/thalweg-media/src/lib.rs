//! Media formats above the lift: what a camera, a player or a screen speaks, taken apart into ADU payloads and put
//! together again.
//!
//! The idea: every room is a pure function or a state machine of bytes: no clock, socket, thread or randomness. What the
//! media knows of an ADU (importance, layer, dependence, media time) leaves by one door, [`Marks`].
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
