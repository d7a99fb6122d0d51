//! This program as one end of a side, inside a network namespace.
//!
//! The bench starts itself again with a hidden command, once for each end, and exchanges lines with both:
//!
//! ```text
//! receiver → bench   ready WORDS      it listens; the words tell the sender where
//! receiver → bench   up               the sender has reached it
//! sender   → bench   ready            it can begin
//! bench    → sender  begin NANOS      time zero of the schedule, on the machine's clock
//! sender   → bench   over             it has nothing left in flight
//! bench    → receiver (end of file)   write the arrivals to the file
//! receiver → bench   over             that is done
//! ```

use std::io::{BufRead as _, Read as _};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use thalweg_base::time::{Duration, Instant};
use thalweg_testbed::system::clock;

use super::recording::Arrivals;
use super::schedule::{Due, Schedule};
use super::sides;

/// The hidden command that leads here.
pub(crate) const WORD: &str = "line-end";

/// An end can begin.
pub(super) const READY: &str = "ready";

/// The sender has reached the receiver.
pub(super) const UP: &str = "up";

/// Sets time zero.
pub(super) const BEGIN: &str = "begin";

/// An end has nothing left to do.
pub(super) const OVER: &str = "over";

/// How long after the last ADU was due a sender waits for what is still in flight.
pub(super) const TAIL: Duration = Duration::from_secs(10);

/// The role of the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// Receives.
    Receive,
    /// Sends a schedule.
    Send,
    /// Sends as much as it can.
    Bulk,
}

/// The arguments of an end.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct End {
    #[arg(long)]
    pub(super) side: String,
    #[arg(long)]
    pub(super) part: Part,
    /// Its own addresses in its namespace, one per line that it may use.
    #[arg(long, required = true)]
    pub(super) own: Vec<Ipv4Addr>,
    /// Whether to use only one connection.
    #[arg(long)]
    pub(super) alone: bool,
    /// The words of the receiver's `ready` line.
    #[arg(long, default_value = "")]
    pub(super) peer: String,
    /// The schedule, or the file for the arrivals.
    #[arg(long)]
    pub(super) file: PathBuf,
    /// How long an ADU is useful, or how long to send bulk, ms.
    #[arg(long, default_value_t = 0)]
    pub(super) millis: u64,
    /// Number of bulk connections.
    #[arg(long, default_value_t = 1)]
    pub(super) flows: u32,
}

/// The receiving end of a side.
#[derive(Debug)]
pub(super) struct Inlet {
    /// Address to listen on.
    pub(super) own: IpAddr,
    /// Addresses on other lines.
    pub(super) others: Vec<IpAddr>,
    /// Where to record arrivals.
    pub(super) arrivals: Arrivals,
}

/// The sending end of a side.
#[derive(Debug)]
pub(super) struct Outlet {
    /// Address to send from.
    pub(super) own: IpAddr,
    /// Whether to use only one connection.
    pub(super) is_alone: bool,
    /// The words of the receiver's `ready` line.
    pub(super) peer: String,
    /// The ADUs; empty for bulk.
    pub(super) schedule: Schedule,
    /// How long an ADU is useful, or how long to send bulk.
    pub(super) budget: Duration,
    /// Number of bulk connections.
    pub(super) flows: u32,
}

/// Runs an end until it is over.
///
/// Fails   with the error of its side of the line
pub(crate) fn run(end: &End) -> anyhow::Result<()> {
    let side = sides::named(&end.side)?;
    let mut others: Vec<IpAddr> = end.own.iter().copied().map(IpAddr::V4).collect();
    let own = others.remove(0);
    if end.part == Part::Receive {
        let arrivals = Arrivals::default();
        let inlet = Inlet {
            own,
            others,
            arrivals: arrivals.clone(),
        };
        let kept = side.receive(&inlet)?;
        // A receiver gets no messages; the end of its input ends it.
        std::io::stdin().read_to_end(&mut Vec::new())?;
        arrivals.write(&end.file)?;
        send_line(OVER);
        drop(kept);
        return Ok(());
    }
    let is_bulk = end.part == Part::Bulk;
    let outlet = Outlet {
        own,
        is_alone: end.alone,
        peer: end.peer.clone(),
        schedule: if is_bulk {
            Schedule::default()
        } else {
            Schedule::read(&end.file)?
        },
        budget: Duration::from_millis(end.millis),
        flows: end.flows,
    };
    if is_bulk {
        side.send_bulk(&outlet)?;
    } else {
        side.send(&outlet)?;
    }
    send_line(OVER);
    Ok(())
}

/// Prints a line for the bench.
pub(super) fn send_line(line: &str) {
    println!("{line}");
}

/// Reports that it can begin, and waits for time zero.
pub(super) fn wait_for_begin() -> anyhow::Result<Instant> {
    send_line(READY);
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    let nanos = line.trim().strip_prefix(BEGIN).map(str::trim);
    let nanos = nanos.and_then(|nanos| nanos.parse().ok());
    let begin = nanos.map(Instant::from_nanos);
    begin.context("no start time was received")
}

impl Outlet {
    /// Hands over each ADU when it is due.
    pub(super) fn play(
        &self,
        begin: Instant,
        mut give: impl FnMut(u32, &Due) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        for (number, due) in (0..).zip(self.schedule.dues()) {
            sleep_until(begin + due.at);
            give(number, due)?;
        }
        Ok(())
    }

    /// Returns until when ADUs in flight are waited for.
    pub(super) fn patience(&self, begin: Instant) -> Instant {
        begin + self.schedule.length() + TAIL
    }

    /// Returns one of the words of the receiver's `ready` line.
    pub(super) fn word<T: std::str::FromStr>(&self, place: usize) -> anyhow::Result<T> {
        self.read(self.peer.split(' ').nth(place).unwrap_or_default())
    }

    /// Returns all of them.
    pub(super) fn words<T: std::str::FromStr>(&self) -> anyhow::Result<Vec<T>> {
        let words = self.peer.split(' ');
        words.map(|word| self.read(word)).collect()
    }

    fn read<T: std::str::FromStr>(&self, word: &str) -> anyhow::Result<T> {
        match word.parse() {
            Ok(word) => Ok(word),
            Err(_) => bail!("`{}` does not give the receiver's address", self.peer),
        }
    }
}

/// Sleeps until a moment of the machine's clock.
pub(super) fn sleep_until(moment: Instant) {
    std::thread::sleep(moment.saturating_since(clock::now()).into());
}
