//! Proves that what is missing is said in one sentence, all of it at once, with what to do.

use super::{TO_CALIBRATE, sentence};

#[test]
fn nothing_missing_nothing_said() {
    assert_eq!(sentence(true, true, &[]), None);
}

#[test]
fn all_that_is_missing_is_in_one_sentence() {
    let said = sentence(false, false, TO_CALIBRATE).expect("all is missing");
    for part in [
        "needs root",
        "sudo",
        "/dev/net/tun",
        "`ip` and `iperf3` and `ping` and `chrt`",
        "apt-get install iproute2 iperf3 iputils-ping util-linux",
    ] {
        assert!(said.contains(part), "`{part}` is not in: {said}");
    }
    assert!(!said.contains('\n'));
}
