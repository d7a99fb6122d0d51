//! Proves RTP: reading inverts writing, options are skipped, order is restored within the window,
//! loss is counted, a new source loses nothing, and any bytes are a packet or an error.

mod port;

use proptest::prelude::*;

use super::*;

/// Returns transport packets with their number in the last byte.
fn transport(count: u8) -> Vec<u8> {
    let packet = |n| {
        let mut packet = [0u8; PACKET_BYTES];
        (packet[0], packet[PACKET_BYTES - 1]) = (0x47, n);
        packet
    };
    (0..count).flat_map(packet).collect()
}

fn datagrams(count: u8, first_sequence: u16) -> Vec<Vec<u8>> {
    let mut packetizer = Packetizer::new(7, first_sequence);
    let mut out = packetizer.push(&transport(count), 900);
    out.extend(packetizer.flush(901));
    out
}

fn drain(depacketizer: &mut Depacketizer) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(payload) = depacketizer.poll_payload() {
        out.extend_from_slice(&payload);
    }
    out
}

#[test]
fn seven_packets_fill_a_datagram() {
    let out = datagrams(16, 65_535);
    let sizes: Vec<_> = out.iter().map(Vec::len).collect();
    assert_eq!(sizes, [12 + 7 * 188, 12 + 7 * 188, 12 + 2 * 188]);
    let packet = Packet::read(&out[1]).expect("our own");
    let expected = Header {
        marker: false,
        payload_type: 33,
        sequence: 0,
        timestamp: 900,
        ssrc: 7,
    };
    assert_eq!(packet.header, expected);
    let mut depacketizer = Depacketizer::new();
    for datagram in &out {
        depacketizer.push(datagram).expect("our own");
    }
    assert_eq!(drain(&mut depacketizer), transport(16));
}

#[test]
fn options_are_skipped() {
    let mut datagram = vec![0xb2, 0xa1, 0, 9, 0, 0, 0, 1, 0, 0, 0, 2];
    datagram.extend_from_slice(&[0; 8]);
    datagram.extend_from_slice(&[0xbe, 0xde, 0, 1, 1, 2, 3, 4]);
    datagram.extend_from_slice(&[0x47, 5, 6, 0, 0, 3]);
    let packet = Packet::read(&datagram).expect("legal");
    assert_eq!(packet.payload, [0x47, 5, 6]);
    assert!(packet.header.marker);
    for cut in 0..datagram.len() {
        assert!(
            Packet::read(&datagram[..cut]).is_err() || cut >= 28,
            "cut at {cut}"
        );
    }
    datagram[0] = 0x70;
    assert_eq!(Packet::read(&datagram), Err(RtpError::Version { found: 1 }));
}

#[test]
fn order_is_restored() {
    let mut out = datagrams(49, 65_533);
    out.swap(1, 3);
    out.swap(4, 5);
    out.insert(3, out[0].clone());
    let mut depacketizer = Depacketizer::new();
    for datagram in &out {
        depacketizer.push(datagram).expect("our own");
    }
    assert_eq!(drain(&mut depacketizer), transport(49));
    let counts = depacketizer.counts();
    assert_eq!((counts.packets, counts.lost, counts.late), (7, 0, 1));
    assert_eq!((counts.reordered, counts.restarts), (3, 0));
}

#[test]
fn full_window_counts_loss() {
    let out = datagrams(252, 10);
    let mut depacketizer = Depacketizer::new();
    for (index, datagram) in out.iter().enumerate() {
        if !(1..3).contains(&index) {
            depacketizer.push(datagram).expect("our own");
        }
    }
    assert_eq!(depacketizer.counts().lost, 2, "{:?}", depacketizer.counts());
    depacketizer.push(&out[2]).expect("our own");
    assert_eq!(depacketizer.counts().late, 1);
    assert_eq!(drain(&mut depacketizer).len(), (252 - 14) * 188);
}

#[test]
fn flush_releases_waiting_packets() {
    let out = datagrams(21, 0);
    let mut depacketizer = Depacketizer::new();
    depacketizer.push(&out[0]).expect("our own");
    depacketizer.push(&out[2]).expect("our own");
    assert_eq!(drain(&mut depacketizer).len(), 7 * 188);
    let mut other = Packetizer::new(8, 500);
    let other = other.push(&transport(14), 0);
    depacketizer.push(&other[0]).expect("our own");
    assert_eq!(
        depacketizer.counts().restarts,
        0,
        "one packet may be a stray"
    );
    depacketizer.push(&other[1]).expect("our own");
    // The waiting packet of the old source, and both of the new one.
    assert_eq!(drain(&mut depacketizer).len(), 21 * 188);
    let counts = depacketizer.counts();
    assert_eq!((counts.lost, counts.late, counts.stray), (1, 0, 0));
    assert_eq!(counts.restarts, 1);
    let mut foreign = out[0][..100].to_vec();
    foreign[1] = 96;
    let refused = depacketizer.push(&foreign);
    assert!(matches!(
        refused,
        Err(RtpError::PayloadType { found: 96, .. })
    ));
}

