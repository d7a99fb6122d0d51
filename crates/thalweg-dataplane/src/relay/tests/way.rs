//! Proves which way an ADU takes: refused, passed while it arrives, gathered, held back, delivered.

use thalweg_base::feed::Feed;

use super::*;

#[test]
fn untouched_adu_passes_while_it_arrives() {
    let mut machine = machine([part(1, Reliability::UntilDeadline)]);
    let actions = bring(&mut machine, 5, header(1, 0));
    assert_eq!(actions, ["pass 5 to next", "chunk 0 ab", "chunk 0 cd"]);
    assert_eq!(machine.in_flight(), (0, 1));
    assert_eq!(machine.outstanding(STREAM), 1);
    assert_eq!(left(&mut machine, 0), [""; 0]);
    assert_eq!(
        (machine.in_flight(), machine.outstanding(STREAM)),
        ((0, 0), 0)
    );
    assert!(!machine.handle_outcome(SendNumber(0), Ok(()), NOW), "twice");
}

#[test]
fn strange_adu_is_refused_uncounted() {
    let mut machine = machine([part(1, Reliability::UntilDeadline)]);
    assert_eq!(begin(&mut machine, 5, header(2, 0)), ["refuse 5 Unknown"]);
    begin_from(&mut machine, SIDE, 6, header(1, 0), 4);
    assert_eq!(words(&mut machine), ["refuse 6 Stranger"]);
    assert_eq!(changed(&mut machine, 1), None);
    assert_eq!(machine.in_flight(), (0, 0));
}

#[test]
fn readable_adu_is_refused_where_sealed() {
    let sealed = Installation {
        plaintext: false,
        ..part(1, Reliability::UntilDeadline)
    };
    let mut machine = machine([sealed]);
    assert_eq!(
        begin(&mut machine, 5, header(1, 0)),
        ["refuse 5 Dropped(Exposed)"]
    );
    let mut expected = Counts::default();
    expected.arrive(Mark::NONE, band());
    expected.give_up(band(), DropCause::Exposed);
    assert_eq!(changed(&mut machine, 1), Some(expected));
}

#[test]
fn adu_without_link_is_refused_or_dropped() {
    let mut machine = machine([part(1, Reliability::UntilDeadline)]);
    machine.handle_link(NEXT, false);
    assert_eq!(
        begin(&mut machine, 5, header(1, 0)),
        ["refuse 5 Dropped(PathLost)"]
    );
    machine.give(adu(header(1, 1), b"all"), NOW);
    assert_eq!(words(&mut machine), ["drop e1 1 path-lost Way"]);
    machine.handle_link(NEXT, true);
    machine.give(adu(header(1, 2), b"all"), NOW);
    assert_eq!(words(&mut machine), ["send e1 2 to next all"]);
}

#[test]
fn layer_beyond_keep_is_filtered() {
    let kept = Installation {
        adapters: vec!["keep:1".to_string()],
        ..part(1, Reliability::UntilDeadline)
    };
    let mut machine = machine([kept]);
    let upper = Header {
        layer: 1,
        ..header(1, 0)
    };
    assert_eq!(
        begin(&mut machine, 5, upper),
        ["refuse 5 Dropped(Filtered)"]
    );
    machine.give(adu(upper, b"all"), NOW);
    assert_eq!(words(&mut machine), ["drop e1 0 filtered Part"]);
    assert_eq!(begin(&mut machine, 6, header(1, 1)), ["pass 6 to next"]);
}

#[test]
fn empty_adu_is_gathered() {
    let mut machine = machine([part(1, Reliability::UntilDeadline)]);
    begin_from(&mut machine, BEFORE, 5, end(1, 3), 0);
    machine.handle_whole(5, NOW);
    assert_eq!(words(&mut machine), ["gather 5", "send e1 3 to next "]);
}

#[test]
fn gathered_adu_is_lifted_and_sent() {
    let packed = Installation {
        adapters: vec!["null".to_string(), "null".to_string()],
        ..part(1, Reliability::UntilDeadline)
    };
    let mut machine = machine([packed]);
    let actions = bring(&mut machine, 5, header(1, 0));
    assert_eq!(actions, ["gather 5", "send e1 0 to next abcd"]);
}

