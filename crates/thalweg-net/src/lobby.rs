//! Who is heard of those that have not proved a key yet, over QUIC or TCP, and who waits.
//!
//! *The idea.* A handshake costs a signature and a key exchange, so there are a few places. To be a stranger costs nothing, so
//! places are shared by hosts: one that holds more than another makes room for it, by the handshake that it began first, and the
//! others wait their turn. So whoever opens connections and says nothing keeps out himself.
//!
//! ```text
//! accepted ──► a place ──► handshake ──► a session
//!          └─► waits, a socket and no more ─┘   the next is of the host with the fewest places
//! ```
//!
//! *What it does not do.* It has no clock: who hears a connection ends what takes too long. Very many hosts have as many shares.
//! All that come by relays of ours are one host, for there a key is all that tells them apart, and keys are free.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::task;

/// Handshakes at once, of all hosts.
const PLACES: usize = 64;

/// Connections that wait for a place; beyond, the host that has most of them loses its first.
const WAITING_MAX: usize = 256;

/// Of an IPv6 address what says whose it is: a site has all that begin so.
const SITE_BITS: u32 = 64;

/// Whose a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Host {
    /// An IPv4 address, or an IPv6 site.
    Site(IpAddr),
    /// Whoever comes otherwise.
    Relayed,
}

/// The places of one way to come, and who waits for one: `G` is a connection that nothing was heard of.
pub(crate) struct Lobby<G>(Mutex<Turns<Arc<Notify>, G>>);

