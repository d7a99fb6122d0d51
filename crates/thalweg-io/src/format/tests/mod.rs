//! Proves that what a joiner writes is cut into the same messages, in pieces of any size, and that what
//! cannot be used is named with its place.

mod fields;

use proptest::prelude::*;

use super::*;

/// Cuts an input that comes in pieces of this size.
fn cut(format: Format, input: &[u8], piece: usize) -> (Vec<Bytes>, Vec<Fault>) {
    let mut cutter = format.cutter();
    let (mut messages, mut faults) = (Vec::new(), Vec::new());
    let mut drain = |cutter: &mut Box<dyn Cutter>| {
        while let Some(cut) = cutter.poll_cut() {
            match cut {
                Ok((_, message)) => messages.push(message),
                Err(fault) => faults.push(fault),
            }
        }
    };
    for piece in input.chunks(piece) {
        cutter.handle_bytes(&Bytes::copy_from_slice(piece));
        drain(&mut cutter);
    }
    cutter.handle_end();
    drain(&mut cutter);
    (messages, faults)
}

fn join(format: Format, messages: &[Bytes]) -> Vec<u8> {
    let mut joiner = format.joiner();
    let parts = messages
        .iter()
        .map(|message| joiner.join(message).expect("it can be written"));
    parts.collect::<Vec<_>>().concat()
}

fn bytes(parts: &[&str]) -> Vec<Bytes> {
    parts
        .iter()
        .map(|part| Bytes::copy_from_slice(part.as_bytes()))
        .collect()
}

fn fixed(size: usize) -> Format {
    Format::Fixed(NonZeroUsize::new(size).expect("it is above 0"))
}

proptest! {
    #[test]
    fn lines_come_back_whole(lines in prop::collection::vec("[^\n\0]{0,40}", 0..20), piece in 1_usize..64) {
        let lines: Vec<Bytes> = lines.into_iter().map(Bytes::from).collect();
        prop_assert_eq!(cut(Format::Lines, &join(Format::Lines, &lines), piece), (lines, vec![]));
    }

    #[test]
    fn lengths_come_back_whole(
        messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..20),
        piece in 1_usize..64,
    ) {
        let messages: Vec<Bytes> = messages.into_iter().map(Bytes::from).collect();
        let joined = join(Format::Length, &messages);
        prop_assert_eq!(cut(Format::Length, &joined, piece), (messages, vec![]));
    }

    #[test]
    fn fixed_records_come_back_whole(
        size in 1_usize..50,
        bytes in prop::collection::vec(any::<u8>(), 0..500),
        piece in 1_usize..64,
    ) {
        let (messages, faults) = cut(fixed(size), &bytes, piece);
        let whole = bytes.len() / size * size;
        prop_assert_eq!(join(fixed(size), &messages), &bytes[..whole]);
        prop_assert_eq!(faults.len(), usize::from(whole < bytes.len()));
    }

    #[test]
    fn sentences_come_back_whole(
        bodies in prop::collection::vec("[A-Z0-9,.]{1,60}", 0..20),
        piece in 1_usize..64,
    ) {
        let sentence = |body: &String| {
            let sum = body.bytes().fold(0, |sum, byte| sum ^ byte);
            Bytes::from(format!("${body}*{sum:02X}"))
        };
        let sentences: Vec<Bytes> = bodies.iter().map(sentence).collect();
        let joined = join(Format::Nmea, &sentences);
        prop_assert_eq!(cut(Format::Nmea, &joined, piece), (sentences, vec![]));
    }

    #[test]
    fn any_bytes_end_in_messages_and_faults(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        piece in 1_usize..64,
    ) {
        for format in [Format::Ts, Format::Lines, Format::Length, Format::Packets, fixed(7), Format::Nmea] {
            let (messages, _) = cut(format, &bytes, piece);
            prop_assert!(messages.iter().map(Bytes::len).sum::<usize>() <= bytes.len().max(1) * 64);
        }
    }
}

#[test]
fn last_line_is_sent_and_told() {
    let (messages, faults) = cut(Format::Lines, b"a\r\n\nb", 2);
    assert_eq!(messages, bytes(&["a\r", "", "b"]));
    let said = faults[0].to_string();
    assert!(said.contains("line at byte 4, after 1 bytes"), "{said}");
    assert_eq!(faults.len(), 1);
}

#[test]
fn binary_line_is_named_and_left_out() {
    let (messages, faults) = cut(Format::Lines, b"good\nba\xffd\nze\0ro\nlast\n", 5);
    assert_eq!(messages, bytes(&["good", "last"]));
    let said: Vec<String> = faults.iter().map(ToString::to_string).collect();
    assert!(
        said[0].contains("byte 5 is binary (0xff at byte 7)"),
        "{said:?}"
    );
    assert!(
        said[1].contains("byte 10 is binary (0x00 at byte 12)"),
        "{said:?}"
    );
}

