//! Runs a world: hosts, lines and world events on one event queue, in virtual time.
//!
//! Events are ordered by time and then by the order of scheduling, so each seed has exactly one course.
//! Nothing happens between two events, so an idle world costs nothing. When the world's time is over
//! the producers end their streams, and the run goes on until every ADU is accounted for.
//!
//! ```text
//! take the next event ─► lines give out packets, hosts handle timers, the world changes
//!         ▲                 └─► hosts put packets on lines ─► next wake of lines and hosts
//!         └──────────────────────────────────────────────────────────────────────┘
//! ```

mod accounts;
mod heed;
mod queue;
mod weather;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use thalweg_base::random::SplitMix;
use thalweg_base::time::{Duration, Instant};
use thalweg_control::ledger::Loss;
use thalweg_link::congestion::Algorithm;
use thalweg_netem::{Impairment, Line};
use thalweg_planner::model::{Link, World};

use crate::fate::Doubled;
use crate::film::{Film, FilmError};
use crate::host::{Host, Parcel, Start, next_to};
use crate::keys::Ring;
use crate::promise::Promise;
use crate::report::{LinkReport, Player, Report};
use crate::trace::{Happening, Kind};
use crate::watch::Watch;

pub use accounts::Ledgers;
pub use heed::LossDelays;
use queue::{Event, Queue};

/// Maximum time after its end for a world to settle: a publisher keeps what it promised to deliver
/// for a sink out of reach for 10 min, waits twice 30 s for its end, and a subscriber 120 s for what
/// may be behind the rest.
const SETTLE_MAX: Duration = Duration::from_secs(780);

/// Maximum time for the last reports to reach the sources: a report follows within a second, a lost one
/// up to four seconds later, plus the path. A loss burst is measured in packets, so on a quiet line it
/// lasts until QUIC has retransmitted the report often enough, each time after twice the delay (PTO
/// backoff, RFC 9002 §6.2), or has found the link dead after 8 s; then all reports are repeated over a
/// new connection.
const REPORT_MAX: Duration = Duration::from_secs(30);

/// The largest packet that QUIC is set up to send, in bytes.
const PACKET_BYTES_MAX: u64 = 1_452;

/// Interval between checks whether the run has settled.
const SETTLE_LOOK: Duration = Duration::from_millis(100);

/// How a world is run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The seed of all random generators.
    pub seed: u64,
    /// Whether to keep the trace as text.
    pub is_text_wanted: bool,
    /// The congestion controller of every link.
    pub congestion: Algorithm,
    /// Whether to measure how soon sources learn of losses.
    pub are_loss_delays_wanted: bool,
    /// Whether to leave the links' rates unconfigured, so that nodes must measure them.
    pub is_rate_unconfigured: bool,
    /// Which streams' ledgers are compared with the truth.
    pub ledgers: Ledgers,
}

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Played {
    /// The report on its streams.
    pub report: Report,
    /// The trace as text, if wanted.
    pub text: Option<String>,
    /// Number of trace events.
    pub happenings: u64,
    /// What plans promised of their links, and what was carried.
    pub promises: Vec<Promise>,
    /// ADUs of which more than one copy crossed a link.
    pub doubled: Vec<Doubled>,
    /// ADUs that nodes with a slow processor refused because forwarding them would have taken too long.
    pub lagging: u64,
    /// World time at which all was accounted for.
    pub ended: Duration,
    /// How soon each stream's source learned of losses, if wanted.
    pub loss_delays: Vec<LossDelays>,
}

/// A link with its two directions.
#[derive(Debug)]
struct Duplex {
    link: Link,
    ends: [usize; 2],
    /// From the first end to the second, and back.
    lines: [Line<Parcel>; 2],
    /// When each direction is woken next.
    wake: [Instant; 2],
}

