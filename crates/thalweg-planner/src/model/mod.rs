//! The planner's input: topology, links, streams, weights, and adapters.
//!
//! *The idea.* Two forms of the same data. A [`World`] is what people write and read: names, units,
//! defaults, events. A [`Snapshot`] is what a planner computes with: nodes and links as dense
//! indices, and one stream. A node builds its snapshot from live records instead of a file; a
//! planner cannot tell the difference.
//!
//! *What it does not do.* It parses no text (`thalweg-world` does, and reports file, line and key),
//! and it measures nothing.
//!
//! *Sources.* docs/concepts/planner.md §1 (symbols), docs/reference/worlds.md (the world file).

mod adapter;
mod catalogue;
mod declaration;
mod effect;
mod event;
mod fault;
mod impairment;
mod name;
mod policy;
mod stream;
mod text;
mod topology;
mod weights;
mod world;

#[cfg(test)]
mod tests;

pub use adapter::{Adapter, AdapterName, BadAdapter, BadAdapterName};
pub use catalogue::{Catalogue, PACK, SEAL};
pub use declaration::Declaration;
pub use effect::{Profile, Role, Table, Transform};
pub use event::{Change, Event, LinkChange, NodeAction};
pub use fault::Fault;
pub use name::{BadNodeName, NodeName, visible};
pub use policy::{Planner, PlannerUnavailable, Policy};
pub use stream::{Layer, Stream, Traffic, UTILITY_TOLERANCE};
pub use topology::{Edge, LinkIndex, NodeIndex, Place, Topology};
pub use weights::Weights;
pub use world::{Link, Node, Snapshot, World};
