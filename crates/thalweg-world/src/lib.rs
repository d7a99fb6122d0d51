//! World files: parses text to a [`World`], and reports every mistake with file, line and key.
//!
//! *The idea.* The model and its rules are in `thalweg_planner::model`; this crate only parses. A
//! world is TOML or JSON of the same structure. Syntax errors and semantic errors (such as a link
//! to an unknown node) are reported in one form: `world.toml:12: link[0].rate: …`. The same code
//! ([`text`]) parses configurations.
//!
//! *What it does not do.* It opens no file: text comes in, values go out.
//!
//! *Sources.* docs/reference/worlds.md.
#![forbid(unsafe_code)]

pub mod text;

#[cfg(test)]
mod tests;

use thalweg_base::limits::FILE_BYTES_MAX;
use thalweg_planner::model::World;

pub use text::{Format, TextError};

/// Why a world cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorldError {
    /// The text is larger than the limit.
    #[error("{file}: {bytes} bytes are more than a world may have ({FILE_BYTES_MAX})")]
    TooLarge {
        /// The file.
        file: String,
        /// Its size in bytes.
        bytes: usize,
    },
    /// The text is not a valid world.
    #[error(transparent)]
    Text(#[from] TextError),
}

/// Parses a world and validates it.
///
/// Fails   with the first mistake: a syntax error, else the first of [`World::faults`]
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
