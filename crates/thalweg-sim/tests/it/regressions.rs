//! Seeds that once found a defect, each with a description of it.
//!
//! A seed names a world only as long as `generate` does not change. Before changing it, run these seeds
//! once more and keep as a file every world that would be lost.

use thalweg_sim::generate::Length;

use crate::worlds::generated;

const SEEDS: [(u64, &str); 16] = [
    (
        278,
        "a plan is replaced silently and its sink's reports are lost with the link; the source ignored receipts",
    ),
    (
        3_389,
        "a dependent ADU that was sent in full is given up but arrives: it was searched among dropped ones",
    ),
    (
        6_633,
        "a sink stops, and ADUs in flight to its copying node arrive after the copying has ended",
    ),
    (
        38_300,
        "as 6633, with two links before the copying node, or ADUs published before the source knew",
    ),
    (
        6_965,
        "a link loses all reports on a stream's last ADUs until it is given up and their plan released",
    ),
    (
        8_329,
        "a resent ADU for one of two sinks expires before the copying node that received it before the cast",
    ),
    (
        10_172,
        "a plan with a cast is replaced before it is in force: what its sink received was never reported",
    ),
    (11_867, "as 8329, where other resent ADUs expire and arrive"),
    (
        1_022,
        "datagrams wait in QUIC past their deadlines during an outage, and `Departed` is the last report",
    ),
    (
        5_406,
        "a stopping node waited for its streams but not its datagrams: unsent ones in QUIC were lost",
    ),
    (
        13_640,
        "both ends of an ordered hop stop: ADUs handed to QUIC by one were never read by the other",
    ),
    (
        28_193,
        "an 11 s queue delivers ADUs after the source gave up their plan, and they are never reported",
    ),
    (
        30_908,
        "a sink cut off from a stopped producer retries forever: its world never ended",
    ),
    (
        17_418,
        "a stream is rediscovered in the same instant as ADUs of the old one arrive",
    ),
    (
        79_887,
        "a node is killed before its stream has an ADU: copies were looked up by its id at that time",
    ),
    (
        45_377,
        "three datagrams packed by their source are lost in one packet, and were longer before packing",
    ),
];

/// Seeds of worlds of a minute.
const LONG_SEEDS: [(u64, &str); 3] = [
    (
        801,
        "an ADU without a deadline is overtaken by 8,174 others on a slow line, then opening it fails as a replay",
    ),
    (
        1_736,
        "ADUs wait for 24 s before a copying node whose plan was replaced meanwhile: none was copied",
    ),
    (
        2_289,
        "as 1736, where the parts that should copy them had expired",
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
