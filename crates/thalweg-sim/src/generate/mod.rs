//! Worlds generated from a seed: small, short and nasty, to be run by the thousand.
//!
//! *The idea.* A machine that works in the worlds that we think of may fail in those that we do
//! not. A seed determines a network of two to eight nodes, links from a LAN's to a bad radio's,
//! streams of every combination of needs, in one world of eight a node with a slow processor, and
//! weather: steps of the rate, outages, nodes that crash, stop and start, processes that are frozen,
//! publishers that are killed and subscribers that stop reading. Most defects show within seconds;
//! renewals, windows and outages that are longer than a lease take a [`Length::Minute`]. A generated
//! world is a [`World`] like any other, sound by its own rules, so a seed that finds a defect can be
//! written to a file and read.
//!
//! *What it does not do.* It runs nothing. The same seed makes the same world only as long as this
//! file does not change; what a seed found is kept as a test of what it found.

mod links;
mod streams;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use thalweg_base::random::SplitMix;
use thalweg_base::time::Duration;
use thalweg_base::units::{Bitrate, Ratio};
use thalweg_planner::model::{
    Change, Event, Link, LinkChange, Node, NodeAction, NodeName, Stream, World,
};

/// Nodes of a generated world at most: enough for a ring with a detour, few enough for two
/// milliseconds of planning.
const NODES_MAX: u64 = 8;

/// A long outage or pause: longer than any lease, shorter than the wait of a stream without a deadline.
const LONG: Duration = Duration::from_secs(40);

/// What tells a world's dice from those that are thrown while it runs, which have the same seed.
const GENERATOR: u64 = 0x7468_616c_7765_6731;

/// Which of sixteen seeds make worlds with a slow processor: the seeds that are kept for what they once
/// found, and those with a golden hash, are of other remainders.
const SLOW: [u64; 2] = [4, 7];

/// What tells the dice of slow processors from the others, so that all else in a world stays as it was.
const SLOWNESS: u64 = 0x736c_6f77_6e65_7373;

/// How long a generated world is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// Two to six seconds.
    Seconds,
    /// One minute to a hundred seconds: longer than a lease, and three windows of an account.
    Minute,
}

impl Length {
    /// Returns the words by which `thalweg simulate` makes worlds so long.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Seconds => "--generate",
            Self::Minute => "--generate --long",
        }
    }
}

/// How the nodes of a network are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Chain,
    Star,
    Ring,
    Mesh,
}

/// Returns the world of a seed.
pub fn world(seed: u64, length: Length) -> World {
    let mut dice = SplitMix::new(seed ^ GENERATOR);
    let names = names(2 + dice.next_below(NODES_MAX - 1));
    let [least_ms, step_ms] = match length {
        Length::Seconds => [2_000, 500],
        Length::Minute => [60_000, 5_000],
    };
    let length = Duration::from_millis(least_ms + step_ms * dice.next_below(9));
    let links = links(&names, &mut dice);
    let streams = streams::streams(&names, length, &mut dice);
    let is_end = |name: &NodeName| {
        let ends = |stream: &Stream| stream.from == *name || stream.to.contains(name);
        streams
            .iter()
            .any(|stream| stream.needs.confidential && ends(stream))
    };
    let mut nodes: BTreeMap<NodeName, Node> = names
        .iter()
        .map(|name| (name.clone(), node(is_end(name), &mut dice)))
        .collect();
    let events = events(&names, &links, length, &mut dice);
    if SLOW.contains(&(seed % 16)) {
        slow_down(&mut nodes, &links, seed);
    }
    World {
        length: Some(length),
        nodes,
        links,
        streams,
        events,
        ..World::default()
    }
}

/// Returns `n1`, `n2` and so on.
fn names(count: u64) -> Vec<NodeName> {
    let name = |number| format!("n{number}").parse().expect("a letter and a digit");
    (1..=count).map(name).collect()
}

/// A node: the ends of confidential streams are trusted, of the rest two in three; clocks are anywhere.
fn node(is_trusted: bool, dice: &mut SplitMix) -> Node {
    Node {
        slots: if dice.next_below(4) == 0 {
            2
        } else {
            Node::default().slots
        },
        trusted: is_trusted || dice.next_below(3) > 0,
        clock_offset: Duration::from_millis(dice.next_below(100_000)),
        clock_drift_ppm: dice.next_below(401) as i32 - 200,
        ..Node::default()
    }
}

/// Gives one node a slow processor, from fast enough for most streams to far too slow: one with several
/// links, if there is any.
fn slow_down(nodes: &mut BTreeMap<NodeName, Node>, links: &[Link], seed: u64) {
    let mut dice = SplitMix::new(seed ^ SLOWNESS);
    let several = |name: &&NodeName| links.iter().filter(|of| of.ends.contains(name)).count() > 1;
    let mut names: Vec<NodeName> = nodes.keys().filter(several).cloned().collect();
    if names.is_empty() {
        names = nodes.keys().cloned().collect();
    }
    let name = &names[dice.next_below(names.len() as u64) as usize];
    if let Some(node) = nodes.get_mut(name) {
        node.copy_time = Duration::from_millis(1 << dice.next_below(6));
    }
}

