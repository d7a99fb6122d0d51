//! The end of who wants to know what hops cost a stream's ADUs.
//!
//! *The idea.* It asks for the stream again and again, for each asking is worth some seconds; a stream that starts anew
//! meanwhile is traced on under its new id. Dropped, it asks no more, and the source stops by itself.

use std::pin::Pin;

use thalweg_core::id::StreamName;
use thalweg_core::time::Duration;
use thalweg_core::trace::RENEW;
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior};

use super::Handle;
use crate::control::{Command, TraceError, TraceEvent};

/// What waits for a slow reader: ten seconds of the fastest that a source tells.
const EVENTS_MAX: usize = 512;

/// Tells what hops cost a stream's ADUs.
pub struct Tracer {
    handle: Handle,
    name: StreamName,
    every: Duration,
    source: String,
    tell: mpsc::Sender<TraceEvent>,
    events: mpsc::Receiver<TraceEvent>,
    renew: Pin<Box<Interval>>,
}

impl Handle {
    /// Traces an ADU of a stream each `every`, or as often as its source lets.
    ///
    /// Fails   where nobody publishes the stream, or no way leads to who does
    pub async fn trace(&self, name: StreamName, every: Duration) -> Result<Tracer, TraceError> {
        let (tell, events) = mpsc::channel(EVENTS_MAX);
        let source = ask(self, &name, every, &tell).await?;
        let mut renew = tokio::time::interval(RENEW.into());
        renew.set_missed_tick_behavior(MissedTickBehavior::Delay);
        renew.reset();
        Ok(Tracer {
            handle: self.clone(),
            name,
            every,
            source,
            tell,
            events,
            renew: Box::pin(renew),
        })
    }
}

impl Tracer {
    /// Returns the name of the node that publishes the stream.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns what is told next; may be dropped while it waits.
    ///
    /// Fails   when the stream is published no more, its source does not want to trace it, or the node has stopped
    pub async fn recv(&mut self) -> Result<TraceEvent, TraceError> {
        loop {
            tokio::select! {
                Some(event) = self.events.recv() => return match event {
                    TraceEvent::Refused(reason) => Err(TraceError::Refused {
                        source_name: self.source.clone(),
                        reason,
                    }),
                    event => Ok(event),
                },
                _ = self.renew.tick() => {
                    self.source = ask(&self.handle, &self.name, self.every, &self.tell).await?;
                }
            }
        }
    }
}

async fn ask(
    handle: &Handle,
    name: &StreamName,
    every: Duration,
    tell: &mpsc::Sender<TraceEvent>,
) -> Result<String, TraceError> {
    let (name, events) = (name.clone(), tell.clone());
    let answer = handle.ask(|reply| Command::Trace {
        name,
        every,
        events,
        reply,
    });
    answer.await.unwrap_or(Err(TraceError::Stopped))
}
