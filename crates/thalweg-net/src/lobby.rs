//! Concurrent handshakes over QUIC or TCP, shared fairly by hosts, for peers that have not proved a
//! key yet.
//!
//! *The idea.* A handshake costs a signature and a key exchange, so the number of concurrent ones
//! is bounded. Strangers are free, so the places are shared by host: when all are taken, the host
//! that holds the most loses its oldest handshake to a host that holds at least two fewer; all
//! other connections queue. So a host that opens connections and stays silent only crowds itself
//! out.
//!
//! ```text
//! accepted ──► a place ──► its turn ──► handshake ──► a session
//!          └─► queue: a socket and no more ─┘   next: the host with the fewest places
//! ```
//!
//! Handshakes start in turns, one each [`TURN`] after the first few: a flood of dials takes a part of
//! one core, and the rest is left to the streams that flow. Dials that find the queue full are refused
//! and counted.
//!
//! *What it does not do.* A handshake must time out itself. An attacker with
//! very many hosts has as many shares. All connections by relays of ours count as one host, since
//! only a key tells them apart there, and keys are free.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::{Duration, Instant, sleep_until};

use crate::admission::Admission;
use crate::task;

/// Maximum number of concurrent handshakes, over all hosts.
const PLACES: usize = 64;

/// Maximum number of queued connections; beyond it, the host that has the most loses its oldest. They
/// have their turns within 4 s, before the peers give up; each holds a socket, or a packet of QUIC.
pub(crate) const QUEUED_MAX: usize = 1024;

/// Interval of turns: a handshake costs 1 to 2 ms of a core, so a flood takes less than half of one.
const TURN: Duration = Duration::from_millis(4);

/// Handshakes that start at once after a pause.
const TURNS_AHEAD: u32 = 16;

const _: () = assert!(
    (QUEUED_MAX + PLACES) as u128 * TURN.as_millis() < 5_000,
    "whoever is queued has its turn well before it gives up, after 10 s"
);

/// Bits of an IPv6 address that identify its owner: a site has every address with that prefix
/// (RFC 4291 §2.5.4).
const SITE_BITS: u32 = 64;

/// The host that a connection counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Host {
    /// An IPv4 address, or an IPv6 site.
    Site(IpAddr),
    /// Any connection that came through a relay.
    Relayed,
}

/// The handshakes of one transport and the connections queued for one; `C` is a connection before
/// its handshake.
pub(crate) struct Lobby<C> {
    handshakes: Mutex<Handshakes<Arc<Notify>, C>>,
    /// When the next handshake may start. Held by the one that is next; the others queue for it.
    turn: tokio::sync::Mutex<Option<Instant>>,
    /// Counts what is refused.
    admission: Admission,
}

