//! Executes the control plane's outputs, as the node's driver does.

use thalweg_base::id::{Epoch, StreamId, StreamName};
use thalweg_control::control::{Installation, Output, Secrets};
use thalweg_control::ledger::Reading;
use thalweg_control::session::{Feed, Given};
use thalweg_dataplane::source::{Plan, Served};

use super::Host;
use super::publisher::Resend;
use crate::trace::{Happening, Kind};
use crate::watch::Watch;

impl Host {
    /// Handles all outputs; returns whether there were any.
    pub(super) fn handle_outputs(&mut self, watch: &mut Watch<'_>) -> bool {
        let mut any = false;
        while let Some(output) = self.mind.poll_output() {
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
                self.ports.send_control(peer, frame, now);
            }
            Output::Plan(planning) => self.mind.handle_solved(planning.solve(), now),
            Output::Install {
                installation,
                secrets,
            } => self.install(installation, secrets, watch),
            Output::Remove { stream, epoch } => self.remove(stream, epoch, watch),
            Output::Cast {
                stream,
                epoch,
                feed,
            } => {
                let happening = Happening::at(Kind::Cast, self.place);
                let is_on = u64::from(feed != Feed::Off);
                watch.note(happening.numbers(u64::from(epoch.0), is_on));
                let (carriage, mut scene) = self.scene(watch);
                carriage.cast((stream, epoch), feed, &mut scene);
            }
            Output::Replay { .. }
            | Output::Active { .. }
            | Output::Holding { .. }
            | Output::Resend { .. }
            | Output::Acknowledged { .. } => self.handle_source_output(output, watch),
            Output::BegunAnew { stream, former } => {
                self.carriage
                    .relay_mut()
                    .arrivals_mut()
                    .restart(stream, former);
            }
            Output::GoesOn { stream } => self.carriage.relay_mut().arrivals_mut().resume(stream),
            Output::GivenUp { stream, below } => {
                let (subscribers, mind) = (&mut self.subscribers, &mut self.mind);
                subscribers.handle_given_up((stream, below), mind, now, watch);
            }
            Output::Forgotten { stream } => self.carriage.relay_mut().arrivals_mut().forget(stream),
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
            Output::Replay { stream, to, .. } => {
                self.with_publishers(watch, |publishers, carriage, scene| {
                    publishers.replay(stream, to, carriage, scene);
                });
            }
            Output::Active { stream, given } => self.activate(stream, &given, watch),
            Output::Holding { stream, sinks } => {
                self.with_publishers(watch, |publishers, carriage, scene| {
                    publishers.handle_sinks(stream, &sinks, carriage, scene);
                });
            }
            Output::Resend {
                stream,
                sink,
                from,
                to,
                under,
            } => {
                let order = Resend {
                    stream,
                    sink,
                    from,
                    to,
                    under,
                };
                self.with_publishers(watch, |publishers, carriage, scene| {
                    publishers.resend(&order, carriage, scene);
                });
            }
            Output::Acknowledged {
                stream,
                sink,
                epochs,
                in_order,
                held,
            } => {
                let now = self.now(watch);
                let of = (sink, epochs.as_slice());
                let (publishers, carriage) = (&mut self.publishers, &mut self.carriage);
                let lacking = publishers.acknowledge(stream, of, in_order, &held, carriage, now);
                self.mind
                    .handle_lacking((stream, sink), in_order, lacking, now);
            }
            _ => {}
        }
    }

    /// Records the final reading of a stream that was published here.
    fn close(&mut self, stream: StreamId, reading: Reading) {
        self.mind.close(stream, reading);
        self.carriage.relay_mut().forget_given(stream);
    }

    fn install(&mut self, part: Installation, secrets: Secrets, watch: &mut Watch<'_>) {
        let now = self.now(watch);
        let plan = (part.stream, part.epoch);
        let happening = Happening::at(Kind::Install, self.place);
        watch.note(happening.numbers(u64::from(part.epoch.0), part.adapters.len() as u64));
        self.record_plan(&part, watch);
        let (carriage, mut scene) = self.scene(watch);
        let result = carriage.install(part.clone(), secrets, &mut scene);
        if result.is_ok() {
            watch.model.handle_installed(self.place, part);
        }
        let (subscribers, mind) = (&self.subscribers, &mut self.mind);
        self.carriage
            .report_arrivals(plan.0, subscribers, mind, now);
        let result = result.map_err(|error| error.to_string());
        self.mind.handle_installed(plan, result, now);
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
        let (carriage, mut scene) = self.scene(watch);
        carriage.remove((stream, epoch), &mut scene);
    }

    /// Makes the publisher send under these plans from now on.
    fn activate(&mut self, stream: StreamId, given: &[Given], watch: &mut Watch<'_>) {
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
        let source = self.mind.source(stream);
        if let Some(source) = source {
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
        let served = |epoch: &Epoch| Served {
            epoch: *epoch,
            layers: source.map_or(u8::MAX, |source| source.layers(*epoch)),
        };
        let plan = |given: &Given| Plan {
            epoch: given.epoch,
            serves: given.serves.iter().map(served).collect(),
        };
        let plans = given.iter().map(plan).collect();
        let now = self.now(watch);
        self.publishers
            .handle_plans(stream, plans, &mut self.mind, now);
    }

    fn found(&mut self, name: &StreamName, stream: StreamId, watch: &mut Watch<'_>) {
        let streams = watch.world.streams.iter();
        if let Some(at) = streams
            .map(|stream| &stream.name)
            .position(|other| other == name)
        {
            watch.note(Happening::at(Kind::Found, self.place).of(at));
            let now = self.now(watch);
            let (subscribers, mind) = (&mut self.subscribers, &mut self.mind);
            subscribers.restart(at, stream, mind, now, watch);
        }
    }
}
