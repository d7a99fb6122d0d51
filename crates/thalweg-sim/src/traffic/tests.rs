//! Proves that a stream's ADUs have the rates, times and dependencies that its world gives.

use bytes::Bytes;
use thalweg_base::adu::{Flags, Header};
use thalweg_base::id::{Sequence, StreamId};
use thalweg_base::needs::Needs;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, Ratio};
use thalweg_dataplane::keys::{KeyRing, SealInstance};
use thalweg_dataplane::lift::{Lift, Materials};
use thalweg_dataplane::packet::{POOL_BYTES_DEFAULT, Packet, Pool};
use thalweg_dataplane::route::carry;
use thalweg_planner::model::{Layer, Stream, Traffic};

use super::{Producer, payload, wire_bytes};

/// Returns a function that packs a payload as nodes do and returns the packed length.
fn lz4() -> impl FnMut(Bytes) -> usize {
    let pool = Pool::new(POOL_BYTES_DEFAULT);
    let mut materials = Materials {
        stream: StreamId(1),
        keys: KeyRing::new(),
        instance: SealInstance::from_random(1),
    };
    let mut lift = Lift::from_spec(["pack"], &mut materials, pool).expect("a known word");
    move |payload| {
        let header = Header::new(StreamId(1), Sequence(0));
        let packet = Packet::shared(header, payload);
        let mut carried = carry(&mut lift, packet, Instant::ZERO);
        carried.packets.remove(0).payload().len()
    }
}

fn stream(traffic: Traffic) -> Stream {
    let layer = |kbps| Layer {
        rate: Bitrate::from_kbps(kbps),
        utility: 0.5,
    };
    Stream {
        name: "s".parse().expect("a valid name"),
        from: "a".parse().expect("a valid name"),
        to: vec!["b".parse().expect("a valid name")],
        layers: vec![layer(400), layer(4_000)],
        needs: Needs::default(),
        importance: Stream::IMPORTANCE_DEFAULT,
        pack_ratio: None,
        seal_overhead: None,
        traffic,
    }
}

#[test]
fn layers_have_their_wire_rates() {
    let traffic = Traffic {
        spread: Ratio::new(0.3).expect("a ratio"),
        ..Traffic::default()
    };
    let seconds = 40;
    let dues: Vec<_> = Producer::new(&stream(traffic), Duration::from_secs(seconds), 7).collect();
    assert_eq!(dues.len() as u64, seconds * 25 * 2);
    for (layer, bps) in [(0, 400_000.0), (1, 4_000_000.0)] {
        let of_layer = dues.iter().filter(|due| due.layer == layer);
        let bytes: f64 = of_layer
            .map(|due| wire_bytes(due.payload_bytes) as f64)
            .sum();
        let share = bytes * 8.0 / seconds as f64 / bps;
        assert!((0.98..1.02).contains(&share), "layer {layer}: {share}");
    }
}

#[test]
fn frames_depend_on_previous() {
    let traffic = Traffic {
        key_every: 5,
        start: Duration::from_secs(1),
        stop: Some(Duration::from_secs(2)),
        ..Traffic::default()
    };
    let dues: Vec<_> = Producer::new(&stream(traffic), Duration::from_secs(9), 0).collect();
    assert_eq!(dues.len(), 25 * 2);
    for (sequence, due) in dues.iter().enumerate() {
        assert_eq!(due.sequence, sequence as u64);
        let is_key = due.frame.is_multiple_of(5);
        assert_eq!(due.flags == Flags::KEY, is_key && due.layer == 0);
        let expected = match (due.layer, is_key) {
            (0, true) => 0,
            (0, false) => 2,
            _ => 1,
        };
        assert_eq!(due.depends_on, expected, "{due:?}");
        assert_eq!(
            due.at,
            Duration::from_secs(1) + Duration::from_millis(40 * due.frame)
        );
    }
}

#[test]
fn packed_payloads_have_wire_ratio() {
    let mut packer = lz4();
    for bytes in [600, 1_200, 5_000, 60_000] {
        for ratio in [0.3, 0.5, 0.8, 1.0, 1.2] {
            let packed = packer(payload(1, 2, bytes, ratio));
            let share = wire_bytes(packed) as f64 / wire_bytes(bytes) as f64;
            let off = (share / f64::min(ratio, 1.0) - 1.0).abs();
            assert!(off < 0.02, "{bytes} B at {ratio}: {share}");
        }
    }
}

#[test]
fn payloads_differ_and_repeat() {
    let one = payload(3, 9, 1_001, 1.0);
    assert_eq!(one.len(), 1_001);
    assert_eq!(one, payload(3, 9, 1_001, 1.0));
    assert_ne!(one, payload(3, 10, 1_001, 1.0));
    assert_ne!(one, payload(4, 9, 1_001, 1.0));
}
