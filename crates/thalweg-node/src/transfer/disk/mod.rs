//! Received files, until they are complete and in place.
//!
//! *The idea.* A transfer has a folder beside its future files, named by its id: `thalweg-ID.part`,
//! with the manifest and one numbered part per file. Nothing in it is trusted: a later run compares
//! every block with its hash. Once all blocks are there, each part is synced and moved to its name
//! in one step, which fails if the name is taken; then the folder is removed.
//!
//! Only their owner can read the parts. A complete file gets its mode at the sender, less the bits
//! that the umask takes from a new file here, so it is never more open than it was there; and its
//! time.
//!
//! ```text
//! DIR/thalweg-0f3a….part/manifest   written first, so that a later run knows what is there
//! DIR/thalweg-0f3a….part/0, 1, …    ─► DIR/NAME
//! ```

#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, FileTimes, OpenOptions, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{
    DirBuilderExt as _, FileExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use thalweg_base::limits::TRANSFER_MANIFEST_BYTES_MAX;
use thalweg_transfer::{Have, Manifest, Place, TransferId};

use super::{Event, TransferError};

/// The manifest's name in the folder of parts.
const MANIFEST: &str = "manifest";

/// The name of a file created there to see the mode that it gets.
const PROBE: &str = "mode";

/// The parts and places of one transfer's files.
#[derive(Debug)]
pub(super) struct Disk {
    folder: PathBuf,
    parts: PathBuf,
    force: bool,
    keeps_modes: bool,
    files: Vec<Part>,
}

/// A file of the transfer.
#[derive(Debug)]
enum Part {
    /// In the folder of parts.
    Here(File),
    /// Complete and in its place.
    InPlace,
}

impl Disk {
    /// Returns the disk of a transfer into a folder.
    pub(super) fn new(folder: &Path, id: TransferId, force: bool, keeps_modes: bool) -> Self {
        Self {
            folder: folder.to_path_buf(),
            parts: folder.join(format!("thalweg-{id}.part")),
            force,
            keeps_modes,
            files: Vec::new(),
        }
    }

    /// Returns the folder of parts.
    pub(super) fn parts(&self) -> &Path {
        &self.parts
    }

    /// Returns the manifest of an earlier run, if it can be read.
    pub(super) fn load_manifest(&self) -> Option<Manifest> {
        let path = self.parts.join(MANIFEST);
        let metadata = fs::symlink_metadata(&path).ok()?;
        if !metadata.is_file() || metadata.len() > TRANSFER_MANIFEST_BYTES_MAX as u64 {
            return None;
        }
        Manifest::decode(&fs::read(path).ok()?).ok()
    }

    /// Creates or opens the parts, and returns the blocks that are there.
    ///
    /// Cost    one hash over the existing content
    /// Fails   if a name is taken and `force` is off, or the disk cannot be written
    pub(super) fn open(
        &mut self,
        manifest: &Manifest,
        events: &mut dyn FnMut(Event),
    ) -> Result<Have, TransferError> {
        let mut have = Have::none(manifest.layout().blocks());
        self.files.clear();
        let in_place: Result<Vec<bool>, _> = (0..manifest.files().len())
            .map(|number| self.is_in_place(manifest, number, events))
            .collect();
        let in_place = in_place?;
        self.save_manifest(manifest)?;
        for (number, is_in_place) in in_place.into_iter().enumerate() {
            let blocks = manifest.layout().blocks_of(number);
            if is_in_place {
                blocks.for_each(|block| {
                    have.insert(block);
                });
                self.files.push(Part::InPlace);
                continue;
            }
            let path = self.parts.join(number.to_string());
            let file =
                open_part(&path).map_err(|error| TransferError::file("write", &path, error))?;
            verify(manifest, number, &file, events, |block| {
                have.insert(block);
            })
            .map_err(|error| TransferError::file("read", &path, error))?;
            self.files.push(Part::Here(file));
        }
        Ok(have)
    }

