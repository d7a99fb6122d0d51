//! Files to send: opened, hashed once, and read again block by block.
//!
//! *The idea.* Hashing reads each file once, in blocks, and keeps only 32 bytes per block. When a
//! block is read again to be sent, it is compared with its hash; so a file that is written to
//! meanwhile is detected before it leaves. A file's reported length is checked too: for files in
//! `/proc` it is 0, for those in `/sys` 4096, whatever they contain.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use thalweg_base::units::DataSize;
use thalweg_transfer::manifest::{self, Layout, Mode};
use thalweg_transfer::{FileName, Manifest, tree};

use super::{Event, TransferError};

#[cfg(test)]
mod tests;

/// Open files and their manifest.
#[derive(Debug)]
pub(super) struct Files {
    opened: Vec<Opened>,
    pub(super) manifest: Manifest,
}

#[derive(Debug)]
struct Opened {
    path: PathBuf,
    file: File,
    name: FileName,
    size: u64,
    mode: Mode,
    changed: i64,
}

impl Files {
    /// Opens and hashes files; `block` chooses the block length from the total length.
    ///
    /// Fails   if a path is not a regular file or cannot be read, or its name or size is not allowed
    pub(super) fn open(
        paths: &[PathBuf],
        block: impl FnOnce(DataSize) -> u64,
        events: &mut dyn FnMut(Event),
    ) -> Result<Self, TransferError> {
        let opened: Result<Vec<Opened>, _> = paths.iter().cloned().map(Opened::open).collect();
        let opened = opened?;
        let of = opened.iter().map(|file| file.size).sum();
        let block_bytes = block(DataSize::from_bytes(of));
        // Rejects too many blocks before anything is read.
        Layout::new(opened.iter().map(|file| file.size), block_bytes)?;
        let mut hashes = Vec::new();
        let mut files = Vec::new();
        let mut bytes = 0;
        for file in &opened {
            let hash = file.hash(block_bytes, &mut hashes, &mut |more| {
                bytes += more;
                events(Event::Looking { bytes, of });
            })?;
            files.push(manifest::File {
                name: file.name.clone(),
                size: file.size,
                mode: file.mode,
                changed: file.changed,
                hash,
            });
        }
        let manifest = Manifest::new(files, block_bytes, hashes)?;
        Ok(Self { opened, manifest })
    }

    /// Reads a block.
    ///
    /// Fails   if it differs from what was hashed, or cannot be read
    pub(super) async fn read(self: &Arc<Self>, block: u32) -> Result<Bytes, TransferError> {
        let files = Arc::clone(self);
        super::blocking(move || {
            let place = files.manifest.layout().place(block);
            let place = place.expect("the sender's machine asks for blocks that are there");
            let from = &files.opened[place.file];
            let mut bytes = vec![0; place.bytes];
            let read = from.file.read_exact_at(&mut bytes, place.offset);
            // A truncated file is a changed file.
            let is_cut = |error: &std::io::Error| error.kind() == ErrorKind::UnexpectedEof;
            match read {
                Err(error) if !is_cut(&error) => {
                    return Err(TransferError::file("read", &from.path, error));
                }
                Ok(()) if files.manifest.is_block(block, &bytes) => {}
                _ => {
                    let path = from.path.clone();
                    return Err(TransferError::Changed { path });
                }
            }
            Ok(bytes.into())
        })
        .await
    }
}

impl Opened {
    fn open(path: PathBuf) -> Result<Self, TransferError> {
        let failed = |source| TransferError::file("read", &path, source);
        // Checked before the open, which would block on a pipe until a writer opens it.
        let kind = fs::metadata(&path).map_err(failed)?.file_type();
        let Some(name) = path.file_name().filter(|_| kind.is_file()) else {
            return Err(if kind.is_dir() {
                TransferError::Folder { path }
            } else {
                TransferError::NoFile { path }
            });
        };
        let file = File::open(&path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        Ok(Self {
            name: FileName::new(OsStr::as_bytes(name))?,
            size: metadata.len(),
            mode: Mode::of(metadata.permissions().mode()),
            changed: metadata.modified().map_or(0, since_1970),
            file,
            path,
        })
    }

    /// Returns the error of a file that differs from its length: it has changed, or is a system
    /// file with a meaningless length.
    fn length_error(&self) -> TransferError {
        let path = self.path.clone();
        let now = self.file.metadata().map(|metadata| metadata.len());
        match now {
            Ok(now) if now == self.size => TransferError::Length { path, said: now },
            Ok(_) => TransferError::Changed { path },
            Err(source) => TransferError::File {
                verb: "read",
                path,
                source,
            },
        }
    }

    /// Returns the file's hash, and appends the hashes of its blocks if it has several.
    fn hash(
        &self,
        block_bytes: u64,
        hashes: &mut Vec<tree::Hash>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<tree::Hash, TransferError> {
        let first = hashes.len();
        let mut buffer = vec![0; block_bytes.min(self.size) as usize];
        let mut offset = 0;
        let mut whole = None;
        while offset < self.size {
            let length = block_bytes.min(self.size - offset);
            let block = &mut buffer[..length as usize];
            self.file
                .read_exact_at(block, offset)
                .map_err(|error| match error.kind() {
                    ErrorKind::UnexpectedEof => self.length_error(),
                    _ => TransferError::file("read", &self.path, error),
                })?;
            if self.size <= block_bytes {
                whole = Some(tree::whole_hash(block));
            } else {
                hashes.push(tree::block_hash(offset, block));
            }
            offset += length;
            progress(length);
        }
        // Content beyond the reported length would be left out silently.
        let beyond = self.file.read_at(&mut [0], self.size);
        if beyond.map_err(|error| TransferError::file("read", &self.path, error))? > 0 {
            return Err(self.length_error());
        }
        let blocks = &hashes[first..];
        Ok(whole.unwrap_or_else(|| match blocks {
            [] => tree::whole_hash(b""),
            blocks => tree::file_hash(blocks),
        }))
    }
}

/// Returns a time in nanoseconds since 1970, clamped to the range of `i64`.
fn since_1970(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => {
            let before = i64::try_from(before.duration().as_nanos());
            before.map_or(i64::MIN, |before| -before)
        }
    }
}
