//! Proves that the options of PES headers are kept unchanged.

use super::*;

#[test]
fn options_of_a_header_are_kept() {
    // Teletext: two flag bytes, a time, and stuffing up to 36 bytes of options; the data fills
    // three packets.
    let stuffing = [&[0, 0][..], &[0xff; 31]].concat();
    for options in [
        stuffing,
        [&[0x0b, 0x01][..], &[0x1e; 245]].concat(),
        vec![0x10, 0],
    ] {
        let text = AccessUnit {
            pid: 0x102,
            stream_type: 0x06,
            stream_id: 0xbd,
            pts_90khz: Some(90_000),
            dts_90khz: None,
            random_access: false,
            aligned: true,
            damaged: false,
            options: options.into(),
            data: vec![0x10; 3 * 184 - 45].into(),
        };
        let mut facts = programme();
        facts.streams[2].stream_type = 0x06;
        let sent = [Unit::Programme(facts), Unit::Access(text.clone())];
        let bytes = write(&sent);
        let (got, counts) = read(&bytes, 188);
        assert_eq!(of_pid(&got, 0x102), std::slice::from_ref(&text));
        assert_eq!(counts.bad_units, 0);
        let framed = unit::encode(&sent[1]);
        assert_eq!(unit::decode(&framed), Ok(sent[1].clone()));
        // Only the last packet may be stuffed.
        let stuffed = bytes
            .chunks(PACKET_BYTES)
            .filter(|raw| raw[2] == 2 && raw[3] & 0x20 != 0);
        assert_eq!(stuffed.count(), usize::from(text.options.len() != 33));
    }
}

#[test]
fn invalid_options_are_refused() {
    let mut unit = sound(0);
    unit.options = vec![0, 0, 1].into();
    let good = unit::encode(&Unit::Access(unit));
    // Version, kind, pid, type, id and flags are 7 bytes, the time 8, the length 2.
    for (at, value) in [(17, 0x80), (18, 0xc0)] {
        let mut bad = good.to_vec();
        bad[at] = value;
        let refused = unit::decode(&bad.into());
        assert_eq!(refused, Err(UnitError::Field { field: "option" }));
    }
}
