//! What enters and leaves the fabric: formats, and the ends that a URL names.
//!
//! *The idea.* A stream's ADUs come from somewhere as bytes and leave as bytes. [`mod@format`] cuts
//! bytes into messages and writes messages back, without input or output of its own. The room `url`
//! (feature `ends`) opens what `--from` and `--to` name.
//!
//! *What it does not do.* It knows no node and no plan: the binary joins an end, a format and a publisher.

pub mod format;
#[cfg(feature = "ends")]
pub mod url;
