//! A batch of ADUs at a fixed rate over one line, and its results.
//!
//! One thread sends each ADU when it is due, another receives; both are the bench's, so there is one
//! clock, and the sender writes its time into the ADU. If a line takes only small pieces, an ADU is
//! sent as several datagrams at once, and has arrived when the last piece has.
//!
//! ```text
//! piece = time of sending (8) ‖ batch (4) ‖ ADU of the batch (4) ‖ pieces of the ADU (4) ‖ zeros
//! ```

use std::time::{Duration, Instant};

/// Bytes at the beginning of every piece.
const STAMP_BYTES: usize = 20;

/// How long stragglers are waited for after the last ADU was sent.
const STRAGGLERS_MAX: Duration = Duration::from_millis(1_500);

/// Timeout of one receive call.
const LOOK: Duration = Duration::from_millis(50);

/// The sending end.
pub(super) trait Sender: Send {
    /// Sends a piece.
    fn send(&mut self, piece: &[u8]) -> anyhow::Result<()>;
}

/// The receiving end.
pub(super) trait Receiver: Send {
    /// Waits at most this long for a piece, which replaces the buffer's content; `false` if none came.
    fn recv(&mut self, piece: &mut Vec<u8>, wait: Duration) -> anyhow::Result<bool>;
}

/// The parameters of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Bytes of an ADU.
    pub(super) length_bytes: usize,
    /// The largest piece that the line takes, in bytes.
    pub(super) piece_bytes: usize,
    pub(super) count: u32,
    /// Interval between two ADUs.
    pub(super) pace: Duration,
}

/// The results of a batch.
#[derive(Clone, Debug, Default)]
pub(super) struct Taken {
    /// Latency of each ADU that arrived whole.
    pub(super) latencies_us: Vec<f64>,
    /// Number of ADUs sent.
    pub(super) due: u32,
    /// Processor time of the relay meanwhile, if there is one.
    pub(super) relay_cpu: Option<Duration>,
}

/// The header of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    sent_nanos: u64,
    batch: u32,
    adu: u32,
    pieces: u32,
}

impl Load {
    /// Returns the load of this rate and duration; the rate counts an ADU's bytes without overhead.
    pub(super) fn of(length_bytes: usize, piece_bytes: usize, bps: f64, lasting: Duration) -> Self {
        let pace = Duration::from_secs_f64(length_bytes as f64 * 8.0 / bps);
        let count = (lasting.as_secs_f64() / pace.as_secs_f64())
            .round()
            .max(1.0);
        Self {
            length_bytes,
            piece_bytes,
            count: count as u32,
            pace,
        }
    }

    /// Returns the lengths of an ADU's pieces, as even as possible.
    fn pieces(self) -> impl Iterator<Item = usize> {
        let count = self.length_bytes.div_ceil(self.piece_bytes);
        let (each, rest) = (self.length_bytes / count, self.length_bytes % count);
        assert!(each >= STAMP_BYTES, "a stamp fits into each piece");
        (0..count).map(move |at| each + usize::from(at < rest))
    }
}

/// Carries a batch. The batch number distinguishes batches over one line.
pub(super) fn carry(
    load: Load,
    batch: u32,
    sender: &mut dyn Sender,
    receiver: &mut dyn Receiver,
) -> anyhow::Result<Taken> {
    let clock = Instant::now();
    let over = clock + load.pace * load.count + STRAGGLERS_MAX;
    std::thread::scope(|scope| {
        let sending = scope.spawn(move || send(load, batch, clock, sender));
        let taken = receive(load, batch, clock, over, receiver);
        sending.join().expect("the sender does not panic")?;
        taken
    })
}

fn send(load: Load, batch: u32, clock: Instant, sender: &mut dyn Sender) -> anyhow::Result<()> {
    let lengths: Vec<usize> = load.pieces().collect();
    let mut piece = vec![0; load.length_bytes];
    for adu in 0..load.count {
        let due = clock + load.pace * adu;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let stamp = Stamp {
            sent_nanos: nanos(clock.elapsed()),
            batch,
            adu,
            pieces: lengths.len() as u32,
        };
        for length in &lengths {
            stamp.write(&mut piece[..*length]);
            sender.send(&piece[..*length])?;
        }
    }
    Ok(())
}

