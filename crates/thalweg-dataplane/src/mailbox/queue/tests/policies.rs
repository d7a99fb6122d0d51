//! Proves what each policy keeps and drops, in sequence and in order of arrival, and that credit holds back
//! all that was not asked for.

use super::*;

/// Streams by what they promise: every ADU, none, and those with a deadline.
const STREAMS: [(Reliability, Instant); 3] = [
    (Reliability::Full, Instant::NEVER),
    (Reliability::None, Instant::NEVER),
    (
        Reliability::UntilDeadline,
        Instant::from_nanos(9_000_000_000),
    ),
];

fn options(policy: Policy, depth: Option<&str>) -> MailboxOptions {
    MailboxOptions {
        policy: Some(policy),
        depth: depth.map(|text| text.parse().expect("a depth")),
        ..MailboxOptions::default()
    }
}

/// Calls `check` with an empty mailbox for each stream and order.
fn each(options: &MailboxOptions, check: impl Fn(Mailbox<u64>, Reliability, Instant)) {
    for in_sequence in [false, true] {
        for (reliability, deadline) in STREAMS {
            check(Mailbox::with(in_sequence, options), reliability, deadline);
        }
    }
}

/// Puts in ADUs of one byte with these sequences; returns those that were refused.
fn put_all(
    mailbox: &mut Mailbox<u64>,
    sequences: impl IntoIterator<Item = u64>,
    (reliability, deadline): (Reliability, Instant),
    now: Instant,
) -> Vec<(u64, Refusal)> {
    let mut refused = Vec::new();
    for sequence in sequences {
        let one = adu(sequence, 1, deadline);
        refused.extend(mailbox.put(one, sequence, (reliability, false), now).err());
    }
    refused
}

#[test]
fn newest_replaces_what_waits() {
    each(
        &options(Policy::Newest, None),
        |mut mailbox, reliability, deadline| {
            let stream = (reliability, deadline);
            assert_eq!(put_all(&mut mailbox, 0..5, stream, Instant::ZERO), []);
            assert_eq!(mailbox.size(), (1, 1));
            let gone: Vec<_> = (0..4).map(|one| (one, DropCause::Cancelled)).collect();
            assert_eq!(dropped(&mut mailbox), gone);
            assert_eq!(taken(&mut mailbox, Instant::ZERO), [4]);
            // A gap is not waited for, and what comes late is of no use.
            assert_eq!(put_all(&mut mailbox, [7], stream, Instant::ZERO), []);
            let refused = put_all(&mut mailbox, [6], stream, Instant::ZERO);
            assert_eq!(refused, [(6, Refusal::Superseded)]);
            assert_eq!(taken(&mut mailbox, Instant::ZERO), [7]);
            assert!(!mailbox.is_pressed(true));
        },
    );
}

#[test]
fn newest_keeps_end_behind_it() {
    each(
        &options(Policy::Newest, None),
        |mut mailbox, reliability, deadline| {
            put_all(&mut mailbox, 0..2, (reliability, deadline), Instant::ZERO);
            let mut end = adu(2, 0, deadline);
            end.header.flags = Flags::END;
            assert_eq!(
                mailbox.put(end, 2, (reliability, false), Instant::ZERO),
                Ok(())
            );
            assert_eq!(taken(&mut mailbox, Instant::ZERO), [1, 2]);
        },
    );
}

#[test]
fn early_end_awaits_newest() {
    let mut mailbox = Mailbox::with(true, &options(Policy::Newest, None));
    let stream = (Reliability::UntilDeadline, Instant::NEVER);
    put_all(&mut mailbox, [0], stream, Instant::ZERO);
    let mut end = adu(9, 0, Instant::NEVER);
    end.header.flags = Flags::END;
    assert_eq!(
        mailbox.put(end, 9, (stream.0, false), Instant::ZERO),
        Ok(())
    );
    assert_eq!(taken(&mut mailbox, Instant::ZERO), [0]);
    put_all(&mut mailbox, [7, 8], stream, Instant::ZERO);
    assert_eq!(taken(&mut mailbox, Instant::ZERO), [8, 9]);
}

