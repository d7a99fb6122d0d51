//! Tests the count of test results, the reports of failed tests, and that steps name existing steps.

use super::STEPS;
use super::results::{Counts, Results};
use super::room::available;

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
fn test_output_is_not_counted() {
    assert_eq!(
        count("9 passed, 9 failed\n  test result: ok. 9 passed; 9 failed\n9 passed; 9 failed"),
        Counts::default()
    );
}

#[test]
fn steps_need_only_earlier_steps() {
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

fn results(text: &str) -> Results {
    let mut results = Results::default();
    text.lines().for_each(|line| results.add(line));
    results
}

const FIRST: &str = "test a::whole ... ok\ntest a::late ... FAILED\ntest a::wrong ... FAILED\n\nfailures:\n\n\
                     ---- a::late stdout ----\n\nthread 'a::late' panicked at a.rs:1:\nnot in time\n\n\
                     ---- a::wrong stdout ----\nthread 'a::wrong' panicked at a.rs:9:\nleft: 1\n\n\
                     failures:\n    a::late\n    a::wrong\n\n\
                     test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s\n";

#[test]
fn failed_tests_are_named_with_output() {
    let text = results(FIRST).to_string();
    assert_eq!(
        text,
        "a::late: failed\n    thread 'a::late' panicked at a.rs:1:\n    not in time\n\
         a::wrong: failed\n    thread 'a::wrong' panicked at a.rs:9:\n    left: 1\n1 passed, 2 failed"
    );
}

#[test]
fn test_that_passes_alone_is_unsteady() {
    let mut first = results(FIRST);
    first.add_second(&results(
        "test a::late ... ok\ntest a::wrong ... FAILED\n\
         test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 1 filtered out; finished in 0.1s\n",
    ));
    let text = first.to_string();
    assert!(text.contains("a::late: UNSTEADY"), "{text}");
    assert!(text.contains("a::wrong: failed"), "{text}");
    assert!(
        text.ends_with("2 passed, 1 failed, 1 of them unsteady"),
        "{text}"
    );
}

#[test]
fn test_without_second_run_has_failed() {
    let mut first = results(FIRST);
    first.add_second(&results(
        "test a::late ... ok\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 1 filtered out; finished in 0.1s\n",
    ));
    assert_eq!(first, results(FIRST));
}

#[test]
fn free_space_is_parsed_from_df() {
    let text = "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/vda 263174212 96468992 24576 100% /\n";
    assert_eq!(available(text), Some(24_576 * 1_024));
    assert_eq!(
        available("Filesystem 1024-blocks Used Available Capacity Mounted on\n"),
        None
    );
    assert_eq!(available("df: nothing is mounted there\nx y z w\n"), None);
}
