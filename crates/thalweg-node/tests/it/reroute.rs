//! Proves that a stream is replanned when its relay goes away, and that a relay that returns serves
//! again.

use thalweg_base::adu::{Importance, MediaTime};
use thalweg_base::needs::Needs;
use thalweg_base::time::Duration;
use thalweg_base::units::Bitrate;
use thalweg_node::{Outgoing, Publication, Publisher, SubscribeOptions, SubscriberEvent};
use thalweg_planner::planner::Planner;

use crate::fabric::{self, PATIENCE, Running, trusted};

/// Starts a diamond: `a` and `d`, with `b` and `c` between them.
async fn diamond() -> (Running, Vec<Running>, Running) {
    let a = fabric::start(
        "a",
        &[trusted("b", None), trusted("c", None), trusted("d", None)],
    )
    .await;
    let mut relays = Vec::new();
    for name in ["b", "c"] {
        relays
            .push(fabric::start(name, &[trusted("a", Some(a.address)), trusted("d", None)]).await);
    }
    let known = [
        trusted("b", Some(relays[0].address)),
        trusted("c", Some(relays[1].address)),
    ];
    let d = fabric::start("d", &known).await;
    (a, relays, d)
}

fn outgoing(number: u64) -> Outgoing {
    Outgoing {
        media_time: MediaTime::from_micros(number),
        importance: Importance::HIGHEST,
        ..fabric::outgoing(b"position")
    }
}

async fn relay_in_use(source: &Running) -> Option<String> {
    let status = source.handle.status().await.expect("it runs");
    let plan = status.plans.iter().find(|plan| plan.state == "active")?;
    let report = plan.report.as_ref()?;
    report.path.get(1).map(ToString::to_string)
}

async fn publish(source: &Running) -> Publisher {
    let publication = Publication {
        needs: Needs {
            deadline: Duration::from_secs(5),
            ..Needs::default()
        },
        pack_ratio: None,
        planner: Some(Planner::Exact),
        ..Publication::new("track".parse().expect("a name"), Bitrate::from_kbps(50))
    };
    source
        .handle
        .publish(publication)
        .await
        .expect("it is published")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stream_routes_around_lost_relay() {
    let (a, mut relays, d) = diamond().await;
    let options = SubscribeOptions::new("track".parse().expect("a name"), false);
    let mut subscriber = d.handle.subscribe(options).await;
    let mut publisher = publish(&a).await;
    tokio::time::timeout(PATIENCE, publisher.wanted())
        .await
        .expect("in time")
        .expect("it runs");
    fabric::until("a plan in force", || async {
        relay_in_use(&a).await.is_some()
    })
    .await;
    let first = relay_in_use(&a).await.expect("a plan in force");
    let left = relays.remove(usize::from(first == "c"));
    left.stop().await;
    fabric::until("a plan by the other relay", || async {
        relay_in_use(&a).await.is_some_and(|relay| relay != first)
    })
    .await;
    let mark = publisher.send(outgoing(7)).await.expect("it runs");
    let arrived = async {
        loop {
            match subscriber.recv().await.expect("the stream goes on") {
                SubscriberEvent::Adu(adu) if adu.header.sequence == mark => return,
                _ => {}
            }
        }
    };
    tokio::time::timeout(PATIENCE, arrived)
        .await
        .expect("it arrives by the other way");
    publisher.finish().await;
}
