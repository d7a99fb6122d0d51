//! What waits for credit, and what goes without.

use thalweg_base::time::Duration;

use super::{Fake, at, header, push, sender};
use crate::hop::Carriage;

#[test]
fn missing_credit_blocks_sending() {
    let (mut subject, mut fake) = (sender(), Fake::default());
    fake.credit = 1_199;
    push(&mut subject, header(0), 5_000, Carriage::Stream);
    subject.pump(at(0), &mut fake);
    assert!(fake.streams.is_empty());
    fake.credit = 1_200;
    fake.room = 1_200;
    subject.pump(at(0), &mut fake);
    assert_eq!(fake.streams[&0].bytes.len(), 1_200);
}

#[test]
fn silent_peer_gets_probes() {
    let (mut subject, mut fake) = (sender(), Fake::default());
    fake.credit = 0;
    fake.rate.transit = Duration::from_millis(50);
    push(&mut subject, header(0), 50_000, Carriage::Stream);
    subject.pump(at(100), &mut fake);
    // Three round trips of 100 ms.
    assert_eq!(subject.poll_timeout(), at(400));
    subject.pump(at(399), &mut fake);
    assert_eq!(fake.let_through, 0);
    subject.pump(at(400), &mut fake);
    assert_eq!(fake.let_through, 1);
    assert_eq!(fake.streams[&0].bytes.len(), 1_500);
    (fake.credit, fake.room) = (0, usize::MAX);
    subject.pump(at(400), &mut fake);
    assert_eq!(subject.poll_timeout(), at(700));
    // An acknowledgement restarts the timer.
    fake.heard = 1;
    subject.pump(at(700), &mut fake);
    assert_eq!((fake.let_through, subject.poll_timeout()), (1, at(1_000)));
    // No probe is due when nothing waits.
    fake.credit = 100_000;
    subject.pump(at(800), &mut fake);
    assert!(subject.poll_timeout().is_never());
    subject.pump(at(2_000), &mut fake);
    assert_eq!(fake.let_through, 1);
}