/// A run in progress.
struct Run<'w> {
    watch: Watch<'w>,
    queue: Queue,
    hosts: Vec<Option<Host>>,
    /// When each host is woken next.
    wake: Vec<Instant>,
    duplexes: Vec<Duplex>,
    /// Index and direction of the link from one node to another.
    directions: BTreeMap<(usize, usize), (usize, usize)>,
    ring: Rc<Ring>,
    ledgers: Ledgers,
    rng: SplitMix,
    generation: u64,
    /// When all ADUs had ended.
    settled: Option<Instant>,
    /// What sources learn of losses, by stream; empty if not wanted.
    loss_delays: Vec<LossDelays>,
}

/// Films the video streams of a world; the films serve any number of runs.
///
/// Cost    half a second per video stream, in a release build
pub fn films(world: &World) -> Result<Vec<Option<Arc<Film>>>, FilmError> {
    let film = |stream| Film::new(stream).map(Arc::new);
    let streams = world.streams.iter();
    streams
        .map(|stream| stream.traffic.video.then(|| film(stream)).transpose())
        .collect()
}

/// Runs a world, which must be valid.
///
/// Fails   only if the pictures of a film cannot be compared
pub fn play(
    world: &World,
    name: &str,
    films: &[Option<Arc<Film>>],
    options: Options,
) -> Result<Played, FilmError> {
    let mut run = Run::new(world, films, options);
    let length = Instant::ZERO + world.length();
    run.go(length);
    run.watch.now = run.watch.now.max(length);
    run.conclude(name, options)
}

impl<'w> Run<'w> {
    fn new(world: &'w World, films: &[Option<Arc<Film>>], options: Options) -> Self {
        let mut watch = Watch::new(world, films, options.is_text_wanted);
        watch.congestion = options.congestion;
        watch.is_rate_unconfigured = options.is_rate_unconfigured;
        let mut rng = SplitMix::new(options.seed);
        let place = |name| watch.names.iter().position(|other| other == name);
        let mut duplexes = Vec::new();
        let mut directions = BTreeMap::new();
        for link in &world.links {
            let [Some(a), Some(b)] = [place(&link.ends[0]), place(&link.ends[1])] else {
                continue;
            };
            let impairment = Impairment::from(link);
            let seeds = [rng.next_u64(), rng.next_u64()];
            // Two nodes keep one connection, so only the first of parallel links is used.
            directions.entry((a, b)).or_insert((duplexes.len(), 0));
            directions.entry((b, a)).or_insert((duplexes.len(), 1));
            duplexes.push(Duplex {
                link: link.clone(),
                ends: [a, b],
                lines: seeds.map(|seed| Line::new(impairment, seed)),
                wake: [Instant::NEVER; 2],
            });
        }
        let nodes = watch.names.len();
        let ring = Rc::new(Ring::new(&watch.names));
        Self {
            watch,
            queue: Queue::default(),
            hosts: (0..nodes).map(|_| None).collect(),
            wake: vec![Instant::NEVER; nodes],
            duplexes,
            directions,
            ring,
            ledgers: options.ledgers,
            rng,
            generation: 0,
            settled: None,
            loss_delays: if options.are_loss_delays_wanted {
                vec![LossDelays::default(); world.streams.len()]
            } else {
                Vec::new()
            },
        }
    }

    /// Runs the world to its end, and then until it has settled.
    fn go(&mut self, length: Instant) {
        for place in 0..self.hosts.len() {
            let neighbours = next_to(place, self.watch.world).into_iter();
            // Of two nodes that start together the first dials.
            self.start(place, neighbours.filter(|peer| *peer > place).collect());
        }
        for (at, event) in self.watch.world.events.iter().enumerate() {
            self.queue
                .plan(Instant::ZERO + event.time, Event::Weather(at));
        }
        self.queue.plan(length, Event::Over);
        while let Some((time, event)) = self.queue.next() {
            if time > length + SETTLE_MAX {
                return;
            }
            self.watch.now = time;
            match event {
                Event::Line(duplex, side) => self.wake_line(duplex, side),
                Event::Host(place) => self.wake_host(place),
                Event::Weather(at) => self.change(at),
                Event::Over => self.end_streams(),
                Event::Look => {}
            }
            if matches!(event, Event::Over | Event::Look) {
                if self.is_settled() {
                    return;
                }
                self.queue.plan(time + SETTLE_LOOK, Event::Look);
            }
        }
    }

