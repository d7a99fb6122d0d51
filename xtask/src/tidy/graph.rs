//! Which crate may depend on which. The crate graph is the law: a relay that cannot link a codec
//! cannot leak one.
//!
//! *The idea.* [`ALLOWED`] is the whole of the law; `cargo metadata` is what is true. A crate that
//! is not in the table is a finding, so that a new crate is a decision.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Finding;
use crate::{Failure, place};

/// Each crate of the workspace, and what it may depend on.
const ALLOWED: &[(&str, &[&str])] = &[
    ("thalweg-base", &[]),
    ("thalweg-chart", &[]),
    ("thalweg-netem", &["thalweg-base"]),
    ("thalweg-planner", &["thalweg-base", "thalweg-netem"]),
    ("thalweg-link", &["thalweg-base"]),
    ("thalweg-dataplane", &["thalweg-base"]),
    ("thalweg-transfer", &["thalweg-base"]),
    (
        "thalweg-control",
        &["thalweg-base", "thalweg-link", "thalweg-planner"],
    ),
    ("thalweg-world", &["thalweg-base", "thalweg-planner"]),
    ("thalweg-media", &["thalweg-base"]),
    ("thalweg-quic", &["thalweg-base", "thalweg-link"]),
    (
        "thalweg-sim",
        &[
            "thalweg-base",
            "thalweg-netem",
            "thalweg-planner",
            "thalweg-link",
            "thalweg-dataplane",
            "thalweg-control",
            "thalweg-world",
            "thalweg-media",
            "thalweg-quic",
        ],
    ),
    (
        "thalweg-net",
        &[
            "thalweg-base",
            "thalweg-netem",
            "thalweg-link",
            "thalweg-quic",
        ],
    ),
    (
        "thalweg-node",
        &[
            "thalweg-base",
            "thalweg-planner",
            "thalweg-link",
            "thalweg-dataplane",
            "thalweg-transfer",
            "thalweg-control",
            "thalweg-world",
            "thalweg-net",
        ],
    ),
    (
        "thalweg-io",
        &["thalweg-base", "thalweg-media", "thalweg-net"],
    ),
    ("thalweg-cli", EVERY),
    ("thalweg-testbed", EVERY),
    ("thalweg-bench", EVERY_AND_TESTBED),
    ("xtask", &[]),
];

/// All but the programs.
const EVERY: &[&str] = EVERY_AND_TESTBED.split_at(15).0;

/// The benches also use the testbed's network and line, for what needs a bottleneck of the kernel's.
const EVERY_AND_TESTBED: &[&str] = &[
    "thalweg-base",
    "thalweg-chart",
    "thalweg-netem",
    "thalweg-planner",
    "thalweg-link",
    "thalweg-dataplane",
    "thalweg-transfer",
    "thalweg-control",
    "thalweg-world",
    "thalweg-media",
    "thalweg-quic",
    "thalweg-sim",
    "thalweg-net",
    "thalweg-node",
    "thalweg-io",
    "thalweg-cli",
    "thalweg-testbed",
];

/// What only the tests of a crate may depend on besides.
const ALLOWED_IN_TESTS: &[(&str, &[&str])] = &[
    // The corpora are replayed against every decoder, and those lie below the purity line, or in the formats
    // of the input, which come without its ends; and against the engine, which runs without its socket.
    (
        "xtask",
        &[
            "thalweg-base",
            "thalweg-link",
            "thalweg-dataplane",
            "thalweg-transfer",
            "thalweg-world",
            "thalweg-media",
            "thalweg-io",
            "thalweg-net",
        ],
    ),
];

/// Crates that are `#![no_std]`, for the compiler then keeps clocks, sockets and threads out.
pub const NO_STD: [&str; 6] = [
    "thalweg-base",
    "thalweg-netem",
    "thalweg-planner",
    "thalweg-link",
    "thalweg-control",
    "thalweg-transfer",
];

/// Everything that these may take from others.
const NO_STD_MAY_USE: [&str; 4] = ["blake3", "bytes", "serde", "thiserror"];

/// Crates below the purity line.
pub const PURE: [&str; 11] = [
    "thalweg-base",
    "thalweg-chart",
    "thalweg-netem",
    "thalweg-planner",
    "thalweg-link",
    "thalweg-control",
    "thalweg-transfer",
    "thalweg-world",
    "thalweg-dataplane",
    "thalweg-media",
    "thalweg-sim",
];

/// Crates that bring a clock, a socket, a thread pool or randomness of their own.
const IMPURE: [&str; 14] = [
    "async-std",
    "axum",
    "chrono",
    "fastrand",
    "getrandom",
    "iroh",
    "noq",
    "quinn",
    "rand",
    "rayon",
    "smol",
    "socket2",
    "time",
    "tokio",
];

