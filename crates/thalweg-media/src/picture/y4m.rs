//! A streaming reader of YUV4MPEG2 (`.y4m`), the simplest file format of raw pictures; `ffmpeg
//! -pix_fmt yuv420p out.y4m` writes one.
//!
//! The idea: bytes are pushed in slices of any size, pictures are polled out. The reader holds at
//! most one header line and one picture more than was pushed at once.
//!
//! What it does not do: anything but progressive 8-bit 4:2:0 (each refusal names the unsupported
//! feature); writing.
//!
//! Sources: the manual page yuv4mpeg(5) of MJPEG Tools.

use super::{PictureError, Yuv420, luma_len};

/// The longest header line accepted, in bytes.
pub const LINE_BYTES_MAX: usize = 1024;

/// Why a Y4M stream could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Y4mError {
    /// The stream does not begin with the magic word.
    #[error("not a y4m stream: it does not begin with YUV4MPEG2")]
    Magic,
    /// A header line is too long or not ASCII.
    #[error("the {line} header line is longer than {LINE_BYTES_MAX} bytes or not plain ascii")]
    Line {
        /// `stream` or `frame`.
        line: &'static str,
    },
    /// A header parameter is missing or malformed.
    #[error("header parameter {key} is missing or malformed: {value:?}")]
    Parameter {
        /// The letter of the parameter.
        key: char,
        /// What was found.
        value: String,
    },
    /// The colour space is not 8-bit 4:2:0.
    #[error("colour space {0:?} is not supported: convert to 8-bit 4:2:0 (yuv420p)")]
    ColourSpace(String),
    /// The material is interlaced.
    #[error("interlaced material ({0:?}) is not supported: deinterlace it first")]
    Interlaced(String),
    /// Width and height cannot be.
    #[error(transparent)]
    Picture(#[from] PictureError),
    /// A picture does not begin with `FRAME`.
    #[error("frame {index} does not begin with FRAME")]
    Frame {
        /// Number of the frame, from 0.
        index: u64,
    },
    /// The stream ended inside a picture or a header.
    #[error("the stream ends inside frame {index}, {bytes} bytes after its last whole one")]
    Truncated {
        /// Number of the frame, from 0.
        index: u64,
        /// Bytes left over.
        bytes: usize,
    },
}

/// The content of the stream header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Width in samples.
    pub width: u32,
    /// Height in samples.
    pub height: u32,
    /// Frames a second as numerator and denominator; both at least 1.
    pub rate: (u32, u32),
}

/// The streaming reader. After an error it stays in error.
#[derive(Debug, Default)]
pub struct Reader {
    buffer: Vec<u8>,
    start: usize,
    header: Option<Header>,
    frames: u64,
    failed: Option<Y4mError>,
}

impl Reader {
    /// Makes a reader at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// The stream header, once it has been read.
    pub fn header(&self) -> Option<Header> {
        self.header
    }

