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
    sink.finish().await.expect("room");
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

async fn read_all(source: &mut Source) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(bytes) = source.read().await.expect("readable") {
        all.extend_from_slice(&bytes);
    }
    all
}

#[test]
fn new_ends_are_parsed_and_shown_alike() {
    for text in [
        "tcp://127.0.0.1:5004",
        "tcp://127.0.0.1:5004?listen",
        "unix:///run/a.sock",
        "unix:///run/a.sock?listen",
        "serial:///dev/ttyS0?baud=4800",
        "exec:cat 'a://b'",
        "test://telemetry?rate=5&bytes=200",
    ] {
        let end: End = text.parse().expect(text);
        assert_eq!(end.to_string(), text);
    }
    for (text, says) in [
        ("tcp://127.0.0.1:1?wait", "`wait` is not supported"),
        ("unix://", "no path"),
        ("serial://?baud=9600", "no device"),
        (
            "serial:///dev/a?baud=fast",
            "`baud=fast` is not a number from 50",
        ),
        ("exec: ", "no command"),
        ("test://telemetry?rate=0", "from 1 to 100000"),
        ("test://nothing", "is not supported"),
    ] {
        let error = text.parse::<End>().expect_err(text).to_string();
        assert!(error.contains(says), "{text}: {error}");
    }
}

#[tokio::test]
async fn connections_carry_bytes_both_ways() {
    let folder = tempfile::tempdir().expect("a directory");
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("bound");
    drop(free);
    let tcp = |listens| End::Tcp { address, listens };
    let path = folder.path().join("a.sock");
    let unix = |listens| End::Unix {
        path: path.clone(),
        listens,
    };
    for (waiting, calling) in [(tcp(true), tcp(false)), (unix(true), unix(false))] {
        let refused = Source::open(&calling).await.err().expect("nobody listens");
        assert!(
            refused.to_string().contains("?listen waits for one"),
            "{refused}"
        );
        let read = tokio::spawn(async move {
            let mut source = Source::open(&waiting).await.expect("one connects");
            read_all(&mut source).await
        });
        let mut sink = loop {
            if let Ok(sink) = Sink::open(&calling).await {
                break sink;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        };
        sink.write_message(b"one\n").await.expect("it reads");
        sink.finish().await.expect("it is open");
        assert_eq!(read.await.expect("no panic"), b"one\n");
    }
    assert!(!path.exists());
}

#[tokio::test]
async fn program_that_fails_is_named_with_its_last_line() {
    let end = |text: &str| text.parse::<End>().expect("an end");
    let mut source = Source::open(&end("exec:printf 'a\\nb'"))
        .await
        .expect("a shell");
    assert_eq!(read_all(&mut source).await, b"a\nb");
    let dies = end("exec:echo first >&2; echo no such camera >&2; exit 3");
    let mut source = Source::open(&dies).await.expect("a shell");
    let said = source.read().await.expect_err("it fails").to_string();
    assert!(
        said.contains("exit status: 3") && said.ends_with("no such camera"),
        "{said}"
    );
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("out");
    let mut sink = Sink::open(&end(&format!("exec:cat > {}", file.display())))
        .await
        .expect("a shell");
    sink.write_message(b"one").await.expect("it reads");
    sink.finish().await.expect("it ends well");
    assert_eq!(std::fs::read(&file).expect("written"), b"one");
    let sink = Sink::open(&end("exec:cat >/dev/null; exit 4"))
        .await
        .expect("a shell");
    let said = sink.finish().await.expect_err("it fails").to_string();
    assert!(said.contains("exit status: 4"), "{said}");
}

#[tokio::test]
async fn serial_line_is_read_and_written_raw() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use std::io::{Read as _, Write as _};
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pty");
    grantpt(&master)
        .and_then(|()| unlockpt(&master))
        .expect("ours");
    let name = ptsname(&master, Vec::new()).expect("it has a name");
    let end: End = format!("serial://{}?baud=4800", name.to_str().expect("text"))
        .parse()
        .expect("an end");
    let mut source = Source::open(&end).await.expect("a line");
    assert!(source.is_live());
    let mut master = std::fs::File::from(master);
    master.write_all(b"$A\r\n\x03\x00").expect("room");
    let read = source.read().await.expect("readable").expect("bytes");
    assert_eq!(&read[..], b"$A\r\n\x03\x00");
    let mut sink = Sink::open(&end).await.expect("a line");
    sink.write_message(b"a\n\x04").await.expect("room");
    let mut back = [0; 3];
    master.read_exact(&mut back).expect("written");
    assert_eq!(&back, b"a\n\x04");
    drop(master);
    let gone = tokio::time::timeout(std::time::Duration::from_millis(300), source.read()).await;
    assert!(gone.is_err(), "a line that is gone is waited for");
    assert!(source.take_notices()[0].contains("is gone"));
}

#[tokio::test]
async fn telemetry_is_json_of_its_size() {
    let end = "test://telemetry?rate=1000&bytes=150&count=3"
        .parse()
        .expect("an end");
    let mut source = Source::open(&end).await.expect("nothing to open");
    let all = read_all(&mut source).await;
    assert_eq!(all.len(), 3 * 151);
    assert!(
        all.split(|byte| *byte == b'\n')
            .take(3)
            .all(crate::format::is_json)
    );
}

#[tokio::test]
async fn raw_datagrams_keep_their_bounds() {
    let free = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("bound");
    drop(free);
    let end = End::Datagrams {
        address,
        rtp: false,
    };
    let mut source = Source::open_pieces(&end).await.expect("the port is free");
    let mut sink = Sink::open(&end).await.expect("loopback");
    for message in [&[7; 12_386][..], b"two"] {
        sink.write_message(message).await.expect("loopback");
        let read = source.read().await.expect("readable");
        assert_eq!(read.as_deref(), Some(message));
    }
}
