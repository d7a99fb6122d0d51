//! Measures what the control plane of a source computes while sinks come up behind one relay:
//! `cargo run --release -p thalweg-sim --example come_up 200 800 2000`, or `… planned 200 800 2000` for a
//! stream that is planned instead of taking the shortest path.
//!
//! Source, relay and sinks are the product's control planes, without ports and data path, over wires with
//! a delay. All sinks are linked at once and subscribe; each reports once what it has. Only the calls into
//! the source's are timed. They all go through one function, so that instructions can be counted too:
//! `valgrind --tool=callgrind --toggle-collect='*at_source*'`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;

use bytes::Bytes;
use thalweg_base::id::NodeId;
use thalweg_base::seen::{Held, News};
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize, Ratio};
use thalweg_control::control::{Controller, Output, Peer, Publication, Settings};
use thalweg_link::gauge::Sample;
use thalweg_planner::model::{NodeName, Weights};
use thalweg_sim::keys::{HostKeys, Ring, node_id};

const SOURCE: usize = 0;
const RELAY: usize = 1;

/// Delay of a wire.
const DELAY: Duration = Duration::from_millis(1);

/// Interval at which sinks are linked.
const STAGGER: Duration = Duration::from_micros(500);

/// How long the tree runs.
const LENGTH: Duration = Duration::from_secs(12);

const SAMPLE: Sample = Sample {
    rtt: Duration::from_millis(2),
    latest: Duration::from_millis(2),
    loss: Ratio::ZERO,
    sent: DataSize::ZERO,
    waiting: DataSize::ZERO,
    heard: 0,
};

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Wake(usize),
    Join(usize),
    Frame(usize, NodeId, Bytes),
}

struct Tree {
    now: Instant,
    nodes: Vec<(Controller, HostKeys, Instant)>,
    places: BTreeMap<NodeId, usize>,
    queue: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    planned: u64,
    /// Time, and calls, in the source's control plane.
    spent: std::time::Duration,
    calls: u64,
    served: usize,
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let is_planned = words.iter().any(|word| word == "planned");
    for sinks in words.iter().filter_map(|word| word.parse().ok()) {
        let mut tree = Tree::new(sinks, is_planned);
        tree.run();
        let (spent, calls) = (tree.spent, tree.calls);
        println!(
            "{sinks} sinks: {} served, {:.1} ms in {calls} calls, {:.1} us a sink",
            tree.served,
            spent.as_secs_f64() * 1e3,
            spent.as_secs_f64() * 1e6 / sinks as f64,
        );
    }
}

/// Calls into the source's control plane.
#[inline(never)]
fn at_source<T>(act: impl FnOnce() -> T) -> T {
    act()
}

impl Tree {
    fn new(sinks: usize, is_planned: bool) -> Self {
        let name = |at: usize| -> NodeName { format!("n{at}").parse().expect("a letter, digits") };
        let names: Vec<NodeName> = (0..2 + sinks).map(name).collect();
        let ring = Rc::new(Ring::new(&names));
        let start = |(at, name): (usize, &NodeName)| {
            let settings = Settings {
                id: node_id(name),
                name: name.clone(),
                slots: 4,
                peers: Vec::<Peer>::new(),
                weights: Weights::default(),
                since_1970: Duration::from_secs(1_700_000_000),
            };
            let mut keys = HostKeys::new(Rc::clone(&ring), node_id(name), at as u64);
            let controller = Controller::new(settings, Instant::ZERO, &mut keys);
            (controller, keys, Instant::NEVER)
        };
        let places = names.iter().map(node_id).zip(0..);
        let mut tree = Self {
            now: Instant::ZERO,
            nodes: names.iter().enumerate().map(start).collect(),
            places: places.collect(),
            queue: BinaryHeap::new(),
            planned: 0,
            spent: std::time::Duration::ZERO,
            calls: 0,
            served: 0,
        };
        tree.link(SOURCE);
        let name = "camera".parse().expect("a name");
        let mut publication = Publication::new(name, Bitrate::from_kbps(100));
        if !is_planned {
            publication.planner = None;
        }
        tree.at(SOURCE, |control, now, keys| {
            control.publish(publication, None, now, keys)
        })
        .expect("it is well-formed");
        for at in 2..tree.nodes.len() {
            let begun = Duration::from_secs(1);
            let wait = Duration::from_nanos(STAGGER.as_nanos() * at as u64);
            tree.plan(Instant::ZERO + begun + wait, Event::Join(at));
        }
        tree
    }

