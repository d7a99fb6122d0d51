//! Proves for any course of events that each ADU ends once: what a plan had whole was sent on,
//! delivered or dropped, and what was sent has left or failed.

use std::collections::BTreeSet;

use proptest::prelude::*;
use thalweg_base::feed::Feed;

use super::*;

/// The plans: a base, two plans grafted on it (one ends here), an ordered one, one in datagrams.
const PLANS: u32 = 5;

#[derive(Clone, Debug)]
enum Event {
    Begin { epoch: u32, layer: u8, is_key: bool },
    Chunk(usize),
    Whole(usize),
    Failed(usize),
    Outcome(usize, bool),
    Give(u32),
    Link(bool, bool),
    Cast(u32, u8),
    Recall(u32),
}

fn event() -> impl Strategy<Value = Event> {
    let plan = 1..=PLANS;
    prop_oneof![
        4 => (plan.clone(), 0..2_u8, any::<bool>())
            .prop_map(|(epoch, layer, is_key)| Event::Begin { epoch, layer, is_key }),
        4 => any::<usize>().prop_map(Event::Chunk),
        4 => any::<usize>().prop_map(Event::Whole),
        1 => any::<usize>().prop_map(Event::Failed),
        6 => (any::<usize>(), any::<bool>()).prop_map(|(at, has_left)| Event::Outcome(at, has_left)),
        2 => plan.clone().prop_map(Event::Give),
        1 => any::<(bool, bool)>().prop_map(|(of_next, is_up)| Event::Link(of_next, is_up)),
        1 => (2..4_u32, 0..4_u8).prop_map(|(epoch, feed)| Event::Cast(epoch, feed)),
        1 => plan.prop_map(Event::Recall),
    ]
}

/// The driver: it knows what it was asked to do and has not done yet.
struct Driver {
    machine: Machine,
    receptions: Vec<u32>,
    sendings: BTreeSet<SendNumber>,
    next: u32,
}

impl Driver {
    fn new() -> Self {
        let kept = Installation {
            adapters: vec!["keep:1".to_string()],
            ..graft(2, Some(SIDE))
        };
        let parts = [
            part(1, Reliability::UntilDeadline),
            kept,
            graft(3, None),
            part(4, Reliability::Full),
            part(5, Reliability::None),
        ];
        Self {
            machine: machine(parts),
            receptions: Vec::new(),
            sendings: BTreeSet::new(),
            next: 0,
        }
    }

    fn handle(&mut self, event: &Event) {
        let machine = &mut self.machine;
        match *event {
            Event::Begin {
                epoch,
                layer,
                is_key,
            } => {
                let flags = if is_key { Flags::KEY } else { Flags::NONE };
                self.next += 1;
                let header = Header {
                    layer,
                    flags,
                    ..header(epoch, u64::from(self.next))
                };
                begin_from(machine, BEFORE, self.next, header, 4);
                if machine.reception(self.next).is_some() {
                    self.receptions.push(self.next);
                }
            }
            Event::Chunk(at) => {
                if let Some(recv) = pick(&self.receptions, at) {
                    machine.handle_chunk(recv, &Bytes::from_static(b"ab"));
                }
            }
            Event::Whole(at) => {
                if let Some(recv) = pick(&self.receptions, at) {
                    self.receptions.retain(|other| *other != recv);
                    machine.handle_whole(recv, NOW);
                }
            }
            Event::Failed(at) => {
                if let Some(recv) = pick(&self.receptions, at) {
                    self.receptions.retain(|other| *other != recv);
                    machine.handle_failed(recv, DropCause::PathLost, NOW);
                }
            }
            Event::Outcome(at, has_left) => {
                let all: Vec<SendNumber> = self.sendings.iter().copied().collect();
                if let Some(number) = pick(&all, at) {
                    self.sendings.remove(&number);
                    let ended = has_left.then_some(()).ok_or(DropCause::Expired);
                    assert!(machine.handle_outcome(number, ended, NOW));
                }
            }
            Event::Give(epoch) => {
                self.next += 1;
                machine.give(adu(header(epoch, u64::from(self.next)), b"all"), NOW);
            }
            Event::Link(of_next, is_up) => {
                machine.handle_link(if of_next { NEXT } else { SIDE }, is_up);
            }
            Event::Cast(epoch, feed) => {
                let until = Sequence(u64::from(self.next) + 2);
                let feeds = [Feed::Off, Feed::Live, Feed::Replay, Feed::Until(until)];
                machine.handle_cast((STREAM, Epoch(epoch)), feeds[usize::from(feed)], NOW);
            }
            Event::Recall(epoch) => machine.recall((STREAM, Epoch(epoch)), NOW),
        }
        self.carry_out();
    }

    fn carry_out(&mut self) {
        while let Some(action) = self.machine.poll_action() {
            match action {
                Action::Send(by, _) | Action::Pass(_, by) => {
                    assert!(self.sendings.insert(by.number), "a number is used once");
                }
                Action::Deliver(adu, _) => {
                    self.machine.handle_delivered(&adu.header, Ok(()), NOW);
                }
                _ => {}
            }
        }
        assert_eq!(self.machine.in_flight().1, self.sendings.len());
        assert_eq!(self.machine.outstanding(STREAM), self.sendings.len() as u64);
    }

    /// Ends everything that is under way.
    fn drain(&mut self) {
        while !self.receptions.is_empty() {
            self.handle(&Event::Whole(0));
        }
        while !self.sendings.is_empty() {
            self.handle(&Event::Outcome(0, true));
        }
    }
}

fn pick<T: Copy>(all: &[T], at: usize) -> Option<T> {
    (!all.is_empty()).then(|| all[at % all.len()])
}

proptest! {
    #[test]
    fn each_adu_ends_once(events in proptest::collection::vec(event(), 0..120)) {
        let mut driver = Driver::new();
        for event in &events {
            driver.handle(event);
        }
        driver.drain();
        let marked = |rows: &thalweg_base::count::Marked| rows.iter().flatten().sum::<u64>();
        for ((_, epoch), counts) in driver.machine.accounts_mut().take_changed() {
            let dropped: u64 = counts.dropped.iter().flatten().sum();
            let delivered: u64 = counts.delivered.iter().sum();
            let ended = marked(&counts.left) + delivered + dropped;
            prop_assert_eq!(marked(&counts.arrived), ended, "plan {}", epoch.0);
            let sent = marked(&counts.left) + marked(&counts.failed);
            prop_assert_eq!(marked(&counts.sent), sent, "plan {}", epoch.0);
        }
        prop_assert_eq!(driver.machine.in_flight(), (0, 0));
    }
}
