//! The files of a transfer, the hashes of files and blocks, and the position of each block.
//!
//! *The idea.* Blocks are numbered through all files in order; each file starts a new block. The id
//! depends only on names, sizes, modes and hashes of the files. So the same files have the same id
//! at any block size, and a transfer continues after the path, and with it the best block size, has
//! changed. The id covers the mode, since a forged one could make a private file public. It does
//! not cover the modification time, so that two copies of a file have the same id.
//!
//! ```text
//! manifest = 2:u8  log₂ of the block:u8  count:(i) (file  changed:i64)*count  (hash:32)*
//! file     = name:blob  size:(i)  mode:u16  hash:32
//! id       = the first 16 bytes of BLAKE3("thalweg files v2" ‖ count:(i) file*count)
//! ```
//!
//! There is a hash for each block of each file with at least two.

#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use thalweg_base::limits::{
    TRANSFER_BLOCK_BYTES_MAX, TRANSFER_BLOCKS_MAX, TRANSFER_FILES_MAX, TRANSFER_MANIFEST_BYTES_MAX,
    TRANSFER_NAME_BYTES_MAX,
};
use thalweg_base::wire::{Reader, WireError, Write as _};

use super::name::{BadFileName, FileName, TransferId};
use super::tree::{self, Hash};

/// The version of the format.
const VERSION: u8 = 2;

/// Prefix of the input of the id's hash.
const CONTEXT: &[u8] = b"thalweg files v2";

/// A file of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its name.
    pub name: FileName,
    /// Its size in bytes.
    pub size: u64,
    /// Its permissions.
    pub mode: Mode,
    /// Time of its last modification, in nanoseconds since 1970.
    pub changed: i64,
    /// Its BLAKE3 hash.
    pub hash: Hash,
}

/// The permissions of a file: the nine bits of POSIX, without setuid, setgid and sticky.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode(u16);

impl Mode {
    /// All nine bits.
    const BITS: u16 = 0o777;

    /// Returns the bits that a transfer keeps.
    pub const fn of(bits: u32) -> Self {
        Self(bits as u16 & Self::BITS)
    }

    /// Returns the bits.
    pub const fn bits(self) -> u32 {
        self.0 as u32
    }
}

/// The files of a transfer and the hashes of their blocks, consistent with each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    files: Vec<File>,
    layout: Layout,
    hashes: Vec<Hash>,
}

/// The position of each block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    block_bytes: u64,
    /// Per file: its first block, its first hash and its size.
    files: Vec<Extent>,
    blocks: u32,
    size: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    block: u32,
    hash: u32,
    size: u64,
}

/// A block's position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The index of its file.
    pub file: usize,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: usize,
}

/// Why a manifest is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The bytes are no manifest.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A file's name is invalid.
    #[error(transparent)]
    Name(#[from] BadFileName),
    /// There is no file, or there are too many.
    #[error(
        "a transfer has 1 to {TRANSFER_FILES_MAX} files, this one {0}: send a folder as one archive"
    )]
    Files(usize),
    /// Two files have the same name.
    #[error("two files are called `{0}`")]
    Twice(FileName),
    /// The block size is no power of two, or out of bounds.
    #[error("block size {0} is not a power of two from 1024 to {TRANSFER_BLOCK_BYTES_MAX}")]
    Block(u64),
    /// The files are too large together.
    #[error("{bytes} bytes in blocks of {block_bytes} are more than {TRANSFER_BLOCKS_MAX} blocks")]
    TooLarge {
        /// The sum of the sizes, in bytes.
        bytes: u64,
        /// The block size, in bytes.
        block_bytes: u64,
    },
    /// There are fewer or more hashes than blocks.
    #[error("the manifest has {there} block hashes, its files need {wanted}")]
    Hashes {
        /// Hashes present.
        there: usize,
        /// Hashes needed.
        wanted: usize,
    },
    /// The block hashes do not yield the file's hash.
    #[error("the block hashes of `{0}` do not match the hash of the file")]
    Tree(FileName),
}

