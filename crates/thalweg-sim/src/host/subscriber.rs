//! A subscriber of the world, as a program with the node's `Subscriber` has it.
//!
//! A stream in sequence passes the node's own [`Resequencer`], any other is delivered as it arrives. A
//! subscriber stays after its stream has ended and reads on if the stream is published again. What it
//! receives must match the model.
//!
//! *Sources.* `thalweg-node`, `handle/subscriber.rs`.

use std::collections::BTreeMap;

use thalweg_base::adu::{Adu, Flags};
use thalweg_base::event::DropCause;
use thalweg_base::id::{Sequence, StreamId};
use thalweg_base::limits::KEEP_ADUS_MAX;
use thalweg_base::needs::{Order, Reliability};
use thalweg_base::time::{Duration, Instant};
use thalweg_dataplane::mailbox::{Coming, END_PATIENCE, Ending, Resequencer};
use thalweg_dataplane::relay::Ended;

use super::mind::Mind;
use super::stall::Stalled;
use crate::fate::Copy;
use crate::watch::Watch;

/// How often a stream that was cut off is looked at until it has been read.
const END_LOOK: Duration = Duration::from_millis(100);

/// The subscribers on a host.
#[derive(Debug)]
pub(super) struct Subscribers {
    place: usize,
    all: Vec<Subscriber>,
    /// An additional subscriber that stalls, or has stalled.
    stalled: Option<Stalled>,
}

/// A running subscriber.
#[derive(Debug)]
struct Subscriber {
    /// The stream's index in the world.
    at: usize,
    in_sequence: bool,
    stream: Option<StreamId>,
    resequencer: Resequencer,
    /// The copies waiting in the resequencer, by sequence number.
    waiting: BTreeMap<u64, Copy>,
    received: u64,
    /// How many ADUs the stream had, and until when the rest is waited for at least.
    known: Option<(u64, Instant)>,
    /// Decides whether the rest is worth waiting for.
    ending: Ending,
    has_ended: bool,
    /// The program that published the stream was killed: its end has come, and is to be looked at
    /// then, until it has been read.
    cut_off: Option<Instant>,
    /// Sequence numbers delivered since the last comparison with the model.
    given: Vec<u64>,
}

/// Returns a resequencer with the room of a stream that is promised whole, as the model has.
fn patient() -> Resequencer {
    let mut resequencer = Resequencer::default();
    resequencer.wait_for_kept();
    resequencer
}

impl Subscriber {
    fn poll_timeout(&self) -> Instant {
        let end = self.cut_off.unwrap_or(Instant::NEVER);
        if self.has_ended || !self.in_sequence {
            return end;
        }
        self.resequencer.poll_timeout().min(end)
    }

    /// Returns whether everything announced by the end of the stream has come or is no longer waited for.
    fn is_over(&mut self, now: Instant) -> bool {
        self.has_ended
            || self.known.is_some_and(|(total, until)| {
                self.received >= total || now >= until && self.ending.poll(now)
            })
    }

    /// Takes an ADU of its stream.
    ///
    /// Fails   with the cause if it came too late for its place
    fn take(
        &mut self,
        adu: Adu,
        reliability: Reliability,
        copy: Option<Copy>,
        (place, now): (usize, Instant),
        watch: &mut Watch<'_>,
    ) -> Ended {
        let header = adu.header;
        let arrived = (&header, adu.payload.len());
        watch.model.handle_arrived((place, self.at), arrived, now);
        let is_end = header.flags.contains(Flags::END);
        if header.flags.contains(Flags::CUT_OFF) {
            self.cut_off = Some(now);
        }
        let sequence = header.sequence.0;
        if self.in_sequence {
            let is_sent_again = reliability.is_sent_again();
            if self.resequencer.handle_adu(adu, is_sent_again, now) != Coming::InTime {
                return Err(DropCause::Expired);
            }
            if let Some(copy) = copy {
                self.waiting.insert(sequence, copy);
            }
            return Ok(());
        }
        self.ending
            .handle_adu(header, adu.payload.len(), reliability, now);
        if is_end {
            self.known = Some((sequence, now + END_PATIENCE));
            return Ok(());
        }
        if let Some((_, until)) = &mut self.known {
            *until = now + END_PATIENCE;
        }
        self.received += 1;
        self.given.push(sequence);
        if let Some(copy) = copy {
            watch.delivered(place, copy, &adu.payload);
        }
        Ok(())
    }
}

impl Subscribers {
    pub(super) const fn new(place: usize) -> Self {
        Self {
            place,
            all: Vec::new(),
            stalled: None,
        }
    }

    /// Subscribes to a stream of the world.
    pub(super) fn subscribe(
        &mut self,
        at: usize,
        mind: &mut Mind,
        now: Instant,
        watch: &mut Watch<'_>,
    ) {
        let stream = &watch.world.streams[at];
        let in_sequence = stream.needs.order == Order::Sequence;
        watch.model.handle_subscribed((self.place, at), in_sequence);
        self.all.push(Subscriber {
            at,
            in_sequence,
            stream: None,
            resequencer: patient(),
            waiting: BTreeMap::new(),
            received: 0,
            known: None,
            ending: Ending::default(),
            has_ended: false,
            cut_off: None,
            given: Vec::new(),
        });
        mind.subscribe(stream.name.clone(), now);
    }

