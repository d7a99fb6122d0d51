//! Which parts may be installed here: by the source's record, rights, slots and limits.

use alloc::format;
use alloc::string::{String, ToString};

use thalweg_base::limits::EPOCHS_PER_STREAM_MAX;
use thalweg_base::part::Installation;
use thalweg_base::wire::record::Record;

use super::Parts;
use crate::admission::Rights;
use crate::effect::plans_of;
use crate::facts::{Facts, no_right};

impl Parts {
    /// Checks that the source publishes the stream, and that rights, slots and limits allow the part.
    pub(super) fn admit(&self, facts: &Facts<'_>, asked: &Installation) -> Result<(), String> {
        let publishes = |record: &Record| record.streams.iter().any(|s| s.id == asked.stream);
        let (id, source) = (self.id, asked.source);
        if !facts.directory.record(source).is_some_and(publishes) {
            let source = source.short();
            return Err(format!("{source} does not announce the stream"));
        }
        let relays = asked.next.is_some() && source != id;
        if relays && !facts.may(id, Rights::RELAY) {
            return Err(no_right("this node", Rights::RELAY));
        }
        let is_fed_here = asked.previous == id && source != id;
        // A base is older than its grafts, so no ADU goes in circles.
        if is_fed_here != asked.base.is_some() || asked.base.is_some_and(|b| b >= asked.epoch) {
            return Err("invalid graft: the plan is grafted on itself or on no plan".to_string());
        }
        let slots = facts.local.settings.slots as usize;
        let adapters = asked.adapters.len();
        if adapters > slots {
            return Err(format!(
                "{adapters} adapters are requested, but this node has {slots} slots"
            ));
        }
        let key = (asked.stream, asked.epoch);
        if self.get(key) == Some(asked) {
            return Ok(());
        }
        if self.is_leaving && source != id {
            return Err("this node is about to leave".to_string());
        }
        let others = self.of_stream(asked.stream).count();
        let coming = self.pending.range(plans_of(asked.stream));
        let coming = coming.filter(|(plan, _)| **plan != key);
        if others + coming.count() >= EPOCHS_PER_STREAM_MAX {
            return Err(format!(
                "{EPOCHS_PER_STREAM_MAX} plans of the stream are installed already"
            ));
        }
        Ok(())
    }
}
