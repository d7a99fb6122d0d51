//! Proves which node accounts for an ADU: the last one that had it whole.

use bytes::Bytes;
use thalweg_base::adu::{Flags, Header, Importance, Mark};
use thalweg_base::event::DropCause;
use thalweg_base::id::{Sequence, StreamId};
use thalweg_base::time::{Duration, Instant};
use thalweg_control::ledger::{Band, Counts};
use thalweg_net::link::Body;
use thalweg_net::{Outcome, Payload, StreamCode};

use super::Account;

const NOW: Instant = Instant::from_nanos(7_000_000_000);

fn header(sequence: u64) -> Header {
    Header {
        importance: Importance(40),
        ..Header::new(StreamId(1), Sequence(sequence))
    }
}

fn band() -> Band {
    Band::of(Importance(40))
}

#[test]
fn outcome_is_counted_by_owner() {
    let cases = [
        (Outcome::Acknowledged, None),
        (Outcome::Departed, None),
        (Outcome::Expired, Some(DropCause::Expired)),
        (Outcome::Overflow, Some(DropCause::Overflow)),
        (Outcome::LinkLost, Some(DropCause::PathLost)),
        (Outcome::Refused(StreamCode::Whole), None),
        // The next node accounts for its refusals, unless it does not know the plan.
        (Outcome::Refused(StreamCode::Cancelled), None),
        (Outcome::Refused(StreamCode::Protocol), None),
        (
            Outcome::Refused(StreamCode::UnknownStream),
            Some(DropCause::Cancelled),
        ),
        (
            Outcome::Refused(StreamCode::Expired),
            Some(DropCause::Expired),
        ),
    ];
    for (outcome, cause) in cases {
        let account = Account::default();
        account.arrived(&header(0));
        account.sent(Mark::NONE, &header(0), &mut Payload::Whole(Bytes::new()));
        account.ended(&header(0), outcome);
        let mut expected = Counts::default();
        expected.arrive(Mark::NONE, band());
        expected.send(Mark::NONE, band());
        match cause {
            Some(cause) => expected.fail(Mark::NONE, band(), cause),
            None => expected.leave(Mark::NONE, band()),
        }
        assert_eq!(account.changed(NOW), Some(expected), "{outcome:?}");
        assert_eq!(account.changed(NOW), None, "told once");
    }
}

#[test]
fn whole_adu_is_counted_here() {
    let account = Account::default();
    let mut payload = Payload::Arriving(Body::whole(Bytes::from_static(b"all of it")));
    account.sent(Mark::NONE, &header(3), &mut payload);
    account.ended(&header(3), Outcome::Expired);
    let mut expected = Counts::default();
    expected.arrive(Mark::NONE, band());
    expected.send(Mark::NONE, band());
    expected.fail(Mark::NONE, band(), DropCause::Expired);
    assert_eq!(account.changed(NOW), Some(expected));
}

#[test]
fn stream_end_is_not_counted() {
    let account = Account::default();
    let end = Header {
        flags: Flags::END,
        ..header(9)
    };
    account.arrived(&end);
    account.sent(Mark::NONE, &end, &mut Payload::Whole(Bytes::new()));
    account.ended(&end, Outcome::Acknowledged);
    account.delivered(&end);
    assert_eq!(account.changed(NOW), None);
}

#[test]
fn copied_end_is_reported() {
    let account = Account::default();
    account.copied(&header(8));
    assert_eq!(account.changed(NOW), None);
    account.copied(&Header {
        flags: Flags::END,
        ..header(9)
    });
    let expected = Counts {
        is_end_copied: true,
        ..Counts::default()
    };
    assert_eq!(account.changed(NOW), Some(expected));
}

#[test]
fn account_turns_stale_with_age() {
    let account = Account::default();
    let age = Duration::from_millis(500);
    let after = |millis| NOW + Duration::from_millis(millis);
    account.arrived(&header(1));
    assert!(account.changed(NOW).is_some());
    account.arrived(&header(2));
    assert!(!account.is_stale(after(499), age));
    assert!(account.is_stale(after(500), age));
    assert!(account.changed(after(500)).is_some());
    // Nothing has changed since then.
    assert!(!account.is_stale(after(1_000), age));
}

#[test]
fn both_ends_count_by_hop_mark() {
    let [first, second] = [1, 2].map(Mark::from_index);
    let cases = [
        // An ADU with a mark keeps it, unless the next hop acknowledges ADUs.
        (first, false, first),
        (second, false, second),
        (second, true, Mark::NONE),
        // An ADU without a mark gets none, or the current one.
        (Mark::NONE, true, Mark::NONE),
        (Mark::NONE, false, second),
    ];
    let account = Account::default();
    let mut expected = Counts::default();
    for (sequence, (came, is_acknowledged, sent)) in (0..).zip(cases) {
        let mut header = header(sequence);
        header.set_mark(came);
        account.arrived(&header);
        expected.arrive(came, band());
        if came == Mark::NONE {
            // As if an ADU with the second mark had arrived meanwhile.
            let mut marked = header;
            marked.set_mark(second);
            account.arrived(&marked);
            expected.arrive(second, band());
        }
        account.set_hop_mark(&mut header, is_acknowledged);
        assert_eq!(header.mark(), sent);
        account.sent(came, &header, &mut Payload::Whole(Bytes::new()));
        expected.send(sent, band());
        account.ended(&header, Outcome::Departed);
        expected.leave(sent, band());
    }
    assert_eq!(account.changed(NOW), Some(expected));
}

#[test]
fn cut_through_keeps_arrival_mark() {
    let account = Account::default();
    let (came, sent) = (Mark::NONE, Mark::from_index(3));
    let mut header = header(4);
    header.set_mark(sent);
    let mut payload = Payload::Arriving(Body::whole(Bytes::from_static(b"all of it")));
    account.sent(came, &header, &mut payload);
    account.ended(&header, Outcome::Expired);
    let mut expected = Counts::default();
    expected.arrive(came, band());
    expected.send(sent, band());
    expected.fail(sent, band(), DropCause::Expired);
    assert_eq!(account.changed(NOW), Some(expected));
}
