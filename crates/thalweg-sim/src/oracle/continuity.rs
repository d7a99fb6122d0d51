//! Whether streams went on whole where a way broke and there was another.
//!
//! *The idea.* In a world whose source and sinks stay, and in which another way is there whenever one breaks, every ADU that
//! was given under a plan and does not depend on luck is delivered, and in time. What was given before there was a plan is
//! not lost by a way, nor in time if it was kept and comes after all. A world says by being asked that it is such a one: whether a planner may use a way is not for an
//! onlooker to guess.
//!
//! *What it does not do.* Of streams of reliability `none` it says nothing.

use thalweg_core::event::DropCause;
use thalweg_core::model::World;
use thalweg_core::needs::Reliability;

use crate::report::Report;

/// Says which streams were not kept whole.
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
