//! Ours: a link of `thalweg-net` between two endpoints, each ADU with its importance as priority and
//! its deadline.
//!
//! The side uses only what a node uses: [`Link::send_adu`] for each ADU when it is due. The order, the
//! drops and everything below are the link's, so this measures the link as it is. Over TCP the kernel's
//! congestion control is CUBIC, as the baseline's, and a standby connection uses the second line if
//! there is one.

use std::any::Any;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context as _;
use bytes::Bytes;
use thalweg_base::adu::{Header, Importance, MediaTime};
use thalweg_base::id::{Sequence, StreamId};
use thalweg_base::time::{Duration, Instant};
use thalweg_link::congestion::Algorithm;
use thalweg_link::tcp_mux::Pacing;
use thalweg_net::{
    Addresses, Admission, Arriving, Carriage, Clock, Endpoint, Identity, Link, LinkEvent, Options,
    Outcome, Receiver, SendOptions,
};
use thalweg_testbed::system::clock;
use tokio::runtime::Runtime;

use super::super::end::{Inlet, Outlet, READY, send_line, sleep_until, wait_for_begin};
use super::super::recording::Arrivals;
use super::super::schedule::{Due, payload};
use super::Side;

/// Connections that the receiver admits: more than any number of bulk flows.
const FLOWS_MAX: u8 = 32;

/// Bytes of a bulk ADU.
const BULK_BYTES: usize = 16 << 10;

/// Bulk ADUs of a flow in flight: 1 MiB, more than the line and its queue hold.
const BULK_AT_ONCE: usize = 64;

/// Interval between checks whether every ADU has an outcome.
const LOOK: Duration = Duration::from_millis(5);

/// The kernel's congestion control, below ours over TCP.
const CONGESTION: &str = "cubic";

/// Ours.
pub(super) enum Thalweg {
    /// Over QUIC, with a congestion controller.
    Quic(Algorithm),
    /// Over TCP, with a pacer.
    Tcp(Pacing),
}

/// Handles a receiver's arrivals.
struct ArrivalRecorder(Arrivals);

/// Counts a sender's ADUs that have ended.
#[derive(Default)]
struct OutcomeCounter(AtomicU64);

impl Receiver for ArrivalRecorder {
    async fn handle_adu(&self, _link: &Link, adu: Arriving) {
        // An error means that the ADU expired or was cancelled: it did not arrive.
        if let Ok(payload) = adu.collect().await {
            self.0.note(&payload);
        }
    }

    async fn handle_control(&self, _link: &Link, _frame: Bytes) {}

    fn handle_link(&self, event: LinkEvent) {
        if let LinkEvent::Up(_) = event {
            self.0.up();
        }
    }
}

impl Receiver for OutcomeCounter {
    async fn handle_adu(&self, _link: &Link, _adu: Arriving) {}

    async fn handle_control(&self, _link: &Link, _frame: Bytes) {}

    fn handle_link(&self, _event: LinkEvent) {}

    fn handle_outcome(&self, _link: &Link, _header: &Header, _token: u64, _outcome: Outcome) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Side for Thalweg {
    fn name(&self) -> &'static str {
        match self {
            Self::Quic(Algorithm::Thalweg) => "thalweg",
            Self::Quic(Algorithm::Cubic) => "thalweg_cubic",
            Self::Quic(Algorithm::Bbr) => "thalweg_bbr",
            Self::Quic(Algorithm::NewReno) => "thalweg_new_reno",
            Self::Tcp(Pacing::Kernel) => "pace_k",
            Self::Tcp(Pacing::Acked) => "pace_a",
        }
    }

    fn has_failover(&self) -> bool {
        matches!(self, Self::Tcp(_))
    }

    fn receive(&self, inlet: &Inlet) -> anyhow::Result<Box<dyn Any>> {
        let runtime = runtime()?;
        let senders = (0..FLOWS_MAX).map(|flow| sender(flow).id());
        let mut options = self.options(receiver(), Admission::of(senders), inlet.own);
        if let Self::Tcp(_) = self {
            let lines = std::iter::once(inlet.own).chain(inlet.others.iter().copied());
            options.tcp.listen = lines.map(|own| (own, 0).into()).collect();
        }
        let recorder = Arc::new(ArrivalRecorder(inlet.arrivals.clone()));
        let endpoint = runtime.block_on(Endpoint::bind(options, recorder, Clock::start()))?;
        let udp = endpoint.listening();
        let addresses = match self {
            Self::Quic(_) => udp.get(..1).context("it listens")?,
            Self::Tcp(_) => endpoint.listening_tcp(),
        };
        let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        send_line(&format!("{READY} {}", addresses.join(" ")));
        Ok(Box::new((runtime, endpoint)))
    }

