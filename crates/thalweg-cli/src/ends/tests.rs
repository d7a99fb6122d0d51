//! Proves how inputs and outputs are named, that a full disk leaves whole packets, and how
//! datagrams are parsed.

use super::*;

fn datagrams(text: &str) -> Option<SocketAddr> {
    match text.parse() {
        Ok(End::Datagrams { address, .. }) => Some(address),
        _ => None,
    }
}

#[test]
fn ends_are_files_pipes_and_addresses() {
    assert_eq!("-".parse(), Ok(End::Standard));
    assert_eq!("clip.ts".parse(), Ok(End::File("clip.ts".into())));
    assert_eq!(
        datagrams("udp://127.0.0.1:5004"),
        "127.0.0.1:5004".parse().ok()
    );
    assert_eq!(datagrams("udp://:5004"), "0.0.0.0:5004".parse().ok());
    assert_eq!(datagrams("udp://[::1]:5004"), "[::1]:5004".parse().ok());
    assert_eq!(
        datagrams("udp://@239.0.0.1:5004"),
        "239.0.0.1:5004".parse().ok()
    );
    assert!(matches!(
        "rtp://10.0.0.1:5004".parse(),
        Ok(End::Datagrams { rtp: true, .. })
    ));
}

#[test]
fn bad_ends_are_refused_with_advice() {
    for (text, says) in [
        ("udp://", "no port"),
        ("udp://1.2.3.4", "no port"),
        ("udp://1.2.3.4:70000", "above 65535"),
        ("udp://::1:5004", "in brackets"),
        ("udp:// 1.2.3.4:5004", "blank"),
        ("udp://:0", "port 0"),
        ("udp://no-such.invalid:5004", "cannot be looked up"),
        ("udp://[fe80::1%no-such]:5004", "no interface"),
        (
            "udp://1.2.3.4:5004?ttl=4",
            "option `ttl=4` is not supported",
        ),
        (
            "udp://1.2.3.4:5004?pkt_size=1316&sources=1.2.3.5",
            "option `sources=1.2.3.5` is not supported",
        ),
    ] {
        let error = text.parse::<End>().expect_err(text).to_string();
        assert!(error.contains(says), "{text}: {error}");
    }
    let same = "127.0.0.1:5004".parse().ok();
    assert_eq!(
        datagrams("udp://127.0.0.1:5004?pkt_size=1316&buffer_size=65536"),
        same
    );
    let local = datagrams("udp://localhost:5004").expect("every machine has it");
    assert!(local.ip().is_loopback());
    assert!(datagrams("udp://[fe80::1%lo]:5004").is_some());
    assert!(matches!("srt://a:1".parse::<End>(), Err(BadEnd::Scheme(_))));
    assert_eq!("".parse::<End>(), Err(BadEnd::Empty));
}

#[tokio::test]
async fn full_disk_leaves_whole_packets() {
    let mut sink = Sink::open(&End::File("/dev/full".into()))
        .await
        .expect("the device opens");
    let error = sink.write(&[0x47; 188], 0).await.expect_err("it is full");
    assert!(error.to_string().contains("first 0 packets"), "{error}");
}

#[tokio::test]
async fn written_file_can_be_rewound() {
    let folder = tempfile::tempdir().expect("a directory");
    let end = End::File(folder.path().join("a.ts"));
    let mut sink = Sink::open(&end).await.expect("a new file");
    sink.write(&[0x47; 188], 0).await.expect("room");
    sink.finish().expect("room");
    let mut source = Source::open(&end).await.expect("the file");
    for _ in 0..2 {
        let read = source.read().await.expect("readable").expect("bytes");
        assert_eq!(read.len(), 188);
        assert!(source.read().await.expect("readable").is_none());
        assert!(source.rewind().await.expect("a file"));
    }
}

#[tokio::test]
async fn rtp_and_plain_give_equal_packets() {
    let free = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("bound");
    drop(free);
    let end = |rtp| End::Datagrams { address, rtp };
    let mut source = Source::open(&end(false)).await.expect("the port is free");
    assert!(source.is_live());
    let mut packets = vec![0xff; 188];
    packets[0] = 0x47;
    for rtp in [false, true] {
        let mut sink = Sink::open(&end(rtp)).await.expect("loopback");
        sink.write(&packets, 9000).await.expect("loopback");
        let read = source.read().await.expect("readable");
        assert_eq!(read.as_deref(), Some(&packets[..]), "rtp: {rtp}");
    }
    let port = source.seen().port.expect("it is a port");
    assert_eq!((port.datagrams, port.foreign, port.unknown), (2, 0, 0));
}
