//! The ends of NATS: a source that publishes, and sinks that subscribe, each with its own connection.
//!
//! The protocol is lines of text with payloads between them, so this minimal client is shorter than the
//! use of a library and costs less processor time. It ignores the server's announced options; the
//! server is ours, with defaults.
//!
//! *Sources.* The NATS client protocol: INFO, CONNECT, PUB, SUB, MSG, PING, PONG.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::thalweg::{Notes, beat};
use super::{LENGTH_BYTES, PACE};
use crate::peers::tree::Load;

const SUBJECT: &str = "thalweg.fan";
const CONNECT: &[u8] = b"CONNECT {\"verbose\":false,\"pedantic\":false}\r\n";

/// How long the server may take to listen.
const LISTENING_MAX: Duration = Duration::from_secs(10);
const LISTENING_LOOK: Duration = Duration::from_millis(50);

/// Runs the source until the process is killed.
pub(crate) fn source(port: u16) -> anyhow::Result<()> {
    super::thalweg::runtime()?.block_on(async {
        let (mut reader, mut writer) = connect(port).await?.into_split();
        // Drain the server's messages: it disconnects clients that do not read.
        tokio::spawn(async move { tokio::io::copy(&mut reader, &mut tokio::io::sink()).await });
        writer.write_all(CONNECT).await?;
        let head = format!("PUB {SUBJECT} {LENGTH_BYTES}\r\n");
        let mut message = head.clone().into_bytes();
        message.resize(head.len() + LENGTH_BYTES, 0);
        message.extend(b"\r\n");
        let mut beats = beat(PACE);
        loop {
            let (due, number) = beats.next().await;
            Load::stamp(&mut message[head.len()..], due, number);
            writer.write_all(&message).await?;
        }
    })
}

/// Runs the sinks until the process is killed.
pub(crate) fn sinks(sinks: u32, port: u16) -> anyhow::Result<()> {
    super::thalweg::runtime()?.block_on(async {
        let notes = Notes::begin();
        let mut tasks = tokio::task::JoinSet::new();
        for sink in 0..sinks {
            let notes = notes.clone();
            tasks.spawn(async move {
                // The server disconnects slow clients, and they reconnect.
                while take(sink, port, &notes).await.is_err() {
                    sleep(LISTENING_LOOK).await;
                }
            });
        }
        tasks.join_next().await;
        bail!("a sink has ended")
    })
}

async fn take(sink: u32, port: u16, notes: &Notes) -> anyhow::Result<()> {
    let mut stream = BufReader::new(connect(port).await?);
    stream.write_all(CONNECT).await?;
    let subscribe = format!("SUB {SUBJECT} 1\r\n");
    stream.write_all(subscribe.as_bytes()).await?;
    let (mut line, mut payload) = (String::new(), Vec::new());
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            bail!("the server closed the connection of sink {sink}");
        }
        if line.starts_with("PING") {
            stream.write_all(b"PONG\r\n").await?;
        }
        if line.starts_with("MSG ") {
            let length = line.split_whitespace().last();
            let length: usize = length.context("a message has a length")?.parse()?;
            // Two more bytes for the line's end.
            payload.resize(length + 2, 0);
            stream.read_exact(&mut payload).await?;
            notes.note(sink, &payload);
        }
    }
}

async fn connect(port: u16) -> anyhow::Result<TcpStream> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let trying = async {
        loop {
            match TcpStream::connect(address).await {
                Err(_) => sleep(LISTENING_LOOK).await,
                connected => return connected,
            }
        }
    };
    let stream = tokio::time::timeout(LISTENING_MAX, trying).await;
    let stream = stream.with_context(|| format!("nothing listens on {address}"))??;
    stream.set_nodelay(true)?;
    Ok(stream)
}
