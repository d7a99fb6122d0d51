//! A role's note of an ADU: one line, numbers with spaces between.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use anyhow::Context as _;

/// An ADU that a producer gave, or that a subscriber received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    /// When, on the machine's clock, ns.
    pub at: u64,
    /// When the ADU was due, likewise; 0 at a subscriber, which does not know.
    pub due: u64,
    /// Its time in the medium, µs: with the layer it identifies the ADU in its stream.
    pub media_us: u64,
    /// Its layer.
    pub layer: u8,
    /// Its importance.
    pub importance: u8,
    /// The length of its payload.
    pub bytes: usize,
    /// The fingerprint of its payload.
    pub fingerprint: u64,
}

/// A file of notes.
pub struct Notes(File);

impl Notes {
    /// Creates a file.
    pub fn create(path: &Path) -> anyhow::Result<Self> {
        let file = File::create(path);
        Ok(Self(file.with_context(|| {
            format!("cannot write {}", path.display())
        })?))
    }

    /// Writes a note at once, unbuffered, because the process may be killed at any time.
    pub fn write(&mut self, note: Note) -> io::Result<()> {
        self.0.write_all(note.line().as_bytes())
    }
}

impl Note {
    fn line(self) -> String {
        let Self {
            at,
            due,
            media_us,
            layer,
            importance,
            bytes,
            fingerprint,
        } = self;
        format!("{at} {due} {media_us} {layer} {importance} {bytes} {fingerprint}\n")
    }

    fn of_line(line: &str) -> Option<Self> {
        let mut words = line.split(' ').map(str::parse::<u64>);
        let mut next = || words.next()?.ok();
        Some(Self {
            at: next()?,
            due: next()?,
            media_us: next()?,
            layer: next()?.try_into().ok()?,
            importance: next()?.try_into().ok()?,
            bytes: next()?.try_into().ok()?,
            fingerprint: next()?,
        })
    }
}

/// Reads a file of notes; a truncated last line is skipped.
pub fn read(path: &Path) -> anyhow::Result<Vec<Note>> {
    let text = std::fs::read_to_string(path);
    let text = text.with_context(|| format!("cannot read {}", path.display()))?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    Ok(whole.lines().filter_map(Note::of_line).collect())
}

#[cfg(test)]
mod tests {
    //! Proves that a note round-trips.

    use super::Note;

    #[test]
    fn note_round_trips() {
        let note = Note {
            at: u64::MAX,
            due: 2,
            media_us: 40_000,
            layer: 7,
            importance: 255,
            bytes: 1_000,
            fingerprint: u64::MAX - 1,
        };
        let line = note.line();
        assert_eq!(Note::of_line(line.trim_end()), Some(note));
        assert_eq!(Note::of_line("1 2 3"), None);
        assert_eq!(Note::of_line("1 2 3 256 0 0 0"), None);
    }
}
