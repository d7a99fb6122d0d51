//! A pseudo-terminal with the program on it, for keys and screen output.
//!
//! The program gets a session of its own (`setsid`), so that this terminal is the only one it can find.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::fabric::PATIENCE;

/// A terminal of 80 by 24.
pub struct Terminal {
    child: Child,
    keyboard: File,
    /// The program's side, kept open to read its modes after the program has ended.
    line: Option<File>,
    chunks: Receiver<Vec<u8>>,
    drawn: Vec<u8>,
    /// The end of the output that `wait_for` has consumed.
    seen: usize,
}

impl Terminal {
    /// Starts the program on a terminal.
    pub fn start(folder: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).expect("the system has pseudo-terminals");
        grantpt(&master).expect("it is ours");
        unlockpt(&master).expect("it is ours");
        let name = ptsname(&master, Vec::new()).expect("it has a name");
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let line = open(name.as_c_str(), flags, Mode::empty()).expect("it is ours");
        let line = File::from(line);
        let size = Winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&line, size).expect("it is a terminal");
        let side = || Stdio::from(line.try_clone().expect("descriptors are left"));
        let mut command = Command::new("setsid");
        command
            .args(["--ctty", env!("CARGO_BIN_EXE_thalweg")])
            .args(arguments)
            .current_dir(folder)
            .env("TERM", "xterm-256color")
            .envs(environment.iter().copied())
            .stdin(side())
            .stdout(side())
            .stderr(side());
        for name in ["THALWEG_LOG", "THALWEG_SOCKET", "XDG_RUNTIME_DIR"] {
            command.env_remove(name);
        }
        let child = command.spawn().expect("setsid is everywhere");
        let keyboard = File::from(master);
        let screen = keyboard.try_clone().expect("descriptors are left");
        Self {
            child,
            keyboard,
            line: Some(line),
            chunks: listen(screen),
            drawn: Vec::new(),
            seen: 0,
        }
    }

    /// Types keys.
    pub fn press(&mut self, keys: &str) {
        let typed = self.keyboard.write_all(keys.as_bytes());
        typed.expect("the terminal is open");
    }

    /// Waits until a text has been drawn since the last call.
    pub fn wait_for(&mut self, text: &str) {
        let begun = Instant::now();
        while !String::from_utf8_lossy(&self.drawn[self.seen..]).contains(text) {
            let left = PATIENCE.saturating_sub(begun.elapsed());
            let chunk = self.chunks.recv_timeout(left);
            let chunk = chunk.unwrap_or_else(|_| panic!("no `{text}` in {}", self.text()));
            self.drawn.extend(chunk);
        }
        self.seen = self.drawn.len();
    }

    /// Waits for the program's end; returns its status and all its output.
    pub fn end(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().expect("it ends");
        let line = self.line.take().expect("a terminal ends once");
        let modes = tcgetattr(&line).expect("it is a terminal").local_modes;
        let cooked = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        assert!(
            modes.contains(cooked),
            "the terminal was left raw: {modes:?}"
        );
        // Without an open descriptor on that side the terminal closes, and the channel with it.
        drop(line);
        while let Ok(chunk) = self.chunks.recv_timeout(PATIENCE) {
            self.drawn.extend(chunk);
        }
        let text = self.text();
        (status, text)
    }

    /// Returns the process, for signals.
    pub const fn child(&self) -> &Child {
        &self.child
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.drawn).into_owned()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Only after a failed test; a process that has ended cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads the screen output until the terminal is closed.
fn listen(mut screen: File) -> Receiver<Vec<u8>> {
    let (tell, chunks) = channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(bytes) = screen.read(&mut buffer)
            && bytes > 0
        {
            if tell.send(buffer[..bytes].to_vec()).is_err() {
                return;
            }
        }
    });
    chunks
}
