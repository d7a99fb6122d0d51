//! A test node: an endpoint with a receiver that records all events.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use thalweg_base::adu::{Header, Importance};
use thalweg_base::id::{NodeId, Sequence, StreamId};
use thalweg_base::units::{Bitrate, DataSize};
use thalweg_link::tcp_mux::Pacing;
use thalweg_net::{
    Addresses, Admission, Arriving, BodyError, Carriage, Clock, Endpoint, Identity, Impairment,
    Link, LinkEvent, Options, Outcome, Reach, Receiver, Samples, SendOptions, Shaper,
    ShaperOptions,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Mutex, watch};

/// Far more than anything here takes, also on a busy machine.
const WAIT: Duration = Duration::from_secs(40);

/// Waits, with a time limit.
pub async fn bounded<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(WAIT, future)
        .await
        .expect("it happens within the bound")
}

/// An event at a node.
pub enum Seen {
    Adu(Header, Result<Bytes, BodyError>),
    Control(NodeId, Bytes),
    Link(LinkEvent),
    Outcome(Outcome),
    Given(NodeId),
}

/// The bytes that each link has sent, by its peer.
pub type Measured = Vec<(NodeId, DataSize)>;

struct Recorder {
    seen: UnboundedSender<Seen>,
    measured: watch::Sender<Measured>,
    stall: Arc<Stall>,
}

/// Holds an engine's loop back at the next outcome that it reports.
#[derive(Default)]
pub struct Stall {
    is_set: AtomicBool,
    is_held: AtomicBool,
    /// The tokens of all outcomes.
    tokens: std::sync::Mutex<Vec<u64>>,
}

impl Stall {
    pub fn set(&self) {
        self.is_set.store(true, Ordering::SeqCst);
    }

    pub fn is_held(&self) -> bool {
        self.is_held.load(Ordering::SeqCst)
    }

    pub fn release(&self) {
        self.is_set.store(false, Ordering::SeqCst);
    }

    /// Returns the tokens of all ADUs that have ended, sorted.
    pub fn tokens(&self) -> Vec<u64> {
        let mut tokens = self.tokens.lock().expect("no test panics here").clone();
        tokens.sort_unstable();
        tokens
    }

    fn handle_outcome(&self, token: u64) {
        let mut tokens = self.tokens.lock().expect("no test panics here");
        tokens.push(token);
        drop(tokens);
        let is_loop = std::thread::current().name() == Some("engine");
        while is_loop && self.is_set.load(Ordering::SeqCst) {
            self.is_held.store(true, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(1));
        }
        self.is_held.fetch_and(!is_loop, Ordering::SeqCst);
    }
}

impl Recorder {
    fn write(&self, seen: Seen) {
        // The test may be over already.
        let _ = self.seen.send(seen);
    }
}

impl Receiver for Recorder {
    async fn handle_adu(&self, _link: &Link, adu: Arriving) {
        let header = adu.header;
        self.write(Seen::Adu(header, adu.collect().await));
    }

    async fn handle_control(&self, link: &Link, frame: Bytes) {
        self.write(Seen::Control(link.peer(), frame));
    }

    fn handle_link(&self, event: LinkEvent) {
        self.write(Seen::Link(event));
    }

    fn handle_outcome(&self, _link: &Link, _header: &Header, token: u64, outcome: Outcome) {
        self.write(Seen::Outcome(outcome));
        self.stall.handle_outcome(token);
    }

    fn handle_measured(&self, samples: Samples) {
        let sent = samples
            .links
            .iter()
            .map(|(link, sample)| (link.peer(), sample.sent));
        self.measured.send_replace(sent.collect());
    }

    fn handle_given(&self, link: &Link) {
        self.write(Seen::Given(link.peer()));
    }
}

pub struct Node {
    pub endpoint: Endpoint,
    pub admission: Admission,
    /// The latest samples, apart from the events, since they come four times a second.
    pub measured: watch::Receiver<Measured>,
    pub stall: Arc<Stall>,
    seen: Mutex<UnboundedReceiver<Seen>>,
}

/// Returns a loopback address with port 0; two nodes with a shaper between them need different
/// hosts.
pub fn loopback(host: u8) -> SocketAddr {
    (Ipv4Addr::new(127, 0, 0, host), 0).into()
}

pub fn options(host: u8) -> Options {
    let mut options = Options::new(Identity::ephemeral(), Admission::nobody());
    options.listen = vec![loopback(host)];
    options.reach = Reach::OwnAddress;
    options
}

/// The transport of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    Quic,
    Tcp(Pacing),
    /// TCP in the clear, both ends in one thread's loop each.
    Loop(Pacing),
}

impl Over {
    pub const ALL: [Self; 5] = [
        Self::Quic,
        Self::Tcp(Pacing::Kernel),
        Self::Tcp(Pacing::Acked),
        Self::Loop(Pacing::Kernel),
        Self::Loop(Pacing::Acked),
    ];

    /// All over TCP.
    pub const TCP: [Self; 4] = [
        Self::Tcp(Pacing::Kernel),
        Self::Tcp(Pacing::Acked),
        Self::Loop(Pacing::Kernel),
        Self::Loop(Pacing::Acked),
    ];

    /// Returns the options of a node that others dial over this transport.
    pub fn options(self) -> Options {
        let mut options = options(1);
        if let Self::Tcp(pacing) | Self::Loop(pacing) = self {
            options.tcp.pacing = pacing;
            options.tcp.listen = vec![loopback(1)];
        }
        options.tcp.clear_loop = matches!(self, Self::Loop(_));
        options
    }
}

