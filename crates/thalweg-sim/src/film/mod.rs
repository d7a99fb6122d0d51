//! The pictures of a video stream: a loop of the test scene, encoded once, and the quality of each part
//! of it.
//!
//! Runs share the same pictures, because encoding one costs more than simulating a second. A [`Film`]
//! is made once: its layers are the payloads of every run. The quality of a frame shown with a given
//! number of layers is computed on first use and cached. [`crate::viewer`] decides which picture is on
//! the screen at which time.
//!
//! The loop has [`PICTURES`] pictures; at its end the scene jumps, like a file that is played again.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use thalweg_base::id::StreamName;
use thalweg_base::time::Duration;
use thalweg_media::layered::{self, Encoder, LayeredError};
use thalweg_media::picture::{self, PictureError, Psnr, Yuv420};
use thalweg_media::scene::{self, Scene};
use thalweg_planner::model::Stream;

use crate::traffic::Producer;

#[cfg(test)]
pub(crate) mod tests;

/// Pictures of the loop: three seconds at the demo's rate.
pub const PICTURES: usize = 36;

/// A loop of pictures in layers.
pub struct Film {
    pictures: Vec<Yuv420>,
    layers: Vec<Vec<Bytes>>,
    grey: Yuv420,
    cache: Mutex<Cache>,
}

/// The cache of decoded and compared pictures.
#[derive(Default)]
struct Cache {
    decoded: BTreeMap<(usize, usize), Option<Yuv420>>,
    compared: BTreeMap<(usize, Shown), Psnr>,
}

/// The picture on a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shown {
    /// Nothing has been shown yet: grey.
    Grey,
    /// This picture of the loop, with this number of layers.
    Picture(usize, usize),
}

/// A stream cannot be filmed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FilmError {
    /// Its layers are too small for the codec.
    #[error(
        "`{stream}` has layers of {budgets:?} bytes a frame without headers, which cannot be video: {source}"
    )]
    Budgets {
        /// The stream.
        stream: StreamName,
        /// Bytes per frame of each layer, without headers.
        budgets: Vec<usize>,
        /// The codec's error.
        source: LayeredError,
    },
    /// The scene cannot be drawn or encoded.
    #[error("the test scene cannot be filmed: {0}")]
    Scene(#[from] LayeredError),
    /// Pictures of different sizes were compared.
    #[error(transparent)]
    Picture(#[from] PictureError),
}

impl Film {
    /// Films the test scene for a video stream, with each layer within its rate on the wire.
    ///
    /// Cost    15 ms a picture and 550 ms in all, in a release build
    /// Fails   the rates leave a layer fewer bytes than the codec needs
    pub fn new(stream: &Stream) -> Result<Self, FilmError> {
        let steady = Stream {
            traffic: thalweg_planner::model::Traffic {
                spread: thalweg_base::units::Ratio::ZERO,
                stop: None,
                ..stream.traffic
            },
            ..stream.clone()
        };
        let budgets: Vec<usize> = Producer::new(&steady, Duration::NEVER, 0)
            .take(stream.layers.len())
            .map(|due| due.payload_bytes)
            .collect();
        let encoder = Encoder::new(scene::WIDTH, scene::HEIGHT, &budgets);
        let encoder = encoder.map_err(|source| FilmError::Budgets {
            stream: stream.name.clone(),
            budgets,
            source,
        })?;
        let scene = Scene::new(scene::WIDTH, scene::HEIGHT)?;
        let scene = scene.with_rate((stream.traffic.frames.round() as u32).max(1));
        let pictures: Vec<Yuv420> = (0..PICTURES as u64)
            .map(|index| scene.frame(index))
            .collect();
        let layers = pictures.iter().map(|picture| encoder.encode(picture));
        Ok(Self {
            layers: layers.collect::<Result<_, _>>()?,
            grey: Yuv420::grey(scene::WIDTH, scene::HEIGHT)?,
            pictures,
            cache: Mutex::default(),
        })
    }

    /// Returns the payload of a layer of a frame; frames wrap around.
    pub fn payload(&self, frame: u64, layer: u8) -> Bytes {
        let layers = &self.layers[Self::picture(frame)];
        layers.get(usize::from(layer)).cloned().unwrap_or_default()
    }

    /// Returns the index of a frame in the loop.
    pub const fn picture(frame: u64) -> usize {
        (frame % PICTURES as u64) as usize
    }

    /// Compares the picture on a screen with a picture of the loop.
    ///
    /// Cost    2 to 8 ms on first use, then a map look-up
    pub fn compare(&self, picture: usize, shown: Shown) -> Result<Psnr, FilmError> {
        // A panic cannot leave the cache inconsistent, so a poisoned lock is still good.
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(psnr) = cache.compared.get(&(picture, shown)) {
            return Ok(*psnr);
        }
        let psnr = match shown {
            Shown::Grey => picture::psnr(&self.pictures[picture], &self.grey)?,
            Shown::Picture(of, layers) => {
                let decode = || layered::decode(&self.layers[of][..layers]).ok();
                let decoded = cache.decoded.entry((of, layers)).or_insert_with(decode);
                let decoded = decoded.as_ref().unwrap_or(&self.grey);
                picture::psnr(&self.pictures[picture], decoded)?
            }
        };
        cache.compared.insert((picture, shown), psnr);
        Ok(psnr)
    }
}

impl fmt::Debug for Film {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Film")
            .field("pictures", &self.pictures.len())
            .finish_non_exhaustive()
    }
}
