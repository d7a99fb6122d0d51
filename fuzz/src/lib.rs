//! The body of each fuzz target: a function over a byte string.
//!
//! The fuzz targets call these functions, and so does the test that replays the corpora. Decoders accept
//! any byte string and return a value or an error. A decoded value is unchanged after it is encoded and
//! decoded again, so a relay that rewrites a message changes nothing.
//!
//! To add a target: a function here, its entry in [`TARGETS`], a file in `fuzz_targets/`, its `[[bin]]`
//! and some files in `corpus/NAME/`. The replay test fails while one of them is missing.

mod engine;
mod numbers;
mod outbox;
mod relay;

use bytes::Bytes;
use thalweg_base::adu::{Flags, Header};
use thalweg_base::id::{NodeId, Sequence, StreamId};
use thalweg_base::time::{Duration, Instant};
use thalweg_base::trace::Trace;
use thalweg_base::units::{Bitrate, DataSize};
use thalweg_base::wire::{admission, adu, control, description, record};
use thalweg_dataplane::keys::{KeyEpoch, KeyRing, StreamKey};
use thalweg_dataplane::module::{Context, Held, Module, Verdict};
use thalweg_dataplane::modules::{Open, Unpack};
use thalweg_dataplane::packet::{Packet, Pool};
use thalweg_io::format;
use thalweg_link::tcp_mux::{CarrierNumber, Decoder, Event, Out, Pacing, Read, Session};
use thalweg_media::{layered, nal, picture, rtp, ts};
use thalweg_transfer::meeting::{Answer, Ask};
use thalweg_transfer::{Have, Manifest, Parcel, Receipt, Receiver, TransferId};
use thalweg_world::Format;

/// A target: its name and its body.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: &[Target] = &[
    ("adu_header", adu_header),
    ("control", control),
    ("control_body", control_body),
    ("record", record),
    ("description", description),
    ("grant", grant),
    ("ticket", ticket),
    ("door", door),
    ("units", units),
    ("world", world),
    ("ts", ts),
    ("ts_unit", ts_unit),
    ("rtp", rtp),
    ("nal", nal),
    ("y4m", y4m),
    ("layered", layered),
    ("unpack", unpack),
    ("open", open),
    ("pace", pace),
    ("transfer", transfer),
    ("outbox", outbox),
    ("relay", relay),
    ("engine", engine),
    ("format", format),
    ("access", access),
];

/// The header of an ADU at the start of a stream or datagram.
pub fn adu_header(bytes: &[u8]) {
    let now = Instant::ZERO;
    let Ok(Some(decoded)) = adu::decode_header(bytes, now) else {
        return;
    };
    assert!(decoded.header_bytes <= bytes.len());
    let mut encoded = Vec::new();
    adu::encode_header(&decoded.header, decoded.payload_bytes, now, &mut encoded);
    let decoded_again = adu::decode_header(&encoded, now)
        .expect("what was encoded decodes")
        .expect("a whole header needs no more bytes");
    assert_eq!(decoded_again.header, decoded.header);
    assert_eq!(decoded_again.payload_bytes, decoded.payload_bytes);
    let trace = adu::decode_trace(bytes, &decoded, now);
    assert_eq!(trace.is_some(), decoded.trace_bytes > 0);
    let Some(trace) = trace.filter(Trace::has_room) else {
        return;
    };
    let mut onward = Vec::new();
    adu::encode_traced(
        &decoded.header,
        &trace,
        decoded.payload_bytes,
        now,
        &mut onward,
    );
    let decoded_again = adu::decode_header(&onward, now)
        .expect("what was encoded decodes")
        .expect("a whole header needs no more bytes");
    let stamped = adu::decode_trace(&onward, &decoded_again, now).expect("it has one more stamp");
    assert_eq!(stamped.stamps()[..trace.stamps().len()], *trace.stamps());
}

/// A control frame between neighbours.
pub fn control(bytes: &[u8]) {
    if let Ok(message) = control::decode(bytes) {
        assert_eq!(control::decode(&control::encode(&message)), Ok(message));
    }
}

/// The body of a signed envelope.
pub fn control_body(bytes: &[u8]) {
    if let Ok(body) = control::decode_body(bytes) {
        assert_eq!(control::decode_body(&control::encode_body(&body)), Ok(body));
    }
}

