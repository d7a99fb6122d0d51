//! The planner's small parts: names of planners, what a cost rounds to. Its laws are in `tests/it`.

use alloc::string::ToString;

use super::cost::Cost;
use super::{Planner, PlannerUnavailable};

#[test]
fn planners_that_are_not_there_yet_say_so() {
    assert_eq!("exact".parse(), Ok(Planner::Exact));
    for name in ["heuristic", "exhaustive", "incremental"] {
        let error = name.parse::<Planner>().expect_err("only exact is there");
        assert_eq!(error, PlannerUnavailable::NotYet(name.to_string()));
    }
    assert!(matches!(
        "Exact".parse::<Planner>(),
        Err(PlannerUnavailable::Unknown(_))
    ));
}

#[test]
fn cost_takes_any_float() {
    assert_eq!(Cost::from_f64(f64::NAN), Cost::ZERO);
    assert_eq!(Cost::from_f64(-1.0), Cost::ZERO);
    assert!(Cost::from_f64(f64::INFINITY) > Cost::from_f64(1e15));
    assert!((Cost::from_f64(0.1).as_f64() - 0.1).abs() < 1e-15);
    let sum = Cost::from_f64(0.1) + Cost::from_f64(0.2);
    assert_eq!(sum, Cost::from_f64(0.3));
}
