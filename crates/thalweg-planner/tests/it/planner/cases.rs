//! Cases that can be checked by hand: the textbook example, scarce slots, detours, ties, and the
//! reasons when there is no plan.

use thalweg_base::needs::Needs;
use thalweg_base::time::Duration;
use thalweg_base::units::Bitrate;
use thalweg_planner::model::{
    Edge, Layer, NodeIndex, Snapshot, Stream, Topology, Traffic, Weights,
};
use thalweg_planner::planner::{Need, Plan, Policy, Shortfall, Violation, check, explain, plan};

use super::worlds::name;

/// A network under construction.
#[derive(Default)]
pub struct Net(Topology);

impl Net {
    pub fn node(mut self, name: &str, slots: u32) -> Self {
        self.0.add_node(super::worlds::name(name), slots, true);
        self
    }

    pub fn blind(mut self, name: &str, slots: u32) -> Self {
        self.0.add_node(super::worlds::name(name), slots, false);
        self
    }

    fn at(&self, node: &str) -> NodeIndex {
        self.0.find(&name(node)).expect("the node was added")
    }

    /// Adds a link; the name of an insecure one has a `~` between the ends.
    pub fn link(mut self, ends: &str, kbps: u64, delay_ms: u64) -> Self {
        let (a, b) = ends.split_once(['-', '~']).expect("two ends");
        let mut edge = Edge::new([self.at(a), self.at(b)], Bitrate::from_kbps(kbps));
        edge.delay = Duration::from_millis(delay_ms);
        edge.secure = !ends.contains('~');
        self.0.add_link(edge);
        self
    }

    /// Requests a stream from `s` to `t` with layers of these rates and equal utilities.
    pub fn stream(self, layers_kbps: &[u64], needs: Needs) -> Snapshot {
        let utility = 1.0 / layers_kbps.len() as f64;
        let layer = |kbps: &u64| Layer {
            rate: Bitrate::from_kbps(*kbps),
            utility,
        };
        let stream = Stream {
            name: "cam".parse().expect("a valid name"),
            from: name("s"),
            to: vec![name("t")],
            layers: layers_kbps.iter().map(layer).collect(),
            needs,
            importance: Stream::IMPORTANCE_DEFAULT,
            pack_ratio: None,
            seal_overhead: None,
            traffic: Traffic::default(),
        };
        Snapshot::new(self.0, Weights::default(), stream)
    }
}

pub fn confidential() -> Needs {
    Needs {
        confidential: true,
        ..Needs::default()
    }
}

pub fn within(ms: u64) -> Needs {
    Needs {
        deadline: Duration::from_millis(ms),
        ..Needs::default()
    }
}

fn solve(snapshot: &Snapshot) -> Plan {
    let (plan, shortfalls) = plan(snapshot, &Policy::default());
    assert!(plan.feasible, "{shortfalls:?}");
    assert_eq!(check(snapshot, &plan), []);
    plan
}

fn shortfalls(snapshot: &Snapshot) -> Vec<Shortfall> {
    let (plan, shortfalls) = plan(snapshot, &Policy::default());
    assert!(!plan.feasible);
    shortfalls
}

pub fn path(plan: &Plan) -> String {
    let names: Vec<_> = plan.path.iter().map(ToString::to_string).collect();
    names.join(" ")
}

pub fn chains(plan: &Plan) -> String {
    let chain = |node| {
        let adapters: Vec<_> = plan
            .adapters_at(node)
            .iter()
            .map(ToString::to_string)
            .collect();
        format!("{node}[{}]", adapters.join(" "))
    };
    let chains: Vec<_> = plan
        .placements
        .iter()
        .map(|here| chain(&here.node))
        .collect();
    chains.join(" ")
}

