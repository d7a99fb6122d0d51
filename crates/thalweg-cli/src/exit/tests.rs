//! Proves how errors end a run: codes are kept, each cause is stated once, a closed pipe is a graceful end.

use anyhow::Context as _;

use super::*;

fn broken_pipe() -> anyhow::Error {
    anyhow::Error::new(io::Error::from(io::ErrorKind::BrokenPipe)).context("cannot print")
}

#[test]
fn any_error_becomes_a_failure() {
    let failing = || -> Outcome { Err(io::Error::other("disk on fire"))? };
    let failure = failing().expect_err("it fails");
    assert_eq!(failure.code, Code::Failed);
}

#[test]
fn given_code_is_kept() {
    let failure = Err::<(), _>(io::Error::other("x"))
        .or_code(Code::BadInput)
        .expect_err("it fails");
    assert_eq!(failure.code, Code::BadInput);
    assert_eq!(report(Err(failure)), ExitCode::from(2));
}

#[test]
fn closed_pipe_is_a_graceful_end() {
    assert_eq!(report(Err(broken_pipe().into())), ExitCode::from(0));
}

#[test]
fn lost_node_is_a_failure() {
    let gone = LocalError::Gone(io::ErrorKind::BrokenPipe.into());
    assert_eq!(report(Err(gone.into())), ExitCode::from(1));
}

#[test]
fn causes_are_stated_once() {
    let error = Err::<(), _>(io::Error::other("no such file"))
        .context("cannot open `a`: no such file")
        .context("cannot start")
        .expect_err("it fails");
    assert_eq!(
        sentence(&error),
        "cannot start: cannot open `a`: no such file"
    );
}

#[test]
fn help_lists_every_code() {
    for code in [
        Code::Done,
        Code::Failed,
        Code::BadInput,
        Code::Infeasible,
        Code::NoNode,
    ] {
        assert!(HELP.contains(&format!("\n  {}  ", code as u8)));
    }
}
