//! The world's events during a run: links change; nodes stop, crash, freeze and start.

use thalweg_netem::Impairment;
use thalweg_planner::model::{Change, Link, LinkChange, NodeAction, NodeName};

use super::Run;
use crate::host::next_to;
use crate::trace::{Happening, Kind};

impl Run<'_> {
    /// Applies the world's event of this index.
    pub(super) fn change(&mut self, at: usize) {
        let world = self.watch.world;
        match &world.events[at].change {
            Change::Link { ends, set } => self.change_links(ends, *set),
            Change::Node { name, action } => {
                let place = self.watch.names.iter().position(|other| other == name);
                if let Some(place) = place {
                    self.act(place, *action);
                }
            }
        }
    }

    fn change_links(&mut self, ends: &[NodeName; 2], set: LinkChange) {
        for at in 0..self.duplexes.len() {
            let duplex = &mut self.duplexes[at];
            let [a, b] = &duplex.link.ends;
            if !(ends.contains(a) && ends.contains(b)) {
                continue;
            }
            apply(&mut duplex.link, set);
            let impairment = Impairment::from(&duplex.link);
            for line in &mut duplex.lines {
                line.handle_change(self.watch.now, impairment);
            }
            let rate = if duplex.link.up {
                duplex.link.rate.as_bps()
            } else {
                0
            };
            let happening = Happening::at(Kind::Weather, duplex.ends[0]).with(duplex.ends[1]);
            self.watch.note(happening.numbers(at as u64, rate));
            for side in 0..2 {
                // A wake scheduled for the line as it was is void.
                self.duplexes[at].wake[side] = thalweg_base::time::Instant::NEVER;
                self.plan_line(at, side);
            }
        }
    }

    fn act(&mut self, place: usize, action: NodeAction) {
        match action {
            NodeAction::Start => self.start(place, next_to(place, self.watch.world)),
            NodeAction::Crash => {
                if self.hosts[place].is_some() {
                    self.watch.note(Happening::at(Kind::Crash, place));
                    self.forget(place);
                }
            }
            NodeAction::Freeze => {
                if let Some(host) = &mut self.hosts[place] {
                    self.watch.note(Happening::at(Kind::Freeze, place));
                    host.handle_freeze(&mut self.watch);
                }
            }
            NodeAction::Thaw => {
                if let Some(host) = &mut self.hosts[place] {
                    self.watch.note(Happening::at(Kind::Thaw, place));
                    host.handle_thaw(&mut self.watch);
                    self.serve(place);
                }
            }
            NodeAction::Stall | NodeAction::Resume => {
                if let Some(host) = &mut self.hosts[place] {
                    let is_resumed = action == NodeAction::Resume;
                    self.watch
                        .note(Happening::at(Kind::Stall, place).numbers(u64::from(is_resumed), 0));
                    host.handle_stall(is_resumed, &mut self.watch);
                    self.serve(place);
                }
            }
            NodeAction::Republish => {
                if let Some(host) = &mut self.hosts[place] {
                    self.watch.note(Happening::at(Kind::Republish, place));
                    host.handle_republish(&mut self.watch);
                    self.serve(place);
                }
            }
            NodeAction::Withhold(share) => {
                if let Some(host) = &mut self.hosts[place] {
                    self.watch.note(Happening::at(Kind::Withhold, place));
                    host.handle_withhold(share);
                }
            }
            NodeAction::Stop => {
                if let Some(host) = &mut self.hosts[place] {
                    host.handle_stop(&mut self.watch);
                    self.serve(place);
                }
            }
        }
    }
}

fn apply(link: &mut Link, set: LinkChange) {
    let LinkChange {
        rate,
        delay,
        jitter,
        reorder,
        loss,
        burst,
        up,
    } = set;
    link.rate = rate.unwrap_or(link.rate);
    link.delay = delay.unwrap_or(link.delay);
    link.jitter = jitter.unwrap_or(link.jitter);
    link.reorder = reorder.unwrap_or(link.reorder);
    link.loss = loss.unwrap_or(link.loss);
    link.burst = burst.unwrap_or(link.burst);
    link.up = up.unwrap_or(link.up);
}
