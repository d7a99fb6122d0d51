//! A serial line: raw bytes at a rate.
//!
//! *The idea.* The line is set raw, eight bits without parity, and read without blocking a thread. One that
//! vanishes, as an adapter that is pulled out does, is opened again until it is back.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use rustix::fs::OFlags;
use rustix::termios::{ControlModes, OptionalActions, tcgetattr, tcsetattr};
use tokio::io::unix::AsyncFd;

/// Pause between attempts to open a line that vanished.
const RETRY: Duration = Duration::from_millis(500);

/// Bytes per read: a second at 115,200 baud is 11,520.
const READ_BYTES: usize = 4096;

/// An open serial line.
pub struct Serial {
    path: PathBuf,
    baud: u32,
    line: Option<AsyncFd<File>>,
    /// What is to be told of the line.
    notices: Vec<String>,
}

impl Serial {
    /// Opens a line and sets its rate.
    pub fn open(path: &Path, baud: u32) -> anyhow::Result<Self> {
        let line = open(path, baud).with_context(|| {
            format!(
                "cannot use serial://{} at {baud} baud: is it a serial line, and may this user open it \
                 (group `dialout`)?",
                path.display()
            )
        })?;
        Ok(Self {
            path: path.into(),
            baud,
            line: Some(line),
            notices: Vec::new(),
        })
    }

    /// Reads the next bytes; waits while the line is gone. Cancel safe.
    pub async fn read(&mut self) -> Vec<u8> {
        loop {
            let Some(line) = &self.line else {
                tokio::time::sleep(RETRY).await;
                self.line = open(&self.path, self.baud).ok();
                if self.line.is_some() {
                    self.notices
                        .push(format!("serial://{} is back", self.path.display()));
                }
                continue;
            };
            match read(line).await {
                Ok(bytes) if !bytes.is_empty() => return bytes,
                _ => {
                    self.line = None;
                    let name = self.path.display();
                    self.notices
                        .push(format!("serial://{name} is gone; waiting until it is back"));
                }
            }
        }
    }

    /// Writes all bytes.
    ///
    /// Fails   the system's error, for one if the line is gone
    pub async fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let line = self.line.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        while !bytes.is_empty() {
            let mut guard = line.writable().await?;
            if let Ok(written) = guard.try_io(|line| line.get_ref().write(bytes)) {
                bytes = &bytes[written?..];
            }
        }
        Ok(())
    }

    /// Takes what is to be told of the line.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }
}

async fn read(line: &AsyncFd<File>) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; READ_BYTES];
    loop {
        let mut guard = line.readable().await?;
        if let Ok(read) = guard.try_io(|line| line.get_ref().read(&mut bytes)) {
            bytes.truncate(read?);
            return Ok(bytes);
        }
    }
}

#[expect(
    deprecated,
    reason = "unsound for descriptors that may close; a file owns its own, and the new call is unsafe"
)]
fn open(path: &Path, baud: u32) -> io::Result<AsyncFd<File>> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .write(true)
        .custom_flags(flags)
        .open(path)?;
    let mut settings = tcgetattr(&file)?;
    settings.make_raw();
    // Whether a modem is there is no matter to an instrument.
    settings.control_modes |= ControlModes::CLOCAL | ControlModes::CREAD;
    settings.set_speed(baud)?;
    tcsetattr(&file, OptionalActions::Now, &settings)?;
    AsyncFd::new(file)
}
