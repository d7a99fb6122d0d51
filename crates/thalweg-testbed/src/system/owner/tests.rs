//! Proves that an owner is found in its names again, and that a process is not taken for another.

use super::{Owner, started_of};

#[test]
fn a_name_gives_back_its_owner() {
    let owner = Owner::this();
    let name = format!("{owner}-2-relay");
    assert_eq!(Owner::of_name(&name), Some((owner, "2-relay")));
    assert_eq!(Owner::of_name(&owner.to_string()), Some((owner, "")));
    for foreign in ["thalweg", "thalweg-x-1-a", "thalweg-relay", "other-1-2-a"] {
        assert_eq!(Owner::of_name(foreign), None, "{foreign}");
    }
}

#[test]
fn a_later_process_of_the_same_id_is_another() {
    let this = Owner::this();
    assert!(this.lives());
    let earlier = Owner {
        started: this.started - 1,
        ..this
    };
    assert!(!earlier.lives());
}

#[test]
fn a_programs_name_does_not_shift_the_fields() {
    let stat = "7 (a) b (c)) S 1 7 7 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 4242 0 0";
    assert_eq!(started_of(stat), Some(4242));
    assert_eq!(started_of(&stat.replace(" S ", " Z ")), None);
    assert_eq!(started_of("nonsense"), None);
}