    fn send(&self, outlet: &Outlet) -> anyhow::Result<()> {
        let runtime = runtime()?;
        let Dialled {
            endpoint,
            link,
            counter,
        } = runtime.block_on(self.dial(outlet, 0))?;
        let clock = endpoint.clock();
        let begin = wait_for_begin()?;
        let _inside = runtime.enter();
        let mut sent = 0;
        outlet.play(begin, |number, due| {
            let header = header(due, clock.now() + outlet.budget);
            let options = SendOptions::new(Carriage::Stream);
            let payload = Bytes::from(due.payload(number));
            link.send_adu(header, payload, options).detach(0);
            sent += 1;
            Ok(())
        })?;
        let until = outlet.patience(begin);
        while counter.0.load(Ordering::Relaxed) < sent && clock::now() < until {
            sleep_until(clock::now() + LOOK);
        }
        // An ADU with an outcome has been received, even if its acknowledgement is still in flight.
        Ok(())
    }

    fn send_bulk(&self, outlet: &Outlet) -> anyhow::Result<()> {
        let runtime = runtime()?;
        let mut links = Vec::new();
        for flow in 0..outlet.flows {
            links.push(runtime.block_on(self.dial(outlet, flow as u8))?);
        }
        let begin = wait_for_begin()?;
        let end = begin + outlet.budget;
        let _inside = runtime.enter();
        sleep_until(begin);
        for (flow, dialled) in (0..).zip(&links) {
            for lane in 0..BULK_AT_ONCE {
                tokio::spawn(send_bulk(dialled.link.clone(), flow, lane as u64, end));
            }
        }
        sleep_until(end);
        Ok(())
    }
}

/// One connection of the sender.
struct Dialled {
    endpoint: Endpoint,
    link: Link,
    counter: Arc<OutcomeCounter>,
}

impl Thalweg {
    /// Returns the options of this side's endpoints.
    fn options(&self, identity: Identity, admission: Admission, own: IpAddr) -> Options {
        let mut options = Options::new(identity, admission);
        options.listen = vec![(own, 0).into()];
        match self {
            Self::Quic(algorithm) => options.congestion = *algorithm,
            Self::Tcp(pacing) => {
                options.tcp.pacing = *pacing;
                options.tcp.congestion = Some(CONGESTION.into());
            }
        }
        options
    }

    /// Opens a separate endpoint for a flow and dials the receiver.
    async fn dial(&self, outlet: &Outlet, flow: u8) -> anyhow::Result<Dialled> {
        let counter = Arc::new(OutcomeCounter::default());
        let admission = Admission::of([receiver().id()]);
        let mut options = self.options(sender(flow), admission, outlet.own);
        if outlet.is_alone {
            options.tcp.standbys = 0;
        }
        let addresses = match self {
            Self::Quic(_) => Addresses::from(&[outlet.word(0)?]),
            Self::Tcp(_) => Addresses::tcp(&outlet.words::<SocketAddr>()?),
        };
        let endpoint = Endpoint::bind(options, Arc::clone(&counter), Clock::start()).await?;
        let link = endpoint.dial(receiver().id(), addresses).await?;
        Ok(Dialled {
            endpoint,
            link,
            counter,
        })
    }
}

/// Sends ADUs back to back.
async fn send_bulk(link: Link, flow: u32, lane: u64, end: Instant) {
    let mut sequence = lane;
    while clock::now() < end {
        let header = Header::new(StreamId(flow.into()), Sequence(sequence));
        let options = SendOptions::new(Carriage::Stream);
        let payload = Bytes::from(payload(flow, BULK_BYTES));
        let outcome = link.send_adu(header, payload, options).await;
        if outcome == Outcome::LinkLost {
            return;
        }
        sequence += BULK_AT_ONCE as u64;
    }
}

/// Returns the header of a scheduled ADU.
fn header(due: &Due, deadline: Instant) -> Header {
    let stream = StreamId(due.stream.into());
    Header {
        media_time: MediaTime::from_micros(due.at.as_micros()),
        importance: Importance(due.importance),
        layer: due.layer,
        // Each refinement needs the layer below it; a frame needs no other.
        depends_on: u32::from(due.layer > 0),
        deadline,
        ..Header::new(stream, Sequence(due.sequence()))
    }
}

fn runtime() -> anyhow::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build();
    runtime.context("cannot start the runtime")
}

/// Returns the receiver's key, which every sender knows.
fn receiver() -> Identity {
    Identity::from_seed([1; 32])
}

/// Returns the key of the sender of a flow, which the receiver admits.
fn sender(flow: u8) -> Identity {
    Identity::from_seed([2 + flow; 32])
}
