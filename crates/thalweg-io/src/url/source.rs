//! Input of bytes, with counts of all that arrived.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use socket2::{Domain, Protocol, Socket, Type};
use thalweg_media::rtp::{Port, PortCounts};
use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncSeekExt as _, SeekFrom};
use tokio::net::UdpSocket;

use super::program::Program;
use super::serial::Serial;
use super::telemetry::Telemetry;
use super::{End, stream};

/// Bytes per read of a file or pipe: a few hundred packets.
const READ_BYTES: usize = 64 * 1024;

/// Receive buffer to ask for: half a second at 60 Mbit/s, for the burst of an encoder's key picture.
const RECEIVE_BYTES: usize = 4 << 20;

/// A pause of a live sender after which the reordering window is flushed, so that the last packets get out.
const QUIET: Duration = Duration::from_millis(200);

/// First bytes kept, to guess their format.
const HEAD_BYTES: usize = 16;

/// An input of bytes, with counts.
pub struct Source {
    input: Input,
    seen: ReceivedInput,
}

/// What arrived from a source, MPEG-TS or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceivedInput {
    /// Bytes, RTP headers included.
    pub bytes: u64,
    /// The first bytes.
    pub head: Vec<u8>,
    /// Counts of the UDP port, if the source is one.
    pub port: Option<PortCounts>,
}

enum Input {
    /// A file, which can be rewound.
    File(File),
    /// A pipe.
    Pipe(Box<dyn AsyncRead + Send + Unpin>),
    /// Datagrams.
    Datagrams(Box<Datagrams>),
    /// Datagrams as they are.
    Raw(UdpSocket, Vec<u8>),
    /// A serial line.
    Serial(Serial),
    /// A program's output.
    Program(Box<Program>),
    /// Made-up telemetry.
    Telemetry(Telemetry),
}

/// A bound socket and the parser of its datagrams.
struct Datagrams {
    socket: UdpSocket,
    buffer: Vec<u8>,
    port: Port,
    head: Vec<u8>,
}

impl Source {
    /// Opens an input.
    pub async fn open(end: &End) -> anyhow::Result<Self> {
        let input = match end {
            End::Standard => Input::Pipe(Box::new(tokio::io::stdin())),
            End::File(path) => open_file(path).await?,
            End::Datagrams { address, .. } => {
                Input::Datagrams(Box::new(Datagrams::bind(*address)?))
            }
            End::Tcp { address, listens } => {
                Input::Pipe(Box::new(stream::open_tcp(*address, *listens).await?))
            }
            End::Unix { path, listens } => {
                Input::Pipe(Box::new(stream::open_unix(path, *listens).await?))
            }
            End::Serial { path, baud } => Input::Serial(Serial::open(path, *baud)?),
            End::Program(command) => Input::Program(Box::new(Program::read_from(command)?)),
            End::Telemetry { rate, bytes, count } => {
                Input::Telemetry(Telemetry::new(*rate, *bytes, *count))
            }
        };
        Ok(Self {
            input,
            seen: ReceivedInput::default(),
        })
    }

    /// Opens an input of messages: each datagram is one piece, as it is, RTP or not.
    pub async fn open_pieces(end: &End) -> anyhow::Result<Self> {
        let End::Datagrams { address, .. } = end else {
            return Self::open(end).await;
        };
        let socket = listen(*address)?;
        Ok(Self {
            input: Input::Raw(socket, vec![0; usize::from(u16::MAX)]),
            seen: ReceivedInput::default(),
        })
    }

    /// Returns whether the source is live: its units are due on arrival. What comes over a pipe or a
    /// connection is not, for its sender waits while nothing is read.
    pub fn is_live(&self) -> bool {
        match self.input {
            Input::File(_) | Input::Pipe(_) | Input::Program(_) => false,
            Input::Datagrams(_) | Input::Raw(..) | Input::Serial(_) | Input::Telemetry(_) => true,
        }
    }

    /// Takes what is to be told of the source, such as a serial line that vanished.
    pub fn take_notices(&mut self) -> Vec<String> {
        match &mut self.input {
            Input::Serial(line) => line.take_notices(),
            _ => Vec::new(),
        }
    }