impl Manifest {
    /// Returns the manifest of files, with the hashes of their blocks in order.
    ///
    /// Cost    O(blocks)
    /// Fails   if the parts are inconsistent, or out of bounds
    pub fn new(
        files: Vec<File>,
        block_bytes: u64,
        hashes: Vec<Hash>,
    ) -> Result<Self, ManifestError> {
        if files.is_empty() || files.len() > TRANSFER_FILES_MAX {
            return Err(ManifestError::Files(files.len()));
        }
        let mut names: Vec<&FileName> = files.iter().map(|file| &file.name).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|two| two[0] == two[1]) {
            return Err(ManifestError::Twice(twice[0].clone()));
        }
        let sizes = files.iter().map(|file| file.size);
        let layout = Layout::new(sizes, block_bytes)?;
        let wanted = layout.hashes();
        if hashes.len() != wanted {
            let there = hashes.len();
            return Err(ManifestError::Hashes { there, wanted });
        }
        let manifest = Self {
            files,
            layout,
            hashes,
        };
        manifest.prove()?;
        Ok(manifest)
    }

    /// Checks that the block hashes yield the files' hashes.
    fn prove(&self) -> Result<(), ManifestError> {
        for (file, extent) in self.files.iter().zip(&self.layout.files) {
            let hashes = self.layout.hashes_of(extent.size);
            let blocks = &self.hashes[extent.hash as usize..][..hashes];
            let is_proved = match blocks {
                [] if extent.size == 0 => file.hash == tree::whole_hash(b""),
                // The single block itself will be compared with the file's hash.
                [] => true,
                blocks => file.hash == tree::file_hash(blocks),
            };
            if !is_proved {
                return Err(ManifestError::Tree(file.name.clone()));
            }
        }
        Ok(())
    }

    /// Returns the files.
    pub fn files(&self) -> &[File] {
        &self.files
    }

    /// Returns the positions of the blocks.
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns whether these bytes are the block of this number.
    ///
    /// Cost    one hash over them
    pub fn is_block(&self, block: u32, bytes: &[u8]) -> bool {
        let Some(place) = self.layout.place(block) else {
            return false;
        };
        if bytes.len() != place.bytes {
            return false;
        }
        let extent = self.layout.files[place.file];
        if self.layout.hashes_of(extent.size) == 0 {
            return tree::whole_hash(bytes) == self.files[place.file].hash;
        }
        let hash = self.hashes[(extent.hash + block - extent.block) as usize];
        tree::block_hash(place.offset, bytes) == hash
    }

    /// Returns the transfer's id.
    pub fn id(&self) -> TransferId {
        let mut bytes = CONTEXT.to_vec();
        self.write_files(&mut bytes);
        let hash = tree::whole_hash(&bytes);
        let mut id = [0; 16];
        id.copy_from_slice(&hash[..16]);
        TransferId(id)
    }

    /// Appends the encoded manifest.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        out.push(self.layout.block_bytes.trailing_zeros() as u8);
        out.varint(self.files.len() as u64);
        for file in &self.files {
            write_file(file, out);
            out.extend_from_slice(&file.changed.to_be_bytes());
        }
        for hash in &self.hashes {
            out.extend_from_slice(hash);
        }
    }

    fn write_files(&self, out: &mut Vec<u8>) {
        out.varint(self.files.len() as u64);
        for file in &self.files {
            write_file(file, out);
        }
    }

    /// Decodes a manifest.
    pub fn decode(bytes: &[u8]) -> Result<Self, ManifestError> {
        if bytes.len() > TRANSFER_MANIFEST_BYTES_MAX {
            return Err(ManifestError::Wire(WireError::TooLarge {
                what: "manifest",
                value: bytes.len() as u64,
                limit: TRANSFER_MANIFEST_BYTES_MAX as u64,
            }));
        }
        let mut reader = Reader::new(bytes);
        let version = reader.byte("version")?;
        if version != VERSION {
            return Err(ManifestError::Wire(WireError::Version(version)));
        }
        let shift = reader.byte("block")?;
        let block_bytes = 1_u64.checked_shl(u32::from(shift)).unwrap_or(0);
        let count = reader.count("files", TRANSFER_FILES_MAX)?;
        let mut files = Vec::with_capacity(count);
        for _ in 0..count {
            files.push(read_file(&mut reader)?);
        }
        let count = reader.remaining() / 32;
        let mut hashes = Vec::with_capacity(count);
        for _ in 0..count {
            hashes.push(reader.array("hashes")?);
        }
        reader.finish()?;
        Self::new(files, block_bytes, hashes)
    }
}