    /// Appends bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.failed.is_none() {
            self.buffer.drain(..self.start);
            self.start = 0;
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// Returns the next whole picture, or `None` until more is pushed.
    ///
    /// Fails   [`Y4mError`]; the same again on each later call
    pub fn poll_picture(&mut self) -> Result<Option<Yuv420>, Y4mError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let polled = self.read();
        if let Err(error) = &polled {
            self.failed = Some(error.clone());
            self.buffer = Vec::new();
            self.start = 0;
        }
        polled
    }

    /// Checks whether the stream may end here.
    ///
    /// Fails   [`Y4mError::Truncated`], or the error met before
    pub fn finish(&self) -> Result<(), Y4mError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        match self.buffer.len() - self.start {
            0 if self.header.is_some() => Ok(()),
            bytes => Err(Y4mError::Truncated {
                index: self.frames,
                bytes,
            }),
        }
    }

    fn read(&mut self) -> Result<Option<Yuv420>, Y4mError> {
        let header = match self.header {
            Some(header) => header,
            None => match self.read_header()? {
                Some(header) => header,
                None => return Ok(None),
            },
        };
        let rest = &self.buffer[self.start..];
        if !rest.starts_with(&b"FRAME"[..rest.len().min(5)]) {
            return Err(Y4mError::Frame { index: self.frames });
        }
        let Some(line) = line_len(rest, "frame")? else {
            return Ok(None);
        };
        let luma = luma_len(header.width, header.height)?;
        let Some(samples) = rest.get(line..line + luma + luma / 2) else {
            return Ok(None);
        };
        let (y, chroma) = samples.split_at(luma);
        let (u, v) = chroma.split_at(luma / 4);
        let picture = Yuv420::new(
            header.width,
            header.height,
            y.to_vec(),
            u.to_vec(),
            v.to_vec(),
        )?;
        self.start += line + luma + luma / 2;
        self.frames += 1;
        Ok(Some(picture))
    }

    fn read_header(&mut self) -> Result<Option<Header>, Y4mError> {
        let rest = &self.buffer[self.start..];
        let magic = b"YUV4MPEG2";
        if !rest.starts_with(&magic[..rest.len().min(magic.len())]) {
            return Err(Y4mError::Magic);
        }
        let Some(len) = line_len(rest, "stream")? else {
            return Ok(None);
        };
        let line = core::str::from_utf8(&rest[..len - 1])
            .map_err(|_| Y4mError::Line { line: "stream" })?;
        let header = parse_header(line)?;
        self.start += len;
        self.header = Some(header);
        Ok(Some(header))
    }
}

/// Length of the line at the head of `rest`, its newline included.
fn line_len(rest: &[u8], line: &'static str) -> Result<Option<usize>, Y4mError> {
    let head = &rest[..rest.len().min(LINE_BYTES_MAX)];
    match head.iter().position(|&b| b == b'\n') {
        Some(at) if head[..at].is_ascii() => Ok(Some(at + 1)),
        None if rest.len() < LINE_BYTES_MAX => Ok(None),
        _ => Err(Y4mError::Line { line }),
    }
}

fn parse_header(line: &str) -> Result<Header, Y4mError> {
    let (mut width, mut height, mut rate) = (None, None, (25, 1));
    for field in line.split(' ').skip(1).filter(|field| !field.is_empty()) {
        let (key, value) = field.split_at(1);
        match key {
            "W" => width = Some(parse_side('W', value)?),
            "H" => height = Some(parse_side('H', value)?),
            "F" => rate = parse_rate(value)?,
            "I" if !matches!(value, "p" | "?") => {
                return Err(Y4mError::Interlaced(value.to_owned()));
            }
            "C" if !matches!(value, "420" | "420jpeg" | "420mpeg2" | "420paldv") => {
                return Err(Y4mError::ColourSpace(value.to_owned()));
            }
            _ => {}
        }
    }
    let missing = |key| Y4mError::Parameter {
        key,
        value: String::new(),
    };
    let header = Header {
        width: width.ok_or_else(|| missing('W'))?,
        height: height.ok_or_else(|| missing('H'))?,
        rate,
    };
    luma_len(header.width, header.height)?;
    Ok(header)
}

fn parse_side(key: char, value: &str) -> Result<u32, Y4mError> {
    value.parse().map_err(|_| Y4mError::Parameter {
        key,
        value: value.to_owned(),
    })
}

fn parse_rate(value: &str) -> Result<(u32, u32), Y4mError> {
    value
        .split_once(':')
        .and_then(|(n, d)| Some((n.parse::<u32>().ok()?, d.parse::<u32>().ok()?)))
        .map(|rate| if rate == (0, 0) { (25, 1) } else { rate })
        .filter(|&(n, d)| n > 0 && d > 0)
        .ok_or_else(|| Y4mError::Parameter {
            key: 'F',
            value: value.to_owned(),
        })
}
