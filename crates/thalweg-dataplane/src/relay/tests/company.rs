//! Proves that branches which share a decision get what each would get alone: two machines, one of
//! them without company, see the same events and must ask for the same and count the same.

use proptest::prelude::*;
use thalweg_base::feed::Feed;

use super::*;
use crate::relay::REPORT_TICK;

/// The plans: a base with branches of equal and of other wishes, an ordered base with two branches,
/// and one in datagrams with two.
fn plan(number: u32) -> Installation {
    let grafted = |base, reliability| Installation {
        base: Some(Epoch(base)),
        next: Some(if number.is_multiple_of(2) { NEXT } else { SIDE }),
        ..part(number, reliability)
    };
    let lively = |base| grafted(base, Reliability::UntilDeadline);
    let with = |word: &str, plan| Installation {
        adapters: vec![word.to_string()],
        ..plan
    };
    match number {
        1 => part(1, Reliability::UntilDeadline),
        2..=4 => lively(1),
        5 => with("keep:1", lively(1)),
        6 => with("null", lively(1)),
        7 => Installation {
            next: None,
            ..lively(1)
        },
        8 => part(8, Reliability::Repaired),
        9 | 10 => grafted(8, Reliability::Repaired),
        11 => part(11, Reliability::None),
        _ => grafted(11, Reliability::None),
    }
}

const PLANS: u32 = 13;

#[derive(Clone, Debug)]
enum Event {
    Begin(Begins),
    Whole(usize),
    Failed(usize),
    Outcome(usize, bool),
    Outcomes(bool),
    Link(bool, bool),
    Cast(u32, u8),
    Recall(u32),
    Remove(u32),
    Install(u32),
    Report,
}

/// An ADU that begins to arrive for one of the bases.
#[derive(Clone, Copy, Debug)]
struct Begins {
    base: usize,
    layer: u8,
    flags: usize,
    mark: u8,
    importance: u8,
}

fn event() -> impl Strategy<Value = Event> {
    let plan = 1..=PLANS;
    let begins = (0..3_usize, 0..2_u8, 0..8_usize, 0..6_u8, any::<u8>());
    let begins = begins.prop_map(|(base, layer, flags, mark, importance)| Begins {
        base,
        layer,
        flags,
        mark,
        importance,
    });
    prop_oneof![
        6 => begins.prop_map(Event::Begin),
        6 => any::<usize>().prop_map(Event::Whole),
        1 => any::<usize>().prop_map(Event::Failed),
        6 => (any::<usize>(), 0..8_u8).prop_map(|(at, kind)| Event::Outcome(at, kind > 0)),
        2 => any::<bool>().prop_map(Event::Outcomes),
        1 => any::<(bool, bool)>().prop_map(|(of_next, is_up)| Event::Link(of_next, is_up)),
        1 => (plan.clone(), 0..4_u8).prop_map(|(number, feed)| Event::Cast(number, feed)),
        1 => plan.clone().prop_map(Event::Recall),
        1 => plan.clone().prop_map(Event::Remove),
        2 => plan.prop_map(Event::Install),
        1 => Just(Event::Report),
    ]
}

/// Two machines with the same past.
struct Pair {
    shared: Machine,
    alone: Machine,
    receptions: Vec<u32>,
    sendings: Vec<SendNumber>,
    next: u32,
    now: Instant,
}

impl Pair {
    fn new() -> Self {
        let mut pair = Self {
            shared: Machine::default(),
            alone: Machine::without_company(),
            receptions: Vec::new(),
            sendings: Vec::new(),
            next: 0,
            now: NOW,
        };
        for peer in [NEXT, SIDE] {
            pair.both(|machine, _| machine.handle_link(peer, true));
        }
        for number in 1..=PLANS {
            pair.handle(&Event::Install(number));
            pair.handle(&Event::Cast(number, 1));
        }
        pair
    }

    /// Gives both the same input; what they ask for must be the same.
    fn both<T: PartialEq + core::fmt::Debug>(
        &mut self,
        input: impl Fn(&mut Machine, Instant) -> T,
    ) {
        let now = self.now;
        let results = [&mut self.shared, &mut self.alone].map(|machine| input(machine, now));
        assert_eq!(results[0], results[1]);
        while let Some(action) = self.shared.poll_action() {
            let other = self.alone.poll_action();
            assert_eq!(format!("{:?}", Some(&action)), format!("{other:?}"));
            match action {
                Action::Send(by, _) | Action::Pass(_, by) => self.sendings.push(by.number),
                Action::Deliver(adu, _) => {
                    for machine in [&mut self.shared, &mut self.alone] {
                        machine.handle_delivered(&adu.header, Ok(()), now);
                    }
                }
                _ => {}
            }
        }
        assert!(self.alone.poll_action().is_none());
        let [shared, alone] = [&self.shared, &self.alone];
        assert_eq!(shared.poll_timeout(), alone.poll_timeout());
        assert_eq!(shared.is_urgent(), alone.is_urgent());
        assert_eq!(shared.in_flight(), alone.in_flight());
    }

