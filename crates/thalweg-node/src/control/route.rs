//! Answers queries for the paths between two nodes; translates names to keys.

use thalweg_base::id::StreamName;
use thalweg_control::control::Ways;

use super::Control;
use crate::input::RouteError;

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