    fn is_settled(&mut self) -> bool {
        let mut lines = self.duplexes.iter().flat_map(|duplex| &duplex.lines);
        let mut hosts = self.hosts.iter().flatten();
        let mut is_over = || {
            self.watch.fates.is_settled(self.watch.now)
                && lines.all(|line| line.inside() == 0)
                && !hosts.any(|host| host.is_keeping(&self.watch))
        };
        if self.settled.is_none() && is_over() {
            self.settled = Some(self.watch.now);
        }
        let Some(settled) = self.settled else {
            return false;
        };
        settled + REPORT_MAX <= self.watch.now || self.ledger_errors().iter().all(Option::is_none)
    }

    fn start(&mut self, place: usize, dials: Vec<usize>) {
        if self.hosts[place].is_some() {
            return;
        }
        self.generation += 1;
        let start = Start {
            place,
            ring: Rc::clone(&self.ring),
            seed: self.rng.next_u64(),
            generation: self.generation,
            dials,
        };
        self.hosts[place] = Some(Host::start(start, &mut self.watch));
        self.serve(place);
    }

    fn wake_host(&mut self, place: usize) {
        if self.wake[place] != self.watch.now {
            return;
        }
        self.wake[place] = Instant::NEVER;
        if let Some(host) = &mut self.hosts[place] {
            host.handle_timeout(&mut self.watch);
            self.serve(place);
        }
    }

    /// Puts a host's datagrams on its lines and schedules its next wake.
    fn serve(&mut self, place: usize) {
        while let Some(outgoing) = self.hosts[place]
            .as_mut()
            .and_then(|host| host.poll_outgoing(&self.watch))
        {
            let Some(&(duplex, side)) = self.directions.get(&(place, outgoing.to)) else {
                continue;
            };
            let line = &mut self.duplexes[duplex].lines[side];
            let size = outgoing.parcel.line_size();
            line.handle_packet(self.watch.now, size, outgoing.parcel);
            self.plan_line(duplex, side);
        }
        self.read_ledgers(place);
        let Some(host) = &mut self.hosts[place] else {
            return;
        };
        if host.is_gone() {
            self.watch.note(Happening::at(Kind::Gone, place));
            return self.forget(place);
        }
        let next = host.poll_timeout(&self.watch);
        if next < self.wake[place] {
            self.wake[place] = next;
            self.queue.plan(next, Event::Host(place));
        }
    }

    /// Records what the sources on a host know now.
    fn read_ledgers(&mut self, place: usize) {
        let Some(host) = self.hosts[place]
            .as_ref()
            .filter(|_| !self.loss_delays.is_empty())
        else {
            return;
        };
        let watch = &self.watch;
        for (stream, reading) in host.readings() {
            if let Some(at) = watch.fates.stream_of(stream) {
                let place = |loss: &Loss| watch.place_of(loss);
                self.loss_delays[at].handle_reading(&reading, place, watch.now);
            }
        }
    }

    /// Removes a node with all it had in memory.
    fn forget(&mut self, place: usize) {
        self.hosts[place] = None;
        self.wake[place] = Instant::NEVER;
        self.watch.fates.handle_gone(place, self.watch.now);
        self.watch.model.handle_gone(place);
    }

    fn plan_line(&mut self, duplex: usize, side: usize) {
        let next = self.duplexes[duplex].lines[side].poll_timeout();
        let wake = &mut self.duplexes[duplex].wake[side];
        if next < *wake {
            *wake = next;
            self.queue.plan(next, Event::Line(duplex, side));
        }
    }

    fn wake_line(&mut self, duplex: usize, side: usize) {
        if self.duplexes[duplex].wake[side] != self.watch.now {
            return;
        }
        self.duplexes[duplex].wake[side] = Instant::NEVER;
        let [a, b] = self.duplexes[duplex].ends;
        let (from, to) = if side == 0 { (a, b) } else { (b, a) };
        while let Some(parcel) = self.duplexes[duplex].lines[side].poll_packet(self.watch.now) {
            if let Some(host) = &mut self.hosts[to] {
                host.handle_parcel(from, parcel, &mut self.watch);
                self.serve(to);
            }
        }
        self.plan_line(duplex, side);
    }