#[test]
fn drop_old_keeps_last() {
    each(
        &options(Policy::DropOld, Some("3")),
        |mut mailbox, reliability, deadline| {
            let stream = (reliability, deadline);
            assert_eq!(put_all(&mut mailbox, 0..10, stream, Instant::ZERO), []);
            assert_eq!(dropped(&mut mailbox).len(), 7);
            assert_eq!(taken(&mut mailbox, Instant::ZERO), [7, 8, 9]);
            assert_eq!(mailbox.skipped(), 7);
            assert!(!mailbox.is_pressed(true), "it never blocks its stream");
        },
    );
}

#[test]
fn drop_new_keeps_first() {
    each(
        &options(Policy::DropNew, Some("3")),
        |mut mailbox, reliability, deadline| {
            let stream = (reliability, deadline);
            let refused = put_all(&mut mailbox, 0..10, stream, Instant::ZERO);
            assert_eq!(refused.len(), 7);
            assert_eq!(refused[0], (3, Refusal::Full));
            assert_eq!(taken(&mut mailbox, Instant::ZERO), [0, 1, 2]);
            assert_eq!(put_all(&mut mailbox, [10], stream, Instant::ZERO), []);
            assert_eq!(
                taken(&mut mailbox, Instant::ZERO),
                [10],
                "none of these is waited for"
            );
            assert_eq!(mailbox.skipped(), 7);
            assert!(!mailbox.is_pressed(true));
        },
    );
}

#[test]
fn least_important_makes_room() {
    let options = options(Policy::ByImportance, Some("4"));
    each(&options, |mut mailbox, reliability, deadline| {
        let mut refused = Vec::new();
        // Every fourth is a picture, the rest refines it.
        for sequence in 0..32 {
            let mut one = adu(sequence, 1, deadline);
            one.header.importance = Importance(if sequence % 4 == 0 { 200 } else { 10 });
            let put = mailbox.put(one, sequence, (reliability, false), Instant::ZERO);
            refused.extend(put.err());
        }
        // The oldest of the pictures make room once only pictures wait.
        assert_eq!(mailbox.size().0, 4);
        assert_eq!(taken(&mut mailbox, Instant::ZERO), [16, 20, 24, 28]);
        assert!(refused.contains(&(29, Refusal::Outranked)), "{refused:?}");
        let dropped = dropped(&mut mailbox);
        assert!(dropped.contains(&(1, DropCause::Preempted)), "{dropped:?}");
        assert_eq!(refused.len() + dropped.len(), 28);
        assert_eq!(
            put_all(&mut mailbox, [32], (reliability, deadline), Instant::ZERO),
            []
        );
        assert_eq!(taken(&mut mailbox, Instant::ZERO), [32]);
        assert_eq!(mailbox.skipped(), 28);
    });
}

#[test]
fn depth_bounds_bytes_and_time() {
    let ms = |ms| Instant::ZERO + Duration::from_millis(ms);
    each(
        &options(Policy::DropOld, Some("100 B")),
        |mut mailbox, reliability, deadline| {
            for sequence in 0..5 {
                let one = adu(sequence, 40, deadline);
                assert_eq!(
                    mailbox.put(one, sequence, (reliability, false), ms(0)),
                    Ok(())
                );
            }
            assert_eq!(taken(&mut mailbox, ms(0)), [3, 4]);
            let large = adu(5, 4_000, deadline);
            assert_eq!(
                mailbox.put(large, 5, (reliability, false), ms(0)),
                Ok(()),
                "alone it has room"
            );
        },
    );
    each(
        &options(Policy::DropOld, Some("2 s")),
        |mut mailbox, reliability, deadline| {
            for sequence in 0..7 {
                let now = ms(sequence * 1_000);
                put_all(&mut mailbox, [sequence], (reliability, deadline), now);
            }
            assert_eq!(taken(&mut mailbox, ms(6_000)), [4, 5, 6]);
        },
    );
}

#[test]
fn waiting_presses_only_promised_streams() {
    each(
        &options(Policy::Wait, Some("3")),
        |mut mailbox, reliability, deadline| {
            let refused = put_all(&mut mailbox, 0..5, (reliability, deadline), Instant::ZERO);
            if reliability == Reliability::Full {
                assert_eq!(refused, []);
                assert!(mailbox.is_pressed(false));
                assert!(matches!(mailbox.take(Instant::ZERO), Some(Mail::Adu(_, 0))));
                assert!(mailbox.is_pressed(false));
                assert!(matches!(mailbox.take(Instant::ZERO), Some(Mail::Adu(_, 1))));
                assert!(!mailbox.is_pressed(false), "as much waits as may");
            } else {
                assert_eq!(refused, [(3, Refusal::Full), (4, Refusal::Full)]);
                assert!(!mailbox.is_pressed(false));
            }
        },
    );
}

