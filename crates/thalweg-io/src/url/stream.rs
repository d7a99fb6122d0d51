//! TCP connections and Unix sockets, as one stream of bytes.
//!
//! *The idea.* An end connects, or waits for one connection; when that ends, so does the end. A Unix socket
//! that was made for it is removed as soon as its peer is there.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context as _;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// Opens a TCP connection.
pub async fn open_tcp(address: SocketAddr, listens: bool) -> anyhow::Result<TcpStream> {
    if !listens {
        let stream = TcpStream::connect(address).await;
        return stream.with_context(|| {
            format!(
                "cannot connect to tcp://{address}: does a program listen there? \
                 tcp://{address}?listen waits for one instead"
            )
        });
    }
    let listener = TcpListener::bind(address).await.with_context(|| {
        format!("cannot listen on tcp://{address}: is another program listening there?")
    })?;
    let accepted = listener.accept().await;
    let (stream, _) = accepted.with_context(|| format!("no connection at tcp://{address}"))?;
    Ok(stream)
}

/// Opens a connection over a Unix socket.
pub async fn open_unix(path: &Path, listens: bool) -> anyhow::Result<UnixStream> {
    let name = path.display();
    if !listens {
        let stream = UnixStream::connect(path).await;
        return stream.with_context(|| {
            format!(
                "cannot connect to unix://{name}: does a program listen there? \
                 unix://{name}?listen waits for one instead"
            )
        });
    }
    let listener = UnixListener::bind(path).with_context(|| {
        format!("cannot listen on unix://{name}: if no program uses that file, remove it")
    })?;
    let accepted = listener.accept().await;
    // Removed by another that wanted the name; the connection is there all the same.
    let _ = std::fs::remove_file(path);
    let (stream, _) = accepted.with_context(|| format!("no connection at unix://{name}"))?;
    Ok(stream)
}