impl<G: Send + 'static> Lobby<G> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Turns::new())))
    }

    /// Returns whether half of the places are taken.
    pub(crate) fn is_half_full(&self) -> bool {
        self.turns().taken.len() > PLACES / 2
    }

    /// Has a connection heard in a task, now or when its turn comes, and dropped if it was one too many. What hears it is dropped too
    /// when another host is to have its place.
    pub(crate) fn arrive<F>(
        self: &Arc<Self>,
        host: Host,
        guest: G,
        hear: impl Fn(G) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send,
    {
        let displaced = Arc::new(Notify::new());
        let arrival = self.turns().arrive(host, guest, displaced.clone());
        let Arrival::Heard(place, guest, other) = arrival else {
            return;
        };
        if let Some(other) = other {
            other.notify_one();
        }
        let lobby = self.clone();
        tokio::spawn(async move {
            let mut next = Some((place, guest));
            while let Some((place, guest)) = next {
                tokio::select! {
                    // One whose handshake fails so gives its place back all the same.
                    () = task::alone_or(hear(guest), || {}) => {}
                    () = displaced.notified() => {
                        tracing::debug!("a handshake was ended: another host has its place");
                    }
                }
                next = lobby.turns().end(place);
            }
        });
    }

    fn turns(&self) -> MutexGuard<'_, Turns<Arc<Notify>, G>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place that was taken; no other has the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place(u64);

/// Whose turn it is: `H` is what ends a handshake.
#[derive(Debug)]
struct Turns<H, G> {
    taken: BTreeMap<Place, (Host, H)>,
    waiting: VecDeque<(Host, G)>,
    next: u64,
}

/// What becomes of a connection that came.
#[derive(Debug)]
enum Arrival<H, G> {
    /// It is heard, in this place; for it another's handshake is to be ended, if one is given.
    Heard(Place, G, Option<H>),
    /// It waits, or was one too many.
    Waits,
}

impl<H, G> Turns<H, G> {
    const fn new() -> Self {
        Self {
            taken: BTreeMap::new(),
            waiting: VecDeque::new(),
            next: 0,
        }
    }

    /// Takes in a connection, and what will end its handshake.
    ///
    /// Cost    O(places) where all are taken, and O(waiting) where too many wait
    fn arrive(&mut self, host: Host, guest: G, handshake: H) -> Arrival<H, G> {
        if self.taken.len() < PLACES {
            return Arrival::Heard(self.take(host, handshake), guest, None);
        }
        let taken = count(self.taken.values().map(|(host, _)| *host));
        let own = taken.get(&host).copied().unwrap_or(0);
        let crowd = taken.iter().max_by_key(|(_, count)| **count);
        if let Some((crowd, _)) = crowd.filter(|(_, count)| **count > own + 1) {
            let is_of_crowd = |(taker, _): &mut (Host, H)| taker == crowd;
            let mut first = self.taken.extract_if(.., |_, taker| is_of_crowd(taker));
            let displaced = first.next().map(|(_, (_, handshake))| handshake);
            drop(first);
            return Arrival::Heard(self.take(host, handshake), guest, displaced);
        }
        self.waiting.push_back((host, guest));
        if self.waiting.len() > WAITING_MAX {
            let waiting = count(self.waiting.iter().map(|(host, _)| *host));
            let crowd = waiting.iter().max_by_key(|(_, count)| **count);
            let is_of_crowd = |(host, _): &(Host, G)| crowd.is_some_and(|(of, _)| of == host);
            let first = self.waiting.iter().position(is_of_crowd);
            self.waiting.remove(first.unwrap_or(0));
        }
        Arrival::Waits
    }

    /// Takes in that a handshake is over; returns who is heard instead, in a place of another number, and is ended by the same.
    ///
    /// Cost    O(places + waiting)
    fn end(&mut self, place: Place) -> Option<(Place, G)> {
        let (_, handshake) = self.taken.remove(&place)?;
        let taken = count(self.taken.values().map(|(host, _)| *host));
        let mut waiting = self.waiting.iter().enumerate();
        let first = waiting.next()?;
        let fewest = waiting.fold(first, |best, one| {
            let of = |(_, (host, _)): &(usize, &(Host, G))| taken.get(host).copied().unwrap_or(0);
            if of(&one) < of(&best) { one } else { best }
        });
        let (at, _) = fewest;
        let (host, guest) = self.waiting.remove(at)?;
        Some((self.take(host, handshake), guest))
    }

    fn take(&mut self, host: Host, handshake: H) -> Place {
        self.next += 1;
        let place = Place(self.next);
        self.taken.insert(place, (host, handshake));
        place
    }
}

impl Host {
    /// Returns whose an address is.
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

/// Returns how often each is there.
fn count(hosts: impl Iterator<Item = Host>) -> BTreeMap<Host, usize> {
    let mut counts = BTreeMap::new();
    for host in hosts {
        *counts.entry(host).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::{Arrival, Host, PLACES, Place, Turns, WAITING_MAX};

    /// A handshake is a number, and a guest is whose it is.
    type Numbers = Turns<usize, &'static str>;

    fn host(text: &str) -> Host {
        Host::of(text.parse().expect("an address"))
    }

    const CROWD: &str = "192.0.2.1";

    fn arrive(
        turns: &mut Numbers,
        from: &'static str,
        number: usize,
    ) -> Arrival<usize, &'static str> {
        turns.arrive(host(from), from, number)
    }

    /// Returns turns of which a crowd has all, and its places.
    fn crowded() -> (Numbers, Vec<Place>) {
        let mut turns = Turns::new();
        let heard = (0..PLACES).map(|number| match arrive(&mut turns, CROWD, number) {
            Arrival::Heard(place, CROWD, None) => place,
            other => panic!("{other:?}"),
        });
        let places = heard.collect();
        (turns, places)
    }

    #[test]
    fn who_comes_from_elsewhere_is_heard_at_once_in_place_of_the_crowds_first() {
        let (mut turns, places) = crowded();
        // To half of all places each.
        for (number, place) in places.into_iter().enumerate().take(PLACES / 2) {
            match arrive(&mut turns, "192.0.2.2", 100) {
                Arrival::Heard(_, "192.0.2.2", Some(displaced)) => assert_eq!(displaced, number),
                other => panic!("{other:?}"),
            }
            assert!(turns.end(place).is_none(), "its place is another's");
        }
        for host in ["192.0.2.2", CROWD] {
            let arrival = arrive(&mut turns, host, 0);
            assert!(matches!(arrival, Arrival::Waits), "{arrival:?}");
        }
        assert_eq!(turns.taken.len(), PLACES);
    }

    #[test]
    fn a_crowd_alone_waits_its_turn_and_nobody_is_displaced() {
        let (mut turns, places) = crowded();
        for _ in 0..3 {
            assert!(matches!(arrive(&mut turns, CROWD, 0), Arrival::Waits));
        }
        for place in &places[..3] {
            let (next, guest) = turns.end(*place).expect("one waits");
            assert!(next > places[PLACES - 1]);
            assert_eq!(guest, CROWD);
        }
        assert!(turns.end(places[3]).is_none());
        let arrival = arrive(&mut turns, CROWD, 0);
        assert!(
            matches!(arrival, Arrival::Heard(_, CROWD, None)),
            "{arrival:?}"
        );
    }

    #[test]
    fn of_those_that_wait_the_host_with_the_fewest_places_is_next() {
        let (mut turns, places) = crowded();
        for _ in 0..PLACES / 2 {
            arrive(&mut turns, "192.0.2.2", 0);
        }
        for host in [CROWD, "192.0.2.2"] {
            assert!(matches!(arrive(&mut turns, host, 0), Arrival::Waits));
        }
        // The crowd has one place less than the other.
        let last = places[PLACES - 1];
        assert_eq!(turns.end(last).map(|(_, guest)| guest), Some(CROWD));
        let last = places[PLACES - 2];
        assert_eq!(turns.end(last).map(|(_, guest)| guest), Some("192.0.2.2"));
    }

    #[test]
    fn of_too_many_that_wait_the_crowds_first_is_one_too_many() {
        let (mut turns, _) = crowded();
        for _ in 0..PLACES / 2 {
            arrive(&mut turns, "192.0.2.2", 0);
        }
        assert!(matches!(arrive(&mut turns, "192.0.2.2", 0), Arrival::Waits));
        for _ in 0..2 * WAITING_MAX {
            assert!(matches!(arrive(&mut turns, CROWD, 0), Arrival::Waits));
        }
        assert_eq!(turns.waiting.len(), WAITING_MAX);
        let waits = turns.waiting.iter();
        assert_eq!(waits.filter(|(_, guest)| *guest != CROWD).count(), 1);
    }

    #[test]
    fn a_site_is_one_host_however_many_addresses_it_has() {
        assert_eq!(host("2001:db8:1:2::3"), host("2001:db8:1:2:ffff::1"));
        assert_ne!(host("2001:db8:1:2::3"), host("2001:db8:1:3::3"));
        assert_eq!(host("::ffff:192.0.2.1"), host("192.0.2.1"));
        assert_ne!(host("192.0.2.1"), host("192.0.2.2"));
    }
}
