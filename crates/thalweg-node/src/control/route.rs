//! Answers queries for the paths between two nodes; translates names to keys.

use thalweg_base::id::StreamName;
use thalweg_control::control::Ways;

use super::{AdmissionError, Control};

/// Why the paths between two nodes cannot be listed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// A node's name is unknown or ambiguous.
    #[error(transparent)]
    Name(#[from] AdmissionError),
    /// A node or the stream is not on the map.
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
