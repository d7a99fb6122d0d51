//! The end of a program that traces what each hop costs a stream's ADUs.
//!
//! *The idea.* It renews the trace again and again, since each request lasts some seconds; a stream
//! that restarts meanwhile is traced under its new id. Once the tracer is dropped, the requests
//! cease and the source stops by itself.

use std::pin::Pin;

use thalweg_base::id::StreamName;
use thalweg_base::time::Duration;
use thalweg_base::trace::RENEW;
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior};

use super::Handle;
use crate::input::{Command, TraceError, TraceEvent};

/// Events buffered for a slow reader: ten seconds at the highest rate of a source.
const EVENTS_MAX: usize = 512;

/// Receives the trace of a stream.
pub struct Tracer {
    handle: Handle,
    name: StreamName,
    every: Duration,
    source: String,
    sender: mpsc::Sender<TraceEvent>,
    events: mpsc::Receiver<TraceEvent>,
    renew: Pin<Box<Interval>>,
}

impl Handle {
    /// Traces an ADU of a stream every `every`, or as often as its source allows.
    ///
    /// Fails   if no node publishes the stream, or no path leads to its source
    pub async fn trace(&self, name: StreamName, every: Duration) -> Result<Tracer, TraceError> {
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        let source = request(self, &name, every, &sender).await?;
        let mut renew = tokio::time::interval(RENEW.into());
        renew.set_missed_tick_behavior(MissedTickBehavior::Delay);
        renew.reset();
        Ok(Tracer {
            handle: self.clone(),
            name,
            every,
            source,
            sender,
            events,
            renew: Box::pin(renew),
        })
    }
}

impl Tracer {
    /// Returns the name of the stream's source.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the next event. Cancel safe.
    ///
    /// Fails   if the stream is no longer published, its source refuses to trace it, or the node has
    ///         stopped
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
                    self.source = request(&self.handle, &self.name, self.every, &self.sender).await?;
                }
            }
        }
    }
}

async fn request(
    handle: &Handle,
    name: &StreamName,
    every: Duration,
    sender: &mpsc::Sender<TraceEvent>,
) -> Result<String, TraceError> {
    let (name, events) = (name.clone(), sender.clone());
    let answer = handle.ask(|reply| Command::Trace {
        name,
        every,
        events,
        reply,
    });
    answer.await.unwrap_or(Err(TraceError::Stopped))
}
