//! Signals: requests to end, requests to reload the configuration, and signals that are ignored.
//!
//! *The idea.* A command installs its handlers before it starts anything, so that a signal's
//! default action never cuts it off. The first request starts an orderly shutdown, which takes
//! seconds at most; further requests do not kill it.
//!
//! | signal | a command | the node |
//! |---|---|---|
//! | `INT`, `TERM`, `QUIT`, `XCPU`, `PWR` | ends in good order | ends in good order |
//! | `HUP` | ends in good order: no terminal; ignored under `nohup` | reloads; ends without a terminal |
//! | `PIPE`, `XFSZ` | the write fails, and the command reports it | the same |
//! | `USR1`, `USR2`, `ALRM`, `VTALRM`, `PROF`, `IO`, `STKFLT`, real-time ones | ignored | ignored |
//!
//! *What it does not do.* It leaves alone the signals that stop and continue a process, those that
//! cannot be caught, and those that report a broken process (`SEGV`, `ABRT` and the like).
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

/// Signals that ask a process to end. `XCPU`: the CPU time limit is reached, and a kill follows soon.
const ENDING: &[i32] = &[
    SIGINT,
    SIGTERM,
    SIGQUIT,
    SIGXCPU,
    #[cfg(target_os = "linux")]
    SIGPWR,
];

/// Power failure, or a container is to stop; the number is from `signal(7)`.
#[cfg(target_os = "linux")]
const SIGPWR: i32 = 30;

/// Signals that would kill the process by default and mean nothing to it.
const IGNORED: &[i32] = &[
    SIGUSR1,
    SIGUSR2,
    SIGALRM,
    SIGVTALRM,
    SIGPROF,
    SIGIO,
    // A write beyond the file size limit then fails with an error, which is reported.
    SIGXFSZ,
    #[cfg(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64")
    ))]
    SIGSTKFLT,
];

/// Fault of a coprocessor that no machine has any more; the number is from `signal(7)`.
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
const SIGSTKFLT: i32 = 16;

/// Real-time signals as the C library leaves them to programs; glibc keeps 32 and 33.
#[cfg(target_os = "linux")]
const REAL_TIME: std::ops::RangeInclusive<i32> = 34..=64;
#[cfg(not(target_os = "linux"))]
const REAL_TIME: std::ops::RangeInclusive<i32> = 1..=0;

/// Receives requests to end. A request that arrives while nothing waits is kept.
#[derive(Debug)]
pub struct Shutdown {
    ending: Vec<Signal>,
    hangup: Option<Signal>,
    /// On a node a hangup may mean: reload the configuration.
    is_node: bool,
    had_terminal: bool,
}

/// A request to the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// End.
    End,
    /// Reload the configuration.
    Reload,
}

/// Ignores the signals of [`IGNORED`] and the real-time ones, whose default action kills the process.
pub fn ignore_other_signals() {
    for number in IGNORED.iter().copied().chain(REAL_TIME) {
        // Caught rather than set to `SIG_IGN`, so that child processes start with the default
        // action. A signal that cannot be caught keeps its default.
        let _ = signal_hook::flag::register(number, Arc::new(AtomicBool::new(false)));
    }
}

impl Shutdown {
    /// Starts to listen, for a command.
    pub fn listen() -> anyhow::Result<Self> {
        Self::begin(false)
    }

    /// Starts to listen, for a node.
    pub fn listen_as_node() -> anyhow::Result<Self> {
        Self::begin(true)
    }

    fn begin(is_node: bool) -> anyhow::Result<Self> {
        let install = |number: i32| {
            signal(SignalKind::from_raw(number)).context("cannot install signal handlers")
        };
        let ending = ENDING.iter().map(|number| install(*number));
        let hears_hangup = is_node || !is_ignored(SIGHUP);
        Ok(Self {
            ending: ending.collect::<anyhow::Result<_>>()?,
            hangup: hears_hangup.then(|| install(SIGHUP)).transpose()?,
            is_node,
            had_terminal: has_terminal(),
        })
    }

    /// Waits for a request to end.
    pub async fn requested(&mut self) {
        while self.next().await != Request::End {}
    }

    /// Waits for the next request.
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
                return Poll::Ready(self.hangup_request());
            }
            Poll::Pending
        })
        .await
    }

    fn hangup_request(&self) -> Request {
        let has_hung_up = self.had_terminal && !has_terminal();
        if self.is_node && !has_hung_up {
            Request::Reload
        } else {
            Request::End
        }
    }
}

/// Returns whether the process still has a terminal.
fn has_terminal() -> bool {
    stdin().is_terminal() || stdout().is_terminal() || stderr().is_terminal()
}

/// Returns whether the process was started with this signal ignored, as `nohup` does; `false` where
/// `/proc` is absent.
fn is_ignored(number: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & (1 << (number - 1)) != 0)
}
