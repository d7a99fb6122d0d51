//! Proves that core's sender works over a session: ADUs by importance, each with its outcome.
//!
//! The driver below does all that a link must do to send over TCP: pump, pass on each event, pump
//! again.

use thalweg_base::adu::Importance;
use thalweg_base::id::Sequence;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::wire::adu::decode_header;
use thalweg_link::hop::sender::{self, Sender};
use thalweg_link::hop::{Carriage, Outcome, SendOptions, StreamCode};
use thalweg_link::outbox::Settings;
use thalweg_net::tcp::Sending;

use super::proxy::{Proxy, Way};
use super::*;
use crate::node::header;

struct Driver {
    sender: Sender<StreamNumber, ()>,
    sending: Sending,
    clock: Clock,
    outcomes: Vec<(u64, Outcome)>,
}

impl Driver {
    fn new(connection: Connection, events: Events) -> Self {
        Self {
            sender: Sender::new(Settings::default()),
            sending: Sending::new(connection, events),
            clock: Clock::start(),
            outcomes: Vec::new(),
        }
    }

    fn push(&mut self, sequence: u64, importance: u8, deadline: Instant, bytes: usize) {
        let mut header = header(sequence);
        header.importance = Importance(importance);
        header.deadline = deadline;
        let payload = pattern(sequence as usize, bytes).into();
        let options = SendOptions::new(Carriage::Stream);
        let now = self.clock.now();
        self.sender.push(now, header, payload, options, ());
    }

    /// Sends what can be sent now.
    fn pump(&mut self) {
        let now = self.clock.now();
        self.sender.pump(now, &mut self.sending.hold(now));
    }

    /// Sends until `outcomes` ADUs have their outcomes.
    async fn run(&mut self, outcomes: usize) {
        loop {
            self.pump();
            while let Some(event) = self.sender.poll_event() {
                if let sender::Event::Outcome {
                    header, outcome, ..
                } = event
                {
                    self.outcomes.push((header.sequence.0, outcome));
                }
            }
            if self.outcomes.len() >= outcomes {
                return;
            }
            let timeout = self.sender.poll_timeout();
            tokio::select! {
                () = bounded(self.sending.happened()) => self.take_events(),
                () = self.clock.sleep_until(timeout) => {}
            }
        }
    }

    /// Passes the session's events to the sender.
    fn take_events(&mut self) {
        let mut held = self.sending.hold(self.clock.now());
        while let Some((owner, event, _)) = held.next_event() {
            self.sender.handle_stream_event(owner, event, &mut held);
        }
    }
}

/// Receives ADUs; returns the sequence numbers and payloads of those that were not given up.
async fn arrivals(connection: Connection, count: usize) -> Vec<(Sequence, Vec<u8>)> {
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..count {
        let stream = bounded(connection.accept())
            .await
            .expect("the session lives");
        tasks.spawn(async move {
            let bytes = stream.collect(1 << 23).await.ok()?;
            // The first byte is the kind of the stream.
            let decoded = decode_header(&bytes[1..], Instant::ZERO).expect("well formed")?;
            let payload = bytes[1 + decoded.header_bytes..].to_vec();
            Some((decoded.header.sequence, payload))
        });
    }
    tasks.join_all().await.into_iter().flatten().collect()
}

#[tokio::test]
async fn urgent_adus_overtake_large_one() {
    const LARGE: usize = 1_000_000;
    for by in By::ALL {
        let Pair {
            a,
            events,
            b,
            _listener,
        } = pair_through(by, async |address| {
            Proxy::start(address, Way::Slow(2_000)).address
        })
        .await;
        let receiving = tokio::spawn(arrivals(b.clone(), 21));
        let mut driver = Driver::new(a, events);
        driver.push(0, 1, Instant::NEVER, LARGE);
        driver.pump();
        for sequence in 1..=20 {
            driver.push(sequence, 200, Instant::NEVER, 3_000);
        }
        driver.run(21).await;
        let last = driver.outcomes.last().copied();
        assert_eq!(last, Some((0, Outcome::Acknowledged)), "{by:?}");
        let all_arrived = |(_, outcome): &(u64, Outcome)| *outcome == Outcome::Acknowledged;
        assert!(driver.outcomes.iter().all(all_arrived));
        let arrived = bounded(receiving).await.expect("it does not panic");
        assert_eq!(arrived.len(), 21);
        for (sequence, payload) in arrived {
            let bytes = if sequence.0 == 0 { LARGE } else { 3_000 };
            assert_eq!(payload, pattern(sequence.0 as usize, bytes));
        }
    }
}

#[tokio::test]
async fn expired_half_sent_adu_is_reset() {
    for by in By::KERNEL {
        let Pair {
            a,
            events,
            b,
            _listener,
        } = pair_through(by, async |address| {
            Proxy::start(address, Way::Slow(500)).address
        })
        .await;
        let mut driver = Driver::new(a, events);
        let soon = driver.clock.now() + Duration::from_secs(1);
        driver.push(0, 1, soon, 4_000_000);
        driver.pump();
        driver.run(1).await;
        assert_eq!(driver.outcomes, [(0, Outcome::Expired)]);
        driver.push(1, 1, Instant::NEVER, 1_000);
        driver.run(2).await;
        assert_eq!(driver.outcomes[1], (1, Outcome::Acknowledged));
        let given_up = bounded(b.accept()).await.expect("the session lives");
        let end = bounded(given_up.collect(1 << 23)).await;
        let expired = thalweg_link::hop::BodyError::Reset(StreamCode::Expired);
        assert_eq!(end, Err(expired));
    }
}
