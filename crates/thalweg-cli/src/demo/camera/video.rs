//! The camera's input: the built-in scene, a Y4M file, or any format that `ffmpeg` reads.
//!
//! *The idea.* A file has its own frame rate; the camera takes the frame that is current at its
//! moment, so frames are skipped or repeated. At its end a file restarts. Formats other than Y4M go
//! through the program `ffmpeg`, if installed, which also scales and resamples.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use thalweg_media::picture::Yuv420;
use thalweg_media::picture::y4m::{Reader, Y4mError};
use thalweg_media::scene::{self, Scene};

use super::FPS;

/// The largest picture that two cores can encode once and decode twice in real time, with headroom.
const SAMPLES_MAX: u32 = 704 * 576;

/// Bytes per read.
const READ_BYTES: usize = 64 * 1024;

/// A source of pictures.
pub enum Video {
    /// The built-in scene, and the number of its next frame.
    Scene(Box<Scene>, u64),
    /// A file.
    Clip(Box<Clip>),
}

/// A file that is read in a loop.
pub struct Clip {
    path: PathBuf,
    input: Input,
    reader: Reader,
    /// The number of the picture in `last`, from the start of the file.
    at: u64,
    /// Pictures that the camera took since the start of the file.
    taken: u64,
    last: Yuv420,
}

enum Input {
    File(File),
    Program(Child),
}

/// A video cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum VideoError {
    /// The file cannot be read.
    #[error("cannot read the video {path}: {source}")]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is not Y4M, and there is no `ffmpeg`.
    #[error(
        "{0} is not a y4m file, and no `ffmpeg` on the PATH can convert it; install ffmpeg, or convert the video elsewhere: ffmpeg -i IN -vf scale=352:288 -pix_fmt yuv420p OUT.y4m"
    )]
    NoProgram(PathBuf),
    /// The file is damaged.
    #[error("{path} cannot be shown: {source}")]
    Content {
        /// The file.
        path: PathBuf,
        /// The decoder's error.
        source: Y4mError,
    },
    /// The file has no picture, or `ffmpeg` could decode none.
    #[error("{0} has no frame that can be shown")]
    Empty(PathBuf),
    /// Too large for a live demo.
    #[error(
        "{path} is {width}x{height}, too large to be encoded and decoded live here; scale it: ffmpeg -i IN -vf scale=352:288 -pix_fmt yuv420p OUT.y4m"
    )]
    Large {
        /// The file.
        path: PathBuf,
        /// Its width.
        width: u32,
        /// Its height.
        height: u32,
    },
}

impl Video {
    /// Returns the built-in scene.
    pub fn built_in() -> Self {
        let scene = Scene::new(scene::WIDTH, scene::HEIGHT).expect("the scene's own size is one");
        Self::Scene(Box::new(scene.with_rate(FPS)), 0)
    }

    /// Opens a file and reads its first picture.
    pub fn open(path: &Path) -> Result<Self, VideoError> {
        Clip::open(path).map(|clip| Self::Clip(Box::new(clip)))
    }

    /// Returns a name for people.
    pub fn name(&self) -> String {
        match self {
            Self::Scene(..) => "built-in scene".into(),
            Self::Clip(clip) => clip.path.display().to_string(),
        }
    }

    /// Returns width and height.
    pub fn size(&self) -> (u32, u32) {
        match self {
            Self::Scene(..) => (scene::WIDTH, scene::HEIGHT),
            Self::Clip(clip) => (clip.last.width(), clip.last.height()),
        }
    }

    /// Returns the next picture.
    pub fn next(&mut self) -> Result<Yuv420, VideoError> {
        match self {
            Self::Scene(scene, index) => {
                *index += 1;
                Ok(scene.frame(*index - 1))
            }
            Self::Clip(clip) => clip.next(),
        }
    }
}

impl Clip {
    fn open(path: &Path) -> Result<Self, VideoError> {
        let mut input = Input::open(path)?;
        let mut reader = Reader::new();
        let first = read(&mut input, &mut reader, path)?;
        let last = first.ok_or_else(|| VideoError::Empty(path.into()))?;
        let (width, height) = (last.width(), last.height());
        if width * height > SAMPLES_MAX {
            return Err(VideoError::Large {
                path: path.into(),
                width,
                height,
            });
        }
        Ok(Self {
            path: path.into(),
            input,
            reader,
            at: 0,
            taken: 0,
            last,
        })
    }

    fn next(&mut self) -> Result<Yuv420, VideoError> {
        let (numerator, denominator) = self.reader.header().map_or((FPS, 1), |header| header.rate);
        let wanted = self.taken * u64::from(numerator) / (u64::from(FPS) * u64::from(denominator));
        while self.at < wanted {
            let Some(picture) = read(&mut self.input, &mut self.reader, &self.path)? else {
                *self = Self::open(&self.path)?;
                break;
            };
            self.last = picture;
            self.at += 1;
        }
        self.taken += 1;
        Ok(self.last.clone())
    }
}

/// Returns the next picture; `None` at the end. A truncated picture counts as the end.
fn read(input: &mut Input, reader: &mut Reader, path: &Path) -> Result<Option<Yuv420>, VideoError> {
    let open = |source| VideoError::Open {
        path: path.into(),
        source,
    };
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match reader.poll_picture() {
            Ok(Some(picture)) => return Ok(Some(picture)),
            Ok(None) => {}
            Err(source) => {
                return Err(VideoError::Content {
                    path: path.into(),
                    source,
                });
            }
        }
        let bytes = input.read(&mut buffer).map_err(open)?;
        if bytes == 0 {
            return Ok(None);
        }
        reader.push(&buffer[..bytes]);
    }
}

impl Input {
    fn open(path: &Path) -> Result<Self, VideoError> {
        let open = |source| VideoError::Open {
            path: path.into(),
            source,
        };
        let mut magic = Vec::new();
        let file = File::open(path).map_err(open)?;
        file.take(9).read_to_end(&mut magic).map_err(open)?;
        if magic == b"YUV4MPEG2" {
            return File::open(path).map(Self::File).map_err(open);
        }
        let filter = format!("fps={FPS},scale={}:{}", scene::WIDTH, scene::HEIGHT);
        let program = Command::new("ffmpeg")
            .args(["-nostdin", "-loglevel", "error", "-i"])
            .arg(path)
            .args([
                "-an",
                "-vf",
                &filter,
                "-pix_fmt",
                "yuv420p",
                "-f",
                "yuv4mpegpipe",
                "-",
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn();
        match program {
            Ok(child) => Ok(Self::Program(child)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(VideoError::NoProgram(path.into()))
            }
            Err(error) => Err(open(error)),
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(buffer),
            Self::Program(child) => match &mut child.stdout {
                Some(pipe) => pipe.read(buffer),
                None => Ok(0),
            },
        }
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        if let Self::Program(child) = self {
            // The process may have ended already; the wait reaps it either way.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