    fn end_streams(&mut self) {
        for place in 0..self.hosts.len() {
            if let Some(host) = &mut self.hosts[place] {
                host.handle_end(&mut self.watch);
                self.serve(place);
            }
        }
    }

    /// Closes the accounts and makes the report.
    fn conclude(mut self, name: &str, options: Options) -> Result<Played, FilmError> {
        let world = self.watch.world;
        let conclusion = self.watch.fates.conclude(world, &self.watch.names);
        for (copy, how) in conclusion.holes {
            let sink = &world.streams[copy.stream].to[copy.sink];
            let node = self
                .watch
                .names
                .iter()
                .position(|name| name == sink)
                .unwrap_or_default();
            let what = format!("no node accounts for it: {how}");
            self.watch.add_violation(node, Some(copy), what);
        }
        for (stream, delays) in self.loss_delays.iter_mut().enumerate() {
            for (at, key) in self.watch.fates.vanished(stream) {
                delays.handle_lost(at, key);
            }
        }
        self.check_vanished(&conclusion.vanished);
        self.check_accounts();
        let mut streams = Vec::new();
        for (at, (stream, tallies)) in world.streams.iter().zip(&conclusion.tallies).enumerate() {
            for (sink, (name, tally)) in stream.to.iter().zip(tallies).enumerate() {
                let mut report = tally.report(stream.name.as_str(), name.as_str());
                if let Some(viewer) = self.watch.viewers.get(&(at, sink)) {
                    report.psnr = viewer.report()?;
                }
                streams.push(report);
            }
        }
        let report = Report {
            world: name.to_owned(),
            by: Player::Simulator,
            seed: options.seed,
            seconds: world.length().as_secs_f64(),
            trace_hash: Some(format!("{:016x}", self.watch.trace.hash())),
            streams,
            links: self.links(),
            violations: self.watch.violations.sentences(),
        };
        Ok(Played {
            report,
            happenings: self.watch.trace.happenings(),
            text: self.watch.trace.take_text(),
            doubled: self.watch.fates.doubled(),
            lagging: self.watch.lagging,
            promises: self.watch.promises.into_all(),
            ended: self.watch.now.saturating_since(Instant::ZERO),
            loss_delays: self.loss_delays,
        })
    }

    /// Checks that lines lost at least as many packets as the vanished datagrams needed; one packet may
    /// hold several.
    fn check_vanished(&mut self, vanished: &BTreeMap<(usize, usize), u64>) {
        for (&(from, to), &bytes) in vanished {
            let Some(&(duplex, side)) = self.directions.get(&(from, to)) else {
                continue;
            };
            let counters = self.duplexes[duplex].lines[side].counters();
            let lost = counters.lost + counters.overflowed + counters.cut;
            // A line counts packets for an absent host as arrived, and datagrams queued in QUIC are
            // lost with it.
            let fates = &self.watch.fates;
            let was_away = fates.was_gone(from) || fates.was_gone(to) || fates.was_down(from, to);
            if bytes > lost * PACKET_BYTES_MAX && !was_away {
                let to = self.watch.names[to].clone();
                let what = format!(
                    "{bytes} bytes of datagrams to {to} vanished, but the line lost only {lost} packets"
                );
                self.watch.add_violation(from, None, what);
            }
        }
    }

    fn links(&self) -> Vec<LinkReport> {
        let mut links = Vec::new();
        for duplex in &self.duplexes {
            let [a, b] = duplex.ends.map(|end| self.watch.names[end].to_string());
            for (line, (from, to)) in duplex.lines.iter().zip([(&a, &b), (&b, &a)]) {
                let counters = line.counters();
                links.push(LinkReport {
                    from: from.clone(),
                    to: to.clone(),
                    packets: counters.packets,
                    bytes: counters.bytes,
                    lost: counters.lost + counters.cut,
                    overflowed: counters.overflowed,
                });
            }
        }
        links
    }
}
