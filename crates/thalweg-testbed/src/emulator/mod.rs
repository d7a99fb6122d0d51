//! Moves packets from one end of each link to the other, as the line says.
//!
//! *The idea.* One thread, two [`Line`]s a link: the very arithmetic that the simulator uses, with a real clock and real
//! packets. The thread sleeps until a packet comes or one is due, whichever is first, to the nanosecond of the kernel's
//! timers, and goes before every other thread of the machine, for it is the instrument. How late it let packets out is
//! measured and told: an instrument that was too slow for a world shall not be taken for the world.
//!
//! *What it does not do.* Only IPv4 passes, which is all that the links have addresses for: the kernel's own IPv6 chatter
//! would take its share of a slow line.
//!
//! *Sources.* `sched(7)`, `ppoll(2)`, `PR_SET_TIMERSLACK(2const)`.

mod lateness;

use std::num::NonZeroU64;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use anyhow::Context as _;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{read, write};
use thalweg_core::line::{Impairment, Line, LineCounters};
use thalweg_core::random::SplitMix;
use thalweg_core::time::Instant;
use thalweg_core::units::DataSize;

pub use lateness::Lateness;

use crate::system::{clock, program};

/// The largest IP packet.
const PACKET_BYTES_MAX: usize = 65_535;

/// Packets taken from one device before the others have their turn.
const BATCH: usize = 64;

/// The two cables of a link, and what becomes of packets between them.
pub struct Cables {
    /// In the order of the link's ends.
    pub ends: [OwnedFd; 2],
    /// In both directions.
    pub impairment: Impairment,
}

/// The links of a network, at work until it is dropped.
pub struct Emulator {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    /// Wakes the thread when there is news for it.
    news: OwnedFd,
}

struct State {
    /// Each link's line from its first end to its second, and the one back.
    lines: Vec<[Line<Vec<u8>>; 2]>,
    lateness: Lateness,
    ended: bool,
}

impl Emulator {
    /// Begins to move packets; the seed determines which are lost, late or held back.
    ///
    /// Fails   no thread can be started
    pub fn start(links: Vec<Cables>, seed: u64) -> anyhow::Result<Self> {
        let mut seeds = SplitMix::new(seed);
        let (mut lines, mut cables) = (Vec::new(), Vec::new());
        for link in links {
            lines.push([0, 1].map(|_| Line::new(link.impairment, seeds.next_u64())));
            cables.push(link.ends);
        }
        let state = State {
            lines,
            lateness: Lateness::default(),
            ended: false,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            news: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        });
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("emulator".into())
            .spawn(move || run(&theirs, &cables))
            .context("cannot start the emulator's thread")?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Changes what a link does to packets, both ways, from now on.
    pub fn set(&self, link: usize, impairment: Impairment) {
        let now = clock::now();
        for line in &mut self.shared.state().lines[link] {
            line.handle_change(now, impairment);
        }
        self.shared.wake();
    }

    /// Returns what has passed each link: from its first end to its second, and back.
    pub fn counters(&self) -> Vec<[LineCounters; 2]> {
        let state = self.shared.state();
        let lines = state.lines.iter();
        lines
            .map(|line| line.each_ref().map(Line::counters))
            .collect()
    }

    /// Returns how late packets were let out so far.
    pub fn lateness(&self) -> Lateness {
        self.shared.state().lateness.clone()
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.shared.state().ended = true;
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            // A thread that died has closed its cables all the same.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // A line does not panic; if it did, what it holds would still be packets.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // It can only fail when it has been woken 2⁶⁴ times and not looked.
        let _ = write(&self.news, &1u64.to_ne_bytes());
    }
}

fn run(shared: &Shared, cables: &[[OwnedFd; 2]]) {
    // Both are for accuracy; without them packets come out a little later, which is measured.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let _ = go_first();
    let mut buffer = vec![0; PACKET_BYTES_MAX];
    let mut wake = Instant::ZERO;
    loop {
        let Some(ready) = wait(shared, cables, wake) else {
            return;
        };
        let mut state = shared.state();
        if state.ended {
            return;
        }
        for (link, end) in ready {
            take(&mut state.lines[link][end], &cables[link][end], &mut buffer);
        }
        wake = give(&mut state, cables);
    }
}

/// Gives the calling thread the machine before every ordinary one: it works for microseconds, and then it is due.
fn go_first() -> anyhow::Result<()> {
    rustix::process::setpriority_process(None, -20)?;
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    program::run(
        Command::new("chrt").args(["--fifo", "--pid", "2", &thread]),
        "",
    )
    .map(drop)
}

/// Waits for packets, news, or the time `wake`, and returns the links' ends that have packets; `None` if the kernel will
/// not wait any more.
fn wait(shared: &Shared, cables: &[[OwnedFd; 2]], wake: Instant) -> Option<Vec<(usize, usize)>> {
    let mut sources: Vec<PollFd<'_>> = cables
        .iter()
        .flatten()
        .chain([&shared.news])
        .map(|cable| PollFd::from_borrowed_fd(cable.as_fd(), PollFlags::IN))
        .collect();
    let patience = (!wake.is_never()).then(|| {
        let nanos = wake.saturating_since(clock::now()).as_nanos();
        Timespec {
            tv_sec: (nanos / 1_000_000_000).cast_signed(),
            tv_nsec: (nanos % 1_000_000_000).cast_signed(),
        }
    });
    match poll(&mut sources, patience.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(_) => return None,
    }
    let ready = |place: usize| sources[place].revents().intersects(PollFlags::IN);
    if ready(sources.len() - 1) {
        // What it counts does not matter, only that it is read.
        let _ = read(&shared.news, &mut [0; 8]);
    }
    let ends = 0..sources.len() - 1;
    Some(
        ends.filter(|place| ready(*place))
            .map(|place| (place / 2, place % 2))
            .collect(),
    )
}

/// Puts what comes out of a device onto its line.
fn take(line: &mut Line<Vec<u8>>, cable: &OwnedFd, buffer: &mut [u8]) {
    for _ in 0..BATCH {
        // A device that is not up yet has nothing to read either.
        let Ok(bytes @ 1..) = read(cable, &mut *buffer) else {
            return;
        };
        let is_ipv4 = buffer[0] >> 4 == 4;
        if is_ipv4 {
            let size = DataSize::from_bytes(bytes as u64);
            line.handle_packet(clock::now(), size, buffer[..bytes].to_vec());
        }
    }
}

/// Lets out what is due, and returns when something is due next.
fn give(state: &mut State, cables: &[[OwnedFd; 2]]) -> Instant {
    let mut next = Instant::NEVER;
    for (lines, cables) in state.lines.iter_mut().zip(cables) {
        for (line, target) in lines.iter_mut().zip([&cables[1], &cables[0]]) {
            loop {
                let (now, due) = (clock::now(), line.poll_timeout());
                let Some(packet) = line.poll_packet(now) else {
                    break;
                };
                state.lateness.handle_packet(now.saturating_since(due));
                // A node that is not there takes nothing: that is how it is on a real line.
                let _ = write(target, &packet);
            }
            next = next.min(line.poll_timeout());
        }
    }
    next
}
