//! Proves that tests are counted from cargo's own words and from nothing else, and that steps name what exists.

use super::STEPS;
use super::cargo::Counts;

fn count(text: &str) -> Counts {
    let mut counts = Counts::default();
    text.lines().for_each(|line| counts.add(line));
    counts
}

#[test]
fn results_of_all_binaries_add_up() {
    let text = "running 3 tests\ntest result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 1 filtered out; finished in 0.1s\n\
                test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s\n";
    assert_eq!(
        count(text),
        Counts {
            passed: 7,
            failed: 2
        }
    );
}

#[test]
fn what_a_test_prints_counts_nothing() {
    assert_eq!(
        count("9 passed, 9 failed\n  test result: ok. 9 passed; 9 failed\n9 passed; 9 failed"),
        Counts::default()
    );
}

#[test]
fn a_step_needs_only_what_comes_before_it() {
    for (at, step) in STEPS.iter().enumerate() {
        let found = step
            .needs
            .is_none_or(|name| STEPS[..at].iter().any(|before| before.name == name));
        assert!(
            found,
            "{} needs {:?}, which does not come before it",
            step.name, step.needs
        );
    }
}