    fn handle(&mut self, event: &Event) {
        self.now = self.now + Duration::from_millis(1);
        match *event {
            Event::Begin(begins) => self.begin(begins),
            Event::Whole(at) => {
                if let Some(recv) = take(&mut self.receptions, at) {
                    self.both(|machine, now| machine.handle_whole(recv, now));
                }
            }
            Event::Failed(at) => {
                if let Some(recv) = take(&mut self.receptions, at) {
                    let cause = DropCause::PathLost;
                    self.both(|machine, now| machine.handle_failed(recv, cause, now));
                }
            }
            Event::Outcome(at, has_left) => {
                if let Some(number) = take(&mut self.sendings, at) {
                    let ended = has_left.then_some(()).ok_or(DropCause::Expired);
                    self.both(|machine, now| machine.handle_outcome(number, ended, now));
                }
            }
            Event::Outcomes(has_left) => {
                let ended = has_left.then_some(()).ok_or(DropCause::Overflow);
                let numbers = core::mem::take(&mut self.sendings);
                self.both(|machine, now| {
                    let outcomes = numbers.iter().map(|number| (*number, ended));
                    machine.handle_outcomes(outcomes, now)
                });
            }
            Event::Link(of_next, is_up) => {
                let peer = if of_next { NEXT } else { SIDE };
                self.both(|machine, _| machine.handle_link(peer, is_up));
            }
            Event::Cast(number, feed) => {
                let until = Sequence(u64::from(self.next) + 2);
                let feeds = [Feed::Off, Feed::Live, Feed::Replay, Feed::Until(until)];
                let feed = feeds[usize::from(feed)];
                let plan = (STREAM, Epoch(number));
                self.both(|machine, now| machine.handle_cast(plan, feed, now));
            }
            Event::Recall(number) => {
                let plan = (STREAM, Epoch(number));
                self.both(|machine, now| machine.recall(plan, now));
            }
            Event::Remove(number) => {
                let plan = (STREAM, Epoch(number));
                self.both(|machine, _| machine.handle_removed(plan));
            }
            Event::Install(number) => {
                self.both(|machine, _| install(machine, plan(number)));
            }
            Event::Report => self.both(|machine, _| {
                let changed = machine.accounts_mut().take_changed();
                changed
                    .map(|(plan, counts)| (plan, counts.clone()))
                    .collect::<Vec<_>>()
            }),
        }
    }

    fn begin(&mut self, begins: Begins) {
        self.next += 1;
        let (recv, kinds) = (self.next, [Flags::NONE, Flags::KEY, Flags::END]);
        let mut header = Header {
            layer: begins.layer,
            flags: kinds.get(begins.flags).copied().unwrap_or(Flags::NONE),
            importance: Importance(begins.importance),
            ..header([1, 8, 11][begins.base], u64::from(recv))
        };
        // Most come without a mark.
        header.set_mark(match begins.mark {
            mark @ 1..=3 => Mark::from_index(mark),
            _ => Mark::NONE,
        });
        self.both(|machine, _| begin_from(machine, BEFORE, recv, header, 4));
        if self.shared.reception(recv).is_some() {
            self.receptions.push(recv);
        }
    }
}

fn take<T>(all: &mut Vec<T>, at: usize) -> Option<T> {
    (!all.is_empty()).then(|| all.remove(at % all.len()))
}

proptest! {
    #[test]
    fn company_decides_as_each_alone(events in proptest::collection::vec(event(), 0..160)) {
        let mut pair = Pair::new();
        for event in &events {
            pair.handle(event);
        }
        while !pair.receptions.is_empty() {
            pair.handle(&Event::Whole(0));
        }
        while !pair.sendings.is_empty() {
            pair.handle(&Event::Outcomes(true));
        }
        pair.handle(&Event::Report);
    }
}

/// Returns whether a branch would share the next decision.
fn is_in_company(machine: &mut Machine, epoch: u32) -> bool {
    let seat = machine.plans.find((STREAM, Epoch(epoch)));
    let seat = seat.expect("it is installed");
    machine.plans.front_mut(seat).shared_terms().is_some()
}

#[test]
fn branch_behind_leaves_company_until_idle() {
    let mut machine = machine([1, 2].map(plan));
    machine.handle_cast((STREAM, Epoch(2)), Feed::Live, NOW);
    assert!(is_in_company(&mut machine, 2));
    // Number 2n is the copy's: it is made before the base's own ADU goes.
    for sequence in 0..9 {
        assert!(is_in_company(&mut machine, 2), "{sequence} under way");
        bring(&mut machine, sequence, header(1, u64::from(sequence)));
    }
    assert!(!is_in_company(&mut machine, 2), "nine under way");
    let all: Vec<u64> = (0..18).filter(|number| number % 2 == 0).collect();
    for number in &all[1..] {
        left(&mut machine, *number);
    }
    assert!(!is_in_company(&mut machine, 2), "one is still under way");
    left(&mut machine, all[0]);
    assert!(is_in_company(&mut machine, 2));
    machine.handle_link(NEXT, false);
    assert!(!is_in_company(&mut machine, 2));
}

#[test]
fn company_wakes_report_once() {
    let mut machine = machine([1, 2, 3].map(plan));
    for epoch in [2, 3] {
        machine.handle_cast((STREAM, Epoch(epoch)), Feed::Live, NOW);
    }
    bring(&mut machine, 1, header(1, 0));
    assert_eq!(machine.poll_timeout(), NOW + REPORT_TICK);
    for epoch in [2, 3] {
        let mut expected = Counts::default();
        expected.arrive(Mark::NONE, band());
        expected.send(Mark::NONE, band());
        let counts = machine.accounts_mut().take_counts((STREAM, Epoch(epoch)));
        assert_eq!(counts, Some(&expected));
    }
}