fn receive(
    load: Load,
    batch: u32,
    clock: Instant,
    over: Instant,
    receiver: &mut dyn Receiver,
) -> anyhow::Result<Taken> {
    let mut arrived = vec![0; load.count as usize];
    let mut piece = Vec::new();
    let mut taken = Taken {
        due: load.count,
        ..Taken::default()
    };
    while taken.latencies_us.len() < taken.due as usize && Instant::now() < over {
        if !receiver.recv(&mut piece, LOOK)? {
            continue;
        }
        let now = nanos(clock.elapsed());
        // A piece of another batch is a straggler.
        let Some(stamp) = Stamp::read(&piece).filter(|stamp| stamp.batch == batch) else {
            continue;
        };
        let Some(pieces) = arrived.get_mut(stamp.adu as usize) else {
            continue;
        };
        *pieces += 1;
        if *pieces % stamp.pieces.max(1) == 0 {
            let latency = now.saturating_sub(stamp.sent_nanos);
            taken.latencies_us.push(latency as f64 / 1e3);
        }
    }
    Ok(taken)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("a batch is shorter than 584 years")
}

impl Stamp {
    fn write(self, piece: &mut [u8]) {
        piece[..8].copy_from_slice(&self.sent_nanos.to_be_bytes());
        for (at, number) in [(8, self.batch), (12, self.adu), (16, self.pieces)] {
            piece[at..at + 4].copy_from_slice(&number.to_be_bytes());
        }
    }

    /// Reads a stamp; `None` if the piece is too short.
    fn read(piece: &[u8]) -> Option<Self> {
        let number = |at: usize| {
            let bytes = piece.get(at..at + 4)?.try_into().ok()?;
            Some(u32::from_be_bytes(bytes))
        };
        Some(Self {
            sent_nanos: u64::from_be_bytes(piece.get(..8)?.try_into().ok()?),
            batch: number(8)?,
            adu: number(12)?,
            pieces: number(16)?,
        })
    }
}

#[cfg(test)]
mod tests {
    //! Proves that arrivals count by ADU and not by piece, over an in-memory line that loses chosen pieces.

    use std::sync::mpsc;
    use std::time::Duration;

    use super::{Load, Receiver, Sender, Stamp, carry};

    struct In(mpsc::Sender<Vec<u8>>, u32);
    struct Out(mpsc::Receiver<Vec<u8>>);

    impl Sender for In {
        fn send(&mut self, piece: &[u8]) -> anyhow::Result<()> {
            self.1 += 1;
            // The fourth piece is lost.
            if self.1 != 4 {
                self.0.send(piece.to_vec())?;
            }
            Ok(())
        }
    }

    impl Receiver for Out {
        fn recv(&mut self, piece: &mut Vec<u8>, wait: Duration) -> anyhow::Result<bool> {
            let received = self.0.recv_timeout(wait);
            Ok(received.map(|received| *piece = received).is_ok())
        }
    }

    #[test]
    fn adu_arrives_with_all_pieces() {
        let (sender, receiver) = mpsc::channel();
        // A piece of another batch, and one too short for a stamp: both are skipped.
        let mut old = vec![0; 100];
        Stamp {
            sent_nanos: 1,
            batch: 6,
            adu: 0,
            pieces: 1,
        }
        .write(&mut old);
        sender.send(old).expect("the receiver is there");
        sender.send(vec![7; 3]).expect("the receiver is there");
        let load = Load::of(1_000, 400, 8e6, Duration::from_millis(5));
        assert_eq!((load.count, load.pace), (5, Duration::from_millis(1)));
        let taken = carry(load, 7, &mut In(sender, 0), &mut Out(receiver));
        let taken = taken.expect("encoding into memory does not fail");
        assert_eq!((taken.due, taken.latencies_us.len()), (5, 4));
    }

    #[test]
    fn pieces_are_even_and_complete() {
        let pieces = |length, piece| {
            let load = Load::of(length, piece, 1e6, Duration::from_secs(1));
            load.pieces().collect::<Vec<_>>()
        };
        assert_eq!(pieces(1_000, 1_316), [1_000]);
        assert_eq!(pieces(10_000, 1_316), [1_250; 8]);
        assert_eq!(pieces(2_635, 1_316), [879, 878, 878]);
    }
}
