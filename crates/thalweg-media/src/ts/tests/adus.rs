//! Proves that a subscriber reassembles a publisher's stream from ADUs alone.

use super::*;

#[test]
fn publisher_marks_dependencies() {
    let mut publisher = Publisher::new();
    publisher.push(&write(&units(13)));
    publisher.finish();
    let adus: Vec<_> = core::iter::from_fn(|| publisher.poll_adu()).collect();
    let kind = |payload: &Bytes| unit::decode(payload).expect("our own");
    let is_picture =
        |payload: &Bytes| matches!(kind(payload), Unit::Access(unit) if unit.pid == VIDEO);
    let marks: Vec<_> = adus
        .iter()
        .filter(|adu| is_picture(&adu.1))
        .map(|adu| adu.0)
        .collect();
    let importance: Vec<_> = marks.iter().map(|marks| marks.importance.0).collect();
    let expected = [245, 190, 64, 189, 64, 188, 64, 187, 64, 186, 64, 185, 245];
    assert_eq!(importance, expected);
    let discardable = marks
        .iter()
        .filter(|marks| marks.flags.contains(Flags::DISCARDABLE));
    assert_eq!(discardable.count(), 5);
    for (at, (marks, payload)) in adus.iter().enumerate() {
        match kind(payload) {
            Unit::Access(unit) if unit.pid == VIDEO && unit.random_access => {
                // A receiver begins with the facts before it.
                assert_eq!((marks.depends_on, marks.flags), (0, Flags::NONE));
                assert_eq!(adus[at - 1].0.flags, Flags::KEY);
            }
            Unit::Access(unit) if unit.pid == VIDEO => {
                let base = &adus[at - marks.depends_on as usize];
                assert!(is_picture(&base.1) && base.0.importance >= Importance(185));
                assert!(marks.depends_on > 0);
                assert_eq!(Some(marks.media_time.as_90khz()), unit.pts_90khz);
            }
            Unit::Access(_) => assert_eq!((marks.importance.0, marks.depends_on), (220, 0)),
            _ => assert_eq!(marks.importance, Importance::HIGHEST),
        }
    }
}

#[test]
fn replayed_file_continues_in_time() {
    let bytes = write(&units(10));
    let mut publisher = Publisher::new();
    let mut subscriber = Subscriber::new();
    let mut out = Vec::new();
    for _ in 0..3 {
        publisher.push(&bytes);
        publisher.finish();
        while let Some((_, payload)) = publisher.poll_adu() {
            out.extend_from_slice(&subscriber.handle_payload(&payload).expect("our own"));
        }
        publisher.restart_input();
    }
    check_stream(&out);
    assert_eq!(
        publisher.counts().packets,
        3 * (bytes.len() / PACKET_BYTES) as u64
    );
    let (got, _) = read(&out, 1000);
    let times = |pid| {
        let units = of_pid(&got, pid);
        let times: Vec<_> = units.iter().filter_map(AccessUnit::decode_90khz).collect();
        assert_eq!(times.len(), 30);
        let steps = times.windows(2).map(|pair| pair[1] - pair[0]);
        (steps.clone().min(), steps.max())
    };
    assert_eq!(times(VIDEO), (Some(3600), Some(3700)));
    assert_eq!(times(AUDIO), (Some(3600), Some(3700)));
}

#[test]
fn subscriber_needs_only_payloads() {
    let sent = units(30);
    let mut publisher = Publisher::new();
    let mut subscriber = Subscriber::new();
    let mut out = Vec::new();
    publisher.push(&write(&sent));
    publisher.finish();
    while let Some((_, payload)) = publisher.poll_adu() {
        out.extend_from_slice(&subscriber.handle_payload(&payload).expect("our own"));
    }
    check_stream(&out);
    let (got, _) = read(&out, 1000);
    assert_eq!(of_pid(&got, VIDEO), of_pid(&sent, VIDEO));
    assert_eq!(of_pid(&got, AUDIO), of_pid(&sent, AUDIO));
    assert!(
        subscriber
            .handle_payload(&Bytes::from_static(b"\x02\x00"))
            .is_err()
    );
}
