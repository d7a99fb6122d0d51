//! One relay with both its lines: through it, and the same transport without it.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tokio::runtime::Runtime;

use super::load::{self, Load, Taken};
use super::thalweg;
use crate::peers::Ready;
use crate::peers::line::{Line, Way};
use crate::peers::process::Process;

/// How long a line may take until it carries: clients start, connect and discover each other.
const READY_MAX: Duration = Duration::from_secs(20);

/// More than any datagram.
const BUFFER_BYTES: usize = 1 << 16;

const THALWEG_CARRIES: &str = "QUIC, encrypted: until-deadline, a stream for each ADU";

/// Properties of a relay that are known before it runs.
pub(super) struct Named {
    /// Its position in the output.
    pub(super) place: usize,
    pub(super) name: &'static str,
    pub(super) version: String,
    pub(super) carries: &'static str,
    pub(super) piece_bytes: usize,
}

/// A relay and its lines.
pub(super) struct Side {
    pub(super) named: Named,
    direct: Ends,
    through: Ends,
    batches: u32,
}

enum Ends {
    Thalweg(Box<thalweg::Line>),
    Udp(Line, UdpEnd, UdpEnd),
}

/// An end of a line that is a socket of ours.
struct UdpEnd(UdpSocket);

impl Named {
    fn thalweg() -> Self {
        Self {
            place: 0,
            name: "thalweg",
            version: env!("CARGO_PKG_VERSION").to_owned(),
            carries: THALWEG_CARRIES,
            piece_bytes: usize::MAX,
        }
    }

    fn peer(ready: &Ready) -> Self {
        let peer = ready.peer;
        Self {
            place: 1 + peer.place(),
            name: peer.name,
            version: ready.version().to_owned(),
            carries: peer.carries,
            piece_bytes: peer.piece_bytes,
        }
    }
}

impl Side {
    /// Starts ours.
    pub(super) fn thalweg(runtime: &Runtime) -> anyhow::Result<Self> {
        let line = |way| anyhow::Ok(Ends::thalweg(thalweg::line(way, runtime)?));
        let direct = line(Way::Direct)?;
        Self::begin(Named::thalweg(), direct, line(Way::Through)?)
    }

    /// Starts a peer's.
    pub(super) fn peer(ready: &Ready) -> anyhow::Result<Self> {
        let line = |way| Ends::udp(ready.start(way)?);
        let direct = line(Way::Direct)?;
        Self::begin(Named::peer(ready), direct, line(Way::Through)?)
    }

    /// Takes started lines, and waits until they carry.
    fn begin(named: Named, direct: Ends, through: Ends) -> anyhow::Result<Self> {
        let mut side = Self {
            named,
            direct,
            through,
            batches: 0,
        };
        side.wait()?;
        Ok(side)
    }

    /// Carries a batch, and measures the relay's processor time.
    ///
    /// Fails   nothing arrived over the line
    pub(super) fn carry(&mut self, way: Way, load: Load) -> anyhow::Result<Taken> {
        let taken = self.try_carry(way, load)?;
        if taken.latencies_us.is_empty() {
            let said = self.ends(way).said();
            bail!("{}: nothing arrived ({way:?}): {said}", self.named.name);
        }
        Ok(taken)
    }

    fn try_carry(&mut self, way: Way, load: Load) -> anyhow::Result<Taken> {
        self.batches += 1;
        let (name, batch) = (self.named.name, self.batches);
        let ends = self.ends(way);
        ends.check()?;
        let before = ends.relay_cpu()?;
        let taken = match ends {
            Ends::Thalweg(line) => load::carry(load, batch, &mut line.sender, &mut line.receiver),
            Ends::Udp(_, sender, receiver) => load::carry(load, batch, sender, receiver),
        };
        let mut taken = taken.with_context(|| format!("{name} ({way:?})"))?;
        let after = ends.relay_cpu()?;
        taken.relay_cpu = after
            .zip(before)
            .map(|(after, before)| after.saturating_sub(before));
        Ok(taken)
    }

    /// Waits until its lines carry.
    fn wait(&mut self) -> anyhow::Result<()> {
        let begun = Instant::now();
        let probe = Load {
            length_bytes: 100,
            piece_bytes: 100,
            count: 3,
            pace: Duration::from_millis(50),
        };
        for way in [Way::Direct, Way::Through] {
            loop {
                let taken = self.try_carry(way, probe)?;
                let arrived = taken.latencies_us.len();
                if arrived == taken.due as usize {
                    break;
                }
                if begun.elapsed() > READY_MAX {
                    let (name, said) = (self.named.name, self.ends(way).said());
                    let due = taken.due;
                    bail!(
                        "{name} carries {arrived} of {due} ADUs after {READY_MAX:?} ({way:?}): {said}"
                    );
                }
            }
        }
        Ok(())
    }

    fn ends(&mut self, way: Way) -> &mut Ends {
        match way {
            Way::Direct => &mut self.direct,
            Way::Through => &mut self.through,
        }
    }
}

impl Ends {
    fn thalweg(line: thalweg::Line) -> Self {
        Self::Thalweg(Box::new(line))
    }

    fn udp(line: Line) -> anyhow::Result<Self> {
        let sender = UdpSocket::bind((line.into.ip(), 0))?;
        sender.connect(line.into)?;
        let receiver = UdpEnd(line.out.try_clone()?);
        Ok(Self::Udp(line, UdpEnd(sender), receiver))
    }

    fn check(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Thalweg(line) => line.relay.as_mut().map_or(Ok(()), Process::check),
            Self::Udp(line, ..) => line.check(),
        }
    }

    fn said(&self) -> String {
        match self {
            Self::Thalweg(line) => line.relay.as_ref().map(Process::said).unwrap_or_default(),
            Self::Udp(line, ..) => line.said(),
        }
    }

    fn relay_cpu(&self) -> anyhow::Result<Option<Duration>> {
        match self {
            Self::Thalweg(line) => line.relay.as_ref().map(Process::cpu).transpose(),
            Self::Udp(line, ..) => line.relay_cpu(),
        }
    }
}

impl load::Sender for UdpEnd {
    fn send(&mut self, piece: &[u8]) -> anyhow::Result<()> {
        match self.0.send(piece) {
            // No program listens there yet: expected while a line comes up, and counted as a loss later.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => Ok(()),
            sent => Ok(sent.map(drop)?),
        }
    }
}

impl load::Receiver for UdpEnd {
    fn recv(&mut self, piece: &mut Vec<u8>, wait: Duration) -> anyhow::Result<bool> {
        use std::io::ErrorKind::{TimedOut, WouldBlock};
        self.0.set_read_timeout(Some(wait))?;
        piece.resize(BUFFER_BYTES, 0);
        match self.0.recv(piece) {
            Err(error) if matches!(error.kind(), WouldBlock | TimedOut) => Ok(false),
            length => {
                piece.truncate(length?);
                Ok(true)
            }
        }
    }
}
