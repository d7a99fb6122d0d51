//! Sending one ADU.
//!
//! *The idea.* A [`Sending`] is a future that resolves to an [`Outcome`]. A detached whole ADU goes
//! into the outbox at once and needs no task; one that is still arriving is fed chunk by chunk by
//! its own task. An ADU with a deadline never waits outside the outbox. One without a deadline, or
//! in an ordered sequence, waits for room: that is the backpressure.
//!
//! *What it does not do.* It does not choose among ADUs, and resends none on another link.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use thalweg_base::adu::Header;
use thalweg_base::limits::ADU_PAYLOAD_BYTES_MAX;
use thalweg_base::time::Instant;
use thalweg_base::trace::Trace;
use thalweg_link::hop::sender::room::{may_wait, room_kib};
use thalweg_link::hop::sender::{Arrived, Ticket};
use tokio::sync::{OwnedSemaphorePermit, TryAcquireError, oneshot};

use super::Link;
use super::batch;
use super::body::Body;
use super::handed::HandedAdu;
use super::lots::Lots;
use super::news::{Reply, To};
use super::outcome::{Carriage, Outcome, Payload, SendOptions};
use crate::close::StreamCode;
use crate::error::BodyError;
use crate::task;

/// An ADU to send: awaiting it sends it and returns its outcome, dropping it cancels it.
#[must_use = "nothing is sent before it is awaited or detached"]
pub struct Sending {
    link: Link,
    header: Header,
    trace: Option<Box<Trace>>,
    is_patient: bool,
    state: State,
}

#[expect(
    clippy::large_enum_variant,
    reason = "a payload in a box would cost each ADU an allocation to save one move of 240 bytes"
)]
enum State {
    Unsent(Payload, SendOptions),
    Running(Pin<Box<dyn Future<Output = Outcome> + Send>>),
    Done,
}

impl Sending {
    pub(super) const fn new(
        link: Link,
        header: Header,
        payload: Payload,
        options: SendOptions,
    ) -> Self {
        Self {
            link,
            header,
            trace: None,
            is_patient: false,
            state: State::Unsent(payload, options),
        }
    }

    /// Adds these trace stamps, and this node's after them, if there are any.
    pub fn traced(mut self, trace: Option<Box<Trace>>) -> Self {
        self.trace = trace;
        self
    }

    /// Lets the outcome be reported up to a quarter of a second late, if no other outcome is
    /// awaited.
    ///
    /// It only affects ADUs that are [detached](Sending::detach) and need not wait for room: their
    /// acknowledgements then wake no task.
    pub const fn patient(mut self) -> Self {
        self.is_patient = true;
        self
    }

    /// Sends without waiting for the acknowledgement.
    ///
    /// The outcome goes to [`Receiver::handle_outcome`](super::Receiver::handle_outcome) with the
    /// token, by which the caller knows the ADU again. The next ADU of an ordered sequence should be
    /// sent after the outcome of the one before: that is its backpressure.
    ///
    /// Fails   panics outside a tokio run-time (a caller's bug)
    pub fn detach(self, token: u64) {
        self.begin(token, None);
    }

    /// Like [`Sending::detach`], together with others where the link's loop takes lots: it is sent once
    /// they are [handed over](Lots::hand_over), in the order in which the link was given its ADUs.
    ///
    /// Fails   panics outside a tokio run-time (a caller's bug)
    pub fn detach_with(self, token: u64, lots: &mut Lots) {
        self.begin(token, Some(lots));
    }

