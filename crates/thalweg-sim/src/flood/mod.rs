//! Flooding of records among hundreds of real controllers, over wires modelled as a rate and a delay.
//!
//! How records spread depends only on the control plane and on how long a frame takes. So the nodes
//! here are [`Controller`]s without ports and without a data path, and a wire is arithmetic: a frame
//! queues behind earlier ones, then takes its serialization delay and the wire's delay. A run that
//! takes an hour over QUIC takes a second.
//!
//! ```text
//! next event ─► frame arrives: handle_frame ─┐
//!           └─► a node is due: handle_timeout ├─► its output goes onto wires, each frame counted once
//! cut, heal, crash, start, inject ───────────┘
//! ```
//!
//! Simplifications: both ends of a cut link learn of it at once (a transport's detection time comes on
//! top of what is measured here), and its frames in flight are lost with the connection. Installing and
//! planning take no time. A link that is up loses no frame, like a control stream, and headers below a
//! frame are not counted.

mod shape;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;

use bytes::Bytes;
use thalweg_base::id::{Epoch, NodeId, StreamId, StreamName};
use thalweg_base::random::SplitMix;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{DataSize, Ratio};
use thalweg_control::control::{Controller, Output, Peer, Settings};
use thalweg_link::gauge::Sample;
use thalweg_planner::model::{NodeName, Weights};

use crate::keys::{HostKeys, Ring, node_id};

pub use shape::{Shape, Wire};

/// The time of day at the start.
const SINCE_1970: Duration = Duration::from_secs(1_700_000_000);

/// Bytes of the length that precedes a frame on a control stream.
const LENGTH_BYTES: u64 = 4;

/// Control planes joined by wires.
#[derive(Debug)]
pub struct Flood {
    now: Instant,
    ring: Rc<Ring>,
    nodes: Vec<Node>,
    places: BTreeMap<NodeId, usize>,
    links: Vec<Link>,
    /// Index and side of the link from one node to another.
    routes: BTreeMap<(usize, usize), (usize, usize)>,
    queue: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    planned: u64,
    rng: SplitMix,
}

#[derive(Debug)]
struct Node {
    name: NodeName,
    id: NodeId,
    running: Option<Running>,
    /// When the controller's timer is due.
    wake: Instant,
    traffic: Traffic,
    refused: u64,
    active: BTreeMap<StreamId, (Instant, Vec<Epoch>)>,
}

#[derive(Debug)]
struct Running {
    controller: Controller,
    keys: HostKeys,
}

#[derive(Debug)]
struct Link {
    wire: Wire,
    is_up: bool,
    /// Connection number; frames of an earlier connection are lost.
    generation: u64,
    /// When each side's wire is free again.
    free: [Instant; 2],
    bytes: [u64; 2],
    /// When each side last put a frame on the wire.
    written: [Option<Instant>; 2],
}

/// The control traffic that a node has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Control frames.
    pub frames: u64,
    /// Writes: frames to one neighbour at one moment count as one, a packet or a few on a real link.
    pub writes: u64,
    /// Bytes of the frames, each with its length prefix.
    pub bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Wake(usize),
    Frame {
        from: usize,
        to: usize,
        generation: u64,
        frame: Bytes,
    },
}

impl Flood {
    /// Starts all nodes of a shape and brings all links up.
    pub fn start(shape: &Shape, seed: u64) -> Self {
        let name =
            |at: usize| -> NodeName { format!("n{at}").parse().expect("a letter and digits") };
        let names: Vec<NodeName> = (0..shape.nodes).map(name).collect();
        let node = |name: &NodeName| Node {
            id: node_id(name),
            name: name.clone(),
            running: None,
            wake: Instant::NEVER,
            traffic: Traffic::default(),
            refused: 0,
            active: BTreeMap::new(),
        };
        let nodes: Vec<Node> = names.iter().map(node).collect();
        let places = nodes.iter().enumerate();
        let mut flood = Self {
            now: Instant::ZERO,
            ring: Rc::new(Ring::new(&names)),
            places: places.map(|(at, node)| (node.id, at)).collect(),
            nodes,
            links: Vec::new(),
            routes: BTreeMap::new(),
            queue: BinaryHeap::new(),
            planned: 0,
            rng: SplitMix::new(seed),
        };
        for wire in &shape.wires {
            let [a, b] = wire.ends;
            flood.routes.insert((a, b), (flood.links.len(), 0));
            flood.routes.insert((b, a), (flood.links.len(), 1));
            flood.links.push(Link {
                wire: *wire,
                is_up: false,
                generation: 0,
                free: [Instant::ZERO; 2],
                bytes: [0; 2],
                written: [None; 2],
            });
        }
        for at in 0..flood.nodes.len() {
            flood.start_node(at);
        }
        for at in 0..flood.links.len() {
            flood.heal(at);
        }
        flood
    }

