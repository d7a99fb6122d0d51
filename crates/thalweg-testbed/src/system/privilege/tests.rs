//! Proves that everything missing is in one sentence, with what to do.

use super::{TO_CALIBRATE, sentence};

#[test]
fn complete_machine_gives_no_message() {
    assert_eq!(sentence(true, true, &[]), None);
}

#[test]
fn message_names_everything_missing() {
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