/// A crate of the workspace and its dependencies.
pub struct Package {
    /// Its name.
    pub name: String,
    /// Path of its manifest, from the root.
    pub manifest: String,
    /// Name of each dependency, and whether only its tests have it.
    pub dependencies: Vec<(String, bool)>,
}

/// Asks cargo for the crates of the workspace; needs no network.
pub fn workspace() -> Result<Vec<Package>, Failure> {
    let value = place::metadata()?;
    let packages = value["packages"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    Ok(packages.iter().map(package).collect())
}

fn package(value: &Value) -> Package {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let root = format!("{}/", place::root().display());
    let dependencies = value["dependencies"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    Package {
        name: text(&value["name"]),
        manifest: text(&value["manifest_path"]).replace(&root, ""),
        dependencies: dependencies
            .iter()
            .map(|d| (text(&d["name"]), d["kind"] == "dev"))
            .collect(),
    }
}

/// Returns every edge that the law does not know.
pub fn check(packages: &[Package]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = packages
        .iter()
        .flat_map(|package| edges(package, packages))
        .collect();
    findings.extend(
        packages
            .iter()
            .filter(|p| NO_STD.contains(&p.name.as_str()))
            .flat_map(no_std),
    );
    findings.extend(
        packages
            .iter()
            .filter(|p| PURE.contains(&p.name.as_str()))
            .flat_map(impure),
    );
    findings.extend(media_below_node(packages));
    findings
}

fn edges(package: &Package, packages: &[Package]) -> Vec<Finding> {
    let find = |table: &[(&str, &'static [&'static str])]| {
        table
            .iter()
            .find(|(name, _)| *name == package.name)
            .map(|(_, allowed)| *allowed)
    };
    let Some(allowed) = find(ALLOWED) else {
        let text = format!(
            "crate `{}` is not in the table of dependency directions: decide what it may depend on, and who on it, in ALLOWED of xtask/src/tidy/graph.rs",
            package.name
        );
        return vec![Finding::new(&package.manifest, 1, text)];
    };
    let in_tests = find(ALLOWED_IN_TESTS).unwrap_or_default();
    let ours = |name: &str| packages.iter().any(|package| package.name == name);
    let wrong = package.dependencies.iter().filter(|(name, dev)| {
        ours(name)
            && !allowed.contains(&name.as_str())
            && !(*dev && in_tests.contains(&name.as_str()))
    });
    let text = |name: &str| {
        format!(
            "`{}` may not depend on `{name}`: move what is shared down into a crate that both may use, or turn the dependency round (the law is ALLOWED in xtask/src/tidy/graph.rs)",
            package.name
        )
    };
    wrong
        .map(|(name, _)| Finding::new(&package.manifest, 1, text(name)))
        .collect()
}

fn no_std(package: &Package) -> Vec<Finding> {
    let is_ours = |name: &str| ALLOWED.iter().any(|(ours, _)| *ours == name);
    let wrong = package
        .dependencies
        .iter()
        .filter(|(name, dev)| !dev && !NO_STD_MAY_USE.contains(&name.as_str()) && !is_ours(name));
    let text = |name: &str| {
        format!(
            "`{}` may not depend on `{name}`, only on {}: put the code that needs it into a crate above, or record a decision and extend NO_STD_MAY_USE in xtask/src/tidy/graph.rs (four at most)",
            package.name,
            NO_STD_MAY_USE.join(", ")
        )
    };
    wrong
        .map(|(name, _)| Finding::new(&package.manifest, 1, text(name)))
        .collect()
}

fn impure(package: &Package) -> Vec<Finding> {
    let wrong = package
        .dependencies
        .iter()
        .filter(|(name, dev)| !dev && IMPURE.contains(&name.as_str()));
    let text = |name: &str| {
        format!(
            "`{}` lies below the purity line and may not depend on `{name}`: take time, seeds and bytes as arguments and leave the rest to thalweg-net",
            package.name
        )
    };
    wrong
        .map(|(name, _)| Finding::new(&package.manifest, 1, text(name)))
        .collect()
}

/// Says so if the node reaches the media formats, by whatever way.
fn media_below_node(packages: &[Package]) -> Option<Finding> {
    let node = packages
        .iter()
        .find(|package| package.name == "thalweg-node")?;
    let (mut seen, mut next) = (BTreeSet::new(), vec![node]);
    while let Some(package) = next.pop() {
        if !seen.insert(&package.name) {
            continue;
        }
        let used = |name: &str| {
            package
                .dependencies
                .iter()
                .any(|(dependency, dev)| !dev && dependency == name)
        };
        if used("thalweg-media") {
            let text = format!(
                "the node reaches thalweg-media through `{}`, and a relay that can link a codec can leak one: let the binary register the media modules instead",
                package.name
            );
            return Some(Finding::new(&package.manifest, 1, text));
        }
        next.extend(packages.iter().filter(|package| used(&package.name)));
    }
    None
}
