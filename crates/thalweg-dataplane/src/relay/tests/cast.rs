//! Proves which plans get copies and of which ADUs, and that a branch fails alone.

use thalweg_base::feed::Feed;

use super::*;

fn key(epoch: u32, sequence: u64) -> Header {
    Header {
        flags: Flags::KEY,
        ..header(epoch, sequence)
    }
}

fn forked() -> Machine {
    let base = part(1, Reliability::UntilDeadline);
    let mut machine = machine([base, graft(2, Some(SIDE)), graft(3, None)]);
    for epoch in [3, 2] {
        machine.handle_cast((STREAM, Epoch(epoch)), Feed::Live, NOW);
    }
    machine
}

#[test]
fn base_with_branches_is_copied_once_each() {
    let mut machine = forked();
    assert_eq!(
        bring(&mut machine, 5, header(1, 0)),
        [
            "gather 5",
            "send e2 0 to side abcd",
            "deliver e3 0",
            "send e1 0 to next abcd"
        ]
    );
    machine.handle_cast((STREAM, Epoch(2)), Feed::Off, NOW);
    machine.handle_cast((STREAM, Epoch(3)), Feed::Off, NOW);
    assert_eq!(begin(&mut machine, 6, header(1, 1)), ["pass 6 to next"]);
}

#[test]
fn branch_gets_what_base_filters() {
    let base = Installation {
        adapters: vec!["keep:1".to_string()],
        ..part(1, Reliability::UntilDeadline)
    };
    let mut machine = machine([base, graft(2, Some(SIDE))]);
    machine.handle_cast((STREAM, Epoch(2)), Feed::Live, NOW);
    let upper = Header {
        layer: 1,
        ..header(1, 0)
    };
    assert_eq!(
        bring(&mut machine, 5, upper),
        [
            "gather 5",
            "send e2 0 to side abcd",
            "drop e1 0 filtered Part"
        ]
    );
}

#[test]
fn lost_branch_leaves_others() {
    let mut machine = forked();
    machine.handle_link(SIDE, false);
    assert_eq!(
        bring(&mut machine, 5, header(1, 0)),
        [
            "gather 5",
            "drop e2 0 path-lost Way",
            "deliver e3 0",
            "send e1 0 to next abcd"
        ]
    );
}

#[test]
fn branch_ends_at_its_sequence() {
    let mut machine = forked();
    machine.handle_cast((STREAM, Epoch(3)), Feed::Off, NOW);
    machine.handle_cast((STREAM, Epoch(2)), Feed::Until(Sequence(2)), NOW);
    // A stale command does not extend it.
    machine.handle_cast((STREAM, Epoch(2)), Feed::Live, NOW);
    let last = bring(&mut machine, 5, header(1, 1));
    assert_eq!(last[1], "send e2 1 to side abcd");
    assert_eq!(begin(&mut machine, 6, header(1, 2)), ["pass 6 to next"]);
}

#[test]
fn late_branch_begins_with_kept_group() {
    let mut machine = machine([part(1, Reliability::UntilDeadline), graft(2, Some(SIDE))]);
    bring(&mut machine, 5, key(1, 0));
    bring(&mut machine, 6, header(1, 1));
    // This one still arrives: it is copied when it is whole.
    begin(&mut machine, 7, header(1, 2));
    let plan = (STREAM, Epoch(2));
    machine.handle_cast(plan, Feed::Replay, NOW);
    assert!(machine.is_cast(plan));
    assert_eq!(
        words(&mut machine),
        [
            "replay e2 0",
            "send e2 0 to side abcd",
            "replay e2 1",
            "send e2 1 to side abcd"
        ]
    );
    machine.handle_cast(plan, Feed::Replay, NOW);
    assert_eq!(words(&mut machine), [""; 0], "once");
    machine.handle_chunk(7, &Bytes::from_static(b"last"));
    machine.handle_whole(7, NOW);
    assert_eq!(
        words(&mut machine),
        ["chunk 2 last", "send e2 2 to side last"]
    );
}

#[test]
fn branch_of_another_base_leaves_first() {
    let mut machine = forked();
    install(&mut machine, part(4, Reliability::UntilDeadline));
    let moved = Installation {
        base: Some(Epoch(4)),
        ..graft(2, Some(SIDE))
    };
    install(&mut machine, moved);
    machine.handle_cast((STREAM, Epoch(2)), Feed::Live, NOW);
    machine.handle_cast((STREAM, Epoch(3)), Feed::Off, NOW);
    assert_eq!(begin(&mut machine, 5, header(1, 0)), ["pass 5 to next"]);
    assert_eq!(begin(&mut machine, 6, header(4, 0)), ["gather 6"]);
}

#[test]
fn repaired_branch_drops_alone() {
    let base = part(1, Reliability::Repaired);
    let branch = Installation {
        reliability: Reliability::Repaired,
        ..graft(2, Some(SIDE))
    };
    let mut machine = machine([base, branch]);
    machine.handle_cast((STREAM, Epoch(2)), Feed::Live, NOW);
    let large = |sequence| Adu {
        header: header(1, sequence),
        payload: Bytes::from(vec![0; 1_000_000]),
    };
    let bring = |machine: &mut Machine, recv: u32| {
        let adu = large(u64::from(recv));
        begin_from(machine, BEFORE, recv, adu.header, adu.payload.len());
        machine.handle_chunk(recv, &adu.payload);
        machine.handle_whole(recv, NOW);
        let actions = core::iter::from_fn(|| machine.poll_action());
        actions
            .filter(|action| {
                matches!(
                    action,
                    Action::Send(..) | Action::Drop(..) | Action::Hold(_)
                )
            })
            .count()
    };
    assert_eq!(bring(&mut machine, 0), 2, "both are sent");
    assert_eq!(bring(&mut machine, 1), 0, "both wait");
    begin_from(&mut machine, BEFORE, 2, header(1, 2), 1_000_000);
    assert_eq!(words(&mut machine), ["gather 2", "hold 2"]);
    // The first branch has room again: what is held back goes on, and the other drops it.
    assert!(machine.handle_outcome(SendNumber(1), Ok(()), NOW));
    let actions = words(&mut machine);
    assert_eq!(actions.len(), 2);
    assert!(actions[0].starts_with("send e1 1"), "{}", actions[0]);
    assert_eq!(actions[1], "resume 2");
    machine.handle_chunk(2, &Bytes::from(vec![0; 1_000_000]));
    machine.handle_whole(2, NOW);
    assert_eq!(words(&mut machine), ["drop e2 2 overflow Way"]);
    assert_eq!(machine.outstanding(STREAM), 2);
}

#[test]
fn begun_adu_keeps_its_branches() {
    use crate::relay::cast::Casts;
    use crate::relay::plans::Seat;

    let base = (STREAM, Epoch(1));
    let mut casts = Casts::default();
    let branch = |epoch| (Epoch(epoch), Seat::FIRST);
    assert!(casts.start(base, branch(3), None));
    assert!(!casts.start(base, branch(3), None), "it runs");
    let begun = casts.of(base);
    casts.stop((STREAM, Epoch(3)));
    casts.start(base, branch(2), None);
    let joined = begun.joined(&casts.of(base), Sequence(0));
    let epochs = joined.having(Sequence(0)).map(|branch| branch.epoch.0);
    assert_eq!(epochs.collect::<Vec<_>>(), [2, 3]);
}
