//! A plain QUIC stream: one unidirectional stream of quinn with default settings and keep-alive,
//! messages back to back.
//!
//! It is the simplest program that gets its messages encrypted, whole and in order. A relay forwards
//! the stream's chunks as they arrive, without a copy, and knows no messages. There are no deadlines,
//! priorities or counts, and one delayed message delays all behind it (head-of-line blocking).

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use quinn::{ClientConfig, Endpoint, RecvStream, SendStream, ServerConfig, TransportConfig};
use rustls::RootCertStore;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::task::JoinSet;

use super::way::{self, Message};

/// The name in the certificate.
const NAME: &str = "localhost";

/// Keep-alive interval; without it a connection would time out while the other sides take their turn.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Chunks that a relay takes in one call.
const CHUNKS: usize = 32;

pub(super) struct Sender {
    stream: SendStream,
    _endpoint: Endpoint,
}

pub(super) struct Receiver {
    stream: RecvStream,
    buffer: Vec<u8>,
    _endpoint: Endpoint,
}

/// Builds a path of this many hops; the relays run until the tasks are dropped.
pub(super) async fn way(
    hops: usize,
    tasks: &mut JoinSet<()>,
) -> anyhow::Result<(Sender, Receiver)> {
    let (server, client) = configs()?;
    let endpoints = (0..=hops)
        .map(|_| endpoint(server.clone(), client.clone()))
        .collect::<Result<Vec<_>, _>>()?;
    let (first, last) = (endpoints[0].clone(), endpoints[hops].clone());
    let mut hop = endpoints.windows(2);
    let (outward, mut inward) = joined(hop.next().context("a path has a hop")?).await?;
    for ends in hop {
        let (next_outward, next_inward) = joined(ends).await?;
        let (from, endpoint) = (inward, ends[0].clone());
        tasks.spawn(async move {
            // A relay ends with its path.
            let _ = relay(from, next_outward).await;
            drop(endpoint);
        });
        inward = next_inward;
    }
    let receiver = Receiver {
        stream: inward,
        buffer: Vec::new(),
        _endpoint: last,
    };
    let sender = Sender {
        stream: outward,
        _endpoint: first,
    };
    Ok((sender, receiver))
}

/// Joins two endpoints by a stream.
async fn joined(ends: &[Endpoint]) -> anyhow::Result<(SendStream, RecvStream)> {
    let connecting = ends[0].connect(ends[1].local_addr()?, NAME)?;
    let accepting = async {
        let incoming = ends[1].accept().await.context("the endpoint was closed")?;
        Ok(incoming.await?)
    };
    let (near, far) = tokio::try_join!(
        async { Ok::<_, anyhow::Error>(connecting.await?) },
        accepting
    )?;
    let mut outward = near.open_uni().await?;
    // The far end sees a stream only with its first bytes.
    outward.write_all(&[0]).await?;
    let mut inward = far.accept_uni().await?;
    inward.read_exact(&mut [0]).await?;
    Ok((outward, inward))
}

async fn relay(mut inward: RecvStream, mut outward: SendStream) -> anyhow::Result<()> {
    let mut chunks = [const { Bytes::new() }; CHUNKS];
    while let Some(count) = inward.read_chunks(&mut chunks).await? {
        outward.write_all_chunks(&mut chunks[..count]).await?;
    }
    Ok(())
}

fn configs() -> anyhow::Result<(ServerConfig, ClientConfig)> {
    let certified = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
    let certificate = certified.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone())?;
    let server = ServerConfig::with_single_cert(vec![certificate], key.into())?;
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots))?;
    let mut transport = TransportConfig::default();
    transport.keep_alive_interval(Some(KEEP_ALIVE));
    client.transport_config(Arc::new(transport));
    Ok((server, client))
}

fn endpoint(server: ServerConfig, client: ClientConfig) -> anyhow::Result<Endpoint> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut endpoint = Endpoint::server(server, address)?;
    endpoint.set_default_client_config(client);
    Ok(endpoint)
}

impl way::Sender for Sender {
    async fn send(&mut self, message: Bytes) -> anyhow::Result<()> {
        Ok(self.stream.write_chunk(message).await?)
    }
}

impl way::Receiver for Receiver {
    async fn recv(&mut self, length_bytes: usize) -> anyhow::Result<Message> {
        self.buffer.resize(length_bytes, 0);
        self.stream.read_exact(&mut self.buffer).await?;
        way::read(&self.buffer, length_bytes)
    }
}
