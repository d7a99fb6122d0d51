//! The planner against an oracle, against its laws, and on cases that can be checked by hand.

mod adapters;
mod brute;
mod brute_many;
mod brute_tree;
mod budget;
mod cases;
mod laws;
mod oracle;
mod planners;
mod relations;
mod replanning;
mod streams;
mod trees;
mod worlds;