#[test]
fn adu_ends_at_sink_once() {
    let here = Installation {
        next: None,
        ..part(1, Reliability::UntilDeadline)
    };
    let mut machine = machine([here]);
    assert_eq!(
        bring(&mut machine, 5, header(1, 0)),
        ["gather 5", "deliver e1 0"]
    );
    assert_eq!(
        bring(&mut machine, 6, header(1, 0)),
        ["gather 6", "drop e1 0 duplicate Sink"]
    );
    machine.handle_delivered(&header(1, 0), Ok(()), NOW);
    let mut expected = Counts::default();
    expected.arrive(Mark::NONE, band());
    expected.arrive(Mark::NONE, band());
    expected.deliver(band());
    expected.give_up(band(), DropCause::Duplicate);
    assert_eq!(changed(&mut machine, 1), Some(expected));
}

#[test]
fn receipt_waits_for_blocked_stream_but_end() {
    let here = Installation {
        next: None,
        ..part(1, Reliability::Full)
    };
    let mut machine = machine([here]);
    bring(&mut machine, 5, header(1, 0));
    assert_eq!(machine.arrivals().streams(), [STREAM]);
    assert!(machine.arrivals_mut().take_news(STREAM, true).is_none());
    let (held, _) = machine
        .arrivals_mut()
        .take_news(STREAM, false)
        .expect("it has come");
    assert!(held.has(Sequence(0)) && !held.has(Sequence(1)));
    assert!(
        machine.arrivals_mut().take_news(STREAM, false).is_none(),
        "told once"
    );
    begin_from(&mut machine, BEFORE, 6, end(1, 1), 0);
    machine.handle_whole(6, NOW);
    assert_eq!(machine.poll_timeout(), NOW, "the end is reported at once");
    assert!(machine.arrivals_mut().take_news(STREAM, true).is_some());
}

#[test]
fn ordered_adu_waits_for_the_one_before() {
    let mut machine = machine([part(1, Reliability::Full)]);
    assert_eq!(
        bring(&mut machine, 5, header(1, 0)),
        ["pass 5 to next", "chunk 0 ab", "chunk 0 cd"]
    );
    assert_eq!(begin(&mut machine, 6, header(1, 1)), ["gather 6", "hold 6"]);
    machine.give(adu(header(1, 2), b"all"), NOW);
    assert_eq!(words(&mut machine), [""; 0], "it waits");
    assert_eq!(left(&mut machine, 0), ["send e1 2 to next all"]);
    assert_eq!(left(&mut machine, 1), ["resume 6"]);
    machine.handle_chunk(6, &Bytes::from_static(b"abcd"));
    machine.handle_whole(6, NOW);
    assert_eq!(words(&mut machine), ["send e1 1 to next abcd"]);
}

#[test]
fn ordered_queue_drains_without_link() {
    let mut machine = machine([part(1, Reliability::Full)]);
    for sequence in 0..3 {
        machine.give(adu(header(1, sequence), b"all"), NOW);
    }
    assert_eq!(words(&mut machine), ["send e1 0 to next all"]);
    begin(&mut machine, 6, header(1, 3));
    machine.handle_link(NEXT, false);
    assert_eq!(
        failed(&mut machine, 0, DropCause::PathLost),
        [
            "drop e1 1 path-lost Way",
            "drop e1 2 path-lost Way",
            "resume 6"
        ]
    );
}

#[test]
fn recalled_plan_gives_up_its_adus() {
    let mut machine = machine([part(1, Reliability::Full), part(2, Reliability::Full)]);
    for (epoch, sequence) in [(1, 0), (1, 1), (2, 2)] {
        machine.give(adu(header(epoch, sequence), b"all"), NOW);
    }
    words(&mut machine);
    machine.recall((STREAM, Epoch(1)), NOW);
    assert_eq!(
        words(&mut machine),
        ["drop e1 1 cancelled Way", "cancel 0 cancelled"]
    );
    assert_eq!(failed(&mut machine, 0, DropCause::Cancelled), [""; 0]);
}

#[test]
fn removed_plan_drops_and_resumes() {
    let mut machine = machine([part(1, Reliability::Full)]);
    for sequence in 0..2 {
        machine.give(adu(header(1, sequence), b"all"), NOW);
    }
    begin(&mut machine, 6, header(1, 2));
    words(&mut machine);
    machine.handle_removed((STREAM, Epoch(1)));
    assert_eq!(words(&mut machine), ["drop e1 1 path-lost Way", "resume 6"]);
    assert_eq!(left(&mut machine, 0), [""; 0]);
    machine.handle_whole(6, NOW);
    assert_eq!(words(&mut machine), ["drop e1 2 path-lost Way"]);
    assert_eq!(changed(&mut machine, 1), None, "its counts are gone");
    machine.give(adu(header(1, 3), b"all"), NOW);
    assert_eq!(words(&mut machine), ["drop e1 3 path-lost Way"]);
    let mut unplanned = Counts::default();
    unplanned.arrive(Mark::NONE, band());
    unplanned.give_up(band(), DropCause::PathLost);
    assert_eq!(changed(&mut machine, 0), Some(unplanned));
}

