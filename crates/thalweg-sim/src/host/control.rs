//! Executes the control plane's outputs, as the node's driver does.

use thalweg_base::id::{Epoch, StreamId, StreamName};
use thalweg_control::control::{Installation, Output, Secrets};
use thalweg_control::ledger::Reading;
use thalweg_control::session::{Feed, Given};
use thalweg_dataplane::route::Route;

use super::Host;
use super::carry::Part;
use crate::trace::{Happening, Kind};
use crate::watch::Watch;

impl Host {
    /// Handles all outputs; returns whether there were any.
    pub(super) fn handle_outputs(&mut self, watch: &mut Watch<'_>) -> bool {
        let mut any = false;
        while let Some(output) = self.controller.poll_output() {
            any = true;
            self.handle_output(output, watch);
        }
        any
    }

    fn handle_output(&mut self, output: Output, watch: &mut Watch<'_>) {
        let now = self.now(watch);
        match output {
            Output::Send { to, frame } => {
                let Some(peer) = watch.places.get(&to).copied() else {
                    return;
                };
                let digest = blake3::hash(&frame);
                let mut first = [0; 8];
                first.copy_from_slice(&digest.as_bytes()[..8]);
                let happening = Happening::at(Kind::Control, self.place).with(peer);
                watch.note(happening.numbers(u64::from_be_bytes(first), frame.len() as u64));
                if let Some(neighbour) = self.neighbours.get_mut(&peer) {
                    // A link that is going down takes no frame; the controller learns of that in a moment.
                    let _ = neighbour.port.send_control(now, frame);
                }
            }
            Output::Plan(planning) => {
                let solved = planning.solve();
                self.controller.handle_solved(solved, now, &mut self.keys);
            }
            Output::Install {
                installation,
                secrets,
            } => self.install(installation, secrets, watch),
            Output::Remove { stream, epoch } => {
                self.remove(stream, epoch, watch);
                self.accounts.forget(stream, epoch);
            }
            Output::Cast {
                stream,
                epoch,
                feed,
            } => {
                let happening = Happening::at(Kind::Cast, self.place);
                let is_on = u64::from(feed != Feed::Off);
                watch.note(happening.numbers(u64::from(epoch.0), is_on));
                self.cast(stream, epoch, feed, watch);
            }
            Output::Replay { .. }
            | Output::Active { .. }
            | Output::Holding { .. }
            | Output::Resend { .. }
            | Output::Acknowledged { .. } => self.handle_source_output(output, watch),
            Output::BegunAnew { stream, former } => self.restart_reception(stream, former),
            Output::GoesOn { stream } => self.accept_all_plans(stream),
            Output::GivenUp { stream, below } => self.handle_given_up(stream, below, watch),
            Output::Forgotten { stream } => self.forget_received(stream),
            Output::Found { name, stream } => self.found(&name, stream, watch),
            Output::Notice { name, notice } => {
                let sentence = || notice.sentence(&name);
                watch
                    .trace
                    .say(watch.now, &watch.names[self.place], sentence);
            }
            Output::Closed {
                stream, reading, ..
            } => self.close(stream, reading),
            Output::Note(note) => {
                watch
                    .trace
                    .say(watch.now, &watch.names[self.place], || format!("{note:?}"));
            }
            // Outputs that this host does not know are for other drivers.
            #[allow(unreachable_patterns)]
            _ => {}
        }
    }

    /// Handles outputs about a stream that is published here.
    fn handle_source_output(&mut self, output: Output, watch: &mut Watch<'_>) {
        match output {
            Output::Replay { stream, to, .. } => self.replay_kept(stream, to, watch),
            Output::Active { stream, given } => self.activate(stream, given, watch),
            Output::Holding { stream, sinks } => self.hold_for(stream, &sinks, watch),
            Output::Resend {
                stream,
                sink,
                from,
                to,
                under,
            } => self.resend(stream, (sink, &from), (to, under), watch),
            Output::Acknowledged {
                stream,
                sink,
                epochs,
                in_order,
                held,
            } => {
                let (missing, given_up) =
                    self.acknowledge(stream, (sink, &epochs), in_order, &held, watch);
                if let Some(below) = given_up {
                    let of = (stream, sink);
                    self.controller.tell_given_up(of, below, &mut self.keys);
                }
                if let Some(epoch) = in_order {
                    let now = self.now(watch);
                    self.controller
                        .handle_missing((stream, epoch), missing, now, &mut self.keys);
                }
            }
            _ => {}
        }
    }