#[test]
fn line_above_the_bound_is_skipped() {
    for length in [
        ADU_PAYLOAD_BYTES_MAX,
        ADU_PAYLOAD_BYTES_MAX + 1,
        2 * ADU_PAYLOAD_BYTES_MAX,
    ] {
        let mut input = b"before\n".to_vec();
        input.resize(input.len() + length, b'x');
        input.extend_from_slice(b"\nafter\n");
        let (messages, faults) = cut(Format::Lines, &input, 1 << 20);
        let fits = length == ADU_PAYLOAD_BYTES_MAX;
        assert_eq!(messages.len(), 2 + usize::from(fits), "{length}");
        assert_eq!(messages.last(), Some(&Bytes::from_static(b"after")));
        let said: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), usize::from(!fits), "{said:?}");
        assert!(
            fits || said[0].contains("line at byte 7 is longer"),
            "{said:?}"
        );
    }
}

#[test]
fn length_above_the_bound_is_final() {
    let mut input = join(Format::Length, &bytes(&["one"]));
    input.extend_from_slice(b"HTTP/1.1 200 OK");
    let (messages, faults) = cut(Format::Length, &input, 3);
    assert_eq!(messages, bytes(&["one"]));
    let [fault] = &faults[..] else {
        panic!("{faults:?}")
    };
    assert!(
        fault.is_final() && fault.to_string().contains("length at byte 7"),
        "{fault}"
    );
    let (_, faults) = cut(Format::Length, &[0, 0, 0, 9, 1], 9);
    assert!(
        faults[0].to_string().contains("at byte 0, after 5 bytes"),
        "{faults:?}"
    );
}

#[test]
fn disturbed_sentences_are_left_out() {
    let input = b"\x80\x81$GPGLL,1*00\r\n$GPGLL,cut$GPRMC,2*55\r\n$NOSUM,1\r\n!AIVDM,1*4A\n$HALF";
    let (messages, faults) = cut(Format::Nmea, input, 4);
    assert_eq!(
        messages,
        bytes(&["$GPRMC,2*55", "$NOSUM,1", "!AIVDM,1*4A"]).as_slice()
    );
    let kinds: Vec<&str> = faults.iter().map(Fault::kind).collect();
    assert!(
        kinds.contains(&"bad_checksum") && kinds.contains(&"noise"),
        "{kinds:?}"
    );
    assert_eq!(kinds.last(), Some(&"half"), "{kinds:?}");
}

#[test]
fn packets_are_messages_as_they_come() {
    let (messages, faults) = cut(Format::Packets, b"abcdefgh", 3);
    assert_eq!((messages, faults), (bytes(&["abc", "def", "gh"]), vec![]));
}

#[test]
fn joiners_refuse_what_would_be_read_otherwise() {
    let two = Bytes::from_static(b"a\nb");
    assert_eq!(Format::Lines.joiner().join(&two), Err(Fault::Newline));
    assert_eq!(Format::Nmea.joiner().join(&two), Err(Fault::Newline));
    let size = fixed(4).joiner().join(&two);
    assert_eq!(size, Err(Fault::Size { bytes: 3, size: 4 }));
    assert!(matches!(
        Format::Ts.joiner().join(&two),
        Err(Fault::Unit(_))
    ));
}

#[test]
fn formats_are_words_and_sizes() {
    for word in ["ts", "lines", "length", "packets", "fixed:12", "nmea"] {
        assert_eq!(
            word.parse::<Format>().map(|format| format.to_string()),
            Ok(word.into())
        );
    }
    assert!(matches!(
        "fixed:0".parse::<Format>(),
        Err(BadFormat::Size(_))
    ));
    assert!(matches!(
        "fixed:9000000".parse::<Format>(),
        Err(BadFormat::Size(_))
    ));
    assert!(matches!(
        "mpeg".parse::<Format>(),
        Err(BadFormat::Unknown(_))
    ));
}

#[test]
fn json_is_told_from_text() {
    assert!(is_json(b" {\"a\": [1, 2.5e3, null]}\r") && is_json(b"[]"));
    for text in ["", "12", "{", "{a: 1}", "[1] 2", "{\"a\": 1"] {
        assert!(!is_json(text.as_bytes()), "{text}");
    }
}

#[test]
fn faults_are_told_once_a_kind() {
    let mut faults = Faults::default();
    let (_, cuts) = cut(Format::Lines, b"\0\n\xff\nhalf", 3);
    let told: Vec<_> = cuts
        .iter()
        .filter_map(|fault| faults.handle(fault))
        .collect();
    assert_eq!(told.len(), 2);
    assert_eq!(
        faults.counts().collect::<Vec<_>>(),
        [("binary", 2), ("half", 1)]
    );
}
