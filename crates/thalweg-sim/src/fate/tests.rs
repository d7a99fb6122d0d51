//! Proves that a passage is explained by the first hop that it did not cross, and that silence is a hole.

use thalweg_base::adu::{Header, Importance};
use thalweg_base::event::DropCause;
use thalweg_base::id::{Epoch, Sequence, StreamId};
use thalweg_base::needs::Needs;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::Bitrate;
use thalweg_control::ledger::Band;
use thalweg_link::hop::{Carriage, Outcome};
use thalweg_planner::model::{Link, Node, NodeName, Stream, Traffic, World};

use super::{Copy, Fates, Sent};

fn names() -> Vec<NodeName> {
    ["a", "b", "c"]
        .map(|name| name.parse().expect("a letter"))
        .to_vec()
}

fn world() -> World {
    let name = |at: usize| names()[at].clone();
    World {
        nodes: names()
            .into_iter()
            .map(|name| (name, Node::default()))
            .collect(),
        links: vec![Link::new([name(0), name(1)], Bitrate::from_kbps(1))],
        streams: vec![Stream {
            name: "s".parse().expect("a letter"),
            from: name(0),
            to: vec![name(2)],
            layers: Vec::new(),
            needs: Needs {
                deadline: Duration::from_millis(100),
                ..Needs::default()
            },
            importance: Stream::IMPORTANCE_DEFAULT,
            pack_ratio: None,
            seal_overhead: None,
            traffic: Traffic::default(),
        }],
        ..World::default()
    }
}

/// Returns the first ADU of a stream.
fn first() -> Sent {
    Sent {
        due: Instant::ZERO,
        sequence: 0,
        frame: 0,
        layer: 0,
        importance: Importance(9),
        payload: b"payload".as_slice().into(),
    }
}

/// Returns accounts with one ADU, and its copy for the one sink.
fn one() -> (Fates, Copy, Header) {
    let mut fates = Fates::new([(0, vec![2])]);
    let id = StreamId(7);
    fates.handle_published(id, 0);
    fates.handle_planned(id, Epoch(1), 0);
    fates.handle_sent(0, first());
    let mut header = Header::new(id, Sequence(0));
    header.epoch = Epoch(1);
    let copy = fates.find(&header).expect("it was sent");
    (fates, copy, header)
}

/// Returns the place and cause by which the ADU is accounted for; `None` for a hole.
fn accounts(fates: &Fates) -> Option<(String, String)> {
    let conclusion = fates.conclude(&world(), &names());
    let report = conclusion.tallies[0][0].report("s", "c");
    assert_eq!(report.sent, 1);
    assert_eq!(report.unaccounted as usize, conclusion.holes.len());
    let (place, causes) = report.by_hop.into_iter().next()?;
    Some((place, causes.into_keys().next()?))
}

fn because(place: &str, cause: DropCause) -> (String, String) {
    (place.into(), cause.name().into())
}

#[test]
fn silence_is_a_hole() {
    let (mut fates, copy, _) = one();
    assert_eq!(accounts(&fates), None);
    fates.handle_handed(copy, [0, 1], (Carriage::Stream, 9), Instant::ZERO);
    assert!(!fates.is_settled(Instant::ZERO));
    fates.handle_outcome(copy, [0, 1], Outcome::Acknowledged, Instant::ZERO);
    assert_eq!(accounts(&fates), None);
}

#[test]
fn first_uncrossed_hop_is_blamed() {
    let (mut fates, copy, _) = one();
    fates.handle_handed(copy, [0, 1], (Carriage::Stream, 9), Instant::ZERO);
    fates.handle_handed(copy, [1, 2], (Carriage::Stream, 9), Instant::ZERO);
    fates.handle_outcome(copy, [1, 2], Outcome::Cancelled, Instant::ZERO);
    fates.handle_outcome(copy, [0, 1], Outcome::Expired, Instant::ZERO);
    assert_eq!(accounts(&fates), Some(because("a->b", DropCause::Expired)));
}

