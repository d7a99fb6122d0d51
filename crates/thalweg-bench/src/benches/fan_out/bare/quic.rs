//! Ends and relay over QUIC alone: the nodes' library and ciphers with default settings.

use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use iroh::endpoint::{Connection, presets};
use iroh::{Endpoint, EndpointAddr, RelayMode, SecretKey};

use super::{FROM_SOURCE, Sinks, Source, TO_SINK, add, each};
use crate::benches::fan_out::LENGTH_BYTES;
use crate::benches::fan_out::thalweg::Notes;

pub(super) async fn relay() -> anyhow::Result<()> {
    let endpoint = bind(0).await?;
    let address = endpoint.bound_sockets().into_iter().next();
    println!("{}", address.context("a relay listens")?.port());
    let sinks = Sinks::<Connection>::default();
    while let Some(incoming) = endpoint.accept().await {
        let connection = incoming.await?;
        if connection.alpn() == TO_SINK {
            add(&sinks, connection);
        } else {
            let sinks = Arc::clone(&sinks);
            tokio::spawn(async move {
                while let Ok(mut stream) = connection.accept_uni().await {
                    let adu = stream.read_to_end(LENGTH_BYTES).await?;
                    let adu = Bytes::from(adu);
                    each(&sinks, |sink| give(sink, &adu));
                }
                anyhow::Ok(())
            });
        }
    }
    bail!("the socket is closed")
}

/// Sends one ADU on its own stream if there is room for all of it; returns whether the connection is alive.
fn give(sink: &Connection, adu: &Bytes) -> bool {
    let giving = async {
        let mut stream = sink.open_uni().await?;
        stream.write_chunk(adu.clone()).await?;
        stream.finish()?;
        anyhow::Ok(())
    };
    // Poll once: a sink without room is skipped.
    let mut context = Context::from_waker(Waker::noop());
    !matches!(pin!(giving).poll(&mut context), Poll::Ready(Err(_)))
}

pub(super) async fn source(port: u16) -> anyhow::Result<Source> {
    let (endpoint, connection) = connect(u32::MAX, port, FROM_SOURCE).await?;
    Ok(Source::Quic {
        connection,
        _endpoint: endpoint,
    })
}

pub(super) async fn take(
    sink: u32,
    endpoint: Endpoint,
    connection: Connection,
    notes: &Notes,
) -> anyhow::Result<()> {
    while let Ok(mut stream) = connection.accept_uni().await {
        let adu = stream.read_to_end(LENGTH_BYTES).await?;
        // A stream without room for the ADU ends early.
        if adu.len() == LENGTH_BYTES {
            notes.note(sink, &adu);
        }
    }
    endpoint.close().await;
    Ok(())
}

pub(super) async fn connect(
    place: u32,
    port: u16,
    alpn: &[u8],
) -> anyhow::Result<(Endpoint, Connection)> {
    let endpoint = bind(place).await?;
    let relay = EndpointAddr::new(key(0).public())
        .with_ip_addr(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let connection = endpoint.connect(relay, alpn).await?;
    Ok((endpoint, connection))
}

async fn bind(place: u32) -> anyhow::Result<Endpoint> {
    let builder = Endpoint::builder(presets::Minimal)
        .secret_key(key(place))
        .alpns(vec![FROM_SOURCE.to_vec(), TO_SINK.to_vec()])
        .relay_mode(RelayMode::Disabled)
        .clear_ip_transports()
        .bind_addr(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    Ok(builder.bind().await?)
}

fn key(place: u32) -> SecretKey {
    let mut seed = [0xba; 32];
    seed[..4].copy_from_slice(&place.to_be_bytes());
    SecretKey::from_bytes(&seed)
}
