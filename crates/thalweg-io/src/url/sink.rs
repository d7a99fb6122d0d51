//! Output of whole messages, or of whole transport packets.

use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use thalweg_media::rtp::{PACKETS_PER_DATAGRAM, Packetizer};
use thalweg_media::ts::PACKET_BYTES;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::net::UdpSocket;

use super::program::Program;
use super::serial::Serial;
use super::{End, stream};

/// How often standard output is checked for a reader.
const READER_INTERVAL: Duration = Duration::from_millis(500);

/// Where messages or transport packets are written.
pub enum Sink {
    /// A file; after a failure it still ends on a packet boundary.
    File(PacketFile),
    /// Standard output.
    Standard,
    /// Plain datagrams.
    Datagrams(UdpSocket),
    /// RTP.
    Rtp(UdpSocket, Packetizer),
    /// A connection, and its name.
    Stream(Box<dyn AsyncWrite + Send + Unpin>, String),
    /// A serial line, and its name.
    Serial(Serial, String),
    /// A program's input.
    Program(Box<Program>),
}

/// A file that ends on a packet boundary even when the disk is full.
pub struct PacketFile {
    file: std::fs::File,
    path: PathBuf,
    /// Bytes written: a multiple of the packet size.
    length: u64,
}

impl Sink {
    /// Opens an output; a file is created or truncated.
    pub async fn open(end: &End) -> anyhow::Result<Self> {
        match end {
            End::Standard => Ok(Self::Standard),
            End::File(path) => PacketFile::open(path, false).map(Self::File),
            End::Datagrams { address, rtp } => {
                let socket = connect(*address)
                    .await
                    .with_context(|| format!("cannot send to {end}"))?;
                if *rtp {
                    let seed = seed();
                    let packetizer = Packetizer::new(seed as u32, (seed >> 32) as u16);
                    Ok(Self::Rtp(socket, packetizer))
                } else {
                    Ok(Self::Datagrams(socket))
                }
            }
            End::Tcp { address, listens } => {
                let stream = stream::open_tcp(*address, *listens).await?;
                Ok(Self::Stream(Box::new(stream), end.to_string()))
            }
            End::Unix { path, listens } => {
                let stream = stream::open_unix(path, *listens).await?;
                Ok(Self::Stream(Box::new(stream), end.to_string()))
            }
            End::Serial { path, baud } => {
                Ok(Self::Serial(Serial::open(path, *baud)?, end.to_string()))
            }
            End::Program(command) => Ok(Self::Program(Box::new(Program::write_to(command)?))),
            End::Telemetry { .. } => anyhow::bail!("{end} can only be read: give another target"),
        }
    }

    /// Opens an output; a file that is there is continued.
    pub async fn append(end: &End) -> anyhow::Result<Self> {
        match end {
            End::File(path) => PacketFile::open(path, true).map(Self::File),
            end => Self::open(end).await,
        }
    }

    /// Writes a whole message: one datagram, or bytes behind those of the message before.
    pub async fn write_message(&mut self, message: &[u8]) -> anyhow::Result<()> {
        match self {
            Self::Datagrams(socket) | Self::Rtp(socket, _) => send(socket, message).await,
            _ => self.write(message, 0).await,
        }
    }

    /// Writes whole packets; `time_90khz` becomes the RTP timestamp.
    pub async fn write(&mut self, packets: &[u8], time_90khz: u64) -> anyhow::Result<()> {
        match self {
            Self::File(whole) => whole.write(packets),
            Self::Standard => {
                let mut out = io::stdout().lock();
                out.write_all(packets)
                    .and_then(|()| out.flush())
                    .context("cannot write to standard output")
            }
            Self::Datagrams(socket) => {
                for datagram in packets.chunks(PACKETS_PER_DATAGRAM * PACKET_BYTES) {
                    send(socket, datagram).await?;
                }
                Ok(())
            }
            Self::Rtp(socket, packetizer) => {
                let stamp = time_90khz as u32;
                let mut datagrams = packetizer.push(packets, stamp);
                datagrams.extend(packetizer.flush(stamp));
                for datagram in datagrams {
                    send(socket, &datagram).await?;
                }
                Ok(())
            }
            Self::Stream(stream, name) => {
                let written = stream.write_all(packets).await;
                written.with_context(|| format!("cannot write to {name}"))
            }
            Self::Serial(line, name) => {
                let written = line.write(packets).await;
                written.with_context(|| format!("cannot write to {name}"))
            }
            Self::Program(program) => program.write(packets).await,
        }
    }

