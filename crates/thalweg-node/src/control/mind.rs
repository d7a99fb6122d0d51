//! The controller with what it is driven with: the clock and the node's keys.
//!
//! *The idea.* Nearly every input of the controller takes the present moment and the keys. They stand
//! beside it here, so that the owner of another part of the task needs this alone to reach it.
//!
//! *What it does not do.* It carries out no output: each goes to its owner.

use thalweg_base::id::{NodeId, StreamId, StreamName};
use thalweg_base::time::Instant;
use thalweg_control::control::{AdmissionChange, Controller, Output, Paths};
use thalweg_net::Clock;

use super::keys::NodeKeys;
use crate::input::{AdmissionError, RouteError};

/// A controller that is driven.
pub(super) struct Mind {
    controller: Controller,
    keys: NodeKeys,
    clock: Clock,
}

impl Mind {
    pub(super) fn new(controller: Controller, keys: NodeKeys, clock: Clock) -> Self {
        Self {
            controller,
            keys,
            clock,
        }
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Returns the controller, to read from.
    pub(super) fn controller(&self) -> &Controller {
        &self.controller
    }

    /// Hands something to the controller, with the present moment and the keys.
    pub(super) fn drive<T>(
        &mut self,
        act: impl FnOnce(&mut Controller, Instant, &mut NodeKeys) -> T,
    ) -> T {
        let now = self.now();
        act(&mut self.controller, now, &mut self.keys)
    }

    pub(super) fn poll_output(&mut self) -> Option<Output> {
        self.controller.poll_output()
    }

    pub(super) fn poll_admission(&mut self) -> Option<AdmissionChange> {
        self.controller.poll_admission()
    }

    /// Returns a node's display name.
    pub(super) fn name_of(&self, node: NodeId) -> String {
        self.controller.name_of(node)
    }

    /// Returns the name of a stream with a route on this node.
    pub(super) fn stream_name(&self, stream: StreamId) -> Option<String> {
        let mut parts = self.controller.parts().installations();
        let part = parts.find(|part| part.stream == stream)?;
        Some(part.name.to_string())
    }

    /// Returns the key of a node given by name or key.
    pub(super) fn find(&self, node: &str) -> Result<NodeId, AdmissionError> {
        if let Ok(key) = node.parse() {
            return Ok(key);
        }
        let records = self
            .controller
            .directory()
            .records()
            .map(|record| record.node);
        let members = self.controller.roll().members().map(|(key, _)| key);
        let known = records.chain(members);
        let named = NodeId::meant(node, known.map(|key| (key, self.name_of(key))));
        match named[..] {
            [key] => Ok(key),
            [] => Err(AdmissionError::Unknown(node.chars().take(80).collect())),
            _ => Err(AdmissionError::Ambiguous {
                name: node.chars().take(80).collect(),
                count: named.len(),
            }),
        }
    }

    /// Returns the paths between two nodes, given by name or key.
    pub(super) fn paths(
        &self,
        [from, to]: &[String; 2],
        stream: Option<&StreamName>,
    ) -> Result<Paths, RouteError> {
        let (from, to) = (self.find(from)?, self.find(to)?);
        let paths = self.controller.paths(from, to, stream);
        paths.map_err(RouteError::Map)
    }
}