#[test]
fn late_outcome_blames_no_arrived_adu() {
    let (mut fates, copy, header) = one();
    fates.handle_handed(copy, [0, 1], (Carriage::Stream, 9), Instant::ZERO);
    assert_eq!(
        fates.handle_whole(copy, 0, 1, &header, Instant::ZERO),
        Ok(())
    );
    assert!(
        fates
            .handle_whole(copy, 0, 1, &header, Instant::ZERO)
            .is_err()
    );
    fates.handle_outcome(copy, [0, 1], Outcome::Expired, Instant::ZERO);
    fates.handle_dropped(copy, DropCause::Filtered, 1);
    fates.handle_dropped(copy, DropCause::PathLost, 1);
    assert_eq!(accounts(&fates), Some(because("b", DropCause::Filtered)));
}

#[test]
fn crash_explains_adus_at_node() {
    let (mut fates, _, _) = one();
    fates.handle_gone(0, Instant::ZERO);
    assert_eq!(accounts(&fates), Some(because("a", DropCause::PathLost)));
    let (mut fates, copy, header) = one();
    fates.handle_handed(copy, [0, 1], (Carriage::Stream, 9), Instant::ZERO);
    fates.handle_gone(0, Instant::ZERO);
    assert_eq!(accounts(&fates), Some(because("a->b", DropCause::PathLost)));
    // It was on the line already, and arrives.
    assert_eq!(
        fates.handle_whole(copy, 0, 1, &header, Instant::ZERO),
        Ok(())
    );
    assert_eq!(fates.handle_delivered(copy, 2, Instant::ZERO), Ok(()));
    assert!(fates.handle_delivered(copy, 2, Instant::ZERO).is_err());
    assert_eq!(accounts(&fates), None);
}

#[test]
fn missing_copy_is_hole_unless_sink_gone() {
    let (mut fates, copy, header) = one();
    let id = header.stream;
    fates.handle_planned(id, Epoch(2), 0);
    fates.handle_graft(id, Epoch(2), Epoch(1), 1);
    let given = fates.handle_given(&header, Epoch(2), Instant::ZERO);
    assert_eq!(given.map(|copy| copy.epoch), Some(Epoch(2)));
    fates.handle_handed(copy, [0, 1], (Carriage::Datagram, 9), Instant::ZERO);
    assert_eq!(
        fates.handle_whole(copy, 0, 1, &header, Instant::ZERO),
        Ok(())
    );
    assert_eq!(accounts(&fates), None);
    fates.handle_gone(2, Instant::ZERO);
    assert_eq!(accounts(&fates), Some(because("b", DropCause::PathLost)));
}

#[test]
fn copy_expected_only_since_given() {
    let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
    let (mut fates, copy, header) = one();
    let id = header.stream;
    fates.handle_planned(id, Epoch(2), 0);
    fates.handle_graft(id, Epoch(2), Epoch(1), 1);
    fates.handle_handed(copy, [0, 1], (Carriage::Stream, 9), at(0));
    fates.handle_outcome(copy, [0, 1], Outcome::Acknowledged, at(0));
    assert_eq!(fates.handle_whole(copy, 0, 1, &header, at(1)), Ok(()));
    // It is resent for another sink and does not arrive.
    fates.handle_given(&header, Epoch(2), at(2));
    fates.handle_handed(copy, [0, 1], (Carriage::Stream, 9), at(2));
    fates.handle_outcome(copy, [0, 1], Outcome::Expired, at(3));
    assert!(fates.is_settled(at(3)));
    assert_eq!(accounts(&fates), Some(because("a->b", DropCause::Expired)));
    assert_eq!(fates.handle_whole(copy, 0, 1, &header, at(4)), Ok(()));
    assert_eq!(accounts(&fates), None, "it arrived and was not copied");
}

