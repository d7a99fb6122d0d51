//! Proves that the scanner agrees with a naive search, that NAL headers are classified as in their
//! standards, and that the importance table is ordered as documented.

use proptest::prelude::*;

use super::*;

/// An access unit of NAL units with three- and four-byte start codes in turn.
fn annex_b(units: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for (index, unit) in units.iter().enumerate() {
        out.extend_from_slice(if index % 2 == 0 {
            &[0, 0, 0, 1][..]
        } else {
            &[0, 0, 1]
        });
        out.extend_from_slice(unit);
    }
    out
}

fn role_of(codec: Codec, units: &[&[u8]]) -> Option<(Role, u8)> {
    classify(codec, &annex_b(units)).map(|picture| (picture.role, picture.temporal))
}

#[test]
fn start_codes_delimit_units() {
    let data = [
        9, 9, 0, 0, 1, 5, 6, 0, 0, 0, 1, 7, 0, 0, 1, 0, 0, 1, 8, 0, 2, 0, 0,
    ];
    let units: Vec<_> = nal_units(&data).collect();
    assert_eq!(units, [&[5, 6][..], &[7], &[8, 0, 2]]);
    assert_eq!(nal_units(&[]).count() + nal_units(&[1, 2, 3]).count(), 0);
    assert_eq!(nal_units(&[0, 0, 1]).count(), 0);
}

#[test]
fn h264_access_units_have_their_roles() {
    let is = |units: &[&[u8]]| role_of(Codec::H264, units);
    let (aud, sps, pps, sei) = ([0x09, 0xf0], [0x67, 1], [0x68, 1], [0x06, 5]);
    assert_eq!(
        is(&[&aud, &sps, &pps, &sei, &[0x65, 1]]),
        Some((Role::Key, 0))
    );
    assert_eq!(is(&[&aud, &[0x41, 1]]), Some((Role::Reference, 0)));
    assert_eq!(
        is(&[&aud, &[0x61, 1], &[0x61, 2]]),
        Some((Role::Reference, 0))
    );
    assert_eq!(is(&[&aud, &[0x01, 1]]), Some((Role::NonReference, 0)));
    assert_eq!(is(&[&sps, &pps]), Some((Role::Parameter, 0)));
    assert_eq!(is(&[&aud, &sei]), None);
}

#[test]
fn h265_access_units_have_their_roles() {
    let is = |units: &[&[u8]]| role_of(Codec::H265, units);
    let nal = |kind: u8, temporal: u8| [kind << 1, temporal + 1, 7];
    let (vps, sps, pps) = (nal(32, 0), nal(33, 0), nal(34, 0));
    for kind in [16, 19, 20, 21] {
        assert_eq!(is(&[&vps, &sps, &pps, &nal(kind, 0)]), Some((Role::Key, 0)));
    }
    assert_eq!(is(&[&nal(35, 0), &nal(1, 0)]), Some((Role::Reference, 0)));
    assert_eq!(is(&[&nal(0, 2)]), Some((Role::NonReference, 2)));
    assert_eq!(is(&[&nal(8, 1)]), Some((Role::NonReference, 1)));
    assert_eq!(is(&[&nal(9, 1)]), Some((Role::Reference, 1)));
    assert_eq!(is(&[&vps]), Some((Role::Parameter, 0)));
    assert_eq!(is(&[&nal(39, 0), &[0x02]]), None);
}

#[test]
fn recovery_points_are_key_pictures() {
    let slice = [0x41, 9];
    let is = |sei: &[u8]| role_of(Codec::H264, &[sei, &slice]).map(|(role, _)| role);
    assert_eq!(is(&[6, 6, 1, 0x84, 0x80]), Some(Role::Key));
    // After another message with an escaped length: 255 and 2, with zeros that need a 3 in between.
    let mut long = vec![6, 5, 255, 2];
    long.extend([0, 0, 3].repeat(128));
    long.extend([7, 6, 1, 0x84, 0x80]);
    assert_eq!(is(&long), Some(Role::Key));
    // Other messages, and a truncated one.
    assert_eq!(is(&[6, 1, 1, 6, 0x80]), Some(Role::Reference));
    assert_eq!(is(&[6, 5, 9, 6, 1]), Some(Role::Reference));
    assert_eq!(is(&[6, 255]), Some(Role::Reference));
    let h265 = |unit: &[u8]| role_of(Codec::H265, &[unit, &[2, 1, 7]]).map(|(role, _)| role);
    assert_eq!(h265(&[39 << 1, 1, 6, 1, 0x84, 0x80]), Some(Role::Key));
    assert_eq!(h265(&[39 << 1, 1, 1, 1, 0x84, 0x80]), Some(Role::Reference));
}

#[test]
fn older_codecs_have_their_roles() {
    let is = |codec, unit: &[u8]| role_of(codec, &[unit]).map(|(role, _)| role);
    let picture = |kind: u8| [0, 0, kind << 3, 7];
    let roles = [1, 2, 3].map(|kind| is(Codec::Mpeg2, &picture(kind)));
    assert_eq!(
        roles,
        [Role::Key, Role::Reference, Role::NonReference].map(Some)
    );
    assert_eq!(is(Codec::Mpeg2, &[0xb3, 1]), Some(Role::Key));
    assert_eq!(is(Codec::Mpeg2, &[0x01, 1]), None);
    assert_eq!(is(Codec::Mpeg4, &[0xb6, 0x10]), Some(Role::Key));
    assert_eq!(is(Codec::Mpeg4, &[0xb6, 0x90]), Some(Role::NonReference));
    assert_eq!(is(Codec::Vc1, &[0x0e, 1]), Some(Role::Key));
    assert_eq!(is(Codec::Avs, &[0xb6, 1]), Some(Role::Reference));
    assert_eq!(is(Codec::H266, &[0, 8 << 3 | 1]), Some(Role::Key));
    assert_eq!(is(Codec::H266, &[0, 2]), Some(Role::Reference));
}

#[test]
fn importance_table_is_ordered() {
    let order = [
        Role::Programme.importance(0, 0),
        Role::Parameter.importance(0, 0),
        Role::Key.importance(0, 0),
        Role::Audio.importance(0, 0),
        Role::Opaque.importance(0, 0),
        Role::Reference.importance(0, 0),
        Role::Reference.importance(0, 5),
        Role::Reference.importance(0, u32::MAX),
        Role::Reference.importance(7, u32::MAX),
        Role::NonReference.importance(0, 0),
        Role::NonReference.importance(1, 0),
        Role::NonReference.importance(255, 0),
    ];
    assert!(order.is_sorted_by(|a, b| a > b), "{order:?}");
}

proptest! {
    #[test]
    fn scanner_agrees_with_naive_search(
        data in proptest::collection::vec(prop_oneof![4 => 0..2u8, 1 => any::<u8>()], 0..200),
    ) {
        let mut naive = Vec::new();
        let mut start = None;
        let mut at = 0;
        while at < data.len() {
            if data[at..].starts_with(&[0, 0, 1]) {
                naive.extend(start.map(|start: usize| &data[start..at]));
                at += 3;
                start = Some(at);
            } else {
                at += 1;
            }
        }
        naive.extend(start.map(|start| &data[start..]));
        let trim = |unit: &[u8]| unit.iter().rposition(|&b| b != 0).map(|at| unit[..=at].to_vec());
        let naive: Vec<_> = naive.into_iter().filter_map(trim).collect();
        let found: Vec<_> = nal_units(&data).map(<[u8]>::to_vec).collect();
        prop_assert_eq!(found, naive);
        let _ = Codec::ALL.map(|codec| classify(codec, &data));
    }
}
