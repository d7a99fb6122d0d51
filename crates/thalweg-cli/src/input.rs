//! Reading worlds from files, with one sentence for whatever is wrong.

use std::path::Path;

use anyhow::Context as _;
use thalweg_core::limits::FILE_BYTES_MAX;
use thalweg_core::model::World;
use thalweg_world::Format;

use crate::exit::{Code, Failure, OrCode as _};

/// Reads a text file that is no larger than a world or a configuration may be.
pub fn read_text(file: &Path) -> Result<String, Failure> {
    let name = file.display();
    let read = || -> anyhow::Result<String> {
        let size = std::fs::metadata(file)?.len();
        anyhow::ensure!(
            size <= FILE_BYTES_MAX as u64,
            "it has {size} bytes, and {FILE_BYTES_MAX} are the most that is read"
        );
        let bytes = std::fs::read(file)?;
        String::from_utf8(bytes).context("it is not text in UTF-8")
    };
    read()
        .with_context(|| format!("cannot read {name}"))
        .or_code(Code::BadInput)
}

/// Reads a world from a file.
pub fn load_world(file: &Path) -> Result<World, Failure> {
    parse_world(&read_text(file)?, file)
}

/// Reads a world from the text of a file.
pub fn parse_world(text: &str, file: &Path) -> Result<World, Failure> {
    let name = file.display().to_string();
    thalweg_world::load_str(text, Format::of_file_name(&name), &name).or_code(Code::BadInput)
}