    /// Returns the current time.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Returns a node's control plane, if the node runs.
    pub fn controller(&self, at: usize) -> Option<&Controller> {
        self.nodes[at].running.as_ref().map(|node| &node.controller)
    }

    /// Returns a node's id.
    pub fn id(&self, at: usize) -> NodeId {
        self.nodes[at].id
    }

    /// Returns the links' wires, and whether each is up.
    pub fn links(&self) -> impl Iterator<Item = (Wire, bool)> {
        self.links.iter().map(|link| (link.wire, link.is_up))
    }

    /// Returns a node's control traffic.
    pub fn traffic(&self, at: usize) -> Traffic {
        self.nodes[at].traffic
    }

    /// Returns the control traffic of all nodes together.
    pub fn traffic_of_all(&self) -> Traffic {
        self.nodes
            .iter()
            .fold(Traffic::default(), |sum, node| Traffic {
                frames: sum.frames + node.traffic.frames,
                writes: sum.writes + node.traffic.writes,
                bytes: sum.bytes + node.traffic.bytes,
            })
    }

    /// Returns the bytes carried by the busiest direction of any link.
    pub fn busiest_link_bytes(&self) -> u64 {
        let links = self.links.iter().flat_map(|link| link.bytes);
        links.max().unwrap_or(0)
    }

    /// Returns how many frames a node has refused with a note.
    pub fn refused(&self, at: usize) -> u64 {
        self.nodes[at].refused
    }

    /// Returns the plans under which a node sends a stream, and since when.
    pub fn active(&self, at: usize, stream: StreamId) -> Option<&(Instant, Vec<Epoch>)> {
        self.nodes[at].active.get(&stream)
    }

    /// Calls a running node's controller and handles its outputs; `None` if the node does not run.
    pub fn at<T>(
        &mut self,
        at: usize,
        act: impl FnOnce(&mut Controller, Instant, &mut HostKeys) -> T,
    ) -> Option<T> {
        let now = self.now;
        let node = self.nodes[at].running.as_mut()?;
        let result = act(&mut node.controller, now, &mut node.keys);
        self.handle_outputs(at);
        Some(result)
    }

    /// Subscribes a node to a stream.
    pub fn subscribe(&mut self, at: usize, name: &StreamName) {
        let name = name.clone();
        self.at(at, |control, now, keys| control.subscribe(name, now, keys));
    }

    /// Restarts a crashed node and brings its links up.
    pub fn restart(&mut self, at: usize) {
        self.start_node(at);
        for link in self.links_of(at) {
            self.heal(link);
        }
    }

    /// Crashes a node: its state is lost and its links go down.
    pub fn crash(&mut self, at: usize) {
        self.nodes[at].running = None;
        self.nodes[at].wake = Instant::NEVER;
        self.nodes[at].active.clear();
        for link in self.links_of(at) {
            self.cut(link);
        }
    }

    /// Takes a link down; both ends learn of it at once.
    pub fn cut(&mut self, link: usize) {
        if !std::mem::take(&mut self.links[link].is_up) {
            return;
        }
        let [a, b] = self.links[link].wire.ends;
        for (at, peer) in [(a, b), (b, a)] {
            let peer = self.nodes[peer].id;
            self.at(at, |control, now, keys| {
                control.handle_link_down(peer, now, keys);
            });
        }
    }

    /// Brings a link up, if both its ends run.
    pub fn heal(&mut self, link: usize) {
        let [a, b] = self.links[link].wire.ends;
        let is_running = |at: usize| self.nodes[at].running.is_some();
        if self.links[link].is_up || !is_running(a) || !is_running(b) {
            return;
        }
        self.links[link].is_up = true;
        self.links[link].generation += 1;
        self.links[link].free = [self.now; 2];
        let delay = self.links[link].wire.delay;
        let sample = Sample {
            rtt: delay + delay,
            latest: delay + delay,
            loss: Ratio::ZERO,
            sent: DataSize::ZERO,
            waiting: DataSize::ZERO,
            heard: 0,
        };
        for (at, peer) in [(a, b), (b, a)] {
            let peer = self.nodes[peer].id;
            self.at(at, |control, now, keys| {
                control.handle_link_up(peer, sample, now, keys);
            });
        }
    }

    /// Puts a frame on a wire that the sender's control plane did not make.
    pub fn inject(&mut self, from: usize, to: usize, frame: Bytes) {
        self.send_frame(from, to, frame);
    }