/// Datagrams of seven packets of a source, from a number on.
fn of_source(ssrc: u32, first: u16, packets: u8) -> Vec<Vec<u8>> {
    Packetizer::new(ssrc, first).push(&transport(packets), 0)
}

#[test]
fn new_source_loses_no_datagram() {
    // A new source and number for each group, as some cameras choose them; the number wraps within
    // the second group.
    let mut sent = of_source(1, 40, 21);
    sent.extend(of_source(2, 65_535, 21));
    sent.extend(of_source(3, 7, 14));
    let mut depacketizer = Depacketizer::new();
    for datagram in &sent {
        depacketizer.push(datagram).expect("our own");
    }
    assert_eq!(drain(&mut depacketizer).len(), 56 * 188);
    let counts = depacketizer.counts();
    assert_eq!((counts.lost, counts.late, counts.stray), (0, 0, 0));
    assert_eq!((counts.packets, counts.restarts), (8, 2));
}

#[test]
fn held_datagrams_keep_order() {
    let mut depacketizer = Depacketizer::new();
    let (old, new) = (of_source(1, 0, 21), of_source(2, 500, 28));
    // The first two of the new source are swapped, with a late one of the old source between them.
    for datagram in [
        &old[0], &old[2], &new[1], &old[1], &new[0], &new[2], &new[3],
    ] {
        depacketizer.push(datagram).expect("our own");
    }
    depacketizer.flush();
    let out = drain(&mut depacketizer);
    assert_eq!(out, [transport(21), transport(28)].concat());
    assert_eq!(depacketizer.counts().lost, 0);
}

#[test]
fn stray_source_changes_nothing() {
    let (own, other) = (of_source(1, 0, 70), of_source(2, 900, 70));
    let mut depacketizer = Depacketizer::new();
    for (own, other) in own.iter().zip(&other) {
        depacketizer.push(own).expect("our own");
        depacketizer.push(other).expect("our own");
    }
    assert_eq!(drain(&mut depacketizer), transport(70));
    let counts = depacketizer.counts();
    assert_eq!((counts.packets, counts.restarts), (10, 0));
    // One window of them is still held.
    assert_eq!(counts.stray, 10 - WINDOW_PACKETS as u64);
}

#[test]
fn silence_confirms_new_source() {
    let mut depacketizer = Depacketizer::new();
    depacketizer.push(&of_source(1, 0, 7)[0]).expect("our own");
    depacketizer.push(&of_source(2, 9, 7)[0]).expect("our own");
    assert_eq!(drain(&mut depacketizer).len(), 7 * 188);
    depacketizer.flush();
    assert_eq!(drain(&mut depacketizer).len(), 7 * 188);
    assert_eq!(depacketizer.counts().stray, 0);
}

#[test]
fn dynamic_type_is_accepted() {
    let mut depacketizer = Depacketizer::new();
    for mut datagram in of_source(1, 0, 28) {
        datagram[1] = 96;
        depacketizer.push(&datagram).expect("transport packets");
    }
    assert_eq!(drain(&mut depacketizer), transport(28));
}

proptest! {
    #[test]
    fn any_bytes_are_a_packet_or_an_error(
        datagrams in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 0..50),
        head in any::<bool>(),
    ) {
        let (mut depacketizer, mut port) = (Depacketizer::new(), Port::new());
        for mut datagram in datagrams {
            if head && datagram.len() > 1 {
                (datagram[0], datagram[1]) = (0x80, 33);
            }
            let _ = Packet::read(&datagram);
            let _ = depacketizer.push(&datagram);
            port.push(&datagram);
        }
        depacketizer.flush();
        port.flush();
        drain(&mut depacketizer);
        prop_assert!(depacketizer.waiting_packets() == 0);
    }

    #[test]
    fn any_order_in_window_is_restored(swaps in proptest::collection::vec((1..36usize, 1..3usize), 0..20)) {
        let mut out = datagrams(252, 65_500);
        let expected = transport(252);
        // Each packet moves back by less than the window in total.
        for (at, by) in swaps.into_iter().take(4) {
            let packet = out.remove(at.min(out.len() - 1));
            out.insert((at + by).min(out.len()), packet);
        }
        let mut depacketizer = Depacketizer::new();
        for datagram in &out {
            depacketizer.push(datagram).expect("our own");
        }
        depacketizer.flush();
        prop_assert_eq!(drain(&mut depacketizer), expected);
    }
}
