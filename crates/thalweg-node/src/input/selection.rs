//! Which streams a program is interested in.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thalweg_base::description::Description;
use thalweg_base::id::{StreamName, StreamPattern};

/// Which streams are meant: by name, and by labels that their publishers gave them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// The pattern of their names.
    pub pattern: StreamPattern,
    /// Labels that each of them has, with these values; a stream that is not described has none.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

impl Selection {
    /// Returns whether a stream is meant.
    pub fn contains(&self, name: &StreamName, description: Option<&Description>) -> bool {
        let has = |(key, value): (&String, &String)| {
            let labels = description.map(|description| &description.labels);
            labels.and_then(|labels| labels.get(key)) == Some(value)
        };
        self.pattern.matches(name) && self.labels.iter().all(has)
    }
}
