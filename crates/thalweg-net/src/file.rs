//! Reads files that a user named, whole and up to a size limit.
//!
//! *What it does not do.* Its errors do not name the file: the caller adds the path and the
//! purpose.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use thalweg_base::limits::FILE_BYTES_MAX;

/// Reads a file of at most [`FILE_BYTES_MAX`] bytes.
///
/// Fails   with the system's error, or with [`io::ErrorKind::FileTooLarge`] and a sentence
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Read up to the limit instead of trusting the reported size: a device reports none and may
    // have no end.
    let mut bytes = Vec::new();
    let file = File::open(path)?;
    file.take(FILE_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() > FILE_BYTES_MAX {
        let what = format!("it has more than {FILE_BYTES_MAX} bytes, the maximum");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    Ok(bytes)
}