#[test]
fn textbook_filters_before_it_encrypts() {
    let mut snapshot = Net::default()
        .node("s", 3)
        .node("m", 3)
        .node("t", 3)
        .link("s~m", 2_000, 10)
        .link("m-t", 150, 10)
        .stream(&[100, 300, 600], confidential());
    snapshot = with_pack_ratio(snapshot, 1.0);
    let plan = solve(&snapshot);
    assert_eq!(chains(&plan), "s[keep:1 seal] m[open]");
    // keep: 0.1 · 1 Mbit/s; seal: 0.4 · 0.1; open: 0.4 · 0.102; links: 102/2000 + 100/150; two of
    // three thirds lost.
    let cost = 0.1 + 0.04 + 0.0408 + 0.051 + 100.0 / 150.0 + 100.0 * 2.0 / 3.0;
    assert!(
        (plan.cost - cost).abs() < 1e-9,
        "{} is not {cost}",
        plan.cost
    );
}

fn with_pack_ratio(snapshot: Snapshot, ratio: f64) -> Snapshot {
    let stream = Stream {
        pack_ratio: Some(ratio),
        ..snapshot.stream
    };
    Snapshot::new(snapshot.topology, snapshot.weights, stream)
}

#[test]
fn strict_policy_returns_no_infeasible_plan() {
    let snapshot = Net::default()
        .node("s", 1)
        .node("t", 1)
        .link("s-t", 100, 50)
        .stream(&[100], within(20));
    let (least_bad, missing) = plan(&snapshot, &Policy::default());
    assert_eq!(path(&least_bad), "s t");
    let strict = Policy {
        strict: true,
        ..Policy::default()
    };
    assert_eq!(plan(&snapshot, &strict), (Plan::default(), missing));
    let met = snapshot.stream.clone();
    let mut met = Snapshot::new(snapshot.topology, snapshot.weights, met);
    met.stream.needs = within(50);
    assert_eq!(plan(&met, &strict), plan(&met, &Policy::default()));
}

#[test]
fn fitting_stream_is_left_alone() {
    let net = Net::default()
        .node("s", 9)
        .node("t", 9)
        .link("s-t", 10_000, 1);
    let plan = solve(&net.stream(&[100, 300], confidential()));
    assert_eq!(chains(&plan), "");
    assert_eq!(plan.layers, 2);
}

#[test]
fn untrusted_relay_filters_but_never_opens() {
    let snapshot = Net::default()
        .node("s", 1)
        .blind("m", 3)
        .node("t", 1)
        .link("s-m", 1_000, 0)
        .link("m-t", 150, 0)
        .stream(&[100, 300], confidential());
    assert_eq!(chains(&solve(&snapshot)), "s[seal] m[keep:1] t[open]");
}

#[test]
fn packing_avoids_dropping_layers() {
    let net = |slots| {
        let net = Net::default().node("s", slots).node("t", slots);
        net.link("s-t", 210, 0)
            .stream(&[200, 200], Needs::default())
    };
    assert_eq!(chains(&solve(&net(1))), "s[pack] t[unpack]");
    let none = shortfalls(&net(0));
    assert_eq!(
        none.iter().map(|one| one.need).collect::<Vec<_>>(),
        [Need::Rate, Need::Slots]
    );
}

#[test]
fn detour_for_slots_is_a_simple_path() {
    // Two adapters must run before m-t, and the source has one slot. The detour by d has the
    // second.
    let snapshot = Net::default()
        .node("s", 1)
        .node("d", 2)
        .node("m", 0)
        .node("t", 2)
        .link("s-d", 10_000, 0)
        .link("m-d", 10_000, 0)
        .link("s-m", 10_000, 0)
        .link("m-t", 110, 0)
        .stream(&[200, 200], Needs::default());
    let plan = solve(&snapshot);
    assert_eq!(path(&plan), "s d m t");
    // Here the slots are at the end of a branch: only the walk s-m-d-m-t would pass them, and it is
    // no path.
    let branch = Net::default()
        .node("s", 0)
        .node("m", 0)
        .node("d", 2)
        .node("t", 0)
        .link("s-m", 10_000, 0)
        .link("m-d", 10_000, 0)
        .link("m-t", 210, 0)
        .stream(&[200, 200], Needs::default());
    let needs: Vec<_> = shortfalls(&branch).iter().map(|one| one.need).collect();
    assert_eq!(needs, [Need::Rate, Need::Slots]);
}

