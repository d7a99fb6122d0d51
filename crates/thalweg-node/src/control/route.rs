//! Answers queries for the paths between two nodes; translates names to keys.

use thalweg_base::id::StreamName;
use thalweg_control::control::Paths;

use super::Control;
use crate::input::RouteError;

impl Control {
    pub(super) fn route(
        &self,
        [from, to]: &[String; 2],
        stream: Option<&StreamName>,
    ) -> Result<Paths, RouteError> {
        let paths = self
            .controller
            .paths(self.find(from)?, self.find(to)?, stream);
        paths.map_err(RouteError::Map)
    }
}