impl<C: Send + 'static> Lobby<C> {
    pub(crate) fn new(admission: Admission) -> Arc<Self> {
        Arc::new(Self {
            handshakes: Mutex::new(Handshakes::new()),
            turn: tokio::sync::Mutex::new(None),
            admission,
        })
    }

    /// Returns whether half of the places are taken.
    pub(crate) fn is_half_full(&self) -> bool {
        self.lock().taken.len() > PLACES / 2
    }

    /// Runs `handshake` on a connection in a task, at once or when its turn comes. A full queue
    /// drops the oldest connection of the host that has most. The handshake is dropped when another
    /// host takes its place.
    pub(crate) fn arrive<F>(
        self: &Arc<Self>,
        host: Host,
        connection: C,
        handshake: impl Fn(C) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send,
    {
        let displaced = Arc::new(Notify::new());
        let arrival = self.lock().arrive(host, connection, displaced.clone());
        let (place, connection, other) = match arrival {
            Arrival::Started(place, connection, other) => (place, connection, other),
            Arrival::Queued(None) => return,
            Arrival::Queued(Some((host, _dropped))) => {
                return self
                    .admission
                    .refuse_dial(&host, "too many handshakes wait");
            }
        };
        if let Some(other) = other {
            other.notify_one();
        }
        let lobby = self.clone();
        tokio::spawn(async move {
            let mut next = Some((place, connection));
            while let Some((place, connection)) = next {
                // A handshake that panics still gives its place back.
                let handshake = task::alone_or(handshake(connection), || {});
                let in_turn = async {
                    lobby.take_turn().await;
                    handshake.await;
                };
                tokio::select! {
                    () = in_turn => {}
                    () = displaced.notified() => {
                        lobby.admission.refuse_dial(&host, "another host takes its place");
                    }
                }
                next = lobby.lock().end(place);
            }
        });
    }

    /// Waits for a turn. A wait that is given up takes none.
    async fn take_turn(&self) {
        let mut next = self.turn.lock().await;
        let now = Instant::now();
        let earliest = now.checked_sub(TURN * TURNS_AHEAD).unwrap_or(now);
        let start = next.map_or(earliest, |next| next.max(earliest));
        if start > now {
            sleep_until(start).await;
        }
        *next = Some(start + TURN);
    }

    fn lock(&self) -> MutexGuard<'_, Handshakes<Arc<Notify>, C>> {
        self.handshakes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A taken place; its number is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place(u64);

/// The state of the places and the queue; `H` is the handle that cancels a handshake.
#[derive(Debug)]
struct Handshakes<H, C> {
    taken: BTreeMap<Place, (Host, H)>,
    queued: VecDeque<(Host, C)>,
    next: u64,
}

/// What happens to a new connection.
#[derive(Debug)]
enum Arrival<H, C> {
    /// Its handshake starts in this place; the handle, if any, cancels the handshake that it
    /// displaces.
    Started(Place, C, Option<H>),
    /// It is queued; a full queue drops the oldest connection of the host that has most.
    Queued(Option<(Host, C)>),
}

impl<H, C> Handshakes<H, C> {
    const fn new() -> Self {
        Self {
            taken: BTreeMap::new(),
            queued: VecDeque::new(),
            next: 0,
        }
    }

    /// Adds a connection, with the handle that cancels its handshake.
    ///
    /// Cost    O(places) if all are taken, O(queue) if that is full too
    fn arrive(&mut self, host: Host, connection: C, cancel: H) -> Arrival<H, C> {
        if self.taken.len() < PLACES {
            return Arrival::Started(self.take(host, cancel), connection, None);
        }
        let taken = count(self.taken.values().map(|(host, _)| *host));
        let own = taken.get(&host).copied().unwrap_or(0);
        let busiest = taken.iter().max_by_key(|(_, count)| **count);
        if let Some((busiest, _)) = busiest.filter(|(_, count)| **count > own + 1) {
            let is_of_busiest = |(taker, _): &mut (Host, H)| taker == busiest;
            let mut first = self.taken.extract_if(.., |_, taker| is_of_busiest(taker));
            let displaced = first.next().map(|(_, (_, cancel))| cancel);
            drop(first);
            return Arrival::Started(self.take(host, cancel), connection, displaced);
        }
        self.queued.push_back((host, connection));
        if self.queued.len() <= QUEUED_MAX {
            return Arrival::Queued(None);
        }
        let queued = count(self.queued.iter().map(|(host, _)| *host));
        let busiest = queued.iter().max_by_key(|(_, count)| **count);
        let is_of_busiest = |(host, _): &(Host, C)| busiest.is_some_and(|(of, _)| of == host);
        let first = self.queued.iter().position(is_of_busiest);
        Arrival::Queued(self.queued.remove(first.unwrap_or(0)))
    }

    /// Frees a place; returns the next queued connection with its new place, which keeps the same
    /// cancel handle.
    ///
    /// Cost    O(places + queue)
    fn end(&mut self, place: Place) -> Option<(Place, C)> {
        let (_, cancel) = self.taken.remove(&place)?;
        let taken = count(self.taken.values().map(|(host, _)| *host));
        let mut queued = self.queued.iter().enumerate();
        let first = queued.next()?;
        let fewest = queued.fold(first, |best, one| {
            let of = |(_, (host, _)): &(usize, &(Host, C))| taken.get(host).copied().unwrap_or(0);
            if of(&one) < of(&best) { one } else { best }
        });
        let (at, _) = fewest;
        let (host, connection) = self.queued.remove(at)?;
        Some((self.take(host, cancel), connection))
    }

    fn take(&mut self, host: Host, cancel: H) -> Place {
        self.next += 1;
        let place = Place(self.next);
        self.taken.insert(place, (host, cancel));
        place
    }
}

impl Host {
    /// Returns the host of an address.
    pub(crate) fn of(address: IpAddr) -> Self {
        Self::Site(match address.to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => {
                let site = u128::MAX << (u128::BITS - SITE_BITS);
                Ipv6Addr::from_bits(address.to_bits() & site).into()
            }
        })
    }
}