/// Joins the nodes by one of the shapes.
fn links(names: &[NodeName], dice: &mut SplitMix) -> Vec<Link> {
    let shapes = [Shape::Chain, Shape::Star, Shape::Ring, Shape::Mesh];
    let shape = shapes[dice.next_below(4) as usize];
    let count = names.len();
    let mut pairs: Vec<[usize; 2]> = match shape {
        Shape::Chain | Shape::Ring => (1..count).map(|at| [at - 1, at]).collect(),
        Shape::Star => (1..count).map(|at| [0, at]).collect(),
        Shape::Mesh => (1..count)
            .map(|at| [dice.next_below(at as u64) as usize, at])
            .collect(),
    };
    if shape == Shape::Ring && count > 2 {
        pairs.push([count - 1, 0]);
    }
    if shape == Shape::Mesh {
        for _ in 0..count / 2 {
            let pair = [
                dice.next_below(count as u64) as usize,
                dice.next_below(count as u64) as usize,
            ];
            let known = |[a, b]: &[usize; 2]| {
                *a == pair[0] && *b == pair[1] || *a == pair[1] && *b == pair[0]
            };
            if pair[0] != pair[1] && !pairs.iter().any(known) {
                pairs.push(pair);
            }
        }
    }
    let join = |[a, b]: [usize; 2]| links::link([names[a].clone(), names[b].clone()], dice);
    pairs.into_iter().map(join).collect()
}

/// Up to four things that happen, in the order of time.
fn events(names: &[NodeName], links: &[Link], length: Duration, dice: &mut SplitMix) -> Vec<Event> {
    let mut events = Vec::new();
    for _ in 0..dice.next_below(4) {
        let time = Duration::from_millis(500 + dice.next_below(length.as_millis() - 500));
        let later = time + Duration::from_millis(200 + dice.next_below(2_000));
        // What is longer than a lease needs a world that is longer still.
        let long = (length > LONG).then_some(time + LONG);
        match (dice.next_below(10), long) {
            (0..=2, _) => events.push(step(links, time, dice)),
            (3 | 4, _) => events.extend(outage(links, time, later, dice)),
            (5, _) => events.extend(absence(names, time, later, dice)),
            (7, Some(end)) => events.extend(outage(links, time, end, dice)),
            (8, Some(end)) => events.extend(pause(names, time, end, dice)),
            (9, _) => events.push(republication(names, time, dice)),
            _ => events.extend(pause(names, time, later, dice)),
        }
    }
    events.sort_by_key(|event| event.time);
    events
}

/// A link that is down between two times.
fn outage(links: &[Link], start: Duration, end: Duration, dice: &mut SplitMix) -> [Event; 2] {
    let link = &links[dice.next_below(links.len() as u64) as usize];
    [(start, false), (end, true)].map(|(time, up)| Event {
        time,
        change: Change::Link {
            ends: link.ends.clone(),
            set: LinkChange {
                up: Some(up),
                ..LinkChange::default()
            },
        },
    })
}

/// A process that is stopped and goes on with what it had: the node's own, or those of its subscribers.
fn pause(names: &[NodeName], start: Duration, end: Duration, dice: &mut SplitMix) -> [Event; 2] {
    let name = &names[dice.next_below(names.len() as u64) as usize];
    let actions = match dice.next_below(2) {
        0 => [NodeAction::Freeze, NodeAction::Thaw],
        _ => [NodeAction::Stall, NodeAction::Resume],
    };
    [(start, actions[0]), (end, actions[1])].map(|(time, action)| Event {
        time,
        change: Change::Node {
            name: name.clone(),
            action,
        },
    })
}

/// Programs that publish on a node, killed and started again.
fn republication(names: &[NodeName], time: Duration, dice: &mut SplitMix) -> Event {
    let name = names[dice.next_below(names.len() as u64) as usize].clone();
    let action = NodeAction::Republish;
    Event {
        time,
        change: Change::Node { name, action },
    }
}

/// A link that becomes narrower, wider, slower or worse.
fn step(links: &[Link], time: Duration, dice: &mut SplitMix) -> Event {
    let link = &links[dice.next_below(links.len() as u64) as usize];
    let share = 20 + dice.next_below(180);
    let rate = Bitrate::from_bps((link.rate.as_bps() * share / 100).max(30_000));
    let set = match dice.next_below(3) {
        0 => LinkChange {
            rate: Some(rate),
            ..LinkChange::default()
        },
        1 => LinkChange {
            rate: Some(rate),
            delay: Some(Duration::from_millis(dice.next_below(200))),
            ..LinkChange::default()
        },
        _ => LinkChange {
            loss: Ratio::new(dice.next_below(15) as f64 / 100.0).ok(),
            burst: Some(1.0),
            ..LinkChange::default()
        },
    };
    let ends = link.ends.clone();
    Event {
        time,
        change: Change::Link { ends, set },
    }
}

/// A node that is gone, politely or not, and often comes back.
fn absence(names: &[NodeName], time: Duration, later: Duration, dice: &mut SplitMix) -> Vec<Event> {
    let name = &names[dice.next_below(names.len() as u64) as usize];
    let event = |time, action| Event {
        time,
        change: Change::Node {
            name: name.clone(),
            action,
        },
    };
    let polite = dice.next_below(2) == 0;
    let action = if polite {
        NodeAction::Stop
    } else {
        NodeAction::Crash
    };
    let mut events = vec![event(time, action)];
    if dice.next_below(3) > 0 {
        events.push(event(later, NodeAction::Start));
    }
    events
}
