//! Tests the command line, the count of verdicts, and the report of a difference.

use super::verdict::{Tally, Verdict};
use super::{Options, WORLDS, parse};

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn verdict(rest: &str) -> Verdict {
    let line = format!(
        r#"{{"seed":7,"nodes":30,"ilp_ms":80.5,"elapsed_us":90.0,"feasible":true,{rest}}}"#
    );
    Verdict::read(&line).expect("a verdict")
}

#[test]
fn command_line_is_parsed() {
    let options = parse(&words("--jobs 2 --seed 9 --worlds 3")).expect("enough");
    assert_eq!(
        options,
        Options {
            worlds: 3,
            seed: 9,
            jobs: 2
        }
    );
    assert_eq!(parse(&[]).expect("all has defaults").worlds, WORLDS);
    assert_eq!(parse(&words("--worlds 1")).expect("enough").jobs, 1);
    for bad in ["--worlds", "--worlds 0", "--jobs 0", "--seed x", "12"] {
        assert!(parse(&words(bad)).is_err(), "{bad}");
    }
}

#[test]
fn difference_names_replay_command() {
    let text = verdict(r#""differs":"the plan is late""#).sentence();
    assert_eq!(
        text.as_deref(),
        Some(
            "seed 7, 30 nodes: the plan is late\nto replay: cargo xtask oracle --worlds 1 --seed 7"
        )
    );
    assert_eq!(verdict(r#""differs":null"#).sentence(), None);
    let text = verdict(r#""unproved":"too long""#).sentence();
    assert!(text.is_some_and(|text| text.contains("not proved best: too long")));
}

#[test]
fn verdicts_add_up() {
    let mut tally = Tally::default();
    for rest in [r#""differs":null"#, r#""differs":"x""#, r#""unproved":"y""#] {
        tally.add(verdict(rest));
    }
    assert_eq!((tally.worlds(), tally.differing()), (3, 1));
    assert_eq!(
        tally.to_string(),
        "3 worlds: 3 with a plan, 0 without, 1 differ, ILP median 80 ms, exact median 90 µs; 1 equal to 10⁻⁹ but not proved best"
    );
    assert_eq!(Verdict::read("Traceback"), None);
}