    /// Returns the next bytes, or `None` at the end.
    ///
    /// Fails   the system's error
    ///
    /// Cancel safe: dropping the future loses no bytes.
    pub async fn read(&mut self) -> io::Result<Option<Bytes>> {
        let bytes = match &mut self.input {
            Input::File(file) => read_some(file).await?,
            Input::Pipe(pipe) => read_some(pipe).await?,
            Input::Datagrams(datagrams) => return datagrams.read().await.map(Some),
            Input::Raw(socket, buffer) => {
                let received = socket.recv(buffer).await?;
                Some(Bytes::copy_from_slice(&buffer[..received]))
            }
            Input::Serial(line) => Some(line.read().await.into()),
            Input::Program(program) => {
                let mut buffer = Vec::with_capacity(READ_BYTES);
                let read = program.read(&mut buffer).await?;
                (read > 0).then(|| buffer.into())
            }
            Input::Telemetry(telemetry) => telemetry.next().await.map(Bytes::from),
        };
        if let Some(bytes) = &bytes {
            keep_head(&mut self.seen.head, bytes);
            self.seen.bytes += bytes.len() as u64;
        }
        Ok(bytes)
    }

    /// Rewinds to the beginning; returns whether the source can do that.
    pub async fn rewind(&mut self) -> io::Result<bool> {
        match &mut self.input {
            Input::File(file) => file.seek(SeekFrom::Start(0)).await.map(|_| true),
            _ => Ok(false),
        }
    }

    /// Returns what arrived so far.
    pub fn seen(&self) -> ReceivedInput {
        match &self.input {
            Input::Datagrams(datagrams) => {
                let port = datagrams.port.counts();
                ReceivedInput {
                    bytes: port.bytes,
                    head: datagrams.head.clone(),
                    port: Some(port),
                }
            }
            _ => self.seen.clone(),
        }
    }
}

fn keep_head(head: &mut Vec<u8>, bytes: &[u8]) {
    let room = HEAD_BYTES - head.len();
    head.extend_from_slice(&bytes[..bytes.len().min(room)]);
}

async fn open_file(path: &Path) -> anyhow::Result<Input> {
    let name = path.display();
    let file = File::open(path)
        .await
        .with_context(|| format!("cannot read {name}"))?;
    let kind = file
        .metadata()
        .await
        .with_context(|| format!("cannot read {name}"))?
        .file_type();
    anyhow::ensure!(!kind.is_dir(), "cannot read {name}: it is a directory");
    if kind.is_file() {
        Ok(Input::File(file))
    } else {
        Ok(Input::Pipe(Box::new(file)))
    }
}

async fn read_some(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Bytes>> {
    let mut buffer = Vec::with_capacity(READ_BYTES);
    let read = reader.read_buf(&mut buffer).await?;
    Ok((read > 0).then(|| Bytes::from(buffer)))
}

impl Datagrams {
    fn bind(address: SocketAddr) -> anyhow::Result<Self> {
        Ok(Self {
            socket: listen(address)?,
            buffer: vec![0; usize::from(u16::MAX)],
            port: Port::new(),
            head: Vec::new(),
        })
    }

    async fn read(&mut self) -> io::Result<Bytes> {
        loop {
            if let Some(bytes) = self.port.poll_bytes() {
                return Ok(bytes);
            }
            let received = tokio::time::timeout(QUIET, self.socket.recv(&mut self.buffer)).await;
            let Ok(received) = received else {
                self.port.flush();
                continue;
            };
            let datagram = &self.buffer[..received?];
            keep_head(&mut self.head, datagram);
            self.port.push(datagram);
        }
    }
}

fn listen(address: SocketAddr) -> anyhow::Result<UdpSocket> {
    bind(address).with_context(|| {
        format!("cannot listen on udp://{address}: is another program listening there?")
    })
}

/// Binds an address; joins a multicast group on the interface that routing chooses.
fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    socket.set_nonblocking(true)?;
    // The kernel may grant less, which is acceptable.
    let _ = socket.set_recv_buffer_size(RECEIVE_BYTES);
    if address.ip().is_multicast() {
        // Several receivers of one group on one machine are common.
        socket.set_reuse_address(true)?;
    }
    socket.bind(&address.into())?;
    match address.ip() {
        IpAddr::V4(group) if group.is_multicast() => {
            socket.join_multicast_v4(&group, &Ipv4Addr::UNSPECIFIED)?;
        }
        IpAddr::V6(group) if group.is_multicast() => socket.join_multicast_v6(&group, 0)?,
        _ => {}
    }
    UdpSocket::from_std(socket.into())
}