/// A node record.
pub fn record(bytes: &[u8]) {
    if let Ok(record) = record::decode(bytes) {
        assert_eq!(record::decode(&record::encode(&record)), Ok(record));
    }
}

/// What a stream carries: fields of later versions are skipped, so it is compared as decoded.
pub fn description(bytes: &[u8]) {
    if let Ok(described) = description::decode(bytes) {
        assert_eq!(
            description::decode(&description::encode(&described)),
            Ok(described)
        );
    }
}

/// A credential and a revocation, each with its chain of grants.
pub fn grant(bytes: &[u8]) {
    let mut encoded = Vec::new();
    if let Ok(credential) = admission::decode_credential(bytes) {
        admission::encode_credential(&credential, &mut encoded);
        assert_eq!(admission::decode_credential(&encoded), Ok(credential));
        encoded.clear();
    }
    if let Ok(warrant) = admission::decode_warrant(bytes) {
        admission::encode_warrant(&warrant, &mut encoded);
        assert_eq!(admission::decode_warrant(&encoded), Ok(warrant));
    }
}

/// A ticket with its signature, without the text form. It has one encoding, because it is signed.
pub fn ticket(bytes: &[u8]) {
    if let Ok(ticket) = admission::decode_ticket(bytes) {
        assert_eq!(admission::encode_ticket(&ticket), bytes);
    }
}

/// The messages of the admission protocol: a knock and its answers.
pub fn door(bytes: &[u8]) {
    if let Ok(knock) = admission::decode_knock(bytes) {
        assert_eq!(
            admission::decode_knock(&admission::encode_knock(&knock)),
            Ok(knock)
        );
    }
    if let Ok(answer) = admission::decode_answer(bytes) {
        assert_eq!(
            admission::decode_answer(&admission::encode_answer(&answer)),
            Ok(answer)
        );
    }
}

/// The messages of a file transfer: they round-trip, and a receiver handles any of them.
pub fn transfer(bytes: &[u8]) {
    let payload = Bytes::copy_from_slice(bytes);
    if let Ok(parcel) = Parcel::decode(&payload) {
        assert_eq!(Parcel::decode(&parcel.encode().into()), Ok(parcel));
    }
    if let Ok(receipt) = Receipt::decode(bytes) {
        assert_eq!(Receipt::decode(&receipt.encode()), Ok(receipt));
    }
    if let Ok(ask) = Ask::decode(bytes) {
        assert_eq!(Ask::decode(&ask.encode()), Ok(ask));
    }
    if let Ok(answer) = Answer::decode(bytes) {
        assert_eq!(Answer::decode(&answer.encode()), Ok(answer));
    }
    let node = NodeId([7; 32]);
    let mut receiver = Receiver::new(TransferId([0; 16]), node, StreamId(1));
    if let Ok(manifest) = Manifest::decode(bytes) {
        let mut encoded = Vec::new();
        manifest.encode(&mut encoded);
        assert_eq!(Manifest::decode(&encoded).as_ref(), Ok(&manifest));
        let blocks = manifest.layout().blocks();
        receiver = Receiver::new(manifest.id(), node, StreamId(1));
        assert!(receiver.handle_manifest(manifest));
        receiver.begin(Instant::ZERO, Have::none(blocks));
    }
    let _ = receiver.handle_parcel(Instant::ZERO, 0, &payload);
    let receipt = receiver.poll_receipt(Instant::ZERO + Duration::from_secs(1));
    let receipt = receipt.expect("a receipt is due every second");
    assert_eq!(Receipt::decode(&receipt.encode()), Ok(receipt));
}

/// Any sequence of operations on a link's queue: every ADU is accounted for, and nothing remains.
pub fn outbox(bytes: &[u8]) {
    outbox::run(bytes);
}

/// A node's data path, driven by hostile and reordered events; see [`relay::run`].
pub fn relay(bytes: &[u8]) {
    relay::run(bytes);
}

/// An engine among hostile peers; see [`engine::run`].
pub fn engine(bytes: &[u8]) {
    engine::run(bytes);
}

