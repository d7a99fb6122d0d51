//! One batch over one way: paced, to see how long a message takes, or as many as will go, to see how much gets through.
//!
//! *The idea.* Sender and receiver are tasks of their own, as they are in programs. A batch ends when all of it has
//! arrived; on a way that loses, when nothing more is to be expected.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::time::{Instant, MissedTickBehavior};

use super::way::{self, Receiver, Sender};

/// 500 messages a second: the way is idle again before the next.
const PACE: Duration = Duration::from_millis(2);

/// How long nothing may arrive where nothing is lost.
const ARRIVAL_MAX: Duration = Duration::from_secs(20);

/// How long one waits for stragglers where something may be lost.
const STRAGGLERS_MAX: Duration = Duration::from_millis(100);

/// The same where what is lost is what is measured, so that a busy machine makes no loss.
const LOST_MAX: Duration = Duration::from_secs(2);

/// How long a sender that lost some waits before its last message, so that this one finds room.
const BREATH: Duration = Duration::from_millis(20);

/// What a batch is to be.
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
    /// Any, and the last comes last.
    InOrder,
    /// Any, and the last may overtake others.
    AnyOrder,
}

/// How much is sent.
#[derive(Clone, Copy, Debug)]
pub(super) enum Load {
    /// So many messages, at [`PACE`].
    Paced(u64),
    /// As many as the way takes, for so long.
    Full(Duration),
    /// So many messages, one each so long; for zero, as fast as the way takes them.
    Counted { adus: u64, every: Duration },
}

/// What came of a batch.
#[derive(Clone, Debug, Default)]
pub(super) struct Taken {
    /// How long each message took; only where they were paced.
    pub(super) latencies_us: Vec<f64>,
    pub(super) sent: u64,
    pub(super) received: u64,
    /// From before the first was sent until the last had arrived.
    pub(super) lasted: Duration,
    /// What the whole process computed meanwhile, all cores together; zero where the system does not say.
    pub(super) computed: Duration,
}

/// Sends a batch over a way and takes it out; the way comes back for the next.
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

/// Returns what the threads of this process have computed so far.
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
            // One message for all, for how it is made is no part of what is measured.
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
                // A timer is a millisecond wide: what is due meanwhile goes at once.
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

/// Sends the message that says how many there are.
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
        bail!("{batch:?}: nothing more came for {patience:?} after {count} in {lasted:?}");
    }
    Ok(taken)
}

/// Waits until nothing has come for this long, once the first has.
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
        // Of the batch before.
        if message.sent_nanos < begun {
            continue;
        }
        if let Load::Paced(_) = batch.load {
            let latency = now - message.sent_nanos;
            taken.latencies_us.push(latency as f64 / 1e3);
        }
        let count = received.fetch_add(1, Relaxed) + 1;
        // The last may overtake others where messages have no order.
        total = total.or(message.total);
        let is_end = message.total.is_some() && batch.loss == Loss::InOrder;
        // The breath before such an end is no part of what the others took.
        if !is_end || count == 1 {
            taken.lasted = Duration::from_nanos(now - begun);
        }
        if is_end || total == Some(count) {
            return Ok(());
        }
    }
}
