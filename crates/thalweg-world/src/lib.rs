//! World files: text to [`World`], and every mistake with file, line and key.
//!
//! *The idea.* The model and its rules are in `thalweg_core::model`; this crate only reads. A world is TOML or JSON of
//! the same shape. What cannot be read, and what can be read but makes no sense (a link to a node that is not there),
//! is reported in one form: `world.toml:12: link[0].rate: …`. The same machinery ([`text`]) reads configurations.
//!
//! *What it does not do.* It opens no file: text comes in, values go out.
//!
//! *Sources.* docs/planner.md §6.
#![forbid(unsafe_code)]

pub mod text;

#[cfg(test)]
mod tests;

use thalweg_core::limits::FILE_BYTES_MAX;
use thalweg_core::model::World;

pub use text::{Format, TextError};

/// A world cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorldError {
    /// The text is larger than any world may be.
    #[error("{file}: {bytes} bytes are more than a world may have ({FILE_BYTES_MAX})")]
    TooLarge {
        /// The file.
        file: String,
        /// Its size.
        bytes: usize,
    },
    /// The text is not a world.
    #[error(transparent)]
    Text(#[from] TextError),
}

/// Reads a world and checks that it makes sense.
///
/// Fails   with the first mistake: a text that cannot be read, then the first of [`World::faults`]
pub fn load_str(text: &str, format: Format, file_name: &str) -> Result<World, WorldError> {
    if text.len() > FILE_BYTES_MAX {
        return Err(WorldError::TooLarge {
            file: file_name.to_owned(),
            bytes: text.len(),
        });
    }
    let world: World = text::from_str(text, format, file_name)?;
    match world.faults().into_iter().next() {
        None => Ok(world),
        Some(fault) => {
            Err(text::error_at(text, format, file_name, &fault.path, &fault.message).into())
        }
    }
}

/// Writes a world as JSON that [`load_str`] reads back as the same world.
pub fn to_json(world: &World) -> String {
    serde_json::to_string_pretty(world).expect("a world has text keys and finite numbers only")
}
