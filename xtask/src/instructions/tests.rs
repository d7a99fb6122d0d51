//! Tests the tolerance on both sides, and that every skipped comparison is reported.

use super::figure;
use super::ratchet::{Kind, Ratchet, Tools, Verdict, compare};

fn ratchet(keep: f64, seal: f64) -> Ratchet {
    let tools = Tools {
        rustc: "rustc 1".into(),
        libc: "glibc 2".into(),
        cc: "cc \"3\"".into(),
        valgrind: "valgrind-3".into(),
    };
    let counts = [
        ("keep".to_owned(), (Kind::Rust, keep)),
        ("seal".to_owned(), (Kind::WithC, seal)),
    ];
    Ratchet {
        tools,
        counts: counts.into(),
    }
}

fn against(now: &Ratchet) -> Verdict {
    compare(&Ratchet::read(&ratchet(1000.0, 5000.0).text()), now)
}

#[test]
fn growth_over_two_percent_is_refused() {
    assert!(against(&ratchet(1020.0, 5100.0)).faults.is_empty());
    let verdict = against(&ratchet(1020.2, 5000.0));
    assert_eq!(verdict.faults.len(), 1, "{verdict:?}");
    assert!(verdict.faults[0].starts_with("keep: 1020.2 instructions, 1000.0 committed (+2.0 %)"));
}

#[test]
fn improvement_is_a_hint() {
    let verdict = against(&ratchet(900.0, 5000.0));
    assert!(verdict.faults.is_empty());
    assert!(verdict.notes[0].contains("-10.0 %") && verdict.notes[0].contains("--write"));
}

#[test]
fn new_and_lost_paths_are_faults() {
    let mut now = ratchet(1000.0, 5000.0);
    now.counts.remove("keep");
    now.counts.insert("open".into(), (Kind::WithC, 1.0));
    let verdict = against(&now);
    assert_eq!(verdict.faults.len(), 2, "{verdict:?}");
}

#[test]
fn other_rustc_compares_nothing() {
    let mut now = ratchet(9000.0, 9000.0);
    now.tools.rustc = "rustc 2".into();
    let verdict = against(&now);
    assert!(verdict.faults.is_empty());
    assert!(
        verdict.notes[0].contains("nothing is compared") && verdict.notes[0].contains("`rustc 2`")
    );
}

#[test]
fn other_cc_compares_only_rust() {
    let mut now = ratchet(1000.0, 9000.0);
    now.tools.cc = "cc 4".into();
    let verdict = against(&now);
    assert!(verdict.faults.is_empty());
    assert!(
        verdict.notes[0].starts_with("seal: not compared"),
        "{verdict:?}"
    );
    now.counts.insert("keep".into(), (Kind::Rust, 1100.0));
    assert_eq!(against(&now).faults.len(), 1);
}

#[test]
fn benchmark_line_gives_name_and_count() {
    let line = r#"{"id":"IC","metric":"instructions_with_c.seal","value":7.5}"#;
    assert_eq!(figure(line), Some(("seal".into(), (Kind::WithC, 7.5))));
    assert_eq!(figure("a warning"), None);
}