    /// Waits until nothing reads standard output any more: a pipe reports that only to a writer, and
    /// there may be nothing to write for hours. Never ends for other outputs.
    pub async fn reader_gone(end: &End) {
        if *end != End::Standard {
            return std::future::pending().await;
        }
        let stdout = io::stdout();
        let mut pipe = [PollFd::new(&stdout, PollFlags::empty())];
        let gone = PollFlags::ERR | PollFlags::HUP;
        while poll(&mut pipe, Some(&Timespec::default())).is_err()
            || !pipe[0].revents().intersects(gone)
        {
            tokio::time::sleep(READER_INTERVAL).await;
        }
    }

    /// Syncs a file to disk; closes a connection; waits for the end of a program.
    pub async fn finish(self) -> anyhow::Result<()> {
        match self {
            Self::File(whole) => whole.finish(),
            Self::Stream(mut stream, name) => {
                let closed = stream.shutdown().await;
                closed.with_context(|| format!("cannot end the connection to {name}"))
            }
            Self::Program(program) => program.finish().await,
            _ => Ok(()),
        }
    }
}

impl PacketFile {
    /// Opens a file; it is created, and truncated unless it is continued.
    fn open(path: &Path, continues: bool) -> anyhow::Result<Self> {
        let mut options = std::fs::OpenOptions::new();
        options.create(true);
        if continues {
            options.append(true);
        } else {
            options.write(true).truncate(true);
        }
        let opened = options.open(path).and_then(|file| {
            let length = file.metadata()?.len();
            Ok((file, length))
        });
        let (file, length) = opened.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self {
            file,
            path: path.into(),
            length,
        })
    }

    fn write(&mut self, packets: &[u8]) -> anyhow::Result<()> {
        match self.file.write_all(packets) {
            Ok(()) => {
                self.length += packets.len() as u64;
                Ok(())
            }
            Err(error) => {
                // Part of a packet may have been written. A device such as /dev/full cannot be
                // truncated, and need not be.
                let _ = self.file.set_len(self.length);
                Err(self.failed(error))
            }
        }
    }

    fn finish(self) -> anyhow::Result<()> {
        match self.file.sync_data() {
            // A pipe or a device has nothing to sync.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            Err(error) => Err(self.failed(error)),
            Ok(()) => Ok(()),
        }
    }

    fn failed(&self, error: io::Error) -> anyhow::Error {
        let packets = self.length / PACKET_BYTES as u64;
        anyhow::Error::new(error).context(format!(
            "cannot write {}; its first {packets} packets ({} bytes) are whole",
            self.path.display(),
            self.length
        ))
    }
}

async fn connect(address: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(address).await?;
    Ok(socket)
}

/// Sends a datagram. The system reports an absent listener only now and then, so that is not a failure.
async fn send(socket: &UdpSocket, datagram: &[u8]) -> anyhow::Result<()> {
    match socket.send(datagram).await {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(error) => Err(error).context("cannot send a datagram"),
    }
}

/// Returns a seed for the SSRC and the first sequence number. RFC 3550 wants them hard to guess, so
/// that two sources do not collide; time and process id do that here.
fn seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanos = since.unwrap_or(Duration::ZERO).as_nanos() as u64;
    nanos.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(std::process::id())
}
