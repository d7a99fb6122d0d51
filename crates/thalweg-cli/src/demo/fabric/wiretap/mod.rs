//! What crossed the links that call for sealing: counted by the nodes as they sent it, whatever the plan says.
//!
//! *The idea.* A node counts every ADU it hands to a link by whether the payload is sealed at that moment. The links
//! that call for it follow from the world alone: those that others can listen on, and those that end at a node which
//! is not trusted.
//!
//! *What it does not do.* It does not look into packets: on the line they are QUIC's, encrypted in any case.

use thalweg_planner::model::{Link, World};

use super::Fabric;

#[cfg(test)]
mod tests;

/// What crossed each link, in the order of the world's links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wiretap {
    /// One a link of the world.
    pub crossings: Vec<Crossing>,
}

/// What crossed a link, both ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crossing {
    /// Whether a confidential stream must be sealed here.
    pub calls_for_sealing: bool,
    /// ADUs sent with a sealed payload.
    pub sealed: u64,
    /// ADUs sent with a readable payload.
    pub plain: u64,
}

impl Wiretap {
    /// Asks every node what it has sent.
    pub async fn read(world: &World, fabric: &Fabric) -> Self {
        let mut crossings: Vec<Crossing> = world
            .links
            .iter()
            .map(|link| Crossing {
                calls_for_sealing: calls_for_sealing(world, link),
                ..Crossing::default()
            })
            .collect();
        for (name, handle) in &fabric.nodes {
            let Some(status) = handle.status().await else {
                continue;
            };
            for peer in &status.links {
                let joins = |link: &Link| {
                    super::far_end(link, name).is_some_and(|other| other.as_str() == peer.name)
                };
                // Two nodes have one connection, so parallel links share its count.
                let links = world.links.iter().zip(&mut crossings);
                for (_, crossing) in links.filter(|(link, _)| joins(link)) {
                    crossing.sealed += peer.adus.sealed;
                    crossing.plain += peer.adus.plain;
                }
            }
        }
        Self { crossings }
    }

    /// Returns whether no readable payload crossed a link that calls for sealing; not if nothing was counted at all,
    /// for that proves nothing.
    pub fn all_sealed(&self) -> bool {
        let counted = self
            .crossings
            .iter()
            .any(|crossing| crossing.sealed + crossing.plain > 0);
        let called = self
            .crossings
            .iter()
            .filter(|crossing| crossing.calls_for_sealing);
        counted && called.into_iter().all(|crossing| crossing.plain == 0)
    }
}

fn calls_for_sealing(world: &World, link: &Link) -> bool {
    let trusted = |end| world.nodes.get(end).is_some_and(|node| node.trusted);
    !link.secure || !link.ends.iter().all(trusted)
}
