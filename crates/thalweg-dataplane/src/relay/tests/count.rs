//! Proves which node accounts for an ADU: the last one that had it whole.

use super::*;

#[test]
fn outcome_before_end_waits_for_it() {
    let mut machine = machine([part(1, Reliability::UntilDeadline)]);
    begin(&mut machine, 5, header(1, 0));
    failed(&mut machine, 0, DropCause::Expired);
    let mut expected = Counts::default();
    expected.send(Mark::NONE, band());
    assert_eq!(changed(&mut machine, 1), Some(expected.clone()));
    machine.handle_whole(5, NOW);
    expected.arrive(Mark::NONE, band());
    expected.fail(Mark::NONE, band(), DropCause::Expired);
    assert_eq!(changed(&mut machine, 1), Some(expected));
}

#[test]
fn unfinished_adu_is_not_ours() {
    for is_outcome_first in [false, true] {
        let mut machine = machine([part(1, Reliability::UntilDeadline)]);
        begin(&mut machine, 5, header(1, 0));
        if is_outcome_first {
            failed(&mut machine, 0, DropCause::Cancelled);
        }
        machine.handle_failed(5, DropCause::PathLost, NOW);
        if !is_outcome_first {
            failed(&mut machine, 0, DropCause::Cancelled);
        }
        let mut expected = Counts::default();
        expected.send(Mark::NONE, band());
        expected.disown(Mark::NONE, band());
        assert_eq!(changed(&mut machine, 1), Some(expected));
    }
}

#[test]
fn unfinished_adu_that_left_was_here() {
    // The next node has all of it, so this node had it too, whatever its own end looked like.
    let mut machine = machine([part(1, Reliability::UntilDeadline)]);
    begin(&mut machine, 5, header(1, 0));
    machine.handle_failed(5, DropCause::PathLost, NOW);
    left(&mut machine, 0);
    let mut expected = Counts::default();
    expected.arrive(Mark::NONE, band());
    expected.send(Mark::NONE, band());
    expected.leave(Mark::NONE, band());
    assert_eq!(changed(&mut machine, 1), Some(expected));
}

#[test]
fn datagram_keeps_its_mark() {
    let mut machine = machine([part(1, Reliability::None)]);
    let mark = Mark::from_index(2);
    let mut marked = header(1, 0);
    marked.set_mark(mark);
    bring(&mut machine, 5, marked);
    assert_eq!(
        machine.poll_timeout(),
        NOW,
        "a new mark is reported at once"
    );
    left(&mut machine, 0);
    // One that comes without a mark gets the present one.
    bring(&mut machine, 6, header(1, 1));
    let mut expected = Counts::default();
    expected.arrive(mark, band());
    expected.send(mark, band());
    expected.leave(mark, band());
    expected.arrive(Mark::NONE, band());
    expected.send(mark, band());
    assert_eq!(changed(&mut machine, 1), Some(expected));
}

#[test]
fn acknowledged_hop_needs_no_mark() {
    let mut machine = machine([part(1, Reliability::UntilDeadline)]);
    let mut marked = header(1, 0);
    marked.set_mark(Mark::from_index(1));
    bring(&mut machine, 5, marked);
    let mut expected = Counts::default();
    expected.arrive(Mark::from_index(1), band());
    expected.send(Mark::NONE, band());
    assert_eq!(changed(&mut machine, 1), Some(expected));
}

#[test]
fn stream_end_is_not_counted() {
    let mut machine = machine([part(1, Reliability::UntilDeadline)]);
    machine.give(adu(end(1, 9), b""), NOW);
    left(&mut machine, 0);
    assert_eq!(changed(&mut machine, 1), None);
}

#[test]
fn copied_end_is_reported_at_once() {
    let mut machine = machine([part(1, Reliability::UntilDeadline), graft(2, Some(SIDE))]);
    machine.handle_cast((STREAM, Epoch(2)), thalweg_base::feed::Feed::Live, NOW);
    begin_from(&mut machine, BEFORE, 5, end(1, 9), 0);
    machine.handle_whole(5, NOW);
    assert_eq!(machine.poll_timeout(), NOW);
    let counts = changed(&mut machine, 2).expect("it has changed");
    assert!(counts.is_end_copied);
}

#[test]
fn receipts_count_for_installed_plans() {
    let mut machine = machine([part(1, Reliability::UntilDeadline)]);
    for epoch in [1, 2] {
        machine.count_receipt((STREAM, Epoch(epoch)), band(), NOW);
        machine.count_resent((STREAM, Epoch(epoch)), band(), NOW);
    }
    let mut expected = Counts::default();
    expected.have(band());
    expected.resend(band());
    assert_eq!(changed(&mut machine, 1), Some(expected));
    machine.count_receipt((STREAM, Epoch(2)), band(), NOW);
    assert_eq!(changed(&mut machine, 2), None);
}

#[test]
fn reinstalled_plan_goes_on_counting() {
    let mut machine = machine([part(1, Reliability::UntilDeadline)]);
    machine.give(adu(header(1, 0), b"all"), NOW);
    install(&mut machine, part(1, Reliability::UntilDeadline));
    left(&mut machine, 0);
    let mut expected = Counts::default();
    expected.arrive(Mark::NONE, band());
    expected.send(Mark::NONE, band());
    expected.leave(Mark::NONE, band());
    assert_eq!(changed(&mut machine, 1), Some(expected));
}
