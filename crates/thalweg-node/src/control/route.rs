//! The ways between two nodes, for whoever asks; names are made keys here.

use thalweg_core::control::Ways;
use thalweg_core::id::StreamName;

use super::{AdmissionError, Control};

/// There is nothing to say of the ways between two nodes, and why.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// One of the two is not known by that name.
    #[error(transparent)]
    Name(#[from] AdmissionError),
    /// One of them, or the stream, is not on the map.
    #[error("{0}")]
    Map(String),
    /// The node has stopped.
    #[error("the node has stopped")]
    Stopped,
}

impl Control {
    pub(super) fn route(
        &self,
        [from, to]: &[String; 2],
        stream: Option<&StreamName>,
    ) -> Result<Ways, RouteError> {
        let ways = self
            .controller
            .ways(self.find(from)?, self.find(to)?, stream);
        ways.map_err(RouteError::Map)
    }
}
