//! SRT: Debian's `srt-live-transmit` at both ends, with UDP on loopback inside the namespaces as its
//! input and output.
//!
//! As a user starts it: live mode, SRT's default latency of 120 ms, not encrypted. Live mode takes at
//! most 1,316 bytes at once, so an ADU travels in pieces, and has arrived when all of them have. SRT
//! has no importance and, in this mode, no congestion control: it sends at the rate of its input,
//! resends what is reported lost, and drops what is older than its latency.
//!
//! ```text
//! piece = number:32 ‖ pieces:16 ‖ length of the payload:32 ‖ bytes of the payload
//! ```
//!
//! *Sources.* SRT's documents on live transmission; `srt-live-transmit(1)`.

use std::any::Any;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, anyhow};
use thalweg_base::time::Duration;
use thalweg_testbed::system::clock;

use super::super::end::{Inlet, Outlet, READY, send_line, sleep_until, wait_for_begin};
use super::super::recording::Arrivals;
use super::super::schedule::NO_ADU;
use super::Side;
use crate::peers;
use crate::peers::process::Process;

/// SRT's default latency, which its documents assume.
const LATENCY_MS: u32 = 120;

/// Seven packets of a transport stream: the maximum that live mode takes at once.
const PIECE_BYTES: usize = 1_316;

/// Bytes of a piece's header.
const HEAD_BYTES: usize = 10;

/// The receiving end's port, in a namespace of its own.
const PORT: u16 = 9_000;

/// Interval of the probes for the connection.
const PROBE: Duration = Duration::from_millis(50);

/// After this long nothing is in flight any more: SRT has delivered or dropped it.
const AFTER: Duration = Duration::from_secs(2);

/// SRT.
pub(super) struct Srt;

impl Side for Srt {
    fn name(&self) -> &'static str {
        "srt"
    }

    fn missing(&self) -> Option<String> {
        ready().err().map(|error| format!("{error:#}"))
    }

    fn receive(&self, inlet: &Inlet) -> anyhow::Result<Box<dyn Any>> {
        let out = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = SocketAddr::from((inlet.own, PORT));
        let from = format!("srt://{address}?mode=listener&latency={LATENCY_MS}");
        let process = transmit(&from, &format!("udp://{}", out.local_addr()?))?;
        send_line(&format!("{READY} {address}"));
        let arrivals = inlet.arrivals.clone();
        std::thread::spawn(move || take(&out, &arrivals));
        Ok(Box::new(process))
    }

    fn send(&self, outlet: &Outlet) -> anyhow::Result<()> {
        let peer: SocketAddr = outlet.word(0)?;
        // A port that was free a moment ago.
        let into = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let to = format!("srt://{peer}?mode=caller&latency={LATENCY_MS}");
        let mut process = transmit(&format!("udp://{into}"), &to)?;
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect(into)?;
        let has_begun = AtomicBool::new(false);
        let begin = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !has_begun.load(Ordering::Relaxed) {
                    // Until the program listens the kernel reports a closed port.
                    let _ = socket.send(&pieces(NO_ADU, 0)[0]);
                    sleep_until(clock::now() + PROBE);
                }
            });
            let begin = wait_for_begin();
            has_begun.store(true, Ordering::Relaxed);
            begin
        })?;
        outlet.play(begin, |number, due| {
            for piece in pieces(number, due.bytes) {
                socket.send(&piece).context("srt-live-transmit has ended")?;
            }
            Ok(())
        })?;
        sleep_until(clock::now() + AFTER);
        process.check()
    }
}

/// Finds the program.
fn ready() -> anyhow::Result<peers::Ready> {
    let named = peers::named(&["srt-live-transmit".to_owned()])?;
    let peer = named.first().context("it is one of the peers")?;
    peer.find().map_err(|missing| anyhow!(missing))
}

/// Starts the program. Call it from the main thread: the child dies with the thread that started it.
fn transmit(from: &str, to: &str) -> anyhow::Result<Process> {
    let ready = ready()?;
    let program: &Path = ready.program();
    Process::start(Command::new(program).args(["-q", "-chunk:1456", from, to]))
}

/// Returns the pieces of an ADU.
pub(super) fn pieces(number: u32, bytes: usize) -> Vec<Vec<u8>> {
    let room = PIECE_BYTES - HEAD_BYTES;
    let count = bytes.div_ceil(room).max(1);
    let piece = |place: usize| {
        let length = (bytes - place * room).min(room);
        let mut piece = Vec::with_capacity(HEAD_BYTES + length);
        piece.extend(number.to_be_bytes());
        piece.extend((count as u16).to_be_bytes());
        piece.extend((bytes as u32).to_be_bytes());
        piece.resize(HEAD_BYTES + length, 0);
        piece
    };
    (0..count).map(piece).collect()
}

/// Pieces still missing of partially received ADUs.
#[derive(Debug, Default)]
pub(super) struct Gathering(BTreeMap<u32, u16>);

impl Gathering {
    /// Handles a piece; returns the number and length of an ADU that it completes.
    pub(super) fn handle_piece(&mut self, piece: &[u8]) -> Option<(u32, usize)> {
        let (number, rest) = piece.split_first_chunk::<4>()?;
        let (count, rest) = rest.split_first_chunk::<2>()?;
        let (bytes, _) = rest.split_first_chunk::<4>()?;
        let (number, count) = (u32::from_be_bytes(*number), u16::from_be_bytes(*count));
        let came = self.0.entry(number).or_default();
        *came += 1;
        if *came < count {
            return None;
        }
        self.0.remove(&number);
        Some((number, u32::from_be_bytes(*bytes) as usize))
    }
}

fn take(out: &UdpSocket, arrivals: &Arrivals) {
    let mut gathering = Gathering::default();
    let mut piece = [0; 1 << 11];
    while let Ok(length) = out.recv(&mut piece) {
        arrivals.up();
        if let Some((number, bytes)) = gathering.handle_piece(&piece[..length]) {
            arrivals.note_number(number, bytes);
        }
    }
}
