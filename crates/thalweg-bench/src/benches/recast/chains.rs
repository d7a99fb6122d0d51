//! A chain of a peer's relays of which the middle one leaves.

use std::time::{Duration, Instant};

use anyhow::bail;
use thalweg_testbed::system::clock;

use super::left::{Left, PACE};
use super::worlds::Leaving;
use crate::peers::Ready;
use crate::peers::tree::{Load, Record};

/// Bytes of a picture: 800 kbit/s at 25 per second.
const LENGTH_BYTES: usize = 4_000;

/// The maximum age given to moq-relay: our deadline.
const AGE_MAX: Duration = Duration::from_secs(1);

/// How long the sink may take until it receives pictures.
const READY_MAX: Duration = Duration::from_secs(15);

/// How long pictures flow before the break, and how long they are observed after it: longer than the
/// idle timeout of a QUIC connection.
const BEFORE: Duration = Duration::from_secs(3);
const AFTER: Duration = Duration::from_secs(20);

/// Pictures due in this last part may still be in flight.
const LAST: Duration = Duration::from_secs(2);

/// Runs a chain once.
pub(super) fn play(ready: &Ready, leaving: Leaving) -> anyhow::Result<Left> {
    let mut chain = ready.link(&Load {
        sinks: 1,
        length_bytes: LENGTH_BYTES,
        pace: PACE,
        age_max: AGE_MAX,
    })?;
    let begun = Instant::now();
    let first = loop {
        chain.check()?;
        if let Some(record) = chain.records().last() {
            break record;
        }
        if begun.elapsed() > READY_MAX {
            bail!("nothing arrives through the chain after {READY_MAX:?}");
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    std::thread::sleep(BEFORE);
    let mut records: Vec<Record> = chain.records().collect();
    let broken = clock::now().as_nanos();
    chain.stop_relay(leaving == Leaving::WithNotice)?;
    std::thread::sleep(AFTER);
    chain.check()?;
    records.extend(chain.records());
    let flowed = clock::now().as_nanos() - first.due_nanos;
    let due = (u128::from(flowed) - LAST.as_nanos()) / PACE.as_nanos();
    let numbers = first.number + 1..first.number + u32::try_from(due)?;
    Left::of_records(&records, numbers, broken)
}
