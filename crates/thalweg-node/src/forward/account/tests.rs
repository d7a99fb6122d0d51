//! Proves who accounts for an ADU: the node that had it whole last.

use bytes::Bytes;
use thalweg_core::adu::{Flags, Header, Importance};
use thalweg_core::event::DropCause;
use thalweg_core::id::{Sequence, StreamId};
use thalweg_core::ledger::{Band, Counts};
use thalweg_net::link::Body;
use thalweg_net::{Outcome, Payload, StreamCode};

use super::Account;

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
fn what_a_link_says_is_counted_by_who_accounts_for_it() {
    let cases = [
        (Outcome::Acknowledged, None),
        (Outcome::Departed, None),
        (Outcome::Expired, Some(DropCause::Expired)),
        (Outcome::Overflow, Some(DropCause::Overflow)),
        (Outcome::LinkLost, Some(DropCause::PathLost)),
        (Outcome::Refused(StreamCode::Whole), None),
        // The next node counts what it refuses, unless it does not know the plan.
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
        account.sent(&header(0), &mut Payload::Whole(Bytes::new()));
        account.ended(&header(0), outcome);
        let mut expected = Counts::default();
        expected.arrive(band());
        expected.send(band());
        match cause {
            Some(cause) => expected.fail(band(), cause),
            None => expected.leave(band()),
        }
        assert_eq!(account.changed(), Some(expected), "{outcome:?}");
        assert_eq!(account.changed(), None, "told once");
    }
}

#[test]
fn what_is_whole_when_it_is_sent_on_is_this_nodes() {
    let account = Account::default();
    let mut payload = Payload::Arriving(Body::whole(Bytes::from_static(b"all of it")));
    account.sent(&header(3), &mut payload);
    account.ended(&header(3), Outcome::Expired);
    let mut expected = Counts::default();
    expected.arrive(band());
    expected.send(band());
    expected.fail(band(), DropCause::Expired);
    assert_eq!(account.counts(), expected);
}

#[test]
fn the_end_of_a_stream_is_not_counted() {
    let account = Account::default();
    let end = Header {
        flags: Flags::END,
        ..header(9)
    };
    account.arrived(&end);
    account.sent(&end, &mut Payload::Whole(Bytes::new()));
    account.ended(&end, Outcome::Acknowledged);
    account.delivered(&end);
    assert_eq!(account.changed(), None);
}