impl Node {
    pub async fn start(host: u8) -> Self {
        Self::start_with(options(host)).await
    }

    /// Starts a node that others dial over this transport.
    pub async fn start_over(over: Over) -> Self {
        Self::start_with(over.options()).await
    }

    /// Starts two nodes that may dial each other over this transport.
    pub async fn start_two(over: Over) -> (Self, Self) {
        let [a, b] = Self::start_many(over).await;
        (a, b)
    }

    /// Starts nodes that may dial each other over this transport.
    pub async fn start_many<const N: usize>(over: Over) -> [Self; N] {
        let mut all = [(); N].map(|()| over.options());
        if let Over::Loop(_) = over {
            let ids = all.each_ref().map(|options| options.identity.id());
            for options in &mut all {
                options.tcp.plain.extend(ids);
            }
        }
        let mut nodes = Vec::new();
        for options in all {
            nodes.push(Self::start_with(options).await);
        }
        nodes.try_into().unwrap_or_else(|_| unreachable!("as many"))
    }

    pub async fn start_with(options: Options) -> Self {
        let admission = options.admission.clone();
        let (sender, seen) = unbounded_channel();
        let (measured_sender, measured) = watch::channel(Measured::new());
        let recorder = Recorder {
            seen: sender,
            measured: measured_sender,
            stall: Arc::default(),
        };
        let stall = Arc::clone(&recorder.stall);
        let endpoint = Endpoint::bind(options, Arc::new(recorder), Clock::start())
            .await
            .expect("loopback can be listened on");
        Self {
            endpoint,
            admission,
            measured,
            stall,
            seen: Mutex::new(seen),
        }
    }

    pub fn id(&self) -> NodeId {
        self.endpoint.id()
    }

    pub fn address(&self) -> SocketAddr {
        self.endpoint.listening()[0]
    }

    pub fn admits(&self, other: &Self) {
        self.admission.admit(other.id());
    }

    /// Returns the node's addresses: TCP if it listens on TCP.
    pub fn addresses(&self) -> Addresses {
        match self.endpoint.listening_tcp() {
            [] => Addresses::from(&[self.address()]),
            tcp => Addresses::tcp(tcp),
        }
    }

    pub async fn dial(&self, other: &Self) -> Link {
        bounded(self.endpoint.dial(other.id(), other.addresses()))
            .await
            .expect("both admit each other")
    }

    /// Waits for the next event that `pick` accepts; drops those before it.
    pub async fn next<T>(&self, mut pick: impl FnMut(Seen) -> Option<T>) -> T {
        let mut seen = self.seen.lock().await;
        bounded(async {
            loop {
                let next = seen.recv().await.expect("the endpoint lives");
                if let Some(picked) = pick(next) {
                    return picked;
                }
            }
        })
        .await
    }

    pub async fn next_adu(&self) -> (Header, Result<Bytes, BodyError>) {
        self.next(|seen| match seen {
            Seen::Adu(header, payload) => Some((header, payload)),
            _ => None,
        })
        .await
    }

    /// Returns all events that no call has taken yet.
    pub async fn rest(&self) -> Vec<Seen> {
        let mut seen = self.seen.lock().await;
        std::iter::from_fn(|| seen.try_recv().ok()).collect()
    }
}

/// Returns two nodes that admit each other, and the first's link to the second.
pub async fn pair() -> (Node, Node, Link) {
    pair_over(Over::Quic).await
}

/// Like [`pair`], over the given transport.
pub async fn pair_over(over: Over) -> (Node, Node, Link) {
    let (a, b) = Node::start_two(over).await;
    a.admits(&b);
    b.admits(&a);
    let link = a.dial(&b).await;
    (a, b, link)
}

/// Returns two nodes that reach each other only through a line of this rate, and the first's link
/// to the second.
pub async fn pair_through(rate: Bitrate) -> (Node, Node, Link, Shaper) {
    let (a, b) = (Node::start(1).await, Node::start(2).await);
    a.admits(&b);
    b.admits(&a);
    let shaper = line(&a, &b, rate).await;
    let link = bounded(a.endpoint.dial(b.id(), &[shaper.address()]))
        .await
        .expect("the line carries the handshake");
    (a, b, link, shaper)
}

pub async fn line(a: &Node, b: &Node, rate: Bitrate) -> Shaper {
    let way = impairment(rate);
    Shaper::start(ShaperOptions {
        from: a.address(),
        towards: b.address(),
        a_to_b: way,
        b_to_a: way,
        seed: 1,
    })
    .await
    .expect("loopback has free ports")
}

pub fn impairment(rate: Bitrate) -> Impairment {
    Impairment {
        rate,
        delay: thalweg_base::time::Duration::from_millis(5),
        ..Impairment::default()
    }
}

pub fn header(sequence: u64) -> Header {
    Header {
        importance: Importance::LOWEST,
        ..Header::new(StreamId(7), Sequence(sequence))
    }
}

pub fn by(carriage: Carriage) -> SendOptions {
    SendOptions::new(carriage)
}

/// Returns bytes with a position-dependent pattern, so that a misplaced chunk shows.
pub fn pattern(bytes: usize) -> Bytes {
    (0..bytes).map(|place| (place % 251) as u8).collect()
}
