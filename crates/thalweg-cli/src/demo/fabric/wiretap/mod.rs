//! Counts of sealed and plain ADUs on links that require sealing, as the nodes sent them.
//!
//! *The idea.* A node counts every ADU that it gives to a link by whether its payload is sealed at
//! that moment, whatever the plan says. Which links require sealing follows from the world alone:
//! insecure links, and links that end at an untrusted node.
//!
//! *What it does not do.* It does not inspect packets: on the line they are encrypted by QUIC in any case.

use thalweg_planner::model::{Link, World};

use super::Fabric;

#[cfg(test)]
mod tests;

/// Counts for each link, in the world's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wiretap {
    /// One entry per link of the world.
    pub crossings: Vec<Crossing>,
}

/// Counts of a link, both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crossing {
    /// Whether a confidential stream must be sealed on it.
    pub requires_sealing: bool,
    /// ADUs sent with a sealed payload.
    pub sealed: u64,
    /// ADUs sent with a readable payload.
    pub plain: u64,
}

impl Wiretap {
    /// Reads the counts of every node.
    pub async fn read(world: &World, fabric: &Fabric) -> Self {
        let mut crossings: Vec<Crossing> = world
            .links
            .iter()
            .map(|link| Crossing {
                requires_sealing: requires_sealing(world, link),
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
                // Two nodes share one connection, so parallel links share its counts.
                let links = world.links.iter().zip(&mut crossings);
                for (_, crossing) in links.filter(|(link, _)| joins(link)) {
                    crossing.sealed += peer.adus.sealed;
                    crossing.plain += peer.adus.plain;
                }
            }
        }
        Self { crossings }
    }

    /// Returns whether no plain payload crossed a link that requires sealing. Returns `false` if
    /// nothing was counted, which would prove nothing.
    pub fn all_sealed(&self) -> bool {
        let counted = self
            .crossings
            .iter()
            .any(|crossing| crossing.sealed + crossing.plain > 0);
        let called = self
            .crossings
            .iter()
            .filter(|crossing| crossing.requires_sealing);
        counted && called.into_iter().all(|crossing| crossing.plain == 0)
    }
}

fn requires_sealing(world: &World, link: &Link) -> bool {
    let trusted = |end| world.nodes.get(end).is_some_and(|node| node.trusted);
    !link.secure || !link.ends.iter().all(trusted)
}
