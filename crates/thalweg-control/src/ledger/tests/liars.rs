//! Proves that impossible reports are rejected, and that reports take bounded memory.

use super::*;

#[test]
fn impossible_report_is_rejected() {
    let mut chain = Chain::new(3);
    for _ in 0..5 {
        chain.carry(band(0), Fate::Vanished(0));
    }
    chain.collect_reports();
    let honest = report(vec![statement(
        0,
        1,
        &[(What::Arrived(Mark::at(Instant::ZERO)), 1)],
    )]);
    chain.deliver(1, &honest);
    let expired = What::Dropped(DropCause::Expired);
    let before = chain.reading();
    let lies = [
        (
            statement(2, 1, &[(expired, 1)]),
            Disbelief::OffPath { distance: 2 },
        ),
        (
            statement(0, 1, &[(What::Arrived(Mark::at(Instant::ZERO)), 6)]),
            Disbelief::Arrived {
                arrived: 6,
                sent: 5,
            },
        ),
        (
            statement(0, 1, &[(expired, 6)]),
            Disbelief::Ended { ended: 6, given: 5 },
        ),
        (
            statement(1, 1, &[(expired, u64::MAX)]),
            Disbelief::Ended {
                ended: u64::MAX,
                given: 5,
            },
        ),
        (
            statement(0, 1, &[(expired, 3), (What::Delivered, 3)]),
            Disbelief::Ended { ended: 6, given: 5 },
        ),
    ];
    for (lie, why) in lies {
        let result = chain.accounts[0].handle_report(&report(vec![lie]), chain.now);
        assert_eq!(result, Err(why));
        assert_eq!(chain.reading(), before, "nothing is kept");
    }
    let most = report(vec![statement(
        0,
        1,
        &[(What::Arrived(Mark::at(Instant::ZERO)), 5), (expired, 5)],
    )]);
    chain.deliver(1, &most);
    assert_eq!(
        chain.reading().lost(),
        5,
        "as many as were sent are accepted"
    );
}

#[test]
fn downstream_counters_are_bounded() {
    let mut relay = Account::new(Place::Relay, 1, Instant::ZERO);
    let numbers = (0..=255).filter(|number| What::from_number(*number).is_some());
    let entries: Vec<Entry> = numbers.map(|what| Entry { what, count: 1 }).collect();
    let kept = |statements: u8| {
        let statement = |distance| Statement {
            distance,
            since: Some(1),
            // Without arrivals, as nothing was sent.
            entries: entries
                .iter()
                .copied()
                .filter(|entry| entry.what >> 3 < 24)
                .collect(),
        };
        report((0..statements).map(statement).collect())
    };
    let each = DropCause::ALL.len() * BANDS;
    let fits = (LEDGER_BEHIND_MAX / each) as u8;
    assert_eq!(relay.handle_report(&kept(fits), Instant::ZERO), Ok(()));
    let many = relay.handle_report(&kept(fits + 1), Instant::ZERO);
    assert_eq!(many, Err(Disbelief::Many((usize::from(fits) + 1) * each)));
    // Counters of a later version take no memory and are no error.
    let unknown = Statement {
        distance: 0,
        since: Some(1),
        entries: vec![Entry {
            what: 255,
            count: 9,
        }],
    };
    assert_eq!(
        relay.handle_report(&report(vec![unknown]), Instant::ZERO),
        Ok(())
    );
}

#[test]
fn overlong_path_is_not_forwarded() {
    let expired = What::Dropped(DropCause::Expired);
    let all = |nodes: u8| {
        report(
            (0..nodes)
                .map(|at| statement(at, 1, &[(expired, 1)]))
                .collect(),
        )
    };
    let most = PATH_NODES_MAX as u8 - 2;
    for (nodes, is_accepted) in [(most, true), (most + 1, false)] {
        let mut relay = Account::new(Place::Relay, 1, Instant::ZERO);
        let result = relay.handle_report(&all(nodes), Instant::ZERO);
        assert_eq!(result.is_ok(), is_accepted, "{result:?}");
        // A refresh makes everything due.
        relay.refresh(Instant::ZERO);
        let now = Instant::ZERO + EVERY + SLACK;
        relay.handle_timeout(now);
        let passed = relay.poll_report(STREAM, EPOCH, now).expect("is due");
        assert!(passed.statements.len() <= usize::from(most) + 1);
        let frame = wire::encode(&Message::Account(passed));
        assert!(wire::decode(&frame).is_ok(), "the forwarded report decodes");
    }
    let mut sink = Account::new(Place::Sink, 1, Instant::ZERO);
    let result = sink.handle_report(&all(1), Instant::ZERO);
    assert_eq!(result, Err(Disbelief::OffPath { distance: 0 }));
}
