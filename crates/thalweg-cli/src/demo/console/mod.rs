//! The demo's page: one page on loopback, fed over a WebSocket.
//!
//! *The idea.* The binary contains all resources of the page. State is sent as JSON five times a
//! second, pictures as planar frames when they change. Both are in watch channels, so that a slow
//! browser skips updates and delays nothing. A picture follows only after the page has drawn the one
//! before it: where processor time is short, the page gets fewer pictures and the stream keeps its
//! share.
//!
//! *What it does not do.* It takes no commands but that answer, listens on loopback only, and
//! refuses pages of other origins.

mod state;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::extract::State;
use axum::extract::ws::{Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::picture::Kind;

pub use state::{Hello, LinkState, Live, VideoInfo, along};

#[cfg(test)]
mod tests;

/// The port tried first.
pub const PORT: u16 = 7480;

/// How many ports are tried, from `PORT` on.
const PORTS: u16 = 64;

/// How often state is sent.
pub const TICK: Duration = Duration::from_millis(200);

/// The largest message that the page may send; an answer has one byte.
const ANSWER_BYTES_MAX: usize = 64;

/// The latest picture of each kind.
pub type Pictures = [watch::Receiver<Option<Bytes>>; 3];

struct Page {
    live: Arc<Live>,
    pictures: Pictures,
}

/// The files of the page: path, type, content.
const FILES: [(&str, &str, &str); 8] = [
    (
        "/",
        "text/html; charset=utf-8",
        include_str!("page/index.html"),
    ),
    ("/style.css", "text/css", include_str!("page/style.css")),
    (
        "/console.js",
        "text/javascript",
        include_str!("page/console.js"),
    ),
    (
        "/chart.js",
        "text/javascript",
        include_str!("page/chart.js"),
    ),
    (
        "/figures.js",
        "text/javascript",
        include_str!("page/figures.js"),
    ),
    (
        "/picture.js",
        "text/javascript",
        include_str!("page/picture.js"),
    ),
    ("/svg.js", "text/javascript", include_str!("page/svg.js")),
    (
        "/topology.js",
        "text/javascript",
        include_str!("page/topology.js"),
    ),
];

/// Binds the first free loopback port from `port` on.
pub async fn bind(port: u16) -> anyhow::Result<TcpListener> {
    let mut error = None;
    for port in port..=port.saturating_add(PORTS) {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
            Ok(listener) => return Ok(listener),
            Err(e) => error = Some(e),
        }
    }
    let error = error.expect("one port at least was tried");
    Err(error).with_context(|| {
        format!(
            "no loopback port from {port} to {} is free for the console page",
            port.saturating_add(PORTS)
        )
    })
}

/// Serves the page until dropped.
pub async fn serve(
    listener: TcpListener,
    live: Arc<Live>,
    pictures: Pictures,
) -> anyhow::Result<()> {
    let mut router = Router::new().route("/state", get(open));
    for (path, kind, content) in FILES {
        let page = move || async move { ([(header::CONTENT_TYPE, kind)], content) };
        router = router.route(path, get(page));
    }
    let router = router.with_state(Arc::new(Page { live, pictures }));
    axum::serve(listener, router)
        .await
        .context("cannot serve the console page")
}

async fn open(
    State(page): State<Arc<Page>>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    if !same_origin(&headers) {
        return (
            StatusCode::FORBIDDEN,
            "this page serves only browsers on this machine",
        )
            .into_response();
    }
    upgrade
        .max_message_size(ANSWER_BYTES_MAX)
        .on_upgrade(move |socket| async move {
            // A browser that goes away is not an error.
            let _ = feed(socket, &page).await;
        })
}

/// Any page may open a WebSocket to loopback; its `Origin` header shows where it is from.
fn same_origin(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    match (text(header::ORIGIN), text(header::HOST)) {
        (None, _) => true,
        (Some(origin), Some(host)) => {
            let local = host
                .parse::<SocketAddr>()
                .is_ok_and(|address| address.ip().is_loopback())
                || host.split(':').next() == Some("localhost");
            local && origin.strip_prefix("http://") == Some(host)
        }
        (Some(_), None) => false,
    }
}

/// Which kinds of pictures the page has yet to draw.
#[derive(Clone, Copy, Debug, Default)]
struct Drawing([bool; 3]);

impl Drawing {
    fn is_ready(self, kind: Kind) -> bool {
        !self.0[kind as usize]
    }

    fn handle_sent(&mut self, kind: Kind) {
        self.0[kind as usize] = true;
    }

    /// Handles the page's answer; anything else that it may send means nothing.
    fn handle_drawn(&mut self, answer: &[u8]) {
        if let [kind] = answer
            && let Some(drawing) = self.0.get_mut(usize::from(*kind))
        {
            *drawing = false;
        }
    }
}

async fn feed(mut socket: WebSocket, page: &Page) -> Result<(), axum::Error> {
    let mut drawing = Drawing::default();
    let mut pictures = page.pictures.clone();
    // Send the current pictures at once, before they change.
    pictures.iter_mut().for_each(watch::Receiver::mark_changed);
    let [original, unplanned, planned] = &mut pictures;
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    socket.send(text(page.live.hello())).await?;
    let mut from = 0;
    loop {
        let (kind, picture) = tokio::select! {
            message = socket.recv() => match message {
                Some(Ok(Message::Close(_))) | None => return Ok(()),
                Some(Err(error)) => return Err(error),
                Some(Ok(message)) => {
                    drawing.handle_drawn(&message.into_data());
                    continue;
                }
            },
            _ = ticks.tick() => {
                let (tick, next) = page.live.tick(from);
                from = next;
                let last = tick.finished;
                socket.send(text(&tick)).await?;
                if last {
                    return socket.send(Message::Close(None)).await;
                }
                continue;
            }
            Ok(()) = original.changed(), if drawing.is_ready(Kind::Original) => {
                (Kind::Original, original.borrow_and_update().clone())
            }
            Ok(()) = unplanned.changed(), if drawing.is_ready(Kind::Unplanned) => {
                (Kind::Unplanned, unplanned.borrow_and_update().clone())
            }
            Ok(()) = planned.changed(), if drawing.is_ready(Kind::Planned) => {
                (Kind::Planned, planned.borrow_and_update().clone())
            }
        };
        if let Some(picture) = picture {
            drawing.handle_sent(kind);
            socket.send(Message::Binary(picture)).await?;
        }
    }
}

fn text(value: &impl serde::Serialize) -> Message {
    let json = serde_json::to_string(value).expect("plain data with text keys");
    Message::Text(Utf8Bytes::from(json))
}