#[test]
fn full_depth_gives_gap_up() {
    let mut mailbox = Mailbox::with(true, &options(Policy::DropNew, Some("3")));
    let stream = (Reliability::UntilDeadline, second(60));
    put_all(&mut mailbox, [0], stream, Instant::ZERO);
    assert_eq!(taken(&mut mailbox, Instant::ZERO), [0]);
    put_all(&mut mailbox, [2, 3], stream, Instant::ZERO);
    assert_eq!(
        taken(&mut mailbox, Instant::ZERO),
        [],
        "the missing one may come"
    );
    put_all(&mut mailbox, [4], stream, Instant::ZERO);
    assert_eq!(taken(&mut mailbox, Instant::ZERO), [2, 3, 4]);
}

#[test]
fn unrequested_adu_stays() {
    let pull = MailboxOptions {
        pull: true,
        ..MailboxOptions::default()
    };
    each(&pull, |mut mailbox, reliability, deadline| {
        put_all(&mut mailbox, 0..4, (reliability, deadline), Instant::ZERO);
        assert_eq!(taken(&mut mailbox, Instant::ZERO), []);
        mailbox.request(1);
        assert_eq!(taken(&mut mailbox, Instant::ZERO), [0]);
        mailbox.request(2);
        assert_eq!(taken(&mut mailbox, Instant::ZERO), [1, 2]);
        let mut end = adu(4, 0, deadline);
        end.header.flags = Flags::END;
        assert_eq!(
            mailbox.put(end, 4, (reliability, false), Instant::ZERO),
            Ok(())
        );
        assert_eq!(
            taken(&mut mailbox, Instant::ZERO),
            [],
            "the end comes behind the rest"
        );
        mailbox.request(1);
        assert_eq!(taken(&mut mailbox, Instant::ZERO), [3, 4]);
    });
}

#[test]
fn pulled_gap_has_no_timeout() {
    let pull = MailboxOptions {
        pull: true,
        ..MailboxOptions::default()
    };
    let mut mailbox = Mailbox::with(true, &pull);
    put_all(&mut mailbox, [0, 2], STREAMS[0], Instant::ZERO);
    assert_eq!(
        mailbox.poll_timeout(),
        Instant::NEVER,
        "a request wakes it, no time does"
    );
    mailbox.request(2);
    assert_eq!(taken(&mut mailbox, Instant::ZERO), [0]);
    assert!(!mailbox.poll_timeout().is_never(), "the gap has a time");
}

#[test]
fn newest_by_request_is_fresh() {
    let ping = MailboxOptions {
        policy: Some(Policy::Newest),
        pull: true,
        ..MailboxOptions::default()
    };
    each(&ping, |mut mailbox, reliability, deadline| {
        let stream = (reliability, deadline);
        put_all(&mut mailbox, 0..100, stream, Instant::ZERO);
        mailbox.request(1);
        assert_eq!(taken(&mut mailbox, Instant::ZERO), [99]);
        put_all(&mut mailbox, 100..200, stream, Instant::ZERO);
        assert_eq!(taken(&mut mailbox, Instant::ZERO), []);
        mailbox.request(1);
        assert_eq!(taken(&mut mailbox, Instant::ZERO), [199]);
    });
}

#[test]
fn missing_is_what_never_came() {
    let missing = |mailbox: &mut Mailbox<u64>| -> Vec<_> {
        core::iter::from_fn(|| mailbox.poll_missing()).collect()
    };
    let stream = (Reliability::None, Instant::NEVER);
    // 1, 2, 7 and 8 never come; 5 and 6 find no room.
    let mut mailbox = Mailbox::with(true, &options(Policy::DropNew, Some("3")));
    put_all(&mut mailbox, [0, 3, 4], stream, Instant::ZERO);
    let refused = put_all(&mut mailbox, [5, 6], stream, Instant::ZERO);
    assert_eq!(refused.len(), 2);
    assert_eq!(taken(&mut mailbox, second(9)), [0, 3, 4]);
    put_all(&mut mailbox, [9], stream, second(9));
    assert_eq!(taken(&mut mailbox, second(20)), [9]);
    assert_eq!(missing(&mut mailbox), [1..3, 7..9]);
    assert_eq!(mailbox.skipped(), 6);
}
