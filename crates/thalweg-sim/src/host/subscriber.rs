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
use thalweg_control::control::EndCause;
use thalweg_control::ledger::Counts;
use thalweg_dataplane::mailbox::{Coming, END_PATIENCE, Ending, Resequencer};

use super::Host;
use crate::fate::Copy;
use crate::watch::Watch;

/// How often a stream that was cut off is looked at until it has been read.
const END_LOOK: Duration = Duration::from_millis(100);

/// A running subscriber.
#[derive(Debug)]
pub(super) struct Subscriber {
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
    pub(super) fn poll_timeout(&self) -> Instant {
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
}

impl Host {
    /// Subscribes to a stream of the world.
    pub(super) fn subscribe(&mut self, at: usize, _sink: usize, watch: &mut Watch<'_>) {
        let now = self.now(watch);
        let stream = &watch.world.streams[at];
        let in_sequence = stream.needs.order == Order::Sequence;
        watch.model.handle_subscribed((self.place, at), in_sequence);
        self.subscribers.push(Subscriber {
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
        self.controller
            .subscribe(stream.name.clone(), now, &mut self.keys);
    }

    /// Switches to another publication of the stream; ADUs of the one before are no longer read.
    pub(super) fn restart_subscriber(
        &mut self,
        at: usize,
        stream: StreamId,
        watch: &mut Watch<'_>,
    ) {
        // Compare what came of the stream before with the model first.
        self.serve_subscribers(watch);
        let Some(subscriber) = self
            .subscribers
            .iter_mut()
            .find(|subscriber| subscriber.at == at)
        else {
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
        stream: StreamId,
        below: Sequence,
        watch: &mut Watch<'_>,
    ) {
        // Compare what came before with the model first.
        self.serve_subscribers(watch);
        let mut readers = self.subscribers.iter_mut();
        if let Some(reader) = readers.find(|reader| reader.stream == Some(stream)) {
            reader.resequencer.handle_gone(0..below.0);
            watch.model.handle_given_up((self.place, reader.at), below);
        }
    }

    /// Puts an ADU into the mailbox of its subscriber.
    pub(super) fn post(&mut self, adu: Adu, copy: Option<Copy>, watch: &mut Watch<'_>) {
        let now = self.now(watch);
        let header = adu.header;
        let stream = header.stream;
        if let Err(cause) = self.receive_once(&header, adu.payload.len(), now) {
            self.count(&header, now, |counts, band| counts.give_up(band, cause));
            return watch.dropped(self.place, copy, cause);
        }
        let part = self.parts.get(&(stream, header.epoch));
        let reliability = part.map_or(Reliability::UntilDeadline, |part| {
            part.route.installation().reliability
        });
        self.post_stalled(&adu, reliability, watch);
        let reader = self
            .subscribers
            .iter_mut()
            .find(|reader| reader.stream == Some(stream));
        let Some(reader) = reader.and_then(|reader| (!reader.is_over(now)).then_some(reader))
        else {
            // As with a mailbox that no program reads any more.
            let cancelled = DropCause::Cancelled;
            self.count(&header, now, |counts, band| counts.give_up(band, cancelled));
            return watch.dropped(self.place, copy, DropCause::Cancelled);
        };
        watch.model.handle_arrived(
            (self.place, reader.at),
            (&adu.header, adu.payload.len()),
            now,
        );
        let is_end = adu.header.flags.contains(Flags::END);
        if adu.header.flags.contains(Flags::CUT_OFF) {
            reader.cut_off = Some(now);
        }
        let sequence = adu.header.sequence.0;
        if reader.in_sequence {
            let is_sent_again = reliability.is_sent_again();
            let coming = reader.resequencer.handle_adu(adu, is_sent_again, now);
            if coming != Coming::InTime {
                let expired = DropCause::Expired;
                self.count(&header, now, |counts, band| counts.give_up(band, expired));
                return watch.dropped(self.place, copy, DropCause::Expired);
            }
            if let Some(copy) = copy {
                reader.waiting.insert(sequence, copy);
            }
        } else {
            let payload_bytes = adu.payload.len();
            reader
                .ending
                .handle_adu(adu.header, payload_bytes, reliability, now);
            if is_end {
                reader.known = Some((sequence, now + END_PATIENCE));
                return self.count(&header, now, Counts::deliver);
            }
            if let Some((_, until)) = &mut reader.known {
                *until = now + END_PATIENCE;
            }
            reader.received += 1;
            reader.given.push(sequence);
            if let Some(copy) = copy {
                watch.delivered(self.place, copy, &adu.payload);
            }
        }
        self.count(&header, now, Counts::deliver);
    }

    /// Delivers what is in sequence now, and compares with the model.
    pub(super) fn serve_subscribers(&mut self, watch: &mut Watch<'_>) {
        let now = self.now(watch);
        for reader in &mut self.subscribers {
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
        self.follow_cut_off(watch);
    }

    /// Goes on with the next stream of a name where the one before was cut off, and has been read.
    fn follow_cut_off(&mut self, watch: &Watch<'_>) {
        let now = self.now(watch);
        for reader in &mut self.subscribers {
            if reader.cut_off.is_none_or(|look| look > now) {
                continue;
            }
            let is_over = reader.is_over(now);
            reader.cut_off = (!is_over).then_some(now + END_LOOK);
            if let Some(stream) = reader.stream.filter(|_| is_over) {
                let name = &watch.world.streams[reader.at].name;
                let ended = (stream, EndCause::CutOff);
                self.controller
                    .handle_ended(name, ended, now, &mut self.keys);
            }
        }
    }
}