    /// Switches to another publication of the stream; ADUs of the one before are no longer read.
    pub(super) fn restart(
        &mut self,
        at: usize,
        stream: StreamId,
        mind: &mut Mind,
        now: Instant,
        watch: &mut Watch<'_>,
    ) {
        // Compare what came of the stream before with the model first.
        self.serve(mind, now, watch);
        let Some(subscriber) = self.all.iter_mut().find(|subscriber| subscriber.at == at) else {
            return;
        };
        // The same stream was out of reach and goes on.
        if subscriber.stream == Some(stream) {
            return;
        }
        subscriber.stream = Some(stream);
        subscriber.resequencer = patient();
        subscriber.received = 0;
        subscriber.known = None;
        subscriber.ending = Ending::default();
        subscriber.has_ended = false;
        subscriber.cut_off = None;
        watch.model.handle_found((self.place, at), stream);
        for copy in std::mem::take(&mut subscriber.waiting).into_values() {
            watch.dropped(self.place, Some(copy), DropCause::Cancelled);
        }
    }

    /// Stops waiting for what a stream lacks below a sequence number.
    pub(super) fn handle_given_up(
        &mut self,
        (stream, below): (StreamId, Sequence),
        mind: &mut Mind,
        now: Instant,
        watch: &mut Watch<'_>,
    ) {
        // Compare what came before with the model first.
        self.serve(mind, now, watch);
        let mut readers = self.all.iter_mut();
        if let Some(reader) = readers.find(|reader| reader.stream == Some(stream)) {
            reader.resequencer.handle_gone(0..below.0);
            watch.model.handle_given_up((self.place, reader.at), below);
        }
    }

    /// Puts an ADU into the mailbox of its subscriber; returns whether that is to have it.
    pub(super) fn post(
        &mut self,
        adu: Adu,
        reliability: Reliability,
        copy: Option<Copy>,
        now: Instant,
        watch: &mut Watch<'_>,
    ) -> Ended {
        if let Some(stalled) = &mut self.stalled {
            stalled.post(&adu, reliability, now, self.place, watch);
        }
        let stream = Some(adu.header.stream);
        let reader = self.all.iter_mut().find(|reader| reader.stream == stream);
        // As with a mailbox that no program reads any more.
        let ended = match reader.and_then(|reader| (!reader.is_over(now)).then_some(reader)) {
            Some(reader) => reader.take(adu, reliability, copy, (self.place, now), watch),
            None => Err(DropCause::Cancelled),
        };
        if let Err(cause) = ended {
            watch.dropped(self.place, copy, cause);
        }
        ended
    }

    /// Delivers what is in sequence now, and compares with the model.
    pub(super) fn serve(&mut self, mind: &mut Mind, now: Instant, watch: &mut Watch<'_>) {
        for reader in &mut self.all {
            while !reader.has_ended
                && let Some(adu) = reader.resequencer.poll_adu(now)
            {
                let sequence = adu.header.sequence.0;
                let copy = reader.waiting.remove(&sequence);
                if adu.header.flags.contains(Flags::END) {
                    reader.has_ended = true;
                    continue;
                }
                reader.given.push(sequence);
                if let Some(copy) = copy {
                    watch.delivered(self.place, copy, &adu.payload);
                }
            }
            if reader.waiting.len() > KEEP_ADUS_MAX + 1 {
                let what = format!("{} ADUs wait in the resequencer", reader.waiting.len());
                watch.add_violation(self.place, None, what);
            }
            let given = std::mem::take(&mut reader.given);
            let expected = watch.model.take_expected((self.place, reader.at), now);
            if given != expected {
                let name = &watch.world.streams[reader.at].name;
                let what = format!(
                    "the model delivers {expected:?} of `{name}`, but the machine {given:?}"
                );
                watch.add_violation(self.place, None, what);
            }
        }
        self.follow_cut_off(mind, now, watch);
    }

    /// Goes on with the next stream of a name where the one before was cut off, and has been read.
    fn follow_cut_off(&mut self, mind: &mut Mind, now: Instant, watch: &Watch<'_>) {
        for reader in &mut self.all {
            if reader.cut_off.is_none_or(|look| look > now) {
                continue;
            }
            let is_over = reader.is_over(now);
            reader.cut_off = (!is_over).then_some(now + END_LOOK);
            if let Some(stream) = reader.stream.filter(|_| is_over) {
                let name = &watch.world.streams[reader.at].name;
                mind.handle_ended(name, stream, now);
            }
        }
    }

    /// Returns when a subscriber has something to do.
    pub(super) fn poll_timeout(&self) -> Instant {
        let readers = self.all.iter().map(Subscriber::poll_timeout);
        readers.min().unwrap_or(Instant::NEVER)
    }

    /// Adds a stalled program, or lets it take what comes from now on.
    pub(super) fn stall(&mut self, is_resumed: bool, now: Instant, watch: &mut Watch<'_>) {
        let stalled = self.stalled.get_or_insert_default();
        stalled.resume(is_resumed, now, self.place, watch);
    }

    /// Returns whether the stalled program exerts backpressure on a stream.
    pub(super) fn is_pressed(&self, stream: StreamId) -> bool {
        let stalled = self.stalled.as_ref();
        stalled.is_some_and(|stalled| stalled.is_pressed(stream))
    }
}
