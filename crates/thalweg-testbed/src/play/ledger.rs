//! The nodes' counters: drops by node, stream and cause, and whether payloads were sealed.
//!
//! Nodes are polled, because one that crashes loses its counters, and none reports a stream that was
//! withdrawn; the last answer counts. Only the source reports final counts at the end. A node's
//! counters of a stream cover all its sinks.

use std::collections::BTreeMap;

use serde_json::Value;
use thalweg_base::event::DropCause;
use thalweg_planner::model::{NodeName, World};

/// Counts by stream and cause.
type Drops = BTreeMap<(Publication, &'static str), u64>;

/// A stream's name, and its id on the wire: a stream that is published again counts from zero.
type Publication = (String, String);

/// The nodes' counters so far.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    nodes: BTreeMap<NodeName, Row>,
}

#[derive(Clone, Debug, Default)]
struct Row {
    /// Of earlier processes of this node.
    before: Drops,
    /// The current process's last answer.
    last: Drops,
    /// The neighbours to which a readable payload went over an insecure link or to an untrusted node.
    exposed_to: Vec<String>,
}

impl Ledger {
    /// Records the nodes' answers.
    pub fn handle_status(&mut self, all: &BTreeMap<NodeName, Value>) {
        for (node, status) in all {
            let row = self.nodes.entry(node.clone()).or_default();
            for (key, count) in drops(status) {
                let last = row.last.entry(key).or_default();
                // Counters only grow.
                *last = count.max(*last);
            }
            for link in status["links"].as_array().into_iter().flatten() {
                let is_closed = link["secure"] == true && link["trusted"] == true;
                let name = link["name"].as_str().unwrap_or_default().to_owned();
                let is_exposed = !is_closed && link["adus"]["plain"].as_u64() > Some(0);
                if is_exposed && !row.exposed_to.contains(&name) {
                    row.exposed_to.push(name);
                }
            }
        }
    }

    /// Records a source's final report of its stream.
    pub fn handle_summary(&mut self, node: &NodeName, stream: &str, summary: &Value) {
        let row = self.nodes.entry(node.clone()).or_default();
        let known = row.last.keys().map(|(publication, _)| publication);
        let publication = known.filter(|(name, _)| name == stream).max().cloned();
        let publication = publication.unwrap_or_else(|| (stream.to_owned(), String::new()));
        for (cause, count) in causes(summary) {
            let last = row.last.entry((publication.clone(), cause)).or_default();
            *last = count.max(*last);
        }
    }

    /// Records that a node has a new process, which counts from zero.
    pub fn handle_restart(&mut self, node: &NodeName) {
        if let Some(row) = self.nodes.get_mut(node) {
            for (key, count) in std::mem::take(&mut row.last) {
                *row.before.entry(key).or_default() += count;
            }
        }
    }

    /// Returns the drops of a stream: node, cause, number.
    pub fn drops(&self, stream: &str) -> Vec<(String, DropCause, u64)> {
        let mut all = Vec::new();
        for (node, row) in &self.nodes {
            for cause in DropCause::ALL {
                let counts = row.before.iter().chain(&row.last);
                let count = counts
                    .filter(|(((name, _), of), _)| name == stream && *of == cause.name())
                    .map(|(_, count)| count)
                    .sum();
                if count > 0 {
                    all.push((node.to_string(), cause, count));
                }
            }
        }
        all
    }

    /// Returns a sentence for each link on which a payload was readable that should not have been.
    ///
    /// Nodes count by link and not by stream, so this is possible only if every stream of the world is
    /// confidential.
    pub fn exposures(&self, world: &World) -> Vec<String> {
        if !world.streams.iter().all(|stream| stream.needs.confidential) {
            return Vec::new();
        }
        let rows = self.nodes.iter();
        rows.flat_map(|(node, row)| {
            row.exposed_to.iter().map(move |to| {
                format!("`{node}` sent a readable payload of a confidential stream to `{to}`, where others can see it")
            })
        })
        .collect()
    }
}

fn drops(status: &Value) -> Drops {
    let mut drops = Drops::new();
    for stream in status["streams"].as_array().into_iter().flatten() {
        let text = |key: &str| stream[key].as_str().unwrap_or_default().to_owned();
        for (cause, count) in causes(&stream["counts"]) {
            drops.insert(((text("name"), text("id")), cause), count);
        }
    }
    drops
}

/// Returns the known causes in `dropped` of a node's counters of a stream.
fn causes(counts: &Value) -> Vec<(&'static str, u64)> {
    let dropped = counts["dropped"].as_object().into_iter().flatten();
    let cause = |(name, count): (&String, &Value)| {
        let known = DropCause::ALL
            .into_iter()
            .find(|known| known.name() == name)?;
        Some((known.name(), count.as_u64()?))
    };
    dropped.filter_map(cause).collect()
}

#[cfg(test)]
mod tests {
    //! Proves that a crashed node's counts are neither lost nor counted twice.

    use serde_json::json;

    use super::{BTreeMap, DropCause, Ledger, NodeName, World};

    fn node() -> NodeName {
        "relay".parse().expect("a valid name")
    }

    fn status(expired: u64) -> BTreeMap<NodeName, serde_json::Value> {
        let status = json!({
            "streams": [{"name": "s", "id": "00", "counts": {"dropped": {"expired": expired, "no such": 3}}}],
            "links": [{"name": "base", "secure": false, "trusted": true, "adus": {"plain": expired, "sealed": 0}}],
        });
        BTreeMap::from([(node(), status)])
    }

    #[test]
    fn counts_of_restarted_node_add_up() {
        let mut ledger = Ledger::default();
        ledger.handle_status(&status(0));
        assert_eq!(ledger.drops("s"), []);
        assert!(ledger.exposures(&World::default()).is_empty());
        ledger.handle_status(&status(3));
        ledger.handle_status(&status(5));
        ledger.handle_restart(&node());
        assert_eq!(ledger.drops("s"), [("relay".into(), DropCause::Expired, 5)]);
        ledger.handle_status(&status(2));
        assert_eq!(ledger.drops("s"), [("relay".into(), DropCause::Expired, 7)]);
        assert_eq!(ledger.drops("other"), []);
        // A withdrawn stream is not reported any more; its last counts stand.
        ledger.handle_status(&BTreeMap::from([(node(), json!({"streams": []}))]));
        assert_eq!(ledger.drops("s"), [("relay".into(), DropCause::Expired, 7)]);
        ledger.handle_summary(
            &node(),
            "s",
            &json!({"dropped": {"expired": 4, "filtered": 1}}),
        );
        let all = [
            ("relay".into(), DropCause::Expired, 9),
            ("relay".into(), DropCause::Filtered, 1),
        ];
        assert_eq!(ledger.drops("s"), all);
        assert_eq!(ledger.exposures(&World::default()).len(), 1);
    }
}
