//! Signals: asked to end, asked to read the configuration again, and those that say nothing to this program.
//!
//! *The idea.* A command listens before it starts anything, so that a request is never met by the system's own answer,
//! which would cut it off. The first request ends the run in good order; a second one does not kill a run that is
//! putting things away, which takes seconds at most.
//!
//! | signal | a command | the node |
//! |---|---|---|
//! | `INT`, `TERM`, `QUIT`, `XCPU`, `PWR` | ends in good order | ends in good order |
//! | `HUP` | ends in good order, for the terminal is gone; nothing under `nohup` | reads its configuration again; ends if its terminal is gone |
//! | `PIPE`, `XFSZ` | the write fails, and that is told | the same |
//! | `USR1`, `USR2`, `ALRM`, `VTALRM`, `PROF`, `IO`, real-time ones | nothing | nothing |
//!
//! *What it does not do.* It leaves alone what stops and continues a process, what cannot be caught, and what says that the process
//! itself is broken (`SEGV`, `ABRT` and the like).
//!
//! *Sources.* `signal(7)`; `nohup(1)`; `setrlimit(2)` for `XCPU` and `XFSZ`.

use std::future::poll_fn;
use std::io::{IsTerminal as _, stderr, stdin, stdout};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::Poll;

use anyhow::Context as _;
use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM,
    SIGXCPU, SIGXFSZ,
};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What asks a process to end. `XCPU` says that its time on the processor is used up: it is killed soon after.
const ENDING: &[i32] = &[
    SIGINT,
    SIGTERM,
    SIGQUIT,
    SIGXCPU,
    #[cfg(target_os = "linux")]
    SIGPWR,
];

/// The power fails, or a container is to stop; by its number in `signal(7)`.
#[cfg(target_os = "linux")]
const SIGPWR: i32 = 30;

/// What would kill the process and says nothing to it.
const IGNORED: &[i32] = &[
    SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO,
    // A write beyond the largest size of a file fails then, and that is told.
    SIGXFSZ,
];

/// The signals for programs that have agreed on them, as the C library leaves them to programs.
#[cfg(target_os = "linux")]
const REAL_TIME: std::ops::RangeInclusive<i32> = 34..=64;
#[cfg(not(target_os = "linux"))]
const REAL_TIME: std::ops::RangeInclusive<i32> = 1..=0;

/// Hears requests to end; one that comes while nobody waits is kept.
#[derive(Debug)]
pub struct Shutdown {
    ending: Vec<Signal>,
    hangup: Option<Signal>,
    /// Whether a hangup may be a request to read the configuration again.
    is_node: bool,
    had_terminal: bool,
}

/// What a process is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// To end.
    End,
    /// To read its configuration again.
    Reload,
}

/// Takes the signals that would kill the process without a word, and says nothing to them.
pub fn ignore_others() {
    for number in IGNORED.iter().copied().chain(REAL_TIME) {
        // Caught and not ignored: programs that this one starts begin as if nothing were. One that cannot be caught stays as it is.
        let _ = signal_hook::flag::register(number, Arc::new(AtomicBool::new(false)));
    }
}

impl Shutdown {
    /// Begins to listen, for a command.
    pub fn listen() -> anyhow::Result<Self> {
        Self::begin(false)
    }

    /// Begins to listen, for a node.
    pub fn listen_as_node() -> anyhow::Result<Self> {
        Self::begin(true)
    }

    fn begin(is_node: bool) -> anyhow::Result<Self> {
        let hear = |number: i32| {
            signal(SignalKind::from_raw(number))
                .context("the system does not let this program hear signals")
        };
        let ending = ENDING.iter().map(|number| hear(*number));
        let hears_hangup = is_node || !is_ignored(SIGHUP);
        Ok(Self {
            ending: ending.collect::<anyhow::Result<_>>()?,
            hangup: hears_hangup.then(|| hear(SIGHUP)).transpose()?,
            is_node,
            had_terminal: has_terminal(),
        })
    }

    /// Waits until somebody asks this process to end.
    pub async fn asked(&mut self) {
        while self.next().await != Request::End {}
    }

    /// Waits until somebody asks this process for anything.
    pub async fn next(&mut self) -> Request {
        poll_fn(|context| {
            if self
                .ending
                .iter_mut()
                .any(|signal| signal.poll_recv(context).is_ready())
            {
                return Poll::Ready(Request::End);
            }
            let hangup = self.hangup.as_mut();
            if hangup.is_some_and(|signal| signal.poll_recv(context).is_ready()) {
                return Poll::Ready(self.meaning_of_hangup());
            }
            Poll::Pending
        })
        .await
    }

    fn meaning_of_hangup(&self) -> Request {
        let has_hung_up = self.had_terminal && !has_terminal();
        if self.is_node && !has_hung_up {
            Request::Reload
        } else {
            Request::End
        }
    }
}

/// Returns whether the process has a terminal that is still there.
fn has_terminal() -> bool {
    stdin().is_terminal() || stdout().is_terminal() || stderr().is_terminal()
}

/// Returns whether the process was started with this signal ignored, as `nohup` does; where the system does not say, it was not.
fn is_ignored(number: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & (1 << (number - 1)) != 0)
}
