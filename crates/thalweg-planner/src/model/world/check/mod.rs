//! Mistakes in a world that parses.
//!
//! *What it does not do.* Whether a plan exists is the planner's answer and no fault.

mod adapter;

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use thalweg_base::limits::{LAYERS_MAX, WORLD_LINKS_MAX, WORLD_NODES_MAX, WORLD_STREAMS_MAX};
use thalweg_base::time::Duration;
use thalweg_base::units::Bitrate;

use crate::model::fault::{Fault, Faults};
use crate::model::{Change, Link, LinkChange, NodeName, Stream, Traffic, UTILITY_TOLERANCE, World};

/// Maximum frames per second of a stream: a thousand times a video's.
const FRAMES_MAX: f64 = 100_000.0;

/// Maximum drift of a clock: ten times that of a poor crystal.
const DRIFT_PPM_MAX: u32 = 1_000;

/// Maximum time of one copy: ten thousand times that of a small processor.
const COPY_TIME_MAX: Duration = Duration::from_millis(100);

impl World {
    /// Returns every mistake, in the order of weights, adapters, nodes, links, streams, events.
    ///
    /// Cost    O((nodes + links + events) · log)
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = Faults::default();
        self.check_sizes(&mut faults);
        self.check_weights(&mut faults);
        self.check_adapters(&mut faults);
        self.check_nodes(&mut faults);
        for (at, link) in self.links.iter().enumerate() {
            self.check_link(&mut faults, &format!("link[{at}]"), link);
        }
        let mut names = BTreeSet::new();
        for (at, stream) in self.streams.iter().enumerate() {
            let path = format!("stream[{at}]");
            if !names.insert(&stream.name) {
                let message = format!("another stream is called `{}`: rename one", stream.name);
                faults.add(format!("{path}.name"), message);
            }
            self.check_stream(&mut faults, &path, stream);
        }
        self.check_events(&mut faults);
        faults.0
    }

    fn check_sizes(&self, faults: &mut Faults) {
        let sizes = [
            ("node", self.nodes.len(), WORLD_NODES_MAX),
            ("link", self.links.len(), WORLD_LINKS_MAX),
            ("stream", self.streams.len(), WORLD_STREAMS_MAX),
            ("at", self.events.len(), WORLD_LINKS_MAX),
        ];
        for (key, size, most) in sizes {
            if size > most {
                faults.add(key.to_string(), format!("{size} are more than {most}"));
            }
        }
    }

    fn check_weights(&self, faults: &mut Faults) {
        faults.0.extend(self.weights.faults());
    }

    fn check_nodes(&self, faults: &mut Faults) {
        for (name, node) in &self.nodes {
            self.check_place(faults, name, node);
            if node.clock_drift_ppm.unsigned_abs() > DRIFT_PPM_MAX {
                let ppm = node.clock_drift_ppm;
                let message =
                    format!("a drift of {ppm} ppm is too large: use at most {DRIFT_PPM_MAX}");
                faults.add(format!("node.{name}.clock_drift_ppm"), message);
            }
            if node.copy_time > COPY_TIME_MAX {
                let time = node.copy_time;
                let message = format!("{time} for a copy is too long: use at most {COPY_TIME_MAX}");
                faults.add(format!("node.{name}.copy_time"), message);
            }
        }
    }

    fn check_node(&self, faults: &mut Faults, path: String, name: &NodeName) {
        if !self.nodes.contains_key(name) {
            let known = known(self.nodes.keys());
            faults.add(path, format!("there is no node `{name}` ({known})"));
        }
    }

    fn check_link(&self, faults: &mut Faults, path: &str, link: &Link) {
        for (at, end) in link.ends.iter().enumerate() {
            self.check_node(faults, format!("{path}.ends[{at}]"), end);
        }
        if link.ends[0] == link.ends[1] {
            let message = format!("the link joins `{}` to itself", link.ends[0]);
            faults.add(format!("{path}.ends"), message);
        }
        check_rate(faults, format!("{path}.rate"), link.rate);
        check_bursts(faults, path, link);
    }

    fn check_stream(&self, faults: &mut Faults, path: &str, stream: &Stream) {
        self.check_node(faults, format!("{path}.from"), &stream.from);
        if stream.to.is_empty() {
            faults.add(format!("{path}.to"), "name at least one node".to_string());
        }
        let mut sinks = BTreeSet::new();
        for (at, sink) in stream.to.iter().enumerate() {
            let path = format!("{path}.to[{at}]");
            if *sink == stream.from {
                let message = format!("`{sink}` is the source of the stream");
                faults.add(path.clone(), message);
            }
            if !sinks.insert(sink) {
                faults.add(path.clone(), format!("`{sink}` is named twice"));
            }
            self.check_node(faults, path, sink);
        }
        check_layers(faults, path, stream);
        self.check_states(faults, path, stream);
        check_traffic(faults, &format!("{path}.traffic"), &stream.traffic);
        if let Some((key, why)) = stream.needs.fault() {
            faults.add(format!("{path}.needs.{key}"), why);
        }
        if let Some(ratio) = stream.pack_ratio {
            faults.check_positive(format!("{path}.pack_ratio"), ratio);
        }
        if let Some(overhead) = stream.seal_overhead {
            faults.check_not_negative(format!("{path}.seal_overhead"), overhead);
        }
    }

    fn check_events(&self, faults: &mut Faults) {
        let mut pairs = BTreeSet::new();
        for link in &self.links {
            let [a, b] = &link.ends;
            pairs.insert((a.min(b), a.max(b)));
        }
        for (at, event) in self.events.iter().enumerate() {
            match &event.change {
                Change::Link { ends: [a, b], set } => {
                    if !pairs.contains(&(a.min(b), a.max(b))) {
                        let message = format!("there is no link between `{a}` and `{b}`");
                        faults.add(format!("at[{at}].link"), message);
                    }
                    check_change(faults, &format!("at[{at}].set"), set);
                }
                Change::Node { name, .. } => {
                    self.check_node(faults, format!("at[{at}].node"), name);
                }
            }
        }
    }
}

