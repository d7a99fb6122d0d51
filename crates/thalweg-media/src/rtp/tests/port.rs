//! Proves that the kinds of datagrams are told apart, and that pieces of a stream are passed on
//! whatever bytes they begin with.

use super::*;

fn port_of<'a>(datagrams: impl IntoIterator<Item = &'a [u8]>) -> (Vec<u8>, PortCounts) {
    let mut port = Port::new();
    let mut out = Vec::new();
    for datagram in datagrams {
        port.push(datagram);
        out.extend(core::iter::from_fn(|| port.poll_bytes()).flatten());
    }
    port.flush();
    out.extend(core::iter::from_fn(|| port.poll_bytes()).flatten());
    (out, port.counts())
}

/// Packets filled, after their first four bytes, with repeated heads of an RTP packet.
fn confusing(packets: u8) -> Vec<u8> {
    let mut bytes = transport(packets);
    for packet in bytes.chunks_mut(PACKET_BYTES) {
        for (at, byte) in packet[4..].iter_mut().enumerate() {
            *byte = [0x80, 33, 0, 9, 0, 0, 0, 1, 0, 0, 0, 2][at % 12];
        }
    }
    bytes
}

/// Returns `count` RTP packets of another payload (video).
fn video(count: u16, kind: u8) -> Vec<Vec<u8>> {
    let packet = |sequence| {
        let header = Header {
            marker: false,
            payload_type: kind,
            sequence,
            timestamp: 0,
            ssrc: 77,
        };
        let mut out = Vec::new();
        header.write(&mut out);
        out.extend_from_slice(&[0x65; 1200]);
        out
    };
    (0..count).map(packet).collect()
}

#[test]
fn pieces_of_any_size_are_joined() {
    for stream in [transport(80), confusing(80)] {
        for size in [1, 100, 187, 188, 1000, 1316, 1472] {
            let (out, counts) = port_of(stream.chunks(size));
            assert_eq!(out, stream, "pieces of {size}");
            assert_eq!((counts.foreign, counts.unknown), (0, 0));
        }
    }
}

#[test]
fn mid_packet_start_is_accepted() {
    let stream = confusing(80);
    for from in 4..100 {
        let (out, counts) = port_of(stream[from..].chunks(1472));
        // Before anything is certain, the first piece may be mistaken for RTP.
        assert!(out.len() + 2 * 1472 >= stream.len() - from, "from {from}");
        assert_eq!(counts.bytes, (stream.len() - from) as u64);
    }
}

#[test]
fn foreign_rtp_is_counted() {
    let sent = video(30, 96);
    let (out, counts) = port_of(sent.iter().map(Vec::as_slice));
    assert!(out.is_empty());
    assert_eq!((counts.foreign, counts.foreign_type), (30, Some(96)));
}

#[test]
fn sender_may_change_its_carriage() {
    let plain = transport(14);
    let rtp = datagrams(14, 9);
    let video = video(10, 96);
    let sent = [&plain[..]]
        .into_iter()
        .chain(rtp.iter().map(Vec::as_slice))
        .chain([&plain[..]])
        .chain(video.iter().map(Vec::as_slice));
    let (out, counts) = port_of(sent);
    // The first packet of the video may be a piece of the plain stream; the others follow it.
    assert_eq!(out.len(), 3 * 14 * PACKET_BYTES + video[0].len());
    assert_eq!((counts.rtp.packets, counts.foreign), (2, 9));
}

#[test]
fn rtcp_is_skipped() {
    let rtp = datagrams(14, 9);
    let report = [&[0x80, 200, 0, 6][..], &[7; 24]].concat();
    let noise = [9; 40];
    let (out, counts) = port_of([&rtp[0][..], &report, &noise, &rtp[1]]);
    assert_eq!(out, transport(14));
    assert_eq!((counts.control, counts.unknown), (1, 1));
}