/// Appends the part of a file that the id covers.
fn write_file(file: &File, out: &mut Vec<u8>) {
    out.blob(file.name.as_bytes());
    out.varint(file.size);
    out.extend_from_slice(&file.mode.0.to_be_bytes());
    out.extend_from_slice(&file.hash);
}

fn read_file(reader: &mut Reader<'_>) -> Result<File, ManifestError> {
    let name = FileName::new(reader.blob("name", TRANSFER_NAME_BYTES_MAX)?)?;
    let size = reader.varint("size")?;
    let mode = u16::from_be_bytes(reader.array("mode")?);
    if mode > Mode::BITS {
        return Err(ManifestError::Wire(WireError::TooLarge {
            what: "mode",
            value: mode.into(),
            limit: Mode::BITS.into(),
        }));
    }
    Ok(File {
        name,
        size,
        mode: Mode(mode),
        hash: reader.array("hash")?,
        changed: i64::from_be_bytes(reader.array("changed")?),
    })
}

impl Layout {
    /// Returns the layout of files of these sizes.
    ///
    /// Fails   if the block size is invalid, or there are too many blocks
    pub fn new(sizes: impl Iterator<Item = u64>, block_bytes: u64) -> Result<Self, ManifestError> {
        if !block_bytes.is_power_of_two()
            || !(1024..=TRANSFER_BLOCK_BYTES_MAX as u64).contains(&block_bytes)
        {
            return Err(ManifestError::Block(block_bytes));
        }
        let mut layout = Self {
            block_bytes,
            files: Vec::new(),
            blocks: 0,
            size: 0,
        };
        let mut hash = 0;
        for size in sizes {
            let block = layout.blocks;
            layout.files.push(Extent { block, hash, size });
            layout.size = layout.size.saturating_add(size);
            let blocks = u64::from(block).saturating_add(size.div_ceil(block_bytes));
            if blocks > TRANSFER_BLOCKS_MAX as u64 {
                let bytes = layout.size;
                return Err(ManifestError::TooLarge { bytes, block_bytes });
            }
            layout.blocks = blocks as u32;
            hash += layout.hashes_of(size) as u32;
        }
        Ok(layout)
    }

    /// Returns the number of block hashes of a file of this size.
    fn hashes_of(&self, size: u64) -> usize {
        match size.div_ceil(self.block_bytes) {
            0 | 1 => 0,
            blocks => blocks as usize,
        }
    }

    fn hashes(&self) -> usize {
        let last = self.files.last();
        last.map_or(0, |last| last.hash as usize + self.hashes_of(last.size))
    }

    /// Returns the number of blocks.
    pub const fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Returns the block size in bytes.
    pub const fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// Returns the sum of the sizes in bytes.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Returns the blocks of a file.
    ///
    /// Fails   panics if there is no such file (a caller's bug)
    pub fn blocks_of(&self, file: usize) -> core::ops::Range<u32> {
        let end = self
            .files
            .get(file + 1)
            .map_or(self.blocks, |next| next.block);
        self.files[file].block..end
    }

    /// Returns a block's position; `None` beyond the last block.
    ///
    /// Cost    O(log files)
    pub fn place(&self, block: u32) -> Option<Place> {
        if block >= self.blocks {
            return None;
        }
        // The last file that begins at or before the block; empty files before it begin at the same
        // one.
        let file = self.files.partition_point(|file| file.block <= block) - 1;
        let Extent {
            block: first, size, ..
        } = self.files[file];
        let offset = u64::from(block - first) * self.block_bytes;
        Some(Place {
            file,
            offset,
            bytes: (size - offset).min(self.block_bytes) as usize,
        })
    }
}
