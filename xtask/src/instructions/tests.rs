//! Proves that growth is refused from both sides of the tolerance, and that nothing is left out without a sentence.

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
fn only_more_than_two_in_a_hundred_is_refused() {
    assert!(against(&ratchet(1020.0, 5100.0)).faults.is_empty());
    let verdict = against(&ratchet(1020.2, 5000.0));
    assert_eq!(verdict.faults.len(), 1, "{verdict:?}");
    assert!(
        verdict.faults[0]
            .starts_with("keep: 1020.2 instructions, 1000.0 are written down (+2.0 %)")
    );
}

#[test]
fn what_is_better_is_a_hint_and_no_fault() {
    let verdict = against(&ratchet(900.0, 5000.0));
    assert!(verdict.faults.is_empty());
    assert!(verdict.notes[0].contains("-10.0 %") && verdict.notes[0].contains("--write"));
}

#[test]
fn a_new_path_and_a_lost_one_are_to_be_written_down() {
    let mut now = ratchet(1000.0, 5000.0);
    now.counts.remove("keep");
    now.counts.insert("open".into(), (Kind::WithC, 1.0));
    let verdict = against(&now);
    assert_eq!(verdict.faults.len(), 2, "{verdict:?}");
}

#[test]
fn with_another_compiler_nothing_is_compared_and_it_is_said() {
    let mut now = ratchet(9000.0, 9000.0);
    now.tools.rustc = "rustc 2".into();
    let verdict = against(&now);
    assert!(verdict.faults.is_empty());
    assert!(
        verdict.notes[0].contains("nothing is compared") && verdict.notes[0].contains("`rustc 2`")
    );
}

#[test]
fn with_another_c_compiler_only_rust_is_compared_and_it_is_said() {
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
fn a_line_of_the_benchmark_is_a_name_and_a_count() {
    let line = r#"{"id":"IC","metric":"instructions_with_c.seal","value":7.5}"#;
    assert_eq!(figure(line), Some(("seal".into(), (Kind::WithC, 7.5))));
    assert_eq!(figure("a warning"), None);
}