#[test]
fn departed_sink_needs_no_copy() {
    let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
    let lost = || Some(because("b", DropCause::PathLost));
    // Times at which it was given, the sink left, the copies ended, and it reached the copying node.
    let cases: [([u64; 4], _, _); 5] = [
        ([1, 2, 4, 5], lost(), "given before the sink left"),
        ([3, 2, 4, 5], lost(), "given before the source knew"),
        ([4, 2, 4, 5], None, "given when the copies had ended"),
        ([1, 2, 6, 5], None, "come while copies were made"),
        ([1, 3, 2, 5], None, "not copied for a sink that was there"),
    ];
    for ([given, left, ceased, arrived_at], end, what) in cases {
        let (mut fates, copy, header) = one();
        let id = header.stream;
        fates.handle_planned(id, Epoch(2), 0);
        fates.handle_graft(id, Epoch(2), Epoch(1), 1);
        fates.handle_cast(id, Epoch(2));
        fates.handle_given(&header, Epoch(2), at(given));
        fates.handle_leaving(2, at(left));
        fates.handle_gone(2, at(4));
        fates.handle_ceased(id, Epoch(2), at(ceased));
        fates.handle_handed(copy, [0, 1], (Carriage::Datagram, 9), at(5));
        assert_eq!(
            fates.handle_whole(copy, 0, 1, &header, at(arrived_at)),
            Ok(())
        );
        assert_eq!(accounts(&fates), end, "{what}");
        // A sink that is back, or is copied for again, must get its copy.
        let mut back = fates.clone();
        back.handle_planned(id, Epoch(2), 0);
        assert_eq!(accounts(&back), None, "{what}");
        fates.handle_cast(id, Epoch(2));
        assert_eq!(accounts(&fates), None, "{what}");
    }
}

#[test]
fn dropped_dependant_may_arrive() {
    let (mut fates, copy, header) = one();
    fates.handle_handed(copy, [0, 1], (Carriage::Stream, 9), Instant::ZERO);
    fates.handle_outcome(copy, [0, 1], Outcome::Dependant, Instant::ZERO);
    let place = (0, Band::of(Importance(9)));
    assert_eq!(fates.truth(0, &names()).returned.get(&place), None);
    assert_eq!(
        fates.handle_whole(copy, 0, 1, &header, Instant::ZERO),
        Ok(())
    );
    assert_eq!(fates.truth(0, &names()).returned.get(&place), Some(&1));
}

#[test]
fn later_link_down_cuts_stream() {
    let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
    let (mut fates, copy, _) = one();
    fates.handle_handed(copy, [0, 1], (Carriage::Datagram, 9), at(2));
    fates.handle_down(0, 1, at(1));
    fates.handle_down(1, 2, at(3));
    assert!(!fates.was_cut(0), "before, and elsewhere");
    fates.handle_down(1, 0, at(3));
    assert!(fates.was_cut(0));
}

#[test]
fn arrival_after_release_is_late() {
    let at = |millis| Instant::ZERO + Duration::from_millis(millis);
    for (arrived_at, is_late) in [(7_999, false), (8_000, true), (11_000, true)] {
        let (mut fates, copy, header) = one();
        fates.handle_handed(copy, [0, 1], (Carriage::Datagram, 9), at(0));
        assert_eq!(
            fates.handle_whole(copy, 0, 1, &header, at(arrived_at)),
            Ok(())
        );
        fates.handle_removed(header.stream, Epoch(1), 1, at(9_000));
        assert!(!fates.was_late(0), "the source has it still");
        fates.handle_removed(header.stream, Epoch(1), 0, at(10_000));
        assert_eq!(fates.was_late(0), is_late, "{arrived_at} ms");
    }
}

#[test]
fn grafted_plan_is_released_at_graft() {
    let at = |millis| Instant::ZERO + Duration::from_millis(millis);
    for (arrived_at, is_late) in [(7_999, false), (8_000, true)] {
        let (mut fates, copy, header) = one();
        fates.handle_graft(header.stream, Epoch(1), Epoch(9), 1);
        fates.handle_handed(copy, [1, 2], (Carriage::Datagram, 9), at(0));
        assert_eq!(
            fates.handle_whole(copy, 1, 2, &header, at(arrived_at)),
            Ok(())
        );
        fates.handle_removed(header.stream, Epoch(1), 2, at(9_000));
        assert!(!fates.was_late(0), "its sink has left it");
        fates.handle_removed(header.stream, Epoch(1), 1, at(10_000));
        assert_eq!(fates.was_late(0), is_late, "{arrived_at} ms");
    }
}