    fn run(&mut self) {
        while let Some(Reverse((due, _, event))) = self.queue.pop() {
            if due > Instant::ZERO + LENGTH {
                return;
            }
            self.now = self.now.max(due);
            match event {
                Event::Wake(at) if self.nodes[at].2 == due => {
                    self.nodes[at].2 = Instant::NEVER;
                    self.at(at, |control, now, keys| control.handle_timeout(now, keys));
                }
                Event::Wake(_) => {}
                Event::Join(at) => {
                    self.link(at);
                    let name = "camera".parse().expect("a name");
                    self.at(at, |control, now, keys| control.subscribe(name, now, keys));
                }
                Event::Frame(to, from, frame) => self.at(to, |control, now, keys| {
                    control.handle_frame(from, &frame, now, keys);
                }),
            }
        }
    }

    /// Links a node with the relay.
    fn link(&mut self, at: usize) {
        for (at, peer) in [(at, RELAY), (RELAY, at)] {
            let peer = self.nodes[peer].0.id();
            self.at(at, |control, now, keys| {
                control.handle_link_up(peer, SAMPLE, now, keys);
            });
        }
    }

    fn plan(&mut self, when: Instant, event: Event) {
        self.planned += 1;
        self.queue.push(Reverse((when, self.planned, event)));
    }

    /// Calls a control plane and handles its outputs.
    fn at<T>(
        &mut self,
        at: usize,
        act: impl FnOnce(&mut Controller, Instant, &mut HostKeys) -> T,
    ) -> T {
        let now = self.now;
        let (controller, keys, _) = &mut self.nodes[at];
        let mut outputs = Vec::new();
        let call = || {
            let result = act(controller, now, keys);
            while let Some(output) = controller.poll_output() {
                match output {
                    Output::Plan(planning) => {
                        controller.handle_solved(planning.solve(), now, keys);
                    }
                    Output::Install { installation, .. } => {
                        let (stream, epoch) = (installation.stream, installation.epoch);
                        if installation.next.is_none() {
                            controller.handle_held(stream, Held::default(), News::Much, now);
                        }
                        controller.handle_installed(stream, epoch, Ok(()), now, keys);
                    }
                    output => outputs.push(output),
                }
            }
            (result, controller.poll_timeout())
        };
        let (result, due) = if at == SOURCE {
            #[expect(clippy::disallowed_methods, reason = "what is measured is real time")]
            let begun = std::time::Instant::now();
            let done = at_source(call);
            self.spent += begun.elapsed();
            self.calls += 1;
            done
        } else {
            call()
        };
        self.handle_outputs(at, outputs);
        let due = due.max(now);
        if due != self.nodes[at].2 && !due.is_never() {
            self.nodes[at].2 = due;
            self.plan(due, Event::Wake(at));
        }
        result
    }

    fn handle_outputs(&mut self, at: usize, outputs: Vec<Output>) {
        let from = self.nodes[at].0.id();
        for output in outputs {
            match output {
                Output::Send { to, frame } => {
                    let to = self.places[&to];
                    self.plan(self.now + DELAY, Event::Frame(to, from, frame));
                }
                Output::Active { given, .. } => {
                    self.served = given.iter().map(|given| given.serves.len()).sum();
                }
                _ => {}
            }
        }
    }
}
