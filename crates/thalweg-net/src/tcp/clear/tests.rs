//! Proves that the loop settles what is marked, ready or due, that a panic costs one entry, and that the
//! thread ends with its last user.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use super::*;

/// Far more than a turn takes, also on a busy machine.
const WAIT: Duration = Duration::from_secs(40);

/// What happened to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Ready(Readiness),
    Settled,
    Abandoned,
    Dropped,
}

/// An entry that reports all, and answers from a list, then waits for events.
struct Probe {
    seen: Sender<Seen>,
    socket: Option<TcpStream>,
    answers: Vec<Option<Next>>,
}

impl Entry for Probe {
    fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(|socket| socket.as_fd())
    }

    fn handle_ready(&mut self, readiness: Readiness) {
        let _ = self.seen.send(Seen::Ready(readiness));
    }

    fn settle(&mut self, _: &mut [u8]) -> Next {
        let _ = self.seen.send(Seen::Settled);
        match self.answers.pop() {
            Some(answer) => answer.expect("a probe that panics"),
            None => Next::Event(None),
        }
    }

    fn abandon(self: Box<Self>) {
        let _ = self.seen.send(Seen::Abandoned);
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        let _ = self.seen.send(Seen::Dropped);
    }
}

/// Seats a probe with these answers, the last one first.
fn probe(
    clear: &ClearLoop,
    socket: Option<TcpStream>,
    answers: Vec<Option<Next>>,
) -> (std::sync::Arc<Mark>, Receiver<Seen>) {
    let (seen, seeing) = channel();
    let mark = clear.reserve();
    let probe = Probe {
        seen,
        socket,
        answers,
    };
    clear.seat(mark.clone(), Box::new(probe));
    (mark, seeing)
}

fn next(seeing: &Receiver<Seen>) -> Option<Seen> {
    match seeing.recv_timeout(WAIT) {
        Ok(seen) => Some(seen),
        Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn mark_and_timer_settle_entry() {
    let clear = ClearLoop::start().expect("Linux has what it needs");
    let soon = Instant::now() + Duration::from_millis(20);
    let answers = vec![
        Some(Next::Over),
        Some(Next::Event(Some(soon))),
        Some(Next::Turn),
    ];
    let (mark, seeing) = probe(&clear, None, answers);
    for _ in 0..3 {
        assert_eq!(next(&seeing), Some(Seen::Settled));
    }
    assert!(Instant::now() >= soon);
    assert_eq!(next(&seeing), Some(Seen::Dropped));
    // A mark of an entry that is gone does nothing.
    mark.set();
    let (mark, seeing) = probe(&clear, None, vec![]);
    for _ in 0..100 {
        assert_eq!(next(&seeing), Some(Seen::Settled));
        mark.set();
    }
    assert_eq!(next(&seeing), Some(Seen::Settled));
    drop(clear);
    assert_eq!(next(&seeing), Some(Seen::Abandoned));
    assert_eq!(next(&seeing), Some(Seen::Dropped));
    assert_eq!(next(&seeing), None);
}

#[test]
fn moved_timer_settles_once() {
    let clear = ClearLoop::start().expect("Linux has what it needs");
    let begun = Instant::now();
    let [soon, late] = [2_000, 2_200].map(|millis| begun + Duration::from_millis(millis));
    let answers = [Next::Over, Next::Event(Some(late)), Next::Event(Some(soon))];
    let (mark, seeing) = probe(&clear, None, answers.map(Some).into());
    assert_eq!(next(&seeing), Some(Seen::Settled));
    mark.set();
    assert_eq!(next(&seeing), Some(Seen::Settled));
    assert_eq!(next(&seeing), Some(Seen::Settled));
    assert!(Instant::now() >= late, "not at the time that it had first");
}

#[test]
fn socket_wakes_its_entry() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback can be listened on");
    let address = listener.local_addr().expect("it is bound");
    let near = TcpStream::connect(address).expect("a listener");
    let (mut far, _) = listener.accept().expect("a dialler");
    let clear = ClearLoop::start().expect("Linux has what it needs");
    let (_mark, seeing) = probe(&clear, Some(near), vec![]);
    let wait_for = |is_it: fn(Readiness) -> bool| {
        while !matches!(next(&seeing), Some(Seen::Ready(readiness)) if is_it(readiness)) {}
        assert_eq!(next(&seeing), Some(Seen::Settled));
    };
    wait_for(|readiness| readiness.is_writable && !readiness.is_readable);
    far.write_all(b"one").expect("it is open");
    wait_for(|readiness| readiness.is_readable && !readiness.is_hung_up);
    drop(far);
    wait_for(|readiness| readiness.is_readable && readiness.is_hung_up);
}

#[test]
fn panic_costs_one_entry() {
    let clear = ClearLoop::start().expect("Linux has what it needs");
    let (mark, other) = probe(&clear, None, vec![]);
    assert_eq!(next(&other), Some(Seen::Settled));
    let (_, seeing) = probe(&clear, None, vec![None]);
    assert_eq!(next(&seeing), Some(Seen::Settled));
    assert_eq!(next(&seeing), Some(Seen::Abandoned));
    assert_eq!(next(&seeing), Some(Seen::Dropped));
    assert!(clear.is_running());
    mark.set();
    assert_eq!(next(&other), Some(Seen::Settled));
}