/// A peer's TCP bytes: frames round-trip, and a session handles any of them.
pub fn pace(bytes: &[u8]) {
    let mut decoder = Decoder::default();
    decoder.handle_bytes(bytes);
    while let Ok(Some((frame, _))) = decoder.poll_frame() {
        let mut encoded = Vec::new();
        frame.encode(&mut encoded);
        let mut decoder = Decoder::default();
        decoder.handle_bytes(&encoded);
        let size = encoded.len() as u64;
        assert_eq!(decoder.poll_frame(), Ok(Some((frame, size))));
    }
    let mut session = Session::new(Pacing::Acked, 1, Instant::ZERO);
    let carriers = [CarrierNumber(0), CarrierNumber(1)];
    for carrier in carriers {
        session.handle_carrier(carrier, Decoder::default(), Instant::ZERO);
    }
    let stream = session.open(0).expect("a peer admits one stream");
    session.write(stream, &mut Bytes::from_static(&[7; 5_000]));
    let mut out = Out::new();
    for (place, piece) in bytes.chunks(50).enumerate() {
        let now = Instant::ZERO + Duration::from_millis(place as u64 * 70);
        if session
            .handle_bytes(carriers[place % 2], piece, now)
            .is_err()
        {
            return;
        }
        session.handle_timeout(now);
        for carrier in carriers {
            out.clear();
            while session.poll_transmit(carrier, now, &mut out) {}
        }
        while let Some(event) = session.poll_event() {
            if let Event::Readable(stream) = event {
                while let Read::Bytes(_) = session.read(stream) {}
            }
        }
    }
}

/// Rates and sizes in text form: `2 Mbit/s`, `64 KiB`.
pub fn units(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(rate) = text.parse::<Bitrate>() {
        assert!(
            rate.to_string().parse::<Bitrate>().is_ok(),
            "`{text}` is shown as `{rate}`, which does not parse"
        );
    }
    if let Ok(size) = text.parse::<DataSize>() {
        assert!(
            size.to_string().parse::<DataSize>().is_ok(),
            "`{text}` is shown as `{size}`, which does not parse"
        );
    }
}

/// A world file, in TOML and in JSON.
pub fn world(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    for format in [Format::Toml, Format::Json] {
        if let Ok(world) = thalweg_world::load_str(text, format, "world") {
            let json = thalweg_world::to_json(&world);
            let decoded_again = thalweg_world::load_str(&json, Format::Json, "world")
                .expect("what was written reads");
            assert_eq!(thalweg_world::to_json(&decoded_again), json);
        }
    }
}

/// A transport stream in pieces of uneven size, to ADUs and back.
pub fn ts(bytes: &[u8]) {
    let (mut publisher, mut subscriber) = (ts::Publisher::new(), ts::Subscriber::new());
    let mut through = |publisher: &mut ts::Publisher| {
        while let Some((_, payload)) = publisher.poll_adu() {
            let packets = subscriber
                .handle_payload(&payload)
                .expect("what was published is a unit");
            assert_eq!(packets.len() % 188, 0);
        }
    };
    for piece in bytes.chunks(301) {
        publisher.push(piece);
        through(&mut publisher);
    }
    publisher.finish();
    through(&mut publisher);
}

/// An input of any format, behind a byte that names it: what is cut is written back and cut again alike.
pub fn format(bytes: &[u8]) {
    let words = ["ts", "lines", "length", "packets", "fixed:5", "nmea"];
    let Some((&first, input)) = bytes.split_first() else {
        return;
    };
    let format: format::Format = words[usize::from(first) % words.len()]
        .parse()
        .expect("it is a format");
    let pieces = input.chunks(1 + usize::from(first) / 4);
    let messages = cut(format, pieces.map(Bytes::copy_from_slice));
    let mut joiner = format.joiner();
    let written = messages.iter().map(|message| {
        let written = joiner.join(message);
        written.expect("what was cut can be written")
    });
    let written: Vec<Bytes> = written.collect();
    if format != format::Format::Ts {
        assert_eq!(cut(format, written.into_iter()), messages);
    }
}

