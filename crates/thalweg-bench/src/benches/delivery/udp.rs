//! The simplest path: UDP sockets, with a user-space forwarder for each hop beyond the first.
//!
//! There is no encryption, no resending and no backpressure; its advantage in speed is their cost.
//! Sockets have the system's default buffers.

use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use tokio::net::UdpSocket;
use tokio::task::JoinSet;

use super::way::{self, Message};

/// More than any datagram.
const BUFFER_BYTES: usize = 1 << 16;

pub(super) struct Sender(UdpSocket);

pub(super) struct Receiver {
    socket: UdpSocket,
    buffer: Vec<u8>,
}

/// Builds a path of this many hops; the forwarders run until the tasks are dropped.
pub(super) async fn way(
    hops: usize,
    tasks: &mut JoinSet<()>,
) -> anyhow::Result<(Sender, Receiver)> {
    let socket = bind().await?;
    let mut next = socket.local_addr()?;
    let buffer = vec![0; BUFFER_BYTES];
    let receiver = Receiver { socket, buffer };
    for _ in 1..hops {
        next = forwarder(next, tasks).await?;
    }
    let sender = bind().await?;
    sender.connect(next).await?;
    Ok((Sender(sender), receiver))
}

async fn forwarder(next: SocketAddr, tasks: &mut JoinSet<()>) -> anyhow::Result<SocketAddr> {
    let (inward, outward) = (bind().await?, bind().await?);
    let address = inward.local_addr()?;
    outward.connect(next).await?;
    tasks.spawn(async move {
        let mut buffer = vec![0; BUFFER_BYTES];
        while let Ok(length) = inward.recv(&mut buffer).await {
            // What the kernel has no room for is lost, as on any UDP relay.
            let _ = outward.send(&buffer[..length]).await;
        }
    });
    Ok(address)
}

async fn bind() -> anyhow::Result<UdpSocket> {
    Ok(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?)
}

impl way::Sender for Sender {
    async fn send(&mut self, message: Bytes) -> anyhow::Result<()> {
        self.0.send(&message).await?;
        Ok(())
    }
}

impl way::Receiver for Receiver {
    async fn recv(&mut self, length_bytes: usize) -> anyhow::Result<Message> {
        loop {
            let length = self.socket.recv(&mut self.buffer).await?;
            // A message of another length is a straggler of the previous batch.
            if length == length_bytes {
                return way::read(&self.buffer[..length], length_bytes);
            }
        }
    }
}