    /// Records the final reading of a stream that was published here.
    fn close(&mut self, stream: StreamId, reading: Reading) {
        self.accounts.close(stream, reading);
        self.replay.forget((stream, Epoch(0)));
    }

    fn install(&mut self, installation: Installation, secrets: Secrets, watch: &mut Watch<'_>) {
        let now = self.now(watch);
        let (stream, epoch) = (installation.stream, installation.epoch);
        let happening = Happening::at(Kind::Install, self.place);
        watch.note(happening.numbers(u64::from(epoch.0), installation.adapters.len() as u64));
        let built = Route::build(installation.clone(), secrets, self.pool.clone());
        let result = match built {
            Ok((route, lift)) => {
                self.record_plan(&installation, watch);
                watch.model.handle_installed(self.place, installation);
                self.discard_part(stream, epoch, watch);
                self.parts.insert((stream, epoch), Part::new(route, lift));
                Ok(())
            }
            Err(error) => Err(error.to_string()),
        };
        self.report_held(stream, now);
        self.controller
            .handle_installed(stream, epoch, result, now, &mut self.keys);
    }

    /// Records the sink of a plan, and which plan it is grafted on, before any copy is made.
    fn record_plan(&self, part: &Installation, watch: &mut Watch<'_>) {
        if let Some(base) = part.base {
            let fates = &mut watch.fates;
            fates.handle_graft(part.stream, part.epoch, base, self.place);
        }
        let stream = watch.fates.stream_of(part.stream);
        let name = &watch.names[self.place];
        let sink = |at: usize| {
            let mut sinks = watch.world.streams[at].to.iter();
            sinks.position(|to| to == name)
        };
        if let (None, Some(sink)) = (part.next, stream.and_then(sink)) {
            watch.fates.handle_planned(part.stream, part.epoch, sink);
        }
    }

    fn remove(&mut self, stream: StreamId, epoch: Epoch, watch: &mut Watch<'_>) {
        let happening = Happening::at(Kind::Remove, self.place);
        watch.note(happening.numbers(u64::from(epoch.0), 0));
        watch.model.handle_removed(self.place, stream, epoch);
        let now = watch.now;
        watch.fates.handle_removed(stream, epoch, self.place, now);
        self.cast(stream, epoch, Feed::Off, watch);
        self.replay.forget((stream, epoch));
        self.discard_part(stream, epoch, watch);
    }

    /// Makes the publisher send under these plans from now on.
    fn activate(&mut self, stream: StreamId, given: Vec<Given>, watch: &mut Watch<'_>) {
        let Some(at) = watch.fates.stream_of(stream) else {
            return;
        };
        let epochs: Vec<Epoch> = given
            .iter()
            .flat_map(|given| given.serves.clone())
            .collect();
        let last = epochs.last().map_or(0, |epoch| u64::from(epoch.0));
        let happening = Happening::at(Kind::Active, self.place).of(at);
        watch.note(happening.numbers(last, epochs.len() as u64));
        if let Some(source) = self.controller.source(stream) {
            for (sink, plan) in source.plans() {
                let place = watch.places.get(&sink).map(|place| &watch.names[*place]);
                let to = watch.world.streams[at]
                    .to
                    .iter()
                    .position(|to| Some(to) == place);
                let to = to.filter(|_| epochs.contains(&plan.epoch));
                if let (Some(to), Some(words)) = (to, &plan.words) {
                    let (of, hops) = ((stream, plan.epoch), &words.report.links);
                    watch.promises.handle_plan(of, (at, to), hops);
                }
            }
        }
        self.set_given(stream, given, self.now(watch));
    }

    fn found(&mut self, name: &StreamName, stream: StreamId, watch: &mut Watch<'_>) {
        let streams = watch.world.streams.iter();
        if let Some(at) = streams
            .map(|stream| &stream.name)
            .position(|other| other == name)
        {
            watch.note(Happening::at(Kind::Found, self.place).of(at));
            self.restart_subscriber(at, stream, watch);
        }
    }
}