    fn begin(mut self, token: u64, lots: Option<&mut Lots>) {
        let State::Unsent(payload, options) = std::mem::replace(&mut self.state, State::Done)
        else {
            return;
        };
        let (link, header, trace) = (self.link.clone(), self.header, self.trace.take());
        let is_patient = self.is_patient;
        let now = link.now();
        match prepare(&link, now, &header, payload, &options) {
            Ready::Now(mut arrived, room) => {
                arrived.trace = trace;
                let reply = Reply {
                    to: To::Receiver(token),
                    is_patient: is_patient && room.is_none(),
                    room,
                };
                let adu = HandedAdu {
                    at: now,
                    header,
                    payload: arrived,
                    options,
                    reply,
                };
                let alone = match lots {
                    Some(lots) => lots.add(&link, adu),
                    None => Some(adu),
                };
                if let Some(adu) = alone {
                    link.push(now, adu.header, adu.payload, adu.options, adu.reply);
                }
            }
            Ready::Feed(mut arrived, body) => {
                arrived.trace = trace;
                let reply = Reply {
                    to: To::Receiver(token),
                    is_patient,
                    room: None,
                };
                if let Some(ticket) = link.push(now, header, arrived, options, reply) {
                    tokio::spawn(task::alone(async move { feed(&link, ticket, body).await }));
                }
            }
            Ready::Later(payload) => {
                let Ok(waiting) = wait_outside(&link, &payload, &options) else {
                    return end_unsent(&link, &header, token, Outcome::Overflow);
                };
                tokio::spawn(task::alone(async move {
                    let _waiting = waiting;
                    let outcome = send(link.clone(), header, trace, payload, options).await;
                    batch::report(&link, header, token, outcome);
                }));
            }
            Ready::Never(outcome) => end_unsent(&link, &header, token, outcome),
        }
    }
}

impl Future for Sending {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        if let State::Unsent(..) = self.state
            && let State::Unsent(payload, options) = std::mem::replace(&mut self.state, State::Done)
        {
            let trace = self.trace.take();
            let work = send(self.link.clone(), self.header, trace, payload, options);
            self.state = State::Running(Box::pin(work));
        }
        match &mut self.state {
            State::Running(work) => work.as_mut().poll(context),
            State::Unsent(..) | State::Done => Poll::Ready(Outcome::Cancelled),
        }
    }
}

/// Reports the outcome of a detached ADU that never entered the outbox, which counts all others.
fn end_unsent(link: &Link, header: &Header, token: u64, outcome: Outcome) {
    link.0.counters.count(outcome);
    batch::report(link, *header, token, outcome);
}

/// Returns the permit with which a detached ADU waits outside the outbox. An ordered one needs none:
/// it is the only one of its sequence.
///
/// Fails   if too much waits
fn wait_outside(
    link: &Link,
    payload: &Payload,
    options: &SendOptions,
) -> Result<Option<OwnedSemaphorePermit>, TryAcquireError> {
    if matches!(options.carriage, Carriage::Ordered(_)) {
        return Ok(None);
    }
    let waiting = Arc::clone(&link.0.waiting);
    let permit = waiting.try_acquire_many_owned(room_kib(payload.bytes()));
    permit.map(Some)
}

/// How an ADU can enter the outbox.
enum Ready {
    Now(Arrived, Option<OwnedSemaphorePermit>),
    /// Now, and the rest of its payload as it arrives.
    Feed(Arrived, Body),
    /// Once its payload has arrived, or there is room.
    Later(Payload),
    Never(Outcome),
}

/// Decides whether an ADU can enter the outbox without waiting.
fn prepare(
    link: &Link,
    now: Instant,
    header: &Header,
    payload: Payload,
    options: &SendOptions,
) -> Ready {
    if let Some(outcome) = refuse(link, now, header, &payload) {
        return Ready::Never(outcome);
    }
    let mut body = match payload {
        Payload::Whole(payload) => return admit(link, header, options, payload.into()),
        Payload::Arriving(body) => body,
    };
    if body.is_whole() {
        let arrived = take_arrived(&mut body);
        return admit(link, header, options, arrived);
    }
    let is_cut_through = options.carriage == Carriage::Stream;
    if is_cut_through && !header.deadline.is_never() {
        let arrived = take_arrived(&mut body);
        return Ready::Feed(arrived, body);
    }
    Ready::Later(Payload::Arriving(body))
}

/// Admits a whole ADU if there is room, or it need not wait for room.
fn admit(link: &Link, header: &Header, options: &SendOptions, arrived: Arrived) -> Ready {
    if !may_wait(header, options) {
        return Ready::Now(arrived, None);
    }
    let room = Arc::clone(&link.0.room).try_acquire_many_owned(room_kib(arrived.payload_bytes));
    let is_ordered = matches!(options.carriage, Carriage::Ordered(_));
    match room {
        Ok(room) if !(is_ordered && link.0.moves.has_predecessor()) => {
            Ready::Now(arrived, Some(room))
        }
        _ => Ready::Later(Payload::Arriving(Body::of_chunks(arrived.chunks))),
    }
}

