//! Proves that an owner is parsed from its names, and that processes are not confused.

use super::{Owner, parse_start_time};

#[test]
fn name_gives_back_its_owner() {
    let owner = Owner::this();
    let name = format!("{owner}-2-relay");
    assert_eq!(Owner::of_name(&name), Some((owner, "2-relay")));
    assert_eq!(Owner::of_name(&owner.to_string()), Some((owner, "")));
    for foreign in ["thalweg", "thalweg-x-1-a", "thalweg-relay", "other-1-2-a"] {
        assert_eq!(Owner::of_name(foreign), None, "{foreign}");
    }
}

#[test]
fn reused_pid_is_another_owner() {
    let this = Owner::this();
    assert!(this.lives());
    let earlier = Owner {
        started: this.started - 1,
        ..this
    };
    assert!(!earlier.lives());
}

#[test]
fn program_name_shifts_no_field() {
    let stat = "7 (a) b (c)) S 1 7 7 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 4242 0 0";
    assert_eq!(parse_start_time(stat), Some(4242));
    assert_eq!(parse_start_time(&stat.replace(" S ", " Z ")), None);
    assert_eq!(parse_start_time("nonsense"), None);
}
