//! The kernel's TCP: one socket with the system's default buffers, and a queue in user space above it.
//!
//! Whenever the socket is writable the next ADU of the user-space queue is written: in order of
//! arrival, or the most important first. An ADU older than its budget when its turn comes is dropped;
//! otherwise latency would grow for as long as the overload lasts, and a figure would only show the
//! length of the run. Bytes in the socket's buffer cannot be reordered or recalled, which is the effect
//! under measurement: no option is set except the congestion controller and `TCP_NODELAY`.
//!
//! ```text
//! length:32 ‖ payload      one after the other
//! ```
//!
//! *Sources.* tcp(7); spec §3(d), where the latency of TCP comes from.

use std::any::Any;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{BufReader, ErrorKind, Read, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;

use anyhow::{Context as _, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_tcp_congestion;
use thalweg_base::limits::ADU_PAYLOAD_BYTES_MAX;
use thalweg_base::time::Instant;
use thalweg_testbed::system::clock;

use super::super::end::{Inlet, Outlet, READY, TAIL, send_line, sleep_until, wait_for_begin};
use super::super::recording::Arrivals;
use super::super::schedule::{Due, payload};
use super::Side;

/// Bytes written in one call when sending bulk.
const BULK_BYTES: usize = 16 << 10;

/// Bytes of the length prefix.
const LENGTH_BYTES: usize = 4;

/// The order of the queue above the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// First come, first served.
    Coming,
    /// The most important first; of equals the one due first.
    Importance,
}

/// TCP.
pub(super) struct Tcp {
    name: &'static str,
    order: Order,
    congestion: &'static str,
}

impl Tcp {
    pub(super) const fn new(name: &'static str, order: Order, congestion: &'static str) -> Self {
        Self {
            name,
            order,
            congestion,
        }
    }

    fn connect(&self, peer: SocketAddr) -> anyhow::Result<TcpStream> {
        let stream = TcpStream::connect(peer).context("the receiver cannot be reached")?;
        set_tcp_congestion(&stream, self.congestion)
            .with_context(|| format!("this kernel has no `{}`", self.congestion))?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

impl Side for Tcp {
    fn name(&self) -> &'static str {
        self.name
    }

    fn receive(&self, inlet: &Inlet) -> anyhow::Result<Box<dyn Any>> {
        let listener = TcpListener::bind((inlet.own, 0))?;
        send_line(&format!("{READY} {}", listener.local_addr()?));
        let arrivals = inlet.arrivals.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let arrivals = arrivals.clone();
                arrivals.up();
                // Arrivals before a broken connection count.
                std::thread::spawn(move || take(stream, &arrivals));
            }
        });
        Ok(Box::new(()))
    }

    fn send(&self, outlet: &Outlet) -> anyhow::Result<()> {
        let mut stream = self.connect(outlet.word(0)?)?;
        let begin = wait_for_begin()?;
        stream.set_nonblocking(true)?;
        let mut queue = Queue::new(self.order);
        let mut writing = Writing::default();
        let mut dues = (0..).zip(outlet.schedule.dues()).peekable();
        let patience = outlet.patience(begin);
        loop {
            let now = clock::now();
            while let Some((number, due)) = dues.next_if(|(_, due)| begin + due.at <= now) {
                queue.push(number, due, due.deadline(begin, outlet.budget));
            }
            let is_full = writing.go_on(&mut stream, |now| {
                let number = queue.pop(now)?;
                let due = &outlet.schedule.dues()[number as usize];
                Some(framed(&due.payload(number)))
            })?;
            let next = dues.peek().map(|(_, due)| begin + due.at);
            if next.is_none() && !is_full || now > patience {
                break;
            }
            wait(&stream, is_full, next.unwrap_or(patience))?;
        }
        drain(stream)
    }

    fn send_bulk(&self, outlet: &Outlet) -> anyhow::Result<()> {
        let peer = outlet.word(0)?;
        let streams = (0..outlet.flows).map(|_| self.connect(peer));
        let streams = streams.collect::<anyhow::Result<Vec<_>>>()?;
        let begin = wait_for_begin()?;
        let end = begin + outlet.budget;
        for (flow, mut stream) in (0..).zip(streams) {
            let frame = framed(&payload(flow, BULK_BYTES));
            std::thread::spawn(move || {
                sleep_until(begin);
                while clock::now() < end && stream.write_all(&frame).is_ok() {}
            });
        }
        // Threads still in a write end with the process, and the content of their sockets does not matter.
        sleep_until(end);
        Ok(())
    }
}

