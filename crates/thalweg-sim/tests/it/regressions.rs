//! Seeds that once found a defect, each with a description of it.
//!
//! A seed names a world only as long as `generate` does not change. Before changing it, run these seeds
//! once more and keep as a file every world that would be lost.

use thalweg_sim::generate::Length;

use crate::worlds::generated;

const SEEDS: [(u64, &str); 16] = [
    (
        278,
        "a plan gives way without a word, and what its sink had told goes with the link: the source went by what was told, not by receipts",
    ),
    (
        3_389,
        "a dependant that had left whole is given up and is there after all: it was looked for among those that are left out",
    ),
    (
        6_633,
        "a sink stops, and what was under way to where it is copied for that comes when it is not copied any more",
    ),
    (
        38_300,
        "as with 6633, where it had two links before it when the sink stopped, or was given before the source had heard of that",
    ),
    (
        6_965,
        "a line takes all that is told of a stream's last ADUs, until the link is given up and their plan released",
    ),
    (
        8_329,
        "sent again for one of two sinks, an ADU expires before the caster that had it before there was a cast",
    ),
    (
        10_172,
        "a plan that is cast and not in force yet gives way to another: what its sink had by it was never told",
    ),
    (
        11_867,
        "as with 8329, where others that are sent again expire and arrive",
    ),
    (
        1_022,
        "datagrams wait in QUIC through an outage, past their deadlines, and nobody says so: `Departed` is the last word",
    ),
    (
        5_406,
        "a node that stops waited for its streams and not for its datagrams: what QUIC had not sent of them was gone",
    ),
    (
        13_640,
        "both ends of an ordered hop stop: what the one has handed to QUIC, the other was not there to take",
    ),
    (
        28_193,
        "a queue of eleven seconds brings ADUs of a stream when its source has given up their plan, and nothing is told of them",
    ),
    (
        30_908,
        "a sink that was cut off from a producer that is gone asks nobody, again and again: its world never ended",
    ),
    (
        17_418,
        "a stream is found anew in the same moment in which ADUs of the old one arrive",
    ),
    (
        79_887,
        "a node is killed before its stream has an ADU: copies were looked for by the id that it had had then",
    ),
    (
        45_377,
        "three datagrams that their source had packed are lost in one packet, and were longer than that before",
    ),
];

/// Seeds of worlds of a minute.
const LONG_SEEDS: [(u64, &str); 3] = [
    (
        801,
        "an ADU without a deadline lets 8,174 of its stream pass on a slow line, and is then taken for a replay by who opens it",
    ),
    (
        1_736,
        "ADUs wait for 24 s before a caster, and the plan that they are to be copied for had given way: nobody was given a copy",
    ),
    (
        2_289,
        "as with 1736, where the parts had lapsed by then that were to copy them",
    ),
];

#[test]
fn old_seeds_are_accounted_for() {
    all_accounted_for(&SEEDS, Length::Seconds);
}

#[test]
fn old_long_seeds_are_accounted_for() {
    all_accounted_for(&LONG_SEEDS, Length::Minute);
}

fn all_accounted_for(seeds: &[(u64, &str)], length: Length) {
    for (seed, what) in seeds {
        let report = generated(*seed, length).report;
        assert_eq!(report.violations, [] as [&str; 0], "seed {seed}: {what}");
    }
}
