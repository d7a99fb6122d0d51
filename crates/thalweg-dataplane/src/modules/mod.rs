//! The modules that a plan can name: one file per module, and two files for the formats that both
//! halves of a pair share.
//!
//! | word | module | half of |
//! |---|---|---|
//! | `null` | [`Null`] | – |
//! | `keep:Q` | [`KeepLayers`] | – |
//! | `pack`, `pack:lz4`, `pack:zstd` | [`Pack`] | DO |
//! | `unpack` | [`Unpack`] | UNDO of pack |
//! | `seal`, `seal:aes256`, `seal:chacha20` | [`Seal`] | DO |
//! | `open` | [`Open`] | UNDO of seal |

mod keep_layers;
mod null;
mod open;
mod pack;
mod packed;
mod replay;
mod seal;
mod sealed;
#[cfg(test)]
mod tests;
mod unpack;

pub use keep_layers::KeepLayers;
pub use null::Null;
pub use open::{OPEN_INSTANCES_MAX, Open};
pub use pack::Pack;
pub use packed::{PACKED_PREFIX_BYTES_MAX, Packer};
pub use replay::REPLAY_WINDOW_ADUS;
pub use seal::Seal;
pub use sealed::{Cipher, SEAL_OVERHEAD_BYTES_MAX, SEAL_OVERHEAD_BYTES_MIN};
pub use unpack::Unpack;