/// Counts the occurrences of each host.
fn count(hosts: impl Iterator<Item = Host>) -> BTreeMap<Host, usize> {
    let mut counts = BTreeMap::new();
    for host in hosts {
        *counts.entry(host).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::{Arrival, Handshakes, Host, Lobby, PLACES, Place, QUEUED_MAX, TURN, TURNS_AHEAD};
    use crate::admission::Admission;

    /// The handle of a handshake is a number; a connection is named by its host.
    type Numbers = Handshakes<usize, &'static str>;

    fn host(text: &str) -> Host {
        Host::of(text.parse().expect("an address"))
    }

    const BUSY: &str = "192.0.2.1";

    fn arrive(
        handshakes: &mut Numbers,
        from: &'static str,
        number: usize,
    ) -> Arrival<usize, &'static str> {
        handshakes.arrive(host(from), from, number)
    }

    /// Returns places that one host has all taken, and their numbers.
    fn full() -> (Numbers, Vec<Place>) {
        let mut handshakes = Handshakes::new();
        let started = (0..PLACES).map(|number| match arrive(&mut handshakes, BUSY, number) {
            Arrival::Started(place, BUSY, None) => place,
            other => panic!("{other:?}"),
        });
        let places = started.collect();
        (handshakes, places)
    }

    #[test]
    fn new_host_displaces_busiest_host() {
        let (mut handshakes, places) = full();
        // Until each host has half of the places.
        for (number, place) in places.into_iter().enumerate().take(PLACES / 2) {
            match arrive(&mut handshakes, "192.0.2.2", 100) {
                Arrival::Started(_, "192.0.2.2", Some(displaced)) => assert_eq!(displaced, number),
                other => panic!("{other:?}"),
            }
            assert!(handshakes.end(place).is_none(), "its place was taken");
        }
        for host in ["192.0.2.2", BUSY] {
            let arrival = arrive(&mut handshakes, host, 0);
            assert!(matches!(arrival, Arrival::Queued(None)), "{arrival:?}");
        }
        assert_eq!(handshakes.taken.len(), PLACES);
    }

    #[test]
    fn busiest_host_alone_queues() {
        let (mut handshakes, places) = full();
        for _ in 0..3 {
            assert!(matches!(
                arrive(&mut handshakes, BUSY, 0),
                Arrival::Queued(_)
            ));
        }
        for place in &places[..3] {
            let (next, connection) = handshakes.end(*place).expect("one is queued");
            assert!(next > places[PLACES - 1]);
            assert_eq!(connection, BUSY);
        }
        assert!(handshakes.end(places[3]).is_none());
        let arrival = arrive(&mut handshakes, BUSY, 0);
        assert!(
            matches!(arrival, Arrival::Started(_, BUSY, None)),
            "{arrival:?}"
        );
    }

    #[test]
    fn host_with_fewest_places_is_next() {
        let (mut handshakes, places) = full();
        for _ in 0..PLACES / 2 {
            arrive(&mut handshakes, "192.0.2.2", 0);
        }
        for host in [BUSY, "192.0.2.2"] {
            assert!(matches!(
                arrive(&mut handshakes, host, 0),
                Arrival::Queued(None)
            ));
        }
        // The first host has one place less than the other.
        let last = places[PLACES - 1];
        assert_eq!(
            handshakes.end(last).map(|(_, connection)| connection),
            Some(BUSY)
        );
        let last = places[PLACES - 2];
        assert_eq!(
            handshakes.end(last).map(|(_, connection)| connection),
            Some("192.0.2.2")
        );
    }

    #[test]
    fn full_queue_drops_busiest_hosts_first() {
        let (mut handshakes, _) = full();
        for _ in 0..PLACES / 2 {
            arrive(&mut handshakes, "192.0.2.2", 0);
        }
        assert!(matches!(
            arrive(&mut handshakes, "192.0.2.2", 0),
            Arrival::Queued(None)
        ));
        for number in 1..2 * QUEUED_MAX {
            match arrive(&mut handshakes, BUSY, 0) {
                Arrival::Queued(None) if number < QUEUED_MAX => {}
                Arrival::Queued(Some((_, BUSY))) if number >= QUEUED_MAX => {}
                other => panic!("{number}: {other:?}"),
            }
        }
        assert_eq!(handshakes.queued.len(), QUEUED_MAX);
        let waits = handshakes.queued.iter();
        assert_eq!(
            waits.filter(|(_, connection)| *connection != BUSY).count(),
            1
        );
    }

    #[tokio::test]
    async fn flood_starts_in_turns_and_is_counted() {
        let admission = Admission::nobody();
        let lobby = Lobby::new(admission.clone());
        let (started, mut starts) = tokio::sync::mpsc::unbounded_channel();
        for _ in 0..PLACES + QUEUED_MAX + 3 {
            let started = started.clone();
            lobby.arrive(host(BUSY), (), move |()| {
                let started = started.clone();
                async move {
                    let _ = started.send(Instant::now());
                    std::future::pending::<()>().await;
                }
            });
        }
        assert_eq!(admission.refused_dials(), 3);
        let mut times = Vec::new();
        while times.len() < PLACES {
            times.push(starts.recv().await.expect("the lobby lives"));
        }
        let least = TURN * (PLACES as u32 - TURNS_AHEAD - 1);
        assert!(times[PLACES - 1].duration_since(times[0]) >= least);
        // A host that comes later takes a place, and its turn behind those that wait.
        lobby.arrive(host("192.0.2.2"), (), move |()| {
            let started = started.clone();
            async move {
                let _ = started.send(Instant::now());
                std::future::pending::<()>().await;
            }
        });
        starts.recv().await.expect("it has a place");
        assert_eq!(admission.refused_dials(), 4);
    }

    #[test]
    fn ipv6_site_is_one_host() {
        assert_eq!(host("2001:db8:1:2::3"), host("2001:db8:1:2:ffff::1"));
        assert_ne!(host("2001:db8:1:2::3"), host("2001:db8:1:3::3"));
        assert_eq!(host("::ffff:192.0.2.1"), host("192.0.2.1"));
        assert_ne!(host("192.0.2.1"), host("192.0.2.2"));
    }
}
