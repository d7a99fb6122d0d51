//! Checks that streams stayed whole although a path broke, given that there was another.
//!
//! Only for worlds in which the source and sinks stay and an alternative path exists whenever one
//! breaks; the caller knows that, since an observer cannot tell which paths a planner may use. There,
//! every ADU that was given under a plan is delivered, and in time. ADUs given before the first plan,
//! including those kept and replayed, do not count; streams of reliability `none` are not checked.

use thalweg_base::event::DropCause;
use thalweg_base::needs::Reliability;
use thalweg_planner::model::World;

use crate::report::Report;

/// Returns a sentence for each stream that was not kept whole.
pub fn broken(world: &World, report: &Report) -> Vec<String> {
    let is_kept = |name: &str| {
        let mut streams = world.streams.iter();
        let stream = streams.find(|stream| stream.name.as_str() == name);
        stream.is_some_and(|stream| stream.needs.reliability != Reliability::None)
    };
    let mut sentences = Vec::new();
    for stream in report.streams.iter().filter(|s| is_kept(&s.stream)) {
        let unplanned = stream.by_cause.get(DropCause::NoSubscriber.name());
        let given = stream.sent - unplanned.copied().unwrap_or(0) - stream.replayed;
        if stream.delivered - stream.replayed != given || stream.in_time != given {
            sentences.push(format!(
                "`{}` to {}: {given} ADUs were given under a plan, {} delivered, {} in time: {:?}",
                stream.stream, stream.sink, stream.delivered, stream.in_time, stream.by_hop
            ));
        }
    }
    sentences
}