#[test]
fn unfinished_adu_is_cancelled_onward() {
    let causes = [
        (DropCause::Expired, "cancel 0 expired"),
        (DropCause::PathLost, "cancel 0 cancelled"),
    ];
    for (cause, word) in causes {
        let mut machine = machine([part(1, Reliability::UntilDeadline)]);
        begin(&mut machine, 5, header(1, 0));
        machine.handle_failed(5, cause, NOW);
        assert_eq!(words(&mut machine), [word]);
        assert_eq!(machine.in_flight(), (0, 1));
    }
}

#[test]
fn late_adu_is_refused_before_copying() {
    let mut machine = machine([part(1, Reliability::UntilDeadline)]);
    let due = |sequence, millis| Header {
        deadline: NOW + Duration::from_millis(millis),
        ..header(1, sequence)
    };
    let mut lag = Lag::default();
    // Three rounds of one copy each, of 10 ms.
    for round in 0..3 {
        let began = NOW + Duration::from_millis(20 * round);
        let adu = begun(due(round, 5_000), 4);
        machine.handle_adu(BEFORE, round as u32, adu, &mut lag, began);
        lag.handle_end(began + Duration::from_millis(10));
    }
    words(&mut machine);
    let now = NOW + Duration::from_millis(60);
    let mut at = |recv, header| {
        machine.handle_adu(BEFORE, recv, begun(header, 4), &mut lag, now);
        words(&mut machine)
    };
    assert_eq!(at(10, due(10, 61)), ["refuse 10 Dropped(Expired)"]);
    assert_eq!(at(11, due(11, 300)), ["pass 11 to next"]);
    // The end, and what has no deadline, always passes.
    let last = Header {
        flags: Flags::END,
        ..due(12, 61)
    };
    assert_eq!(at(12, last), ["pass 12 to next"]);
    assert_eq!(at(13, header(1, 13)), ["pass 13 to next"]);
}

#[test]
fn whole_adu_is_not_passed() {
    let mut machine = machine([part(1, Reliability::UntilDeadline)]);
    let whole = Begun {
        is_whole: true,
        ..begun(header(1, 0), 4)
    };
    machine.handle_adu(BEFORE, 5, whole, &mut Lag::default(), NOW);
    assert_eq!(words(&mut machine), ["gather 5"]);
    machine.handle_gathered(5, Bytes::from_static(b"abcd"), NOW);
    assert_eq!(words(&mut machine), ["send e1 0 to next abcd"]);
    machine.handle_gathered(5, Bytes::from_static(b"abcd"), NOW);
    assert!(words(&mut machine).is_empty(), "it is here once");
}

#[test]
fn gathered_twin_is_kept() {
    let mut machine = machine([part(1, Reliability::UntilDeadline), graft(2, Some(SIDE))]);
    let key = Header {
        flags: Flags::KEY,
        ..header(1, 0)
    };
    assert_eq!(begin(&mut machine, 5, key), ["pass 5 to next"]);
    assert!(machine.keeps(5));
    // The plan that is cast meanwhile gets it, since it was not in the group yet.
    machine.handle_cast((STREAM, Epoch(2)), Feed::Replay, NOW);
    machine.handle_gathered(5, Bytes::from_static(b"abcd"), NOW);
    assert_eq!(words(&mut machine), ["send e2 0 to side abcd"]);
}

#[test]
fn adu_let_go_is_neither_kept_nor_copied() {
    let mut machine = machine([part(1, Reliability::UntilDeadline), graft(2, Some(SIDE))]);
    let key = Header {
        flags: Flags::KEY,
        ..header(1, 0)
    };
    begin(&mut machine, 5, key);
    failed(&mut machine, 0, DropCause::Expired);
    machine.handle_let_go(5, NOW);
    machine.handle_cast((STREAM, Epoch(2)), Feed::Replay, NOW);
    assert!(words(&mut machine).is_empty());
    let counts = changed(&mut machine, 1).expect("this node accounts for it");
    let mut expected = Counts::default();
    expected.send(Mark::NONE, band());
    expected.arrive(Mark::NONE, band());
    expected.fail(Mark::NONE, band(), DropCause::Expired);
    assert_eq!(counts, expected);
}