    /// Runs until `time` has passed.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(Reverse((due, _, _))) = self.queue.peek()
            && *due <= end
        {
            self.step();
        }
        self.now = end;
    }

    /// Handles the next event; returns whether there was one.
    pub fn step(&mut self) -> bool {
        let Some(Reverse((due, _, event))) = self.queue.pop() else {
            return false;
        };
        self.now = self.now.max(due);
        match event {
            Event::Wake(at) if self.nodes[at].wake == due => {
                self.nodes[at].wake = Instant::NEVER;
                self.at(at, |control, now, keys| control.handle_timeout(now, keys));
            }
            Event::Wake(_) => {}
            Event::Frame {
                from,
                to,
                generation,
                frame,
            } => {
                let (link, _) = self.routes[&(from, to)];
                let link = &self.links[link];
                if link.is_up && link.generation == generation {
                    let from = self.nodes[from].id;
                    self.at(to, |control, now, keys| {
                        control.handle_frame(from, &frame, now, keys);
                    });
                }
            }
        }
        true
    }

    fn start_node(&mut self, at: usize) {
        if self.nodes[at].running.is_some() {
            return;
        }
        let peers = self.links_of(at).into_iter().map(|link| {
            let wire = self.links[link].wire;
            let other = wire.ends[usize::from(wire.ends[0] == at)];
            Peer {
                key: self.nodes[other].id,
                name: self.nodes[other].name.clone(),
                trusted: true,
                rate: Some(wire.rate),
                secure: true,
            }
        });
        let node = &self.nodes[at];
        let settings = Settings {
            id: node.id,
            name: node.name.clone(),
            slots: 4,
            peers: peers.collect(),
            weights: Weights::default(),
            since_1970: SINCE_1970,
        };
        let mut keys = HostKeys::new(Rc::clone(&self.ring), node.id, self.rng.next_u64());
        let controller = Controller::new(settings, self.now, &mut keys);
        self.nodes[at].running = Some(Running { controller, keys });
        self.handle_outputs(at);
    }

    fn links_of(&self, at: usize) -> Vec<usize> {
        let links = self.links.iter().enumerate();
        let own = links.filter(|(_, link)| link.wire.ends.contains(&at));
        own.map(|(link, _)| link).collect()
    }

    /// Handles a controller's outputs and schedules its next timeout.
    fn handle_outputs(&mut self, at: usize) {
        while let Some(output) = self.poll(at) {
            self.handle_output(at, output);
        }
        let Some(node) = &self.nodes[at].running else {
            return;
        };
        let due = node.controller.poll_timeout().max(self.now);
        if due != self.nodes[at].wake && !due.is_never() {
            self.nodes[at].wake = due;
            self.plan(due, Event::Wake(at));
        }
    }

    fn poll(&mut self, at: usize) -> Option<Output> {
        self.nodes[at].running.as_mut()?.controller.poll_output()
    }

    fn handle_output(&mut self, at: usize, output: Output) {
        let now = self.now;
        let node = &mut self.nodes[at];
        let Some(Running { controller, keys }) = &mut node.running else {
            return;
        };
        match output {
            Output::Send { to, frame } => {
                if let Some(to) = self.places.get(&to).copied() {
                    self.send_frame(at, to, frame);
                }
            }
            Output::Plan(planning) => controller.handle_solved(planning.solve(), now, keys),
            Output::Install { installation, .. } => {
                let (stream, epoch) = (installation.stream, installation.epoch);
                controller.handle_installed(stream, epoch, Ok(()), now, keys);
            }
            Output::Active { stream, given } => {
                let epochs: Vec<Epoch> = given.iter().map(|given| given.epoch).collect();
                node.active.insert(stream, (now, epochs));
            }
            Output::Note(note) => node.refused += u64::from(is_refusal(&note)),
            _ => {}
        }
    }

    fn send_frame(&mut self, from: usize, to: usize, frame: Bytes) {
        let Some(&(link, side)) = self.routes.get(&(from, to)) else {
            return;
        };
        let bytes = frame.len() as u64 + LENGTH_BYTES;
        let link = &mut self.links[link];
        let is_write = link.written[side].replace(self.now) != Some(self.now);
        let traffic = &mut self.nodes[from].traffic;
        (traffic.frames, traffic.bytes) = (traffic.frames + 1, traffic.bytes + bytes);
        traffic.writes += u64::from(is_write);
        let begun = link.free[side].max(self.now);
        link.free[side] = begun + link.wire.rate.time_for(DataSize::from_bytes(bytes));
        link.bytes[side] += bytes;
        let (arrives, generation) = (link.free[side] + link.wire.delay, link.generation);
        let event = Event::Frame {
            from,
            to,
            generation,
            frame,
        };
        self.plan(arrives, event);
    }

    fn plan(&mut self, when: Instant, event: Event) {
        self.planned += 1;
        self.queue.push(Reverse((when, self.planned, event)));
    }
}

/// Returns whether a note reports a refused frame.
fn is_refusal(note: &thalweg_control::control::Note) -> bool {
    use thalweg_control::control::Note;
    matches!(
        note,
        Note::FrameRefused { .. }
            | Note::RecordRefused { .. }
            | Note::RecordForged { .. }
            | Note::RecordBorrows { .. }
    )
}