    /// Returns whether a file is complete and in its place.
    ///
    /// Fails   if something else has its name
    fn is_in_place(
        &self,
        manifest: &Manifest,
        number: usize,
        events: &mut dyn FnMut(Event),
    ) -> Result<bool, TransferError> {
        let path = self.place(manifest, number);
        let metadata = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            other => other.map_err(|error| TransferError::file("read", &path, error))?,
        };
        if metadata.is_file() && metadata.len() == manifest.files()[number].size {
            let file =
                File::open(&path).map_err(|error| TransferError::file("read", &path, error))?;
            let mut there = 0;
            verify(manifest, number, &file, events, |_| there += 1)
                .map_err(|error| TransferError::file("read", &path, error))?;
            if there == manifest.layout().blocks_of(number).len() {
                return Ok(true);
            }
        }
        let path = super::shown(&path);
        Err(TransferError::Ended(if metadata.is_dir() {
            format!("{path} exists and is a folder: receive with --to another one")
        } else if self.force {
            return Ok(false);
        } else {
            format!(
                "{path} exists and is another file: receive with --force to replace it, or with --to another folder"
            )
        }))
    }

    fn save_manifest(&self, manifest: &Manifest) -> Result<(), TransferError> {
        let mut bytes = Vec::new();
        manifest.encode(&mut bytes);
        let path = self.parts.join(MANIFEST);
        let mut folder = DirBuilder::new();
        folder.recursive(true).mode(0o700);
        folder
            .create(&self.parts)
            .and_then(|()| fs::write(&path, bytes))
            .map_err(|error| TransferError::file("write", &path, error))
    }

    /// Writes a block.
    ///
    /// Fails   for example on a full disk
    pub(super) fn write(&self, place: Place, bytes: &[u8]) -> io::Result<()> {
        match self.files.get(place.file) {
            Some(Part::Here(file)) => file.write_all_at(bytes, place.offset),
            Some(Part::InPlace) | None => Ok(()),
        }
    }

    /// Syncs every file and moves it into place, then removes the folder of parts.
    ///
    /// Fails   if a name was taken meanwhile, a part was truncated, or the disk cannot be written
    pub(super) fn finish(
        &mut self,
        manifest: &Manifest,
        events: &mut dyn FnMut(Event),
    ) -> Result<(), TransferError> {
        let allowed = self.umask_mode();
        for number in 0..self.files.len() {
            let Part::Here(file) = &self.files[number] else {
                continue;
            };
            let (from, path) = (
                self.parts.join(number.to_string()),
                self.place(manifest, number),
            );
            let failed = |error| TransferError::file("write", &path, error);
            let size = manifest.files()[number].size;
            if file.metadata().map_err(failed)?.len() < size {
                let from = super::shown(&from);
                return Err(TransferError::Ended(format!(
                    "{from} was truncated while it was being received: run it again when nobody else writes there"
                )));
            }
            // An earlier run with other contents may have written more.
            file.set_len(size).map_err(failed)?;
            if let Err(error) = self.set_metadata(file, &manifest.files()[number], allowed) {
                // Some file systems have no modes; the content is complete anyway.
                let path = super::shown(&path);
                events(Event::Notice(format!(
                    "cannot set the sender's mode or time on {path}: {error}"
                )));
            }
            file.sync_all().map_err(failed)?;
            if let Err(error) = move_into_place(&from, &path, self.force) {
                // A file of this name may have appeared meanwhile; an identical one is as good.
                if !self.is_in_place(manifest, number, &mut |_| {})? {
                    return Err(failed(error));
                }
            }
            self.files[number] = Part::InPlace;
        }
        // The renames are durable once the folder is synced. If a folder cannot be synced, nothing
        // more can be done.
        let _ = File::open(&self.folder).and_then(|folder| folder.sync_all());
        // Leftovers there are of no use and do no harm.
        let _ = fs::remove_dir_all(&self.parts);
        Ok(())
    }

    /// Returns the mode bits that the umask allows a new file here.
    fn umask_mode(&self) -> u32 {
        let path = self.parts.join(PROBE);
        // May be left by a killed run.
        let _ = fs::remove_file(&path);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o777);
        let probe = options.open(&path).and_then(|probe| probe.metadata());
        let _ = fs::remove_file(&path);
        // If no file can be created, as on a full disk, only the owner gets access.
        probe.map_or(0o700, |metadata| metadata.permissions().mode() & 0o777)
    }

    /// Sets a part's final mode and time.
    fn set_metadata(
        &self,
        part: &File,
        file: &thalweg_transfer::File,
        allowed: u32,
    ) -> io::Result<()> {
        if !self.keeps_modes {
            return part.set_permissions(Permissions::from_mode(allowed & 0o666));
        }
        part.set_permissions(Permissions::from_mode(file.mode.bits() & allowed))?;
        let distance = Duration::from_nanos(file.changed.unsigned_abs());
        let changed = if file.changed < 0 {
            UNIX_EPOCH.checked_sub(distance)
        } else {
            UNIX_EPOCH.checked_add(distance)
        };
        match changed {
            Some(changed) => part.set_times(FileTimes::new().set_modified(changed)),
            None => Ok(()),
        }
    }

    fn place(&self, manifest: &Manifest, number: usize) -> PathBuf {
        let name = manifest.files()[number].name.as_bytes();
        self.folder.join(OsStr::from_bytes(name))
    }
}

fn open_part(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.mode(0o600).open(path)
}

/// Moves a file to its name in one step.
///
/// Fails   if the name is taken and `force` is off
fn move_into_place(from: &Path, path: &Path, force: bool) -> io::Result<()> {
    if force {
        return fs::rename(from, path);
    }
    match fs::hard_link(from, path) {
        Ok(()) => fs::remove_file(from),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // Without hard links the check and the move are two steps.
        Err(_) if fs::symlink_metadata(path).is_err() => fs::rename(from, path),
        Err(error) => Err(error),
    }
}

/// Compares a file's content with the hashes of its blocks.
fn verify(
    manifest: &Manifest,
    number: usize,
    file: &File,
    events: &mut dyn FnMut(Event),
    mut found: impl FnMut(u32),
) -> io::Result<()> {
    let layout = manifest.layout();
    let of = file.metadata()?.len();
    let mut buffer = vec![0; layout.block_bytes().min(layout.size()) as usize];
    for block in layout.blocks_of(number) {
        let place = layout.place(block).expect("it is one of this file's");
        // A file that is still short has no such block.
        if place.offset + place.bytes as u64 > of {
            break;
        }
        let bytes = &mut buffer[..place.bytes];
        file.read_exact_at(bytes, place.offset)?;
        if manifest.is_block(block, bytes) {
            found(block);
        }
        events(Event::Looking {
            bytes: place.offset,
            of,
        });
    }
    Ok(())
}
