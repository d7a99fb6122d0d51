//! Transport stream bytes in.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use socket2::{Domain, Protocol, Socket, Type};
use thalweg_media::rtp::{Carriage, Depacketizer};
use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncSeekExt as _, SeekFrom};
use tokio::net::UdpSocket;

use super::End;

/// Bytes read from a file or pipe at once: a few hundred packets.
const READ_BYTES: usize = 64 * 1024;

/// The receive buffer asked for: half a second of 60 Mbit/s, for a burst of an encoder's key picture.
const RECEIVE_BYTES: usize = 4 << 20;

/// A gap after which a live sender's reordering window is given up, so that the last packets are not kept back.
const QUIET: Duration = Duration::from_millis(200);

/// Where transport stream bytes come from.
pub enum Source {
    /// A file, which can be read again.
    File(File),
    /// A pipe.
    Pipe(Box<dyn AsyncRead + Send + Unpin>),
    /// Datagrams.
    Datagrams(Datagrams),
}

/// A bound socket and what puts RTP in order.
pub struct Datagrams {
    socket: UdpSocket,
    buffer: Vec<u8>,
    order: Depacketizer,
    unknown: u64,
}

impl Source {
    /// Opens an end for reading.
    pub async fn open(end: &End) -> anyhow::Result<Self> {
        match end {
            End::Standard => Ok(Self::Pipe(Box::new(tokio::io::stdin()))),
            End::File(path) => open_file(path).await,
            End::Datagrams { address, .. } => Ok(Self::Datagrams(Datagrams::bind(*address)?)),
        }
    }

    /// Returns whether it is live: its units are due when they come.
    pub fn is_live(&self) -> bool {
        matches!(self, Self::Datagrams(_))
    }

    /// Returns the next bytes, or `None` at the end.
    ///
    /// Fails   what the system said
    ///
    /// May be dropped before it is ready without losing bytes.
    pub async fn read(&mut self) -> io::Result<Option<Bytes>> {
        match self {
            Self::File(file) => read_some(file).await,
            Self::Pipe(pipe) => read_some(pipe).await,
            Self::Datagrams(datagrams) => datagrams.read().await.map(Some),
        }
    }

    /// Goes back to the beginning; returns whether that is possible.
    pub async fn rewind(&mut self) -> io::Result<bool> {
        match self {
            Self::File(file) => file.seek(SeekFrom::Start(0)).await.map(|_| true),
            _ => Ok(false),
        }
    }

    /// Returns how many datagrams were neither transport packets nor RTP.
    pub fn unknown_datagrams(&self) -> u64 {
        match self {
            Self::Datagrams(datagrams) => datagrams.unknown,
            _ => 0,
        }
    }
}

async fn open_file(path: &Path) -> anyhow::Result<Source> {
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
        Ok(Source::File(file))
    } else {
        Ok(Source::Pipe(Box::new(file)))
    }
}

async fn read_some(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Bytes>> {
    let mut buffer = Vec::with_capacity(READ_BYTES);
    let read = reader.read_buf(&mut buffer).await?;
    Ok((read > 0).then(|| Bytes::from(buffer)))
}

impl Datagrams {
    fn bind(address: SocketAddr) -> anyhow::Result<Self> {
        let socket = bind(address).with_context(|| {
            format!("cannot listen on udp://{address}: is another program listening there?")
        })?;
        Ok(Self {
            socket,
            buffer: vec![0; usize::from(u16::MAX)],
            order: Depacketizer::new(),
            unknown: 0,
        })
    }

    async fn read(&mut self) -> io::Result<Bytes> {
        loop {
            if let Some(payload) = self.order.poll_payload() {
                return Ok(payload);
            }
            let received = tokio::time::timeout(QUIET, self.socket.recv(&mut self.buffer)).await;
            let Ok(received) = received else {
                self.order.flush();
                if let Some(payload) = self.order.poll_payload() {
                    return Ok(payload);
                }
                continue;
            };
            let datagram = &self.buffer[..received?];
            match Carriage::sniff(datagram) {
                Carriage::Plain => return Ok(Bytes::copy_from_slice(datagram)),
                Carriage::Rtp if self.order.push(datagram).is_ok() => {}
                _ => self.unknown += 1,
            }
        }
    }
}

/// Binds an address; a multicast group is joined on the interface that routing chooses.
fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    socket.set_nonblocking(true)?;
    // The kernel may grant less, which is no reason to stop.
    let _ = socket.set_recv_buffer_size(RECEIVE_BYTES);
    if address.ip().is_multicast() {
        // Several receivers of one group on one machine are usual.
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
