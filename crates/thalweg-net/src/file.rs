//! Files that somebody named, read whole and up to a bound.
//!
//! *What it does not do.* It does not say which file it is: who asked knows what it is for.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use thalweg_core::limits::FILE_BYTES_MAX;

/// Reads a file of at most [`FILE_BYTES_MAX`] bytes.
///
/// Fails   as the system says, or with [`io::ErrorKind::FileTooLarge`] and a sentence
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Not by its size: a device has none, and may have no end.
    let mut bytes = Vec::new();
    let file = File::open(path)?;
    file.take(FILE_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() > FILE_BYTES_MAX {
        let what =
            format!("it has more than {FILE_BYTES_MAX} bytes, which are the most that is read");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    Ok(bytes)
}
