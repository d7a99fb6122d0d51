//! Names of planners and the rounding of costs. The planner's laws are in `tests/it`.

use alloc::string::ToString;

use super::cost::Cost;
use super::{Planner, PlannerUnavailable};

#[test]
fn planner_name_round_trips() {
    for planner in Planner::ALL {
        assert_eq!(planner.to_string().parse(), Ok(planner));
    }
    assert_eq!(Planner::default(), Planner::Exact);
    assert_eq!(
        "Exact".parse::<Planner>(),
        Err(PlannerUnavailable::Unknown("Exact".to_string()))
    );
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
