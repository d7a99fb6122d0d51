//! A loaded outbox, shared by the timings and counts of the outbox.
//!
//! Eight flows have the default weight; importance is drawn from eight values and deadlines from 300 ms
//! ± 100 ms ahead, so that an ADU may be placed anywhere in its flow. In each pass one ADU goes in, and
//! one goes out and is acknowledged at once, so the queue keeps its length. Time advances by 10 ns per
//! pass, so none expires, and new deadlines still lie among the old ones.

use thalweg_base::adu::Importance;
use thalweg_base::id::Sequence;
use thalweg_base::needs::Order;
use thalweg_base::random::SplitMix;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::DataSize;
use thalweg_link::outbox::{Chunk, Entry, FlowId, Outbox, Settings, WEIGHT_USUAL};

/// More credit than there are bytes.
pub(crate) const UNLIMITED: DataSize = DataSize::from_kib(1 << 20);

/// Number of flows that share the link.
pub(crate) const FLOWS: usize = 8;

/// Bytes of an ADU: one packet.
const BYTES: usize = 500;

/// An outbox, with the state of its input generator.
pub(crate) struct Crowd {
    /// The outbox.
    pub(crate) outbox: Outbox,
    /// Its flows.
    pub(crate) flows: [FlowId; FLOWS],
    random: SplitMix,
    sequence: u64,
    now: Instant,
}

/// The sort keys of an ADU.
#[derive(Clone, Copy)]
pub(crate) struct SortKeys {
    /// Its importance.
    pub(crate) importance: Importance,
    /// When it is no longer useful.
    pub(crate) deadline: Instant,
    /// Its sequence number.
    pub(crate) sequence: Sequence,
}

impl SortKeys {
    /// Draws random keys.
    pub(crate) fn draw(random: &mut SplitMix, sequence: u64, now: Instant) -> Self {
        let early = random.next_duration(Duration::from_millis(200));
        Self {
            importance: Importance(random.next_below(8) as u8),
            deadline: (now + Duration::from_millis(400)) - early,
            sequence: Sequence(sequence),
        }
    }
}

impl Crowd {
    /// Returns an outbox with this many ADUs queued.
    pub(crate) fn new(queued: u64) -> Self {
        let mut outbox = Outbox::new(Settings::default());
        let flows = [0; FLOWS].map(|_| {
            let flow = outbox.open_flow(WEIGHT_USUAL, Order::Importance);
            flow.expect("within the limit")
        });
        let mut crowd = Self {
            outbox,
            flows,
            random: SplitMix::new(1),
            sequence: 0,
            now: Instant::ZERO,
        };
        for _ in 0..queued {
            crowd.push();
        }
        crowd
    }

    /// Adds one ADU and removes one.
    pub(crate) fn pass(&mut self) -> Chunk {
        self.now = self.now + Duration::from_nanos(10);
        self.push();
        let chunk = self.outbox.poll_chunk(self.now, UNLIMITED);
        let chunk = chunk.expect("one was just pushed");
        let has_ended = self.outbox.finish(chunk.ticket);
        assert!(has_ended, "an ADU is one chunk");
        chunk
    }

    fn push(&mut self) {
        self.sequence += 1;
        let worth = SortKeys::draw(&mut self.random, self.sequence, self.now);
        let entry = Entry {
            importance: worth.importance,
            deadline: worth.deadline,
            sequence: worth.sequence,
            bytes: BYTES,
            available_bytes: BYTES,
            depends_on: None,
        };
        let flow = self.flows[self.sequence as usize % FLOWS];
        let pushed = self.outbox.push(self.now, flow, entry);
        pushed.expect("there is room, and nothing is late");
    }
}
