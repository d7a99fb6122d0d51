//! Strategies for any body of an envelope.

use super::*;

prop_compose! {
    fn prepares()(
        (name, stream, epoch) in (names(), any::<u64>(), any::<u32>()),
        (previous, next) in (nodes(), option::of(nodes())),
        adapters in vec("[a-z]{1,8}(:[a-z0-9]{1,8})?", 0..5),
        reliability in prop_oneof![Just(Reliability::None), Just(Reliability::UntilDeadline), Just(Reliability::Full)],
        order in prop_oneof![Just(Order::Importance), Just(Order::Sequence)],
        (plaintext, weight, base) in (any::<bool>(), any::<core::num::NonZeroU8>(), option::of(1..=u32::MAX)),
        envelope in option::of(vec(any::<u8>(), 1..256)),
    ) -> Prepare {
        let (stream, epoch, base) = (StreamId(stream), Epoch(epoch), base.map(Epoch));
        Prepare { name, stream, epoch, previous, next, adapters, reliability, order, weight, plaintext, base, envelope }
    }
}

pub(super) fn any_body() -> impl Strategy<Value = Body> {
    let ids = (any::<u64>(), any::<u32>()).prop_map(|(s, e)| (StreamId(s), Epoch(e)));
    prop_oneof![
        (ids.clone(), any::<bool>())
            .prop_map(|((stream, _), has_waited)| Body::Subscribe { stream, has_waited }),
        ids.clone()
            .prop_map(|(stream, _)| Body::Unsubscribe { stream }),
        prepares().prop_map(Body::Prepare),
        ids.clone()
            .prop_map(|(stream, epoch)| Body::Ready { stream, epoch }),
        (ids.clone(), "\\PC{0,40}").prop_map(|((stream, epoch), reason)| Body::Refuse {
            stream,
            epoch,
            reason
        }),
        ids.clone()
            .prop_map(|(stream, epoch)| Body::Release { stream, epoch }),
        (ids.clone(), feeds()).prop_map(|(id, feed)| cast(id, feed)),
        ids.clone()
            .prop_map(|(stream, epoch)| Body::Casting { stream, epoch }),
        ids.prop_map(|(stream, _)| Body::Leave { stream }),
        prop_oneof![renewal_bodies(), trace_bodies(), given_up_bodies()],
    ]
}

fn cast((stream, epoch): (StreamId, Epoch), feed: Feed) -> Body {
    Body::Cast {
        stream,
        epoch,
        feed,
    }
}

fn given_up_bodies() -> impl Strategy<Value = Body> {
    (any::<u64>(), 0..1_u64 << 62).prop_map(|(stream, below)| Body::GivenUp {
        stream: StreamId(stream),
        below: Sequence(below),
    })
}

/// Bodies about renewals.
fn renewal_bodies() -> impl Strategy<Value = Body> {
    let epochs = vec(any::<u32>().prop_map(Epoch), 0..=RENEWALS_MAX);
    (any::<u64>(), epochs, any::<bool>()).prop_map(|(stream, epochs, lacks)| {
        let stream = StreamId(stream);
        if lacks {
            Body::Lacking { stream, epochs }
        } else {
            Body::Renew { stream, epochs }
        }
    })
}

/// Bodies about traces.
fn trace_bodies() -> impl Strategy<Value = Body> {
    let ids =
        (any::<u64>(), any::<u32>()).prop_map(|(stream, epoch)| (StreamId(stream), Epoch(epoch)));
    prop_oneof![
        (ids.clone(), 0..3_600_000u64).prop_map(|((stream, _), every)| Body::Trace {
            stream,
            every: Duration::from_millis(every),
        }),
        (ids.clone(), 0..512u32, "\\PC{0,40}").prop_map(|((stream, _), sinks, reason)| {
            Body::Tracing {
                stream,
                sinks,
                reason,
            }
        }),
        (
            ids.clone(),
            any::<bool>(),
            vec((stamps(), any::<[u8; 32]>()), 1..=PATH_NODES_MAX)
        )
            .prop_map(|((stream, epoch), has_path, ways)| {
                let path = ways.iter().map(|(_, node)| NodeId(*node));
                Body::Traced(Traced {
                    stream,
                    epoch,
                    sequence: Sequence(77),
                    budget: if has_path {
                        Duration::from_millis(9)
                    } else {
                        Duration::NEVER
                    },
                    path: if has_path { path.collect() } else { Vec::new() },
                    stamps: ways.iter().map(|(stamp, _)| *stamp).collect(),
                })
            }),
    ]
}

fn feeds() -> impl Strategy<Value = Feed> {
    prop_oneof![
        Just(Feed::Off),
        Just(Feed::Live),
        Just(Feed::Replay),
        (0..=VARINT_MAX).prop_map(|sequence| Feed::Until(Sequence(sequence))),
    ]
}
