//! What flows from the node to a program until the program leaves: a subscription, drops, a trace, a watch of
//! names.

use std::io;

use thalweg_base::id::StreamName;
use thalweg_base::time::Duration;
use tokio::sync::watch;

use super::{In, Out, frame, wait_stopped};
use crate::handle::{Handle, Selection, SubscribeOptions, Subscriber, SubscriberEvent};
use crate::input::TraceError;
use crate::local::frame::{Expected, Frame, Message};
use crate::local::request::{STOPPED, refusal};

pub(super) async fn subscribe(
    read: &mut In,
    write: &mut Out,
    handle: &Handle,
    options: SubscribeOptions,
    mut stopping: watch::Receiver<bool>,
) -> io::Result<()> {
    if handle.is_stopped() {
        return frame::write_message(write, &refusal(false, STOPPED.into())).await;
    }
    let mut subscriber = handle.subscribe_as(options, program(read)).await;
    frame::write_message(write, &Message::Accepted).await?;
    let mut last_source = None;
    loop {
        // Dropping a half-finished read loses its bytes, so it stays pinned across the arms.
        let next = frame::read(read, Expected::Requests, || handle.now());
        tokio::pin!(next);
        let asked = loop {
            tokio::select! {
                biased;
                next = &mut next => break next,
                event = subscriber.recv() => match event {
                    Some(SubscriberEvent::Adu(adu)) => {
                        let of = subscriber.source().map(|node| (node, adu.header.stream));
                        if let Some((node, stream)) = of.filter(|one| last_source != Some(*one)) {
                            last_source = of;
                            let description = handle.describe(node, stream).await;
                            let message = Message::Source { node, description };
                            frame::write_message(write, &message).await?;
                        }
                        frame::write_adu(write, &adu, handle.now()).await?;
                    }
                    Some(SubscriberEvent::Notice(text)) => {
                        frame::write_message(write, &Message::Notice { text }).await?;
                    }
                    None if subscriber.has_ended() => return end(write, &subscriber).await,
                    // The stream has not ended: the program sees the connection close, and subscribes
                    // again once the node is back.
                    None => return Ok(()),
                },
                () = wait_stopped(&mut stopping) => {
                    let text = "the node stops".to_string();
                    return frame::write_message(write, &Message::Notice { text }).await;
                }
            }
        };
        match asked {
            Ok(Some(Frame::Message(Message::Request { adus }))) => subscriber.request(adus),
            // A subscriber sends nothing else; any other result means that it has gone.
            _ => return Ok(()),
        }
    }
}

/// Sends a subscriber the end of its stream.
async fn end(write: &mut Out, subscriber: &Subscriber) -> io::Result<()> {
    let message = Message::End {
        missed: subscriber.skipped(),
        discarded: subscriber.discarded(),
    };
    frame::write_message(write, &message).await
}

/// Returns the name by which the node knows the program at the other end.
fn program(read: &In) -> String {
    let peer = read.get_ref().as_ref().peer_cred().ok();
    let pid = peer.and_then(|peer| peer.pid());
    pid.map_or_else(|| "a program".into(), |pid| format!("pid {pid}"))
}

/// Sends a client the drops of a stream, until it goes away or the node stops; with `own`, none of other
/// programs' mailboxes.
pub(super) async fn drops(
    read: &mut In,
    write: &mut Out,
    handle: &Handle,
    (name, own): (StreamName, bool),
    mut stopping: watch::Receiver<bool>,
) -> io::Result<()> {
    let mailbox = own.then(|| program(read));
    let mut followed = handle.follow_drops(name);
    frame::write_message(write, &Message::Accepted).await?;
    let gone = frame::read(read, Expected::Requests, || handle.now());
    tokio::pin!(gone);
    loop {
        let mut drops = tokio::select! {
            biased;
            // A client sends nothing more; any read result means that it has gone.
            _ = &mut gone => return Ok(()),
            drops = followed.recv() => match drops {
                Some(drops) => drops,
                None => return Ok(()),
            },
            () = wait_stopped(&mut stopping) => return Ok(()),
        };
        if let Some(mailbox) = &mailbox {
            drops.retain(|one| one.place != "mailbox" || one.at.as_ref() == Some(mailbox));
        }
        if !drops.is_empty() {
            frame::write_message(write, &Message::Dropped { drops }).await?;
        }
    }
}

/// Sends a client the trace of a stream, until it goes away, the node stops or the trace ends.
pub(super) async fn trace(
    read: &mut In,
    write: &mut Out,
    handle: &Handle,
    (name, every): (StreamName, Duration),
    mut stopping: watch::Receiver<bool>,
) -> io::Result<()> {
    let refused = |error: TraceError| Message::Refused {
        reason: error.to_string(),
    };
    let mut tracer = match handle.trace(name, every).await {
        Ok(tracer) => tracer,
        Err(error) => return frame::write_message(write, &refused(error)).await,
    };
    let source = tracer.source().to_string();
    frame::write_message(write, &Message::Tracing { source }).await?;
    let gone = frame::read(read, Expected::Requests, || handle.now());
    tokio::pin!(gone);
    loop {
        let event = tokio::select! {
            biased;
            // A client sends nothing more; any read result means that it has gone.
            _ = &mut gone => return Ok(()),
            event = tracer.recv() => event,
            () = wait_stopped(&mut stopping) => Err(TraceError::Stopped),
        };
        match event {
            Ok(event) => frame::write_message(write, &Message::TraceEvent(event)).await?,
            Err(error) => return frame::write_message(write, &refused(error)).await,
        }
    }
}

/// Sends a client the names of a selection, first at once and then after each change.
pub(super) async fn watch(
    read: &mut In,
    write: &mut Out,
    handle: &Handle,
    selection: Selection,
    mut stopping: watch::Receiver<bool>,
) -> io::Result<()> {
    let Some(mut matching) = handle.watch(selection).await else {
        return frame::write_message(write, &refusal(false, STOPPED.into())).await;
    };
    let gone = frame::read(read, Expected::Requests, || handle.now());
    tokio::pin!(gone);
    loop {
        let names = matching.names();
        frame::write_message(write, &Message::Names { names }).await?;
        tokio::select! {
            biased;
            // A client sends nothing more; any read result means that it has gone.
            _ = &mut gone => return Ok(()),
            is_running = matching.changed() => if !is_running {
                return Ok(());
            },
            () = wait_stopped(&mut stopping) => return Ok(()),
        }
    }
}
