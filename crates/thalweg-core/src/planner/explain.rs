//! A plan in words.

use alloc::string::String;

use super::product::Plan;
use crate::model::Snapshot;

/// Returns a plan in words that a person understands.
pub fn explain(_snapshot: &Snapshot, _plan: &Plan) -> String {
    String::new()
}
