//! One batch over one path: paced, to measure latency, or at full rate, to measure throughput.
//!
//! Sender and receiver are separate tasks, as in programs. A batch ends when all of it has arrived, or,
//! on a lossy path, when nothing more is expected.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::time::{Instant, MissedTickBehavior};

use super::way::{self, Receiver, Sender};

/// 500 messages a second: the path is idle again before the next.
const PACE: Duration = Duration::from_millis(2);

/// Timeout without an arrival where nothing is lost.
const ARRIVAL_MAX: Duration = Duration::from_secs(20);

/// Timeout for stragglers where something may be lost.
const STRAGGLERS_MAX: Duration = Duration::from_millis(100);

/// The same where loss is what is measured, so that a busy machine causes none.
const LOST_MAX: Duration = Duration::from_secs(2);

/// Pause of a sender on a lossy path before its last message, so that this one finds room.
const BREATH: Duration = Duration::from_millis(20);

/// The parameters of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    pub(super) length_bytes: usize,
    pub(super) loss: Loss,
    pub(super) load: Load,
}

/// Which messages may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    None,
    /// Any; the last arrives last.
    InOrder,
    /// Any; the last may overtake others.
    AnyOrder,
}

/// How much is sent.
#[derive(Clone, Copy, Debug)]
pub(super) enum Load {
    /// This many messages, at [`PACE`].
    Paced(u64),
    /// As many as the path takes, for this long.
    Full(Duration),
    /// This many messages at this interval; with zero, as fast as the path takes them.
    Counted { adus: u64, every: Duration },
}

/// The results of a batch.
#[derive(Clone, Debug, Default)]
pub(super) struct Taken {
    /// Latency of each message; only if they were paced.
    pub(super) latencies_us: Vec<f64>,
    pub(super) sent: u64,
    pub(super) received: u64,
    /// From before the first was sent until the last arrived.
    pub(super) lasted: Duration,
    /// Processor time of the whole process meanwhile, all cores together; zero where the system does
    /// not report it.
    pub(super) computed: Duration,
}

/// Sends a batch over a path and receives it; returns the path for the next batch.
pub(super) async fn run<S: Sender, R: Receiver>(
    batch: Batch,
    mut sender: S,
    mut receiver: R,
) -> anyhow::Result<(Taken, S, R)> {
    let computed = computed();
    let begun = way::now_nanos();
    let sending = tokio::spawn(async move {
        let sent = send(batch, begun, &mut sender).await;
        (sent, sender)
    });
    let receiving = tokio::spawn(async move {
        let received = receive(batch, begun, &mut receiver).await;
        (received, receiver)
    });
    let (sent, sender) = sending.await.context("the sender")?;
    let (received, receiver) = receiving.await.context("the receiver")?;
    let mut taken = received?;
    taken.sent = sent?;
    taken.computed = self::computed().saturating_sub(computed);
    Ok((taken, sender, receiver))
}

/// Returns the processor time of this process's threads so far.
fn computed() -> Duration {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
        return Duration::ZERO;
    };
    let nanos = tasks.flatten().filter_map(|task| {
        let stat = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        stat.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

async fn send<S: Sender>(batch: Batch, begun: u64, sender: &mut S) -> anyhow::Result<u64> {
    let blank = || way::blank(batch.length_bytes);
    let mut sent = 0;
    match batch.load {
        Load::Paced(count) => {
            let mut ticks = tokio::time::interval(PACE);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            while sent < count {
                let blank = blank();
                ticks.tick().await;
                sent += 1;
                let total = (sent == count).then_some(count);
                let message = way::stamp(blank, way::now_nanos(), total);
                sender.send(message).await?;
            }
        }
        Load::Full(lasting) => {
            // One message for all: allocating it is not part of the measurement.
            let message = way::stamp(blank(), begun, None);
            let until = Instant::now() + lasting;
            while Instant::now() < until {
                sender.send(message.clone()).await?;
                sent += 1;
            }
            sent += 1;
            send_last(batch, begun, sent, sender).await?;
        }
        Load::Counted { adus, every } => {
            let message = way::stamp(blank(), begun, None);
            let mut due = Instant::now();
            while sent + 1 < adus {
                // Timers have a granularity of a millisecond: send at once what is due by then.
                if due > Instant::now() {
                    tokio::time::sleep_until(due).await;
                }
                due += every;
                sender.send(message.clone()).await?;
                sent += 1;
            }
            sent += 1;
            send_last(batch, begun, sent, sender).await?;
        }
    }
    Ok(sent)
}

/// Sends the message that carries the total.
async fn send_last<S: Sender>(
    batch: Batch,
    begun: u64,
    total: u64,
    sender: &mut S,
) -> anyhow::Result<()> {
    if batch.loss == Loss::InOrder {
        tokio::time::sleep(BREATH).await;
    }
    let message = way::stamp(way::blank(batch.length_bytes), begun, Some(total));
    sender.send(message).await
}

async fn receive<R: Receiver>(batch: Batch, begun: u64, receiver: &mut R) -> anyhow::Result<Taken> {
    let mut taken = Taken::default();
    let received = AtomicU64::new(0);
    let patience = match (batch.loss, batch.load) {
        (Loss::None, _) => ARRIVAL_MAX,
        (Loss::AnyOrder, Load::Counted { .. }) => LOST_MAX,
        _ => STRAGGLERS_MAX,
    };
    let is_whole = tokio::select! {
        whole = take(batch, begun, receiver, &mut taken, &received) => {
            whole?;
            true
        }
        () = stalled(patience, &received) => false,
    };
    taken.received = received.into_inner();
    if !is_whole && batch.loss == Loss::None {
        let (count, lasted) = (taken.received, taken.lasted);
        bail!("{batch:?}: nothing arrived for {patience:?} after {count} ADUs in {lasted:?}");
    }
    Ok(taken)
}

/// Waits until nothing has arrived for this long, once the first has.
async fn stalled(patience: Duration, received: &AtomicU64) {
    let mut before = received.load(Relaxed);
    loop {
        tokio::time::sleep(patience).await;
        let now = received.load(Relaxed);
        if now == before && now > 0 {
            return;
        }
        before = now;
    }
}

async fn take<R: Receiver>(
    batch: Batch,
    begun: u64,
    receiver: &mut R,
    taken: &mut Taken,
    received: &AtomicU64,
) -> anyhow::Result<()> {
    let mut total = None;
    loop {
        let message = receiver.recv(batch.length_bytes).await?;
        let now = way::now_nanos();
        // A straggler of the previous batch.
        if message.sent_nanos < begun {
            continue;
        }
        if let Load::Paced(_) = batch.load {
            let latency = now - message.sent_nanos;
            taken.latencies_us.push(latency as f64 / 1e3);
        }
        let count = received.fetch_add(1, Relaxed) + 1;
        // Without an order the last may overtake others.
        total = total.or(message.total);
        let is_end = message.total.is_some() && batch.loss == Loss::InOrder;
        // The pause before an in-order end is not part of the others' time.
        if !is_end || count == 1 {
            taken.lasted = Duration::from_nanos(now - begun);
        }
        if is_end || total == Some(count) {
            return Ok(());
        }
    }
}
