//! The planner's input: topology, links, streams, weights.