#[test]
fn copy_follows_latest_publication() {
    // Published again before the first ADU, as by a node that was killed at once. Ids carry no order.
    for ids in [[7, 8], [8, 7]].map(|ids| ids.map(StreamId)) {
        let mut fates = Fates::new([(0, vec![2, 1])]);
        for id in ids {
            fates.handle_published(id, 0);
        }
        let [_, id] = ids;
        fates.handle_planned(id, Epoch(1), 1);
        fates.handle_planned(id, Epoch(2), 0);
        fates.handle_graft(id, Epoch(2), Epoch(1), 1);
        fates.handle_sent(0, first());
        let mut header = Header::new(id, Sequence(0));
        for epoch in [2, 1].map(Epoch) {
            header.epoch = epoch;
            fates.handle_given(&header, epoch, Instant::ZERO);
        }
        let copy = fates.find(&header).expect("it was sent");
        fates.handle_handed(copy, [0, 1], (Carriage::Datagram, 9), Instant::ZERO);
        fates.handle_outcome(copy, [0, 1], Outcome::Departed, Instant::ZERO);
        let lost = because("a->b", DropCause::PathLost);
        assert_eq!(accounts(&fates), Some(lost), "what it is a copy of was");
    }
}

#[test]
fn acknowledgement_matches_arrival() {
    for gone_first in [false, true] {
        let (mut fates, copy, header) = one();
        for _ in 0..2 {
            fates.handle_handed(copy, [0, 1], (Carriage::Stream, 9), Instant::ZERO);
        }
        let expire = |fates: &mut Fates| {
            fates.handle_outcome(copy, [0, 1], Outcome::Expired, Instant::ZERO);
        };
        if gone_first {
            expire(&mut fates);
        }
        let whole = fates.handle_whole(copy, 0, 1, &header, Instant::ZERO);
        assert_eq!(whole, Ok(()));
        if !gone_first {
            expire(&mut fates);
        }
        fates.handle_outcome(copy, [0, 1], Outcome::Acknowledged, Instant::ZERO);
        let expired = because("a->b", DropCause::Expired);
        assert_eq!(accounts(&fates), Some(expired), "and is no hole");
    }
}

#[test]
fn vanished_bytes_equal_sent_bytes() {
    let (mut fates, copy, _) = one();
    fates.handle_handed(copy, [0, 1], (Carriage::Datagram, 3), Instant::ZERO);
    fates.handle_outcome(copy, [0, 1], Outcome::Departed, Instant::ZERO);
    let vanished = fates.conclude(&world(), &names()).vanished;
    assert_eq!(vanished.into_iter().collect::<Vec<_>>(), [((0, 1), 3)]);
}

#[test]
fn ordered_hop_keeps_order() {
    let (mut fates, copy, mut header) = one();
    let id = thalweg_link::hop::OrderedId {
        stream: header.stream,
        epoch: header.epoch,
    };
    let handed = (Carriage::Ordered(id), 9);
    fates.handle_handed(copy, [0, 1], handed, Instant::ZERO);
    fates.handle_outcome(copy, [0, 1], Outcome::Departed, Instant::ZERO);
    assert_eq!(accounts(&fates), None);
    assert!(!fates.is_settled(Instant::ZERO));
    fates.handle_down(1, 0, Instant::ZERO);
    assert!(fates.is_settled(Instant::ZERO));
    assert_eq!(accounts(&fates), Some(because("a->b", DropCause::PathLost)));
    assert_eq!(
        fates.handle_whole(copy, 0, 1, &header, Instant::ZERO),
        Ok(())
    );
    fates.handle_handed(copy, [0, 1], handed, Instant::ZERO);
    header.sequence = Sequence(0);
    assert!(
        fates
            .handle_whole(copy, 0, 1, &header, Instant::ZERO)
            .is_err()
    );
}
