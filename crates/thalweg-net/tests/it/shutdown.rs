//! Proves that a node that shuts down accounts for all ADUs: they are acknowledged, or reported as
//! lost.

use thalweg_base::id::Epoch;
use thalweg_base::time::Duration;
use thalweg_base::units::Bitrate;
use thalweg_net::{Carriage, CloseCode, ControlError, DownCause, LinkEvent, OrderedId, Outcome};

use crate::node::{Over, Seen, bounded, by, header, pair_over, pair_through, pattern};

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_delivers_sent_adus() {
    let (a, b, link, _shaper) = pair_through(Bitrate::from_kbps(4_000)).await;
    let lane = Carriage::Ordered(OrderedId {
        stream: header(0).stream,
        epoch: Epoch(1),
    });
    for sequence in 0..20 {
        link.send_adu(header(sequence), pattern(10_000), by(Carriage::Stream))
            .detach(0);
        let ordered = link.send_adu(header(100 + sequence), pattern(1_000), by(lane));
        assert_eq!(bounded(ordered).await, Outcome::Departed);
    }
    bounded(link.send_control(pattern(50_000)))
        .await
        .expect("up");
    bounded(a.endpoint.shutdown(Duration::from_secs(30))).await;
    let (mut adus, mut frames) = (0, 0);
    let cause = b
        .next(|seen| match seen {
            Seen::Adu(_, payload) => {
                adus += usize::from(payload.is_ok());
                None
            }
            Seen::Control(..) => {
                frames += 1;
                None
            }
            Seen::Link(LinkEvent::Down { cause, .. }) => Some(cause),
            _ => None,
        })
        .await;
    assert_eq!((adus, frames), (40, 1));
    assert!(
        matches!(
            cause,
            DownCause::ByPeer {
                code: CloseCode::Shutdown,
                ..
            }
        ),
        "{cause}"
    );
    let mut acknowledged = 0;
    for seen in a.rest().await {
        if let Seen::Outcome(outcome) = seen {
            assert_eq!(outcome, Outcome::Acknowledged);
            acknowledged += 1;
        }
    }
    assert_eq!(acknowledged, 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_shutdown_reports_lost_adus() {
    let (a, _b, link, shaper) = pair_through(Bitrate::from_kbps(20_000)).await;
    let stopped = crate::node::impairment(Bitrate::ZERO);
    shaper.set(thalweg_net::shaper::Direction::AToB, stopped);
    let sending = tokio::spawn(link.send_adu(header(1), pattern(10_000), by(Carriage::Stream)));
    while link.in_flight() == 0 {
        tokio::task::yield_now().await;
    }
    bounded(a.endpoint.shutdown(Duration::from_millis(100))).await;
    assert_eq!(bounded(sending).await.expect("it ran"), Outcome::LinkLost);
    let after = link.send_adu(header(2), pattern(1), by(Carriage::Stream));
    assert_eq!(bounded(after).await, Outcome::LinkLost);
    assert_eq!(
        link.send_control(pattern(1)).await,
        Err(ControlError::LinkLost)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn close_reason_reaches_both_ends() {
    for over in Over::ALL {
        let (a, b, link) = pair_over(over).await;
        // The other end reports the link's end only if it has reported the link before.
        b.next(|seen| matches!(seen, Seen::Link(LinkEvent::Up(_))).then_some(()))
            .await;
        link.close(CloseCode::Overload, "no room today");
        let cause = |seen| match seen {
            Seen::Link(LinkEvent::Down { cause, .. }) => Some(cause),
            _ => None,
        };
        assert_eq!(a.next(cause).await, DownCause::ByUs);
        let at_b = b.next(cause).await;
        let expected = DownCause::ByPeer {
            code: CloseCode::Overload,
            reason: "no room today".into(),
        };
        assert_eq!(at_b, expected);
        assert!(a.endpoint.links().is_empty() && b.endpoint.links().is_empty());
    }
}
