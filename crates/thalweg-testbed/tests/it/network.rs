//! Proves that a network is the world's, that commands run inside it, and that it is removed however a
//! run ends.

use std::io::Read as _;

use rustix::process::{Pid, Signal, kill_process};

use crate::program::{DEMO, Held, hold, is_possible, namespaces_of, run};

fn signal(held: &Held, signal: Signal) {
    let pid = Pid::from_raw(held.child.id().cast_signed()).expect("a process has an id");
    kill_process(pid, signal).expect("it runs");
}

#[test]
fn unprivileged_run_says_what_to_do() {
    if is_possible() {
        println!("not run: this user may build a testbed");
        return;
    }
    let refused = run(&[&DEMO]);
    assert_eq!(refused.code, Some(5));
    assert_eq!(refused.err.lines().count(), 1, "{}", refused.err);
    assert!(
        refused.err.contains("cannot be built here"),
        "{}",
        refused.err
    );
}

#[test]
fn command_runs_inside_its_node() {
    if !is_possible() {
        return;
    }
    let inside = run(&[
        &DEMO,
        "--node",
        "relay",
        "--",
        "sh",
        "-c",
        "ip -brief address; exit 7",
    ]);
    assert_eq!(inside.code, Some(7), "{}", inside.err);
    for part in ["link0", "10.77.0.2/30", "link1", "10.77.0.5/30"] {
        assert!(
            inside.out.contains(part),
            "`{part}` is not in: {}",
            inside.out
        );
    }
    assert!(
        !inside.out.contains("link2"),
        "it is of others: {}",
        inside.out
    );
    // A neighbour can be named in braces; other nodes have no address here.
    let named = run(&[&DEMO, "--node", "camera", "--", "echo", "{relay}", "{base}"]);
    assert_eq!(named.out, "10.77.0.2 {base}\n", "{}", named.err);
    let unknown = run(&[&DEMO, "--node", "nobody", "--", "true"]);
    assert_eq!(unknown.code, Some(2));
    assert!(
        unknown.err.contains("base, camera, relay, viewer"),
        "{}",
        unknown.err
    );
}

#[test]
fn terminated_run_leaves_nothing() {
    if !is_possible() {
        return;
    }
    for how in [Signal::TERM, Signal::INT] {
        let mut held = hold();
        assert_eq!(namespaces_of(held.child.id()).len(), 4);
        signal(&held, how);
        let pid = held.child.id();
        let status = held.child.wait().expect("it ends");
        assert_eq!(status.code(), Some(1));
        assert_eq!(namespaces_of(pid), [""; 0]);
        // The command has ended too: no process holds the other end of its output.
        let mut rest = String::new();
        held.out.read_to_string(&mut rest).expect("text");
    }
}

#[test]
fn next_run_sweeps_killed_run() {
    if !is_possible() {
        return;
    }
    let (mut killed, mut living) = (hold(), hold());
    signal(&killed, Signal::KILL);
    killed.child.wait().expect("it ends");
    let next = run(&[&DEMO, "--node", "camera", "--", "true"]);
    assert_eq!(next.code, Some(0), "{}", next.err);
    // Another test's run may have swept it already, and reported that; in any case it is gone.
    assert_eq!(namespaces_of(killed.child.id()), [""; 0]);
    assert_eq!(namespaces_of(living.child.id()).len(), 4);
    let mut rest = String::new();
    killed
        .out
        .read_to_string(&mut rest)
        .expect("its command has died with it");
    signal(&living, Signal::TERM);
    living.child.wait().expect("it ends");
}