#[test]
fn deadline_justifies_dearer_path() {
    let net = |needs| {
        let net = Net::default().node("s", 3).node("m", 0).node("t", 3);
        net.link("s-t", 1_000, 20)
            .link("s-m", 100_000, 30)
            .link("m-t", 100_000, 30)
            .stream(&[100], needs)
    };
    assert_eq!(path(&solve(&net(within(60)))), "s m t");
    assert_eq!(path(&solve(&net(within(59)))), "s t");
    let late = shortfalls(&net(within(19)));
    let [
        Shortfall {
            need: Need::Deadline,
            lacks,
        },
    ] = &late[..]
    else {
        panic!("{late:?}");
    };
    assert_eq!(
        lacks[..],
        [Violation::Late {
            takes_ms: 20.0,
            allows_ms: 19.0
        }]
    );
}

#[test]
fn ties_prefer_hops_then_names_then_links() {
    let square = Net::default()
        .node("s", 0)
        .node("y", 0)
        .node("x", 0)
        .node("t", 0);
    let square = square.link("s-y", 200, 0).link("y-t", 200, 0);
    let square = square
        .link("s-x", 200, 0)
        .link("x-t", 200, 0)
        .link("x-t", 200, 0);
    let snapshot = square.stream(&[100], Needs::default());
    let plan = solve(&snapshot);
    assert_eq!(path(&plan), "s x t");
    assert_eq!(plan.links[1].link.0, 3);
    let mut direct = snapshot.clone();
    let ends = [NodeIndex(0), NodeIndex(3)];
    direct
        .topology
        .add_link(Edge::new(ends, Bitrate::from_kbps(100)));
    assert_eq!(path(&solve(&direct)), "s t");
}

#[test]
fn exactly_fitting_rate_fits() {
    // 0.1 and 1.02 have no exact binary form; still, 1 Mbit/s · 0.1 · 1.02 is 102 kbit/s.
    let net = Net::default().node("s", 2).node("t", 2).link("s~t", 102, 0);
    let snapshot = with_pack_ratio(net.stream(&[1_000], confidential()), 0.1);
    assert_eq!(chains(&solve(&snapshot)), "s[pack seal] t[open unpack]");
}

#[test]
fn untrusted_end_is_named() {
    let net = Net::default()
        .node("s", 2)
        .blind("t", 2)
        .link("s-t", 1_000, 0);
    let snapshot = net.stream(&[100], confidential());
    let found = shortfalls(&snapshot);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].need, Need::Confidential);
    assert!(
        found[0]
            .lacks
            .contains(&Violation::PlainNode { node: name("t") })
    );
    let text = explain(&snapshot, &Plan::default());
    assert!(text.contains("there is no plan"), "{text}");
    assert!(text.contains("trust t"), "{text}");
}

#[test]
fn no_links_is_no_path() {
    let snapshot = Net::default()
        .node("s", 2)
        .node("t", 2)
        .stream(&[100], Needs::default());
    let lacks = vec![Violation::NoPath {
        from: name("s"),
        to: name("t"),
    }];
    assert_eq!(
        shortfalls(&snapshot),
        [Shortfall {
            need: Need::Path,
            lacks
        }]
    );
}

#[test]
fn invalid_stream_is_rejected_with_reason() {
    let net = Net::default()
        .node("s", 2)
        .node("t", 2)
        .link("s-t", 1_000, 0);
    let snapshot = net.stream(&[100], Needs::default());
    let several = Stream {
        to: vec![name("t"), name("s")],
        ..snapshot.stream.clone()
    };
    let unknown = Stream {
        from: name("u"),
        ..snapshot.stream.clone()
    };
    let empty = Stream {
        layers: vec![],
        ..snapshot.stream.clone()
    };
    for (stream, lack) in [
        (several, Violation::Sinks { count: 2 }),
        (unknown, Violation::UnknownNode { node: name("u") }),
        (empty, Violation::Layers { has: 0, needs: 1 }),
    ] {
        let found = shortfalls(&Snapshot {
            stream,
            ..snapshot.clone()
        });
        assert_eq!(
            found,
            [Shortfall {
                need: Need::Input,
                lacks: vec![lack]
            }]
        );
    }
}