/// The queue above the socket.
#[derive(Debug)]
pub(super) struct Queue {
    order: Order,
    /// By inverse importance, then by deadline, then by number; the least goes first.
    waiting: BinaryHeap<Reverse<(u8, Instant, u32)>>,
}

impl Queue {
    pub(super) const fn new(order: Order) -> Self {
        Self {
            order,
            waiting: BinaryHeap::new(),
        }
    }

    /// Adds an ADU.
    pub(super) fn push(&mut self, number: u32, due: &Due, deadline: Instant) {
        let unimportance = match self.order {
            Order::Coming => 0,
            Order::Importance => u8::MAX - due.importance,
        };
        self.waiting.push(Reverse((unimportance, deadline, number)));
    }

    /// Removes the next ADU that is still useful.
    pub(super) fn pop(&mut self, now: Instant) -> Option<u32> {
        while let Some(Reverse((_, deadline, number))) = self.waiting.pop() {
            if now <= deadline {
                return Some(number);
            }
        }
        None
    }
}

/// An ADU that is partially written.
#[derive(Default)]
struct Writing {
    frame: Vec<u8>,
    written: usize,
}

impl Writing {
    /// Writes until the socket is full, in which case it returns true, or nothing is left.
    fn go_on(
        &mut self,
        stream: &mut TcpStream,
        mut next: impl FnMut(Instant) -> Option<Vec<u8>>,
    ) -> anyhow::Result<bool> {
        loop {
            if self.written == self.frame.len() {
                let Some(frame) = next(clock::now()) else {
                    return Ok(false);
                };
                (self.frame, self.written) = (frame, 0);
            }
            match stream.write(&self.frame[self.written..]) {
                Ok(bytes) => self.written += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("the connection is lost"),
            }
        }
    }
}

/// Waits until a moment, or until the socket is writable if it is full.
fn wait(stream: &TcpStream, is_full: bool, until: Instant) -> anyhow::Result<()> {
    if !is_full {
        sleep_until(until);
        return Ok(());
    }
    let nanos = until.saturating_since(clock::now()).as_nanos();
    let patience = Timespec {
        tv_sec: (nanos / 1_000_000_000).cast_signed(),
        tv_nsec: (nanos % 1_000_000_000).cast_signed(),
    };
    let mut sources = [PollFd::from_borrowed_fd(stream.as_fd(), PollFlags::OUT)];
    match poll(&mut sources, Some(&patience)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error).context("the socket cannot be waited for"),
    }
}

/// Waits until the receiver has everything, which it signals by closing.
fn drain(mut stream: TcpStream) -> anyhow::Result<()> {
    stream.set_nonblocking(false)?;
    stream.shutdown(Shutdown::Write)?;
    stream.set_read_timeout(Some(TAIL.into()))?;
    // Neither a timeout nor a reset changes what has arrived.
    let _ = stream.read(&mut [0]);
    Ok(())
}

/// Receives ADU after ADU until the connection ends.
fn take(stream: TcpStream, arrivals: &Arrivals) -> anyhow::Result<()> {
    let mut reader = BufReader::with_capacity(1 << 16, stream);
    let mut payload = Vec::new();
    loop {
        let mut length = [0; LENGTH_BYTES];
        reader.read_exact(&mut length)?;
        let bytes = u32::from_be_bytes(length) as usize;
        ensure!(bytes <= ADU_PAYLOAD_BYTES_MAX, "an ADU of {bytes} bytes");
        payload.resize(bytes, 0);
        reader.read_exact(&mut payload)?;
        arrivals.note(&payload);
    }
}

/// Returns a payload with its length prefix.
fn framed(payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(LENGTH_BYTES + payload.len());
    frame.extend((payload.len() as u32).to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}
