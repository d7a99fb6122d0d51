//! Plain QUIC streams: quinn, a unidirectional stream per ADU, with the importance as the stream's priority.
//!
//! This is what QUIC itself offers to an application with priorities. Two of quinn's limits are raised:
//! with its 100 concurrent streams ADUs would queue above it in order of arrival, and with its send
//! window in no particular order. Here priority decides among everything that is queued. All else is
//! quinn's own: CUBIC, pacing, MTU discovery. Nothing expires: unimportant ADUs wait for as long as the
//! overload lasts.
//!
//! *Sources.* RFC 9000 §2.3; quinn 0.11 `SendStream::set_priority`.

use std::any::Any;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use quinn::{ClientConfig, Connection, Endpoint, RecvStream, ServerConfig, TransportConfig};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use thalweg_base::limits::ADU_PAYLOAD_BYTES_MAX;
use thalweg_testbed::system::clock;
use tokio::task::JoinSet;

use super::super::end::{Inlet, Outlet, READY, send_line, wait_for_begin};
use super::super::recording::Arrivals;
use super::Side;

/// The name in the certificate.
const NAME: &str = "localhost";

/// Maximum of concurrent streams: more than all ADUs of a run.
const STREAMS_MAX: u32 = 1 << 16;

/// Send window: more than all ADUs of a run.
const SEND_WINDOW_BYTES: u64 = 256 << 20;

/// Plain QUIC streams.
pub(super) struct Streams;

impl Side for Streams {
    fn name(&self) -> &'static str {
        "quic_streams"
    }

    fn receive(&self, inlet: &Inlet) -> anyhow::Result<Box<dyn Any>> {
        let runtime = tokio::runtime::Runtime::new()?;
        let certified = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
        let certificate = certified.cert.der().clone();
        let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
        let mut config = ServerConfig::with_single_cert(vec![certificate.clone()], key.into())?;
        let mut transport = TransportConfig::default();
        transport.max_concurrent_uni_streams(STREAMS_MAX.into());
        config.transport_config(Arc::new(transport));
        let inside = runtime.enter();
        let endpoint = Endpoint::server(config, (inlet.own, 0).into())?;
        drop(inside);
        send_line(&format!(
            "{READY} {} {}",
            endpoint.local_addr()?,
            hex(&certificate)
        ));
        runtime.spawn(accept(endpoint.clone(), inlet.arrivals.clone()));
        Ok(Box::new((runtime, endpoint)))
    }

    fn send(&self, outlet: &Outlet) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Runtime::new()?;
        let (endpoint, connection) = runtime.block_on(connect(outlet))?;
        let begin = wait_for_begin()?;
        let _inside = runtime.enter();
        let mut sendings = JoinSet::new();
        outlet.play(begin, |number, due| {
            let payload = due.payload(number);
            sendings.spawn(send(connection.clone(), due.importance, payload));
            Ok(())
        })?;
        let left = outlet.patience(begin).saturating_since(clock::now());
        let all = async {
            while let Some(sent) = sendings.join_next().await {
                sent.context("a sending task panicked")??;
            }
            anyhow::Ok(())
        };
        // ADUs that have not arrived by then are abandoned.
        let within = runtime.block_on(async { tokio::time::timeout(left.into(), all).await });
        drop((connection, endpoint));
        within.unwrap_or(Ok(()))
    }
}

async fn accept(endpoint: Endpoint, arrivals: Arrivals) {
    while let Some(incoming) = endpoint.accept().await {
        let arrivals = arrivals.clone();
        tokio::spawn(async move {
            let Ok(connection) = incoming.await else {
                return;
            };
            arrivals.up();
            while let Ok(stream) = connection.accept_uni().await {
                tokio::spawn(take(stream, arrivals.clone()));
            }
        });
    }
}

async fn take(mut stream: RecvStream, arrivals: Arrivals) {
    // A stream that fails has not arrived.
    if let Ok(payload) = stream.read_to_end(ADU_PAYLOAD_BYTES_MAX).await {
        arrivals.note(&payload);
    }
}

async fn connect(outlet: &Outlet) -> anyhow::Result<(Endpoint, Connection)> {
    let peer: SocketAddr = outlet.word(0)?;
    let certificate = unhex(&outlet.word::<String>(1)?)?;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(certificate))?;
    let mut config = ClientConfig::with_root_certificates(Arc::new(roots))?;
    let mut transport = TransportConfig::default();
    transport.send_window(SEND_WINDOW_BYTES);
    config.transport_config(Arc::new(transport));
    let endpoint = Endpoint::client((outlet.own, 0).into())?;
    let connection = endpoint.connect_with(config, peer, NAME)?.await?;
    Ok((endpoint, connection))
}

/// Sends an ADU, and waits until the receiver has it.
async fn send(connection: Connection, importance: u8, payload: Vec<u8>) -> anyhow::Result<()> {
    let mut stream = connection.open_uni().await?;
    stream.set_priority(importance.into())?;
    stream.write_all(&payload).await?;
    stream.finish()?;
    stream.stopped().await?;
    Ok(())
}

/// Returns bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Returns the bytes of hexadecimal digits.
pub(super) fn unhex(text: &str) -> anyhow::Result<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        bail!("`{text}` is not a sequence of bytes");
    }
    let pairs = (0..text.len()).step_by(2).map(|at| &text[at..at + 2]);
    let bytes: Result<Vec<u8>, _> = pairs.map(|pair| u8::from_str_radix(pair, 16)).collect();
    Ok(bytes?)
}