#[test]
fn exhausted_search_is_reported() {
    let net = Net::default().node("s", 3).node("t", 3).link("s-t", 150, 0);
    let snapshot = net.stream(&[100, 100], Needs::default());
    let policy = |labels_max| Policy {
        labels_max,
        ..Policy::default()
    };
    let (plan_of_one, found) = plan(&snapshot, &policy(1));
    assert!(!plan_of_one.feasible);
    let lacks = vec![Violation::Exhausted { labels: 1 }];
    assert_eq!(
        found,
        [Shortfall {
            need: Need::Effort,
            lacks
        }]
    );
    assert!(plan(&snapshot, &policy(100)).0.feasible);
}

#[test]
fn source_as_sink_needs_nothing() {
    let net = Net::default().node("s", 0).node("t", 0);
    let snapshot = net.stream(&[100], Needs::default()).for_sink(name("s"));
    let plan = solve(&snapshot);
    assert_eq!((path(&plan).as_str(), plan.cost), ("s", 0.0));
}

#[test]
fn adapter_delays_count_towards_deadline() {
    let net = Net::default()
        .node("s", 3)
        .node("t", 3)
        .link("s~t", 1_000, 20);
    let mut snapshot = net.stream(
        &[100],
        Needs {
            confidential: true,
            ..within(24)
        },
    );
    for profile in &mut snapshot.catalogue.profiles {
        profile.delay = Duration::from_millis(2);
    }
    assert_eq!(solve(&snapshot).delay, Duration::from_millis(24));
    snapshot.stream.needs.deadline = Duration::from_millis(23);
    assert_eq!(shortfalls(&snapshot)[0].need, Need::Deadline);
}

#[test]
fn checker_rejects_false_plans() {
    let net = Net::default().node("s", 2).node("m", 2).node("t", 2);
    let net = net.link("s~m", 1_000, 5).link("m-t", 150, 5);
    let snapshot = net.stream(&[100, 100], confidential());
    let good = solve(&snapshot);
    let breaks = |change: fn(&mut Plan)| {
        let mut plan = good.clone();
        change(&mut plan);
        assert_ne!(check(&snapshot, &plan), [], "{plan:#?}");
    };
    breaks(|plan| plan.cost += 1e-6);
    breaks(|plan| plan.placements[0].adapters.clear());
    breaks(|plan| plan.placements.reverse_adapters());
    breaks(|plan| plan.links[0].sealed = false);
    breaks(|plan| plan.path.truncate(2));
    breaks(|plan| plan.links.swap(0, 1));
    breaks(|plan| plan.delay = Duration::ZERO);
    breaks(|plan| plan.layers += 1);
    breaks(|plan| *plan = Plan::default());
}

/// Reverses the adapters of the first node.
trait ReverseAdapters {
    fn reverse_adapters(&mut self);
}

impl ReverseAdapters for Vec<thalweg_planner::planner::Placement> {
    fn reverse_adapters(&mut self) {
        self[0].adapters.reverse();
    }
}

/// A chain of `nodes` nodes from `s` to `t`, both included.
fn chain(nodes: usize) -> Net {
    let inner = |at: usize| format!("n{at}");
    let mut net = Net::default().node("s", 3);
    for at in 1..nodes - 1 {
        net = net.node(&inner(at), 3);
    }
    net = net.node("t", 3).link("s-n1", 10_000, 1);
    for at in 1..nodes - 2 {
        net = net.link(&format!("n{at}-n{}", at + 1), 10_000, 1);
    }
    net.link(&format!("n{}-t", nodes - 2), 10_000, 1)
}

#[test]
fn overlong_path_is_no_plan() {
    let snapshot = chain(32).stream(&[100], Needs::default());
    assert_eq!(solve(&snapshot).path.len(), 32);
    let snapshot = chain(33).stream(&[100], Needs::default());
    let found = shortfalls(&snapshot);
    assert_eq!(found[0].need, Need::Length);
    let text = found[0].to_string();
    assert_eq!(text, "the path has 33 nodes, the maximum is 32");
}

#[test]
fn dear_short_path_beats_cheap_overlong_one() {
    let net = chain(40).node("x", 3).link("s-x", 110, 1);
    let snapshot = net.link("x-t", 110, 1).stream(&[100], Needs::default());
    assert_eq!(path(&solve(&snapshot)), "s x t");
}