/// RTP packets of H.264, H.265 or Opus: what is assembled comes back from packets of our own.
pub fn access(bytes: &[u8]) {
    let Some((&first, input)) = bytes.split_first() else {
        return;
    };
    let carried = [rtp::Carried::H264, rtp::Carried::H265, rtp::Carried::Opus];
    let carried = carried[usize::from(first) % carried.len()];
    let mut assembler = rtp::Assembler::new(carried);
    for packet in input.chunks(1 + usize::from(first)) {
        assembler.push(&Bytes::copy_from_slice(packet));
    }
    assembler.flush();
    let mut splitter = rtp::Splitter::new(carried, 1, 1);
    while let Some((marks, unit)) = assembler.poll_unit() {
        assert!(!unit.is_empty());
        let mut again = rtp::Assembler::new(carried);
        for packet in splitter.split(&unit, marks.media_time) {
            assert!(carried == rtp::Carried::Opus || packet.len() <= 1_212);
            again.push(&Bytes::from(packet));
        }
        again.flush();
        assert_eq!(again.counts().foreign, 0);
    }
}

fn cut(format: format::Format, pieces: impl Iterator<Item = Bytes>) -> Vec<Bytes> {
    let mut cutter = format.cutter();
    let mut messages = Vec::new();
    let mut drain = |cutter: &mut Box<dyn format::Cutter>| {
        while let Some(cut) = cutter.poll_cut() {
            messages.extend(cut.map(|(_, message)| message));
        }
    };
    for piece in pieces {
        cutter.handle_bytes(&piece);
        drain(&mut cutter);
    }
    cutter.handle_end();
    drain(&mut cutter);
    messages
}

/// The payload of an ADU that carries a piece of a transport stream.
pub fn ts_unit(bytes: &[u8]) {
    let mut subscriber = ts::Subscriber::new();
    if let Ok(packets) = subscriber.handle_payload(&Bytes::copy_from_slice(bytes)) {
        assert_eq!(packets.len() % 188, 0);
    }
}

/// RTP datagrams, each after a byte that gives its length.
pub fn rtp(bytes: &[u8]) {
    let (mut depacketizer, mut port) = (rtp::Depacketizer::new(), rtp::Port::new());
    let mut rest = bytes;
    while let Some((&length, tail)) = rest.split_first() {
        let (datagram, tail) = tail.split_at(usize::from(length).min(tail.len()));
        port.push(datagram);
        while port.poll_bytes().is_some() {}
        // A bad datagram is an error; the next may be valid.
        let _ = depacketizer.push(datagram);
        while depacketizer.poll_payload().is_some() {}
        rest = tail;
    }
    depacketizer.flush();
    while depacketizer.poll_payload().is_some() {}
}

/// An access unit of any codec.
pub fn nal(bytes: &[u8]) {
    for codec in nal::Codec::ALL {
        nal::classify(codec, bytes);
    }
}

/// A Y4M file.
pub fn y4m(bytes: &[u8]) {
    let mut reader = picture::y4m::Reader::new();
    for piece in bytes.chunks(301) {
        reader.push(piece);
        while let Ok(Some(_)) = reader.poll_picture() {}
    }
}

/// The base layer of a picture.
pub fn layered(bytes: &[u8]) {
    // Larger pictures take longer to decode and cover no other code.
    if matches!(layered::peek_size(bytes), Ok((width, height)) if width * height <= 1 << 14) {
        // Damaged packets give an error or a wrong picture; both are allowed.
        let _ = layered::decode(&[bytes]);
    }
}

/// A packed payload.
pub fn unpack(bytes: &[u8]) {
    pass(&mut Unpack::new(), Flags::PACKED, bytes);
}

/// A sealed payload. The key is known; no payload that was not sealed with it may open.
pub fn open(bytes: &[u8]) {
    let ring = KeyRing::with_key(KeyEpoch(1), StreamKey::new([1; 32]));
    let verdict = pass(&mut Open::new(StreamId(7), ring), Flags::SEALED, bytes);
    assert_ne!(verdict, Verdict::Pass, "a forgery opened");
}

fn pass(module: &mut dyn Module, flags: Flags, bytes: &[u8]) -> Verdict {
    let mut header = Header::new(StreamId(7), Sequence(1));
    header.flags = flags;
    let mut packet = Packet::shared(header, Bytes::copy_from_slice(bytes));
    let (pool, mut held) = (Pool::default(), Held::default());
    let mut context = Context {
        now: Instant::ZERO,
        pool: &pool,
        held: &mut held,
    };
    module.forward(&mut packet, &mut context)
}