fn check_change(faults: &mut Faults, path: &str, set: &LinkChange) {
    if set.is_empty() {
        let message =
            "nothing is set: give rate, delay, jitter, reorder, loss, burst or up".to_string();
        faults.add(path.to_string(), message);
    }
    if set.rate == Some(Bitrate::ZERO) {
        let message = "the rate is zero: write `up = false` for a link that fails".to_string();
        faults.add(format!("{path}.rate"), message);
    }
    if let Some(burst) = set.burst {
        check_burst(faults, format!("{path}.burst"), burst);
    }
}

/// The length of a burst has a geometric distribution, so its mean is at least one.
fn check_burst(faults: &mut Faults, path: String, burst: f64) {
    if !(burst >= 1.0 && burst.is_finite()) {
        let message = format!(
            "a burst of {burst} packets is impossible: write 1 for independent losses, or more"
        );
        faults.add(path, message);
    }
}

/// Checks that losses in bursts of this length can have this mean.
fn check_bursts(faults: &mut Faults, path: &str, link: &Link) {
    check_burst(faults, format!("{path}.burst"), link.burst);
    let (loss, inside) = (link.loss.as_f64(), link.burst_loss.as_f64());
    if loss > inside {
        let message = format!("{loss} exceeds the loss of {inside} inside a burst");
        faults.add(format!("{path}.loss"), message);
        return;
    }
    let bad = loss / inside.max(f64::MIN_POSITIVE);
    // Gilbert model: the probability of entering a burst is bad / (burst · (1 − bad)).
    if bad < 1.0 && link.burst > 1.0 && bad / (link.burst * (1.0 - bad)) > 1.0 {
        let least = bad / (1.0 - bad);
        let message = format!("a mean loss of {loss} needs bursts of at least {least:.1} packets");
        faults.add(format!("{path}.burst"), message);
    }
}

fn check_traffic(faults: &mut Faults, path: &str, traffic: &Traffic) {
    faults.check_positive(format!("{path}.frames"), traffic.frames);
    if traffic.frames > FRAMES_MAX {
        let message = format!(
            "{} frames a second are more than {FRAMES_MAX}",
            traffic.frames
        );
        faults.add(format!("{path}.frames"), message);
    }
    if traffic.key_every == 0 {
        let message =
            "0 is not a number of frames: write 1 if every frame is independent".to_string();
        faults.add(format!("{path}.key_every"), message);
    }
    if traffic.stop.is_some_and(|stop| stop <= traffic.start) {
        let message = format!(
            "the producer would end before its start at {}",
            traffic.start
        );
        faults.add(format!("{path}.stop"), message);
    }
}

fn check_rate(faults: &mut Faults, path: String, rate: Bitrate) {
    if rate == Bitrate::ZERO {
        faults.add(path, "the rate is zero".to_string());
    }
}

fn check_layers(faults: &mut Faults, path: &str, stream: &Stream) {
    let count = stream.layers.len();
    if count == 0 || count > LAYERS_MAX {
        let message = format!("a stream has 1 to {LAYERS_MAX} layers, this one {count}");
        faults.add(format!("{path}.layers"), message);
        return;
    }
    for (at, layer) in stream.layers.iter().enumerate() {
        let path = format!("{path}.layers[{at}]");
        check_rate(faults, format!("{path}.rate"), layer.rate);
        faults.check_not_negative(format!("{path}.utility"), layer.utility);
    }
    let sum: f64 = stream.layers.iter().map(|layer| layer.utility).sum();
    let whole = (sum - 1.0).abs() <= UTILITY_TOLERANCE;
    if !whole {
        let message = format!("the utilities sum to {sum}, not to 1");
        faults.add(format!("{path}.layers"), message);
    }
    let least = usize::from(stream.needs.least_layers);
    if !(1..=count).contains(&least) {
        let message = format!("least_layers is {least}, the stream has {count}: use 1 to {count}");
        faults.add(format!("{path}.needs.least_layers"), message);
    }
}

/// Lists a few names, for the message about an unknown one.
fn known<'a>(names: impl ExactSizeIterator<Item = &'a NodeName>) -> String {
    const SHOWN: usize = 8;
    let count = names.len();
    let shown: Vec<&str> = names.take(SHOWN).map(NodeName::as_str).collect();
    match count {
        0 => "there are no nodes".to_string(),
        _ if count > SHOWN => format!("there are {count}: {} …", shown.join(", ")),
        _ => format!("there are {}", shown.join(", ")),
    }
}
