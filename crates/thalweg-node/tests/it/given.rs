//! Proves that a plan given by a program is used as it is, and that an invalid one is refused.

use thalweg_base::needs::Needs;
use thalweg_base::units::Bitrate;
use thalweg_control::control;
use thalweg_control::session::Part;
use thalweg_node::{Publication, PublishError, SubscribeOptions, SubscriberEvent};

use crate::fabric::{self, PATIENCE, Running};

const NAMES: [&str; 3] = ["n0", "n1", "n2"];

fn publication(confidential: bool) -> Publication {
    Publication {
        needs: Needs {
            confidential,
            ..Needs::default()
        },
        pack_ratio: None,
        planner: None,
        ..Publication::new("cam".parse().expect("a name"), Bitrate::from_kbps(500))
    }
}

fn part(node: &Running, adapters: &[&str]) -> Part {
    Part {
        node: node.handle.id(),
        adapters: adapters.iter().map(ToString::to_string).collect(),
        plaintext: true,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn given_plan_is_used_as_is() {
    let nodes = fabric::chain(&NAMES, |_| true).await;
    let name = "cam".parse().expect("a name");
    let options = SubscribeOptions::new(name, true);
    let mut subscriber = nodes[2].handle.subscribe(options).await;
    let plan = vec![
        part(&nodes[0], &[]),
        part(&nodes[1], &["null", "null"]),
        part(&nodes[2], &[]),
    ];
    let publisher = nodes[0].handle.publish_by(publication(false), plan).await;
    let mut publisher = publisher.expect("it is published");
    let wanted = tokio::time::timeout(PATIENCE, publisher.wanted()).await;
    wanted.expect("a plan in time").expect("the node runs");
    let outgoing = fabric::outgoing(b"as it was");
    publisher.send(outgoing).await.expect("the node runs");
    let adu = loop {
        let event = tokio::time::timeout(PATIENCE, subscriber.recv()).await;
        match event.expect("in time").expect("the stream goes on") {
            SubscriberEvent::Adu(adu) => break adu,
            SubscriberEvent::Notice(_) => {}
        }
    };
    assert_eq!(&adu.payload[..], b"as it was");
    let status = nodes[1].handle.status().await.expect("it runs");
    assert_eq!(status.routes[0].adapters, ["null", "null"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_given_plan_is_refused() {
    let nodes = fabric::chain(&NAMES[..2], |_| true).await;
    let handle = &nodes[0].handle;
    let elsewhere = vec![part(&nodes[1], &[])];
    for (confidential, plan, says) in [
        (false, elsewhere, "does not begin at this node"),
        (false, Vec::new(), "does not begin at this node"),
        (true, vec![part(&nodes[0], &[])], "confidential"),
    ] {
        let refused = handle.publish_by(publication(confidential), plan).await;
        let Err(error) = refused.map(|_| ()) else {
            panic!("it was published");
        };
        let invalid = matches!(
            error,
            PublishError::Refused(control::PublishError::Invalid { .. })
        );
        assert!(invalid, "{error:?}");
        assert!(error.to_string().contains(says), "{error}");
    }
}
