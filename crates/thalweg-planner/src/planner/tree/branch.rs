//! A tree as a list of branches: what each node does and sends on, the source first.
//!
//! *The idea.* Paths that are identical up to a node stay together while their adapters here and
//! their next link are the same. Where these differ they branch: each group is a branch, and the
//! adapters that the groups have in common at the beginning run once.

use alloc::vec::Vec;

use super::super::product::{LinkUse, Plan};
use super::Tree;
use crate::model::{Adapter, NodeName};

/// What the paths of one group do at one node.
#[derive(Clone, Debug, PartialEq)]
pub struct Branch {
    /// Links from the source.
    pub depth: usize,
    /// The node.
    pub node: NodeName,
    /// The adapters that these paths run here.
    pub adapters: Vec<Adapter>,
    /// How many of these an earlier branch at this node already runs.
    pub shared: usize,
    /// Number of branches that leave or end at this node; above 1 the paths diverge here.
    pub parts: usize,
    /// The link to the next node; `None` where the path ends.
    pub link: Option<LinkUse>,
    /// The sinks of these paths, by index.
    pub sinks: Vec<usize>,
}

impl Tree {
    /// Returns the branches, each before those that continue it.
    pub fn branches(&self) -> Vec<Branch> {
        let all: Vec<usize> = (0..self.paths.len())
            .filter(|sink| !self.paths[*sink].path.is_empty())
            .collect();
        let mut branches = Vec::new();
        // A path has at most `limits::PATH_NODES_MAX` nodes, which bounds the recursion.
        if !all.is_empty() {
            self.part(&mut branches, &all, 0);
        }
        branches
    }

    /// Adds the branches of paths that have reached a node together, and all that follow.
    fn part(&self, branches: &mut Vec<Branch>, together: &[usize], depth: usize) {
        let way = |sink: usize| {
            let path: &Plan = &self.paths[sink];
            let chain = path.adapters_at(&path.path[depth]);
            (chain, path.links.get(depth))
        };
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for sink in together {
            let key = |sink: usize| (way(sink).0, way(sink).1.map(|link| link.link));
            let known = groups.iter_mut().find(|group| key(group[0]) == key(*sink));
            match known {
                Some(group) => group.push(*sink),
                None => groups.push(alloc::vec![*sink]),
            }
        }
        for (at, group) in groups.iter().enumerate() {
            let (chain, link) = way(group[0]);
            let earlier = groups[..at].iter().map(|other| way(other[0]).0);
            let common = earlier.map(|other| {
                let pairs = other.iter().zip(chain);
                pairs.take_while(|(one, other)| one == other).count()
            });
            branches.push(Branch {
                depth,
                node: self.paths[group[0]].path[depth].clone(),
                adapters: chain.to_vec(),
                shared: common.max().unwrap_or(0),
                parts: groups.len(),
                link: link.cloned(),
                sinks: group.clone(),
            });
            if link.is_some() {
                self.part(branches, group, depth + 1);
            }
        }
    }
}
