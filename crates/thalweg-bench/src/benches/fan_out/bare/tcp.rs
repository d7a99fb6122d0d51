//! Ends and relay over TCP alone, in the clear.

use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::sync::Arc;

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};

use super::{FROM_SOURCE, Sinks, add, each};
use crate::benches::fan_out::LENGTH_BYTES;
use crate::benches::fan_out::thalweg::Notes;

/// A sink's acknowledgement, as long as one of our reports, and the number of ADUs that it covers.
const WORD: [u8; 60] = [0; 60];
const WORD_ADUS: u32 = 3;

/// A connected sink, and the unsent rest of the last ADU.
struct Sink {
    half: OwnedWriteHalf,
    left: Bytes,
}

pub(super) async fn relay() -> anyhow::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("{}", listener.local_addr()?.port());
    let sinks = Sinks::<Sink>::default();
    loop {
        let (mut stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let sinks = Arc::clone(&sinks);
        tokio::spawn(async move {
            let mut who = [0; 1];
            stream.read_exact(&mut who).await?;
            if who == FROM_SOURCE {
                return hand_on(stream, &sinks).await;
            }
            let (mut words, half) = stream.into_split();
            let left = Bytes::new();
            add(&sinks, Sink { half, left });
            // A separate task reads the sink's acknowledgements, as in our node.
            let mut buffer = [0; 256];
            while words.read(&mut buffer).await? > 0 {}
            anyhow::Ok(())
        });
    }
}

async fn hand_on(mut source: TcpStream, sinks: &Sinks<Sink>) -> anyhow::Result<()> {
    loop {
        let mut adu = vec![0; LENGTH_BYTES];
        source.read_exact(&mut adu).await?;
        let adu = Bytes::from(adu);
        each(sinks, |sink| sink.give(&adu));
    }
}

impl Sink {
    /// Writes an ADU if the previous one is written out; returns whether the connection is alive.
    fn give(&mut self, adu: &Bytes) -> bool {
        let is_there = self.write();
        if self.left.is_empty() {
            self.left = adu.clone();
            return self.write();
        }
        is_there
    }

    fn write(&mut self) -> bool {
        while !self.left.is_empty() {
            match self.half.try_write(&self.left) {
                Ok(written) => self.left.advance(written),
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
        true
    }
}

pub(super) async fn connect(port: u16, who: &[u8]) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    stream.set_nodelay(true)?;
    stream.write_all(who).await?;
    Ok(stream)
}

pub(super) async fn take(sink: u32, stream: TcpStream, notes: &Notes) -> anyhow::Result<()> {
    let mut stream = BufReader::with_capacity(LENGTH_BYTES, stream);
    let mut adu = vec![0; LENGTH_BYTES];
    // Stagger the acknowledgements over the sinks.
    let mut until_word = 1 + sink % WORD_ADUS;
    loop {
        stream.read_exact(&mut adu).await?;
        notes.note(sink, &adu);
        until_word -= 1;
        if until_word == 0 {
            until_word = WORD_ADUS;
            stream.write_all(&WORD).await?;
        }
    }
}
