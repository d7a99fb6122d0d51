//! Proves that a route admits only its plan's ADUs, and selects ways and carriages by the needs.

use bytes::Bytes;
use thalweg_base::adu::{Flags, Header};
use thalweg_base::event::DropCause;
use thalweg_base::id::{Epoch, NodeId, Sequence, StreamId};
use thalweg_base::needs::{Order, Reliability, WEIGHT_USUAL};
use thalweg_base::part::{Installation, KeyContent, Secrets};
use thalweg_base::time::Instant;

use super::{Carriage, DATAGRAM_BYTES_MAX, Refusal, Route, Way, carry, end, window};
use crate::lift::{Lift, SpecError};
use crate::packet::{POOL_BYTES_DEFAULT, Packet, Pool};

const STREAM: StreamId = StreamId(7);
const BEFORE: NodeId = NodeId([1; 32]);
const OTHER: NodeId = NodeId([2; 32]);

fn installation(adapters: &[&str], reliability: Reliability) -> Installation {
    Installation {
        name: "cam".parse().expect("a name"),
        stream: STREAM,
        epoch: Epoch(1),
        source: BEFORE,
        previous: BEFORE,
        next: Some(OTHER),
        adapters: adapters.iter().map(ToString::to_string).collect(),
        reliability,
        order: Order::Importance,
        weight: WEIGHT_USUAL,
        plaintext: true,
        base: None,
    }
}

fn build(installation: Installation) -> Result<(Route, Option<Lift>), SpecError> {
    let key = KeyContent {
        key_epoch: 1,
        key: [9; 32],
    };
    let secrets = Secrets {
        key: Some(key),
        instance: 3,
    };
    Route::build(installation, secrets, Pool::new(POOL_BYTES_DEFAULT))
}

fn route(adapters: &[&str], reliability: Reliability) -> Route {
    build(installation(adapters, reliability))
        .expect("known words")
        .0
}

fn header(layer: u8) -> Header {
    Header {
        layer,
        ..Header::new(STREAM, Sequence(0))
    }
}

#[test]
fn header_chain_passes_payloads() {
    let way = |adapters: &[&str], layer| route(adapters, Reliability::None).way(&header(layer));
    assert_eq!(way(&[], 9), Ok(Way::Through));
    assert_eq!(way(&["keep:2"], 1), Ok(Way::Through));
    assert_eq!(way(&["keep:2"], 2), Err(DropCause::Filtered));
    assert_eq!(way(&["keep:2", "pack"], 2), Ok(Way::Gather));
    assert_eq!(way(&["seal"], 0), Ok(Way::Gather));
    assert!(build(installation(&["fold"], Reliability::None)).is_err());
}

#[test]
fn only_previous_node_is_admitted() {
    let mut sealed = installation(&[], Reliability::None);
    sealed.plaintext = false;
    let (sealed, _) = build(sealed).expect("an empty chain");
    let plain = route(&[], Reliability::None);
    let mut header = header(0);
    assert_eq!(plain.admit(OTHER, &header), Err(Refusal::Stranger));
    assert_eq!(plain.admit(BEFORE, &header), Ok(Way::Through));
    let exposed = Err(Refusal::Dropped(DropCause::Exposed));
    assert_eq!(sealed.admit(BEFORE, &header), exposed);
    header.flags = Flags::SEALED;
    assert_eq!(sealed.admit(BEFORE, &header), Ok(Way::Through));
}

#[test]
fn needs_select_the_carriage() {
    let (small, large) = (DATAGRAM_BYTES_MAX, DATAGRAM_BYTES_MAX + 1);
    let lossy = route(&[], Reliability::None);
    let timely = route(&[], Reliability::UntilDeadline);
    let full = route(&[], Reliability::Full);
    let mut header = header(0);
    assert_eq!(lossy.carriage(&header, small), Carriage::Datagram);
    assert_eq!(lossy.carriage(&header, large), Carriage::Stream);
    assert_eq!(lossy.carriage(&end(header).header, 0), Carriage::Stream);
    assert_eq!(timely.carriage(&header, small), Carriage::Stream);
    assert_eq!(full.carriage(&header, small), Carriage::Ordered);
    header.deadline = Instant::from_nanos(5);
    assert_eq!(timely.waits(&header), header.deadline);
    assert_eq!(full.waits(&header), Instant::NEVER);
    assert!(full.is_ordered() && !timely.is_ordered());
}

#[test]
fn drops_are_reported_once() {
    let (_, lift) = build(installation(&["keep:1", "pack"], Reliability::None)).expect("known");
    let mut lift = lift.expect("packing changes payloads");
    let packet = |layer| Packet::shared(header(layer), Bytes::from_static(&[0; 64]));
    for (layer, out) in [(0, 1), (1, 0), (0, 1)] {
        let carried = carry(&mut lift, packet(layer), Instant::ZERO);
        assert_eq!(carried.packets.len(), out);
        assert_eq!(carried.dropped.of(DropCause::Filtered), 1 - out as u64);
        assert_eq!(carried.dropped.total(), 1 - out as u64);
    }
}

#[test]
fn window_is_clamped() {
    assert_eq!(window(0, false), super::WINDOW_ADUS_MAX);
    assert_eq!(window(super::WINDOW_BYTES / 10, false), 10);
    assert_eq!(window(super::WINDOW_BYTES * 2, false), 1);
    assert_eq!(window(0, true), super::LIVE_WINDOW_ADUS_MAX);
    assert_eq!(window(super::LIVE_WINDOW_BYTES / 10, true), 10);
}
