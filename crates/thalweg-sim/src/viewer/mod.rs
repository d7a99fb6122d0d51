//! The quality of the pictures that a viewer saw, in dB.
//!
//! Each frame sent counts once, when it is due: the picture on the screen at that time is compared with
//! the picture that was filmed. A frame is shown with the unbroken run of layers, base first, that have
//! come by then; a frame without its base leaves the previous picture on the screen, without
//! concealment.
//!
//! ```text
//! due(frame) = when its producer had it + the stream's deadline
//! ```
//!
//! Without a deadline a frame waits for its base, however late: then the network costs layers, not time.
//!
//! *Sources.* `thalweg demo` counts in the same way (`demo/score` of the program).

use std::collections::BTreeMap;
use std::sync::Arc;

use thalweg_base::time::{Duration, Instant};

use crate::film::{Film, FilmError, Shown};
use crate::report::PsnrReport;

#[cfg(test)]
mod tests;

/// One viewer of one stream.
#[derive(Clone, Debug)]
pub struct Viewer {
    film: Arc<Film>,
    deadline: Duration,
    frames: BTreeMap<u64, Frame>,
}

/// A frame that was sent.
#[derive(Clone, Debug)]
struct Frame {
    taken: Instant,
    /// When each layer came.
    layers: BTreeMap<u8, Instant>,
}

impl Viewer {
    /// Returns a viewer without any frame.
    pub const fn new(film: Arc<Film>, deadline: Duration) -> Self {
        Self {
            film,
            deadline,
            frames: BTreeMap::new(),
        }
    }

    /// Records that a frame was filmed at this time.
    pub fn handle_sent(&mut self, frame: u64, at: Instant) {
        let layers = BTreeMap::new();
        self.frames
            .entry(frame)
            .or_insert(Frame { taken: at, layers });
    }

    /// Records that a layer has come.
    pub fn handle_delivered(&mut self, frame: u64, layer: u8, at: Instant) {
        if let Some(frame) = self.frames.get_mut(&frame) {
            frame.layers.entry(layer).or_insert(at);
        }
    }

    /// Returns the quality over all frames sent; `None` if there were none.
    ///
    /// Cost    that of [`Film::compare`] per frame
    pub fn report(&self) -> Result<Option<PsnrReport>, FilmError> {
        let mut report = PsnrReport::default();
        let mut screen = Shown::Grey;
        for (number, frame) in &self.frames {
            let picture = Film::picture(*number);
            let layers = frame.prefix(self.deadline);
            if layers > 0 {
                screen = Shown::Picture(picture, layers);
                report.shown += 1;
            }
            let psnr = self.film.compare(picture, screen)?;
            report.frames += 1;
            report.y_db += psnr.y_db;
            report.cb_db += psnr.cb_db;
        }
        if report.frames == 0 {
            return Ok(None);
        }
        report.y_db /= report.frames as f64;
        report.cb_db /= report.frames as f64;
        Ok(Some(report))
    }
}

impl Frame {
    /// Returns how many layers, base first and without a gap, came in time.
    fn prefix(&self, deadline: Duration) -> usize {
        let due = self.taken + deadline;
        (0..)
            .zip(&self.layers)
            .take_while(|(place, (layer, at))| place == *layer && **at <= due)
            .count()
    }
}