fn refuse(link: &Link, now: Instant, header: &Header, payload: &Payload) -> Option<Outcome> {
    if payload.bytes() > ADU_PAYLOAD_BYTES_MAX {
        Some(Outcome::TooLarge)
    } else if link.is_ended() {
        Some(Outcome::LinkLost)
    } else if header.is_expired(now) {
        Some(Outcome::Expired)
    } else {
        None
    }
}

/// Takes the arrived part of a body.
fn take_arrived(body: &mut Body) -> Arrived {
    let payload_bytes = body.remaining_bytes();
    let chunks = std::iter::from_fn(|| body.chunk_now()).collect();
    Arrived {
        payload_bytes,
        chunks,
        trace: None,
    }
}

/// Sends an ADU and waits for its outcome; dropping the future gives up the ADU.
async fn send(
    link: Link,
    header: Header,
    trace: Option<Box<Trace>>,
    payload: Payload,
    options: SendOptions,
) -> Outcome {
    match try_send(&link, header, trace, payload, options).await {
        Ok(outcome) => outcome,
        // It never entered the outbox, which counts all other outcomes.
        Err(outcome) => {
            link.0.counters.count(outcome);
            outcome
        }
    }
}

async fn try_send(
    link: &Link,
    header: Header,
    trace: Option<Box<Trace>>,
    payload: Payload,
    options: SendOptions,
) -> Result<Outcome, Outcome> {
    if let Some(outcome) = refuse(link, link.now(), &header, &payload) {
        return Err(outcome);
    }
    let payload_bytes = payload.bytes();
    let (mut arrived, mut body) = match payload {
        Payload::Whole(payload) => (payload.into(), None),
        Payload::Arriving(mut body) if options.carriage == Carriage::Datagram => {
            let chunks = body.gather().await.map_err(upstream)?;
            let chunks = chunks.into_iter().collect();
            let arrived = Arrived {
                payload_bytes,
                chunks,
                trace: None,
            };
            (arrived, None)
        }
        Payload::Arriving(body) => (Arrived::default(), Some(body)),
    };
    if let Carriage::Ordered(id) = options.carriage {
        link.0.moves.wait_predecessor(id).await;
    }
    let mut room = None;
    if may_wait(&header, &options) {
        let permit = Arc::clone(&link.0.room).acquire_many_owned(room_kib(payload_bytes));
        room = Some(permit.await.map_err(|_| Outcome::LinkLost)?);
    }
    if let Some(body) = &mut body {
        arrived = take_arrived(body);
    }
    arrived.trace = trace;
    let (caller, outcome) = oneshot::channel();
    let reply = Reply {
        to: To::Caller(caller),
        is_patient: false,
        room,
    };
    let ticket = link.push(link.now(), header, arrived, options, reply);
    let mut cancel_on_drop = CancelOnDrop { link, ticket };
    let fed = async {
        if let (Some(ticket), Some(body)) = (ticket, body) {
            feed(link, ticket, body).await;
        }
        std::future::pending::<()>().await;
    };
    let outcome = tokio::select! {
        biased;
        outcome = outcome => outcome.unwrap_or(Outcome::LinkLost),
        () = fed => Outcome::LinkLost,
    };
    // The ADU has ended: nothing to give up.
    cancel_on_drop.ticket = None;
    Ok(outcome)
}

/// Gives up an ADU when its outcome is no longer awaited; harmless if it has ended.
struct CancelOnDrop<'a> {
    link: &'a Link,
    ticket: Option<Ticket>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.link.give_up(ticket, Outcome::Cancelled);
        }
    }
}

/// Forwards the rest of a payload as it arrives, until it is whole or no longer wanted.
async fn feed(link: &Link, ticket: Ticket, mut body: Body) {
    loop {
        match body.chunk().await {
            Ok(Some(chunk)) => {
                let more = std::iter::from_fn(|| body.chunk_now());
                let chunks: Vec<Bytes> = std::iter::once(chunk).chain(more).collect();
                if !link.push_chunks(ticket, chunks) {
                    return;
                }
            }
            Ok(None) => return,
            Err(error) => return link.give_up(ticket, upstream(error)),
        }
    }
}

/// Returns the outcome of an ADU if its payload failed to arrive.
const fn upstream(error: BodyError) -> Outcome {
    match error {
        BodyError::Expired | BodyError::Reset(StreamCode::Expired) => Outcome::Expired,
        _ => Outcome::Cancelled,
    }
}
