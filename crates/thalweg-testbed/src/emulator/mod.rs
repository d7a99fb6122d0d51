//! Moves packets between the ends of each link, through emulated lines.
//!
//! One thread runs two [`Line`]s per link: the simulator's own arithmetic, with a real clock and real
//! packets. The thread sleeps until a packet comes or one is due, to the nanosecond of the kernel's
//! timers, and has priority over every other thread of the machine, because it is the instrument. Its
//! lateness is measured and reported, so that an instrument too slow for a world is not mistaken for
//! the world. Only IPv4 passes, the links' only addresses: the kernel's own IPv6 traffic would take its
//! share of a slow line.
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
use thalweg_base::random::SplitMix;
use thalweg_base::time::Instant;
use thalweg_base::units::DataSize;
use thalweg_netem::{Impairment, Line, LineCounters};

pub use lateness::Lateness;

use crate::system::{clock, program};

/// Size of the largest IP packet.
const PACKET_BYTES_MAX: usize = 65_535;

/// Packets taken from one device before the others have their turn.
const BATCH: usize = 64;

/// The two TUN devices of a link, and the line between them.
pub struct LinkDevices {
    /// In the order of the link's ends.
    pub ends: [OwnedFd; 2],
    /// In both directions.
    pub impairment: Impairment,
}

/// The running links of a network; dropping this stops them.
pub struct Emulator {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    /// Wakes the thread when the state has changed.
    news: OwnedFd,
}

struct State {
    /// Each link's line from its first end to its second, and the one back.
    lines: Vec<[Line<Vec<u8>>; 2]>,
    lateness: Lateness,
    ended: bool,
}

impl Emulator {
    /// Starts to move packets; the seed determines which are lost, late or reordered.
    ///
    /// Fails   no thread can be started
    pub fn start(links: Vec<LinkDevices>, seed: u64) -> anyhow::Result<Self> {
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

    /// Changes a link's impairment in both directions from now on.
    pub fn set(&self, link: usize, impairment: Impairment) {
        let now = clock::now();
        for line in &mut self.shared.state().lines[link] {
            line.handle_change(now, impairment);
        }
        self.shared.wake();
    }

    /// Returns the counters of each link: from its first end to its second, and back.
    pub fn counters(&self) -> Vec<[LineCounters; 2]> {
        let state = self.shared.state();
        let lines = state.lines.iter();
        lines
            .map(|line| line.each_ref().map(Line::counters))
            .collect()
    }

    /// Returns the lateness so far.
    pub fn lateness(&self) -> Lateness {
        self.shared.state().lateness.clone()
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.shared.state().ended = true;
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            // A thread that died has closed its devices all the same.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // A line does not panic; even after a panic its content would be valid packets.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // This fails only if the counter overflows, after 2⁶⁴ wakes without a read.
        let _ = write(&self.news, &1u64.to_ne_bytes());
    }
}

fn run(shared: &Shared, cables: &[[OwnedFd; 2]]) {
    // Both improve accuracy; without them packets are later, which is measured.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let _ = raise_priority();
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
            read_packets(&mut state.lines[link][end], &cables[link][end], &mut buffer);
        }
        wake = deliver_due(&mut state, cables);
    }
}

/// Gives the calling thread priority over every ordinary one: it works for microseconds at a time.
fn raise_priority() -> anyhow::Result<()> {
    rustix::process::setpriority_process(None, -20)?;
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    program::run(
        Command::new("chrt").args(["--fifo", "--pid", "2", &thread]),
        "",
    )
    .map(drop)
}

/// Waits for packets, a change, or the time `wake`; returns the links' ends that have packets, or
/// `None` if the kernel cannot wait any more.
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
        // The counter's value does not matter, it only has to be reset.
        let _ = read(&shared.news, &mut [0; 8]);
    }
    let ends = 0..sources.len() - 1;
    Some(
        ends.filter(|place| ready(*place))
            .map(|place| (place / 2, place % 2))
            .collect(),
    )
}

/// Moves packets from a device onto its line.
fn read_packets(line: &mut Line<Vec<u8>>, cable: &OwnedFd, buffer: &mut [u8]) {
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

/// Delivers due packets, and returns when the next one is due.
fn deliver_due(state: &mut State, cables: &[[OwnedFd; 2]]) -> Instant {
    let mut next = Instant::NEVER;
    for (lines, cables) in state.lines.iter_mut().zip(cables) {
        for (line, target) in lines.iter_mut().zip([&cables[1], &cables[0]]) {
            loop {
                let (now, due) = (clock::now(), line.poll_timeout());
                let Some(packet) = line.poll_packet(now) else {
                    break;
                };
                state.lateness.handle_packet(now.saturating_since(due));
                // A node that is down takes no packets, as on a real line.
                let _ = write(target, &packet);
            }
            next = next.min(line.poll_timeout());
        }
    }
    next
}
