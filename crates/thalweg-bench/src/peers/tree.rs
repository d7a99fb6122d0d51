//! A tree: a relay with one source and many sinks, each end a program, so that the relay's own
//! processor time and memory can be read.
//!
//! The source gives each ADU when it is due, with that time and a number in it; the sinks, one program
//! with a connection for each, write a record of each arrival to standard output. All read the
//! machine's one clock, so no messages are needed during the run, and the load generators' cost can be
//! read too.
//!
//! ```text
//! ADU    = due (8) ‖ number (4) ‖ zeros
//! record = sink (4) ‖ number (4) ‖ due (8) ‖ came (8)        nanoseconds of the clock, big-endian
//! ```
//!
//! Readiness is not awaited here: the records show which sinks receive.

use std::io::Read as _;
use std::process::ChildStdout;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use tempfile::TempDir;

use super::process::Process;

/// Bytes of a record.
pub(crate) const RECORD_BYTES: usize = 24;

/// Bytes of an ADU's stamp.
pub(crate) const STAMP_BYTES: usize = 12;

/// How long a relay runs without connections, so that its initial memory can be read.
const ALONE: Duration = Duration::from_millis(500);

/// The source's load, and the number of sinks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Number of connections that receive everything.
    pub(crate) sinks: u32,
    /// Bytes of an ADU.
    pub(crate) length_bytes: usize,
    /// Interval between two ADUs.
    pub(crate) pace: Duration,
    /// The maximum age of an ADU, for transports that take one.
    pub(crate) age_max: Duration,
}

/// How a peer's relay serves many sinks.
#[derive(Debug)]
pub(crate) struct Fan {
    /// Its name in figures.
    pub(crate) name: &'static str,
    /// Its transport.
    pub(crate) carries: &'static str,
    pub(super) start: fn(&[super::Found], &Load) -> anyhow::Result<Tree>,
}

/// A running relay with a source and sinks.
#[derive(Debug)]
pub(crate) struct Tree {
    /// Dropped first, so that no end reports a relay that is gone.
    source: Process,
    sinks: Process,
    pub(crate) relay: Process,
    alone_bytes: u64,
    records: Receiver<Record>,
    /// Files that the programs read.
    kept: Option<TempDir>,
}

/// The arrival of an ADU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) sink: u32,
    pub(crate) number: u32,
    pub(crate) due_nanos: u64,
    pub(crate) came_nanos: u64,
}

impl Tree {
    /// Starts the ends of a running relay.
    pub(crate) fn grow(
        relay: Process,
        sinks: impl FnOnce() -> anyhow::Result<Process>,
        source: impl FnOnce() -> anyhow::Result<Process>,
    ) -> anyhow::Result<Self> {
        std::thread::sleep(ALONE);
        let alone_bytes = relay.resident_bytes()?;
        let mut sinks = sinks()?;
        let records = listen(&mut sinks)?;
        Ok(Self {
            source: source()?,
            sinks,
            relay,
            alone_bytes,
            records,
            kept: None,
        })
    }

    /// Keeps a folder as long as the programs run.
    pub(super) fn keeping(mut self, folder: TempDir) -> Self {
        self.kept = Some(folder);
        self
    }

    /// Fails if one of its programs has ended, with its last output.
    pub(crate) fn check(&mut self) -> anyhow::Result<()> {
        self.relay.check()?;
        self.sinks.check()?;
        self.source.check()
    }

    /// Returns the new records since the last call.
    pub(crate) fn records(&self) -> impl Iterator<Item = Record> {
        self.records.try_iter()
    }

    /// Returns the processor time so far of the relay and of the sinks.
    pub(crate) fn computed(&self) -> anyhow::Result<[Duration; 2]> {
        Ok([self.relay.cpu()?, self.sinks.cpu()?])
    }

    /// Returns the relay's growth in memory since it had no connections.
    pub(crate) fn grown_bytes(&self) -> anyhow::Result<f64> {
        Ok(self.relay.resident_bytes()? as f64 - self.alone_bytes as f64)
    }
}

impl Load {
    /// Writes the stamp at the beginning of an ADU.
    pub(crate) fn stamp(adu: &mut [u8], due_nanos: u64, number: u32) {
        adu[..8].copy_from_slice(&due_nanos.to_be_bytes());
        adu[8..STAMP_BYTES].copy_from_slice(&number.to_be_bytes());
    }
}

impl Record {
    /// Returns the record of an arrived ADU; `None` if it has no stamp.
    pub(crate) fn of(sink: u32, adu: &[u8], came_nanos: u64) -> Option<Self> {
        Some(Self {
            sink,
            number: u32::from_be_bytes(adu.get(8..STAMP_BYTES)?.try_into().ok()?),
            due_nanos: u64::from_be_bytes(adu.get(..8)?.try_into().ok()?),
            came_nanos,
        })
    }

    pub(crate) fn to_bytes(self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..4].copy_from_slice(&self.sink.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.number.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.due_nanos.to_be_bytes());
        bytes[16..].copy_from_slice(&self.came_nanos.to_be_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; RECORD_BYTES]) -> Self {
        let [four, long] = [4, 8].map(|length| {
            move |at: usize| {
                let bytes = bytes[at..at + length].iter();
                bytes.fold(0_u64, |value, byte| value << 8 | u64::from(*byte))
            }
        });
        Self {
            sink: four(0) as u32,
            number: four(4) as u32,
            due_nanos: long(8),
            came_nanos: long(16),
        }
    }
}

/// Starts to read the sinks' records.
pub(super) fn listen(sinks: &mut Process) -> anyhow::Result<Receiver<Record>> {
    let (sender, records) = mpsc::channel();
    let output = sinks.output()?;
    std::thread::spawn(move || read(output, &sender));
    Ok(records)
}

/// Forwards records until the sinks have ended.
fn read(output: ChildStdout, records: &Sender<Record>) {
    let mut output = std::io::BufReader::new(output);
    let mut bytes = [0; RECORD_BYTES];
    while output.read_exact(&mut bytes).is_ok() {
        if records.send(Record::from_bytes(&bytes)).is_err() {
            return;
        }
    }
}
