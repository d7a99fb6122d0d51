//! Proves grants, tickets and revocation between real nodes.
//!
//! *How.* `owner` owns the fabric. Others join with its tickets through
//! `thalweg_node::fabric::join`, with files in a temporary folder, and start from these files.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use thalweg_base::needs::Needs;
use thalweg_base::time::Duration;
use thalweg_base::units::Bitrate;
use thalweg_base::wire::admission::Ticket;
use thalweg_control::admission::Rights;
use thalweg_net::Reach;
use thalweg_node::config::{Config, Owner, Peer};
use thalweg_node::fabric::{JoinError, Joined, join, ticket};
use thalweg_node::{InviteRequest, Publication, SubscribeOptions, SubscriberEvent};
use thalweg_planner::planner::Planner;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;

use crate::fabric::{Running, identity, outgoing, start_with, until};

struct Site(TempDir);

impl Site {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory for the test"))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(format!("{name}.json"))
    }

    /// Starts the owner, or a node that has joined.
    async fn start(&self, name: &str, change: impl FnOnce(&mut Config)) -> Running {
        let file = self.file(name);
        start_with(name, &[], |config| {
            config.fabric.state = Some(file);
            if name == "owner" {
                config.fabric.owner = Owner::Own;
            }
            change(config);
        })
        .await
    }

    async fn join(&self, name: &str, text: &str) -> Result<Joined, JoinError> {
        let ticket = ticket::parse(text).expect("a whole ticket");
        self.redeem(name, &ticket).await
    }

    async fn redeem(&self, name: &str, ticket: &Ticket) -> Result<Joined, JoinError> {
        join(ticket, &identity(name), Owner::Kept, &self.file(name)).await
    }

    /// Starts a node that has joined, with one neighbour to dial and no contacts from joining.
    async fn start_beside(&self, name: &str, neighbour: &str, address: SocketAddr) -> Running {
        forget_contacts(&self.file(name));
        let peers = vec![dialling(neighbour, address)];
        self.start(name, |config| config.peers = peers).await
    }

    /// Invites a node, lets it join, and starts it.
    async fn member(&self, inviter: &Running, name: &str, rights: Rights) -> Running {
        let text = invite(inviter, rights, 1).await;
        self.join(name, &text).await.expect("it may join");
        self.start(name, |_| {}).await
    }
}

const fn invitation(rights: Rights, uses: usize) -> InviteRequest {
    InviteRequest {
        rights,
        uses,
        open_for: Duration::from_secs(600),
        lasts: Duration::NEVER,
        addresses: Vec::new(),
        tcp_addresses: Vec::new(),
    }
}

async fn invite(inviter: &Running, rights: Rights, uses: usize) -> String {
    let request = invitation(rights, uses);
    inviter.handle.invite(request).await.expect("it may invite")
}

async fn sees(node: &Running, other: &str) -> bool {
    let status = node.handle.status().await.expect("it runs");
    status.nodes.iter().any(|known| known.name == other)
}

async fn wait_for(node: &Running, other: &str) {
    until("a node is on the map", || sees(node, other)).await;
}

async fn wait_without(node: &Running, other: &str) {
    until("a node has left the map", || async {
        !sees(node, other).await
    })
    .await;
}

fn publication(name: &str) -> Publication {
    Publication {
        needs: Needs::default(),
        pack_ratio: None,
        planner: Some(Planner::Exact),
        ..Publication::new(name.parse().expect("a name"), Bitrate::from_kbps(100))
    }
}

fn dialling(name: &str, address: SocketAddr) -> Peer {
    Peer {
        name: name.parse().expect("a name"),
        key: identity(name).id(),
        addresses: vec![address],
        connect: true,
        trusted: false,
        secure: true,
        rate: None,
        tcp_addresses: Vec::new(),
        relays: Vec::new(),
        hosts: Vec::new(),
        tcp_hosts: Vec::new(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ticket_admits_node_and_stream() {
    let site = Site::new();
    let owner = site.start("owner", |_| {}).await;
    let camera = site.member(&owner, "camera", Rights::MEMBER).await;
    wait_for(&owner, "camera").await;
    wait_for(&camera, "owner").await;
    let options = SubscribeOptions::new("cam".parse().expect("a name"), true);
    let mut subscriber = owner.handle.subscribe(options).await;
    let mut publisher = camera
        .handle
        .publish(publication("cam"))
        .await
        .expect("it may");
    let mut plans = publisher.plans();
    let planned = plans.wait_for(|plans| !plans.is_empty());
    tokio::time::timeout(crate::fabric::PATIENCE, planned)
        .await
        .expect("in time")
        .expect("it runs");
    publisher.send(outgoing(b"hello")).await.expect("it goes");
    loop {
        match subscriber.recv().await.expect("it comes") {
            SubscriberEvent::Adu(adu) => break assert_eq!(&adu.payload[..], b"hello"),
            SubscriberEvent::Notice(_) => {}
        }
    }
    drop(publisher);
    let status = owner.handle.status().await.expect("it runs");
    let camera_there = status.nodes.iter().find(|node| node.name == "camera");
    let rights = camera_there.expect("on the map").rights.clone();
    assert_eq!(rights, Some(vec!["publish", "subscribe", "relay"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn confined_nodes_join_by_ticket() {
    let site = Site::new();
    let confined = |config: &mut Config| {
        config.listen = vec![([0, 0, 0, 0], 0).into()];
        config.reach.packets = Reach::Configured;
    };
    let owner = site.start("owner", confined).await;
    let mut request = invitation(Rights::MEMBER, 1);
    let nowhere = owner.handle.invite(request.clone()).await;
    let nowhere = nowhere.expect_err("it has no address").to_string();
    assert!(nowhere.contains("--address"), "{nowhere}");
    let address = SocketAddr::from(([127, 0, 0, 1], owner.address.port()));
    request.addresses = vec![address];
    let text = owner.handle.invite(request).await.expect("it may invite");
    site.join("camera", &text).await.expect("it may join");
    let camera = site.start("camera", confined).await;
    wait_for(&owner, "camera").await;
    wait_for(&camera, "owner").await;
    let status = camera.handle.status().await.expect("it runs");
    assert_eq!(status.links[0].addresses, [address.to_string()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn node_reports_its_expired_grant() {
    let site = Site::new();
    let owner = site.start("owner", |_| {}).await;
    let request = InviteRequest {
        lasts: Duration::from_secs(3),
        ..invitation(Rights::PUBLISH, 1)
    };
    let text = owner.handle.invite(request).await.expect("it may invite");
    site.join("camera", &text).await.expect("it may join");
    let camera = site.start("camera", |_| {}).await;
    until("the camera says what to do", || async {
        let status = camera.handle.status().await.expect("it runs");
        let mut reasons = status.links.iter().filter_map(|link| link.reason.as_ref());
        reasons.any(|reason| reason.contains("no grant that holds"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ticket_serves_one_node() {
    let site = Site::new();
    let owner = site.start("owner", |_| {}).await;
    let text = invite(&owner, Rights::MEMBER, 1).await;
    site.join("camera", &text).await.expect("the first");
    let second = site.join("thief", &text).await.expect_err("the second");
    let sentence = second.to_string();
    assert!(
        sentence.contains(&identity("owner").id().short()) && sentence.contains("has been used"),
        "{sentence}"
    );
    assert!(!site.file("thief").exists(), "nothing is written");
    let again = site.join("camera", &text).await.expect_err("a member");
    assert!(matches!(again, JoinError::Member { .. }), "{again}");
    // The owner restarts from its file: the ticket stays used.
    owner.stop().await;
    let owner = site.start("owner", |_| {}).await;
    let mut ticket = ticket::parse(&text).expect("whole");
    ticket.addresses = vec![owner.address];
    let later = site.redeem("thief", &ticket).await;
    assert!(
        later
            .expect_err("used")
            .to_string()
            .contains("has been used")
    );
    let status = owner.handle.status().await.expect("it runs");
    let door = status
        .refused_messages
        .iter()
        .find(|refused| refused.kind == "admission");
    let door = door.expect("it was counted");
    assert_eq!(door.count, 1);
    assert!(
        door.last.contains(&identity("thief").id().short()),
        "{}",
        door.last
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_tickets_are_refused() {
    let site = Site::new();
    let owner = site.start("owner", |_| {}).await;
    let text = invite(&owner, Rights::MEMBER, 1).await;
    let mut damaged = text.clone();
    let last = if damaged.pop() == Some('a') { 'b' } else { 'a' };
    damaged.push(last);
    let error = ticket::parse(&damaged).expect_err("damaged").to_string();
    assert!(error.contains("a character is missing or wrong"), "{error}");
    let mut expired = ticket::parse(&text).expect("whole");
    expired.expiry = thalweg_control::admission::UnixTime::from_seconds(1_000);
    let late = site.redeem("late", &expired).await;
    assert!(matches!(late, Err(JoinError::Expired { .. })), "{late:?}");
    // A ticket with a later expiry changes nothing, since the inviter has its own record.
    let mut guessed = ticket::parse(&text).expect("whole");
    guessed.secret[0] ^= 1;
    let refused = site.redeem("guesser", &guessed).await;
    let refused = refused.expect_err("no such ticket").to_string();
    assert!(refused.contains("knows no such ticket"), "{refused}");
    let mut foreign = ticket::parse(&text).expect("whole");
    foreign.fabric = identity("other").id();
    let refused = site.redeem("stray", &foreign).await;
    let refused = refused.expect_err("another fabric").to_string();
    assert!(
        refused.contains(&identity("owner").id().short()) && refused.contains("fabric"),
        "{refused}"
    );
    site.join("camera", &text).await.expect("still good");
    let elsewhere = site.redeem("camera", &foreign).await;
    assert!(
        matches!(elsewhere, Err(JoinError::OtherFabric { .. })),
        "{elsewhere:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn members_admit_each_other() {
    let site = Site::new();
    let owner = site.start("owner", |_| {}).await;
    let first = site.member(&owner, "first", Rights::MEMBER).await;
    let text = invite(&owner, Rights::MEMBER, 1).await;
    site.join("second", &text).await.expect("it may");
    // The owner is gone, so no node can introduce the two.
    owner.stop().await;
    let address = first.address;
    let second = site.start_beside("second", "first", address).await;
    wait_for(&second, "first").await;
    wait_for(&first, "second").await;
    // A stranger with the same address is refused.
    let stranger = start_with("stranger", &[], |config| {
        config.fabric.owner = Owner::Key(identity("owner").id());
        config.peers = vec![dialling("first", address)];
    })
    .await;
    until("the stranger is refused", || async {
        first
            .handle
            .status()
            .await
            .expect("it runs")
            .refused_connections
            > 0
            || stranger
                .handle
                .status()
                .await
                .expect("it runs")
                .links
                .iter()
                .any(|link| {
                    link.reason
                        .as_deref()
                        .is_some_and(|reason| reason.contains("not admitted"))
                })
    })
    .await;
    assert!(!sees(&first, "stranger").await);
}

fn forget_contacts(file: &Path) {
    let text = std::fs::read_to_string(file).expect("it was written");
    let mut state: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    state["contacts"] = serde_json::json!([]);
    std::fs::write(file, state.to_string()).expect("ours");
}

#[tokio::test(flavor = "multi_thread")]
async fn revoked_node_stays_out() {
    let site = Site::new();
    let owner = site.start("owner", |_| {}).await;
    let near = site.member(&owner, "near", Rights::MEMBER).await;
    let far = {
        let text = invite(&owner, Rights::MEMBER, 1).await;
        site.join("far", &text).await.expect("it may");
        site.start_beside("far", "near", near.address).await
    };
    wait_for(&owner, "far").await;
    let publisher = far
        .handle
        .publish(publication("far/cam"))
        .await
        .expect("it may");
    until("the stream is announced", || async {
        !owner
            .handle
            .status()
            .await
            .expect("it runs")
            .streams
            .is_empty()
    })
    .await;
    let grant = std::fs::read(site.file("far")).expect("it was written");
    let said = owner.handle.revoke("far").await.expect("the owner may");
    assert!(said.contains(&identity("far").id().short()), "{said}");
    wait_without(&owner, "far").await;
    wait_without(&near, "far").await;
    drop(publisher);
    until("the link is cut", || async {
        let status = near.handle.status().await.expect("it runs");
        !status
            .links
            .iter()
            .any(|link| link.name == "far" && link.state == "up")
    })
    .await;
    assert!(
        owner
            .handle
            .status()
            .await
            .expect("it runs")
            .streams
            .is_empty()
    );
    // Its neighbour restarts and meets only it: the revocation is in the neighbour's file.
    owner.stop().await;
    near.stop().await;
    forget_contacts(&site.file("near"));
    let near = site.start("near", |_| {}).await;
    // The revoked node has received its revocation; with a fresh start it shows its old grant
    // again.
    far.stop().await;
    std::fs::write(site.file("far"), grant).expect("ours");
    let _far = site.start_beside("far", "near", near.address).await;
    until(
        "the revoked node asked for admission and was refused",
        || async {
            let status = near.handle.status().await.expect("it runs");
            status
                .refused_messages
                .iter()
                .any(|refused| refused.kind == "admission" && refused.last.contains("was revoked"))
        },
    )
    .await;
    assert!(!sees(&near, "far").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn delegate_invites_within_its_rights() {
    let site = Site::new();
    let owner = site.start("owner", |_| {}).await;
    let rights = Rights::MEMBER.with(Rights::INVITE);
    let delegate = site.member(&owner, "delegate", rights).await;
    wait_for(&owner, "delegate").await;
    let plain = site.member(&delegate, "plain", Rights::SUBSCRIBE).await;
    wait_for(&owner, "plain").await;
    let request = |rights| invitation(rights, 1);
    let more = delegate.handle.invite(request(Rights::SEE_PLAINTEXT)).await;
    let more = more.expect_err("it may not itself").to_string();
    assert!(more.contains("see-plaintext"), "{more}");
    let none = plain.handle.invite(request(Rights::SUBSCRIBE)).await;
    let none = none.expect_err("it may not invite").to_string();
    assert!(none.contains("`invite`"), "{none}");
    let refused = plain.handle.publish(publication("p")).await;
    let refused = refused.err().expect("it may not publish").to_string();
    assert!(refused.contains("`publish`"), "{refused}");
    owner
        .handle
        .revoke("delegate")
        .await
        .expect("the owner may");
    wait_without(&owner, "plain").await;
    // The node may have no grant, or one that has not arrived here; the answer must not claim
    // success.
    let stranger = identity("stranger").id().to_string();
    let said = owner.handle.revoke(&stranger).await.expect("the owner may");
    assert!(said.contains("knows of no grant"), "{said}");
}

/// Returns the epoch of the plan in force for a sink, at the source.
async fn plan_for(source: &Running, sink: &str) -> Option<u32> {
    let status = source.handle.status().await.expect("it runs");
    let mut plans = status.plans.iter();
    let plan = plans.find(|plan| plan.sink == sink && plan.state == "active")?;
    Some(plan.epoch)
}

#[tokio::test(flavor = "multi_thread")]
async fn revoked_sink_loses_sealed_stream() {
    let site = Site::new();
    let owner = site.start("owner", |_| {}).await;
    let relay = site.member(&owner, "relay", Rights::MEMBER).await;
    let mut sinks = Vec::new();
    for name in ["base", "thief"] {
        let text = invite(&owner, Rights::MEMBER.with(Rights::SEE_PLAINTEXT), 1).await;
        site.join(name, &text).await.expect("it may");
        let sink = site.start_beside(name, "relay", relay.address).await;
        wait_for(&owner, name).await;
        sinks.push(sink);
    }
    let mut publisher = sealed(&owner, "cam").await;
    let mut collecting = Vec::new();
    for sink in &sinks {
        collecting.push(received_at(sink, "cam").await);
    }
    for sink in ["base", "thief"] {
        until("it is served", || async {
            plan_for(&owner, sink).await.is_some()
        })
        .await;
    }
    let status = owner.handle.status().await.expect("it runs");
    let is_sealed = |words: &[String]| words.iter().any(|word| word.starts_with("seal"));
    assert!(status.routes.iter().any(|route| is_sealed(&route.adapters)));
    let before = plan_for(&owner, "base").await;
    let mut next = 0..;
    for sequence in next.by_ref().take(20) {
        let sent = publisher.send(outgoing(b"for both")).await;
        assert_eq!(sent.expect("it goes").0, sequence);
    }
    for (hearing, _) in &mut collecting {
        while hearing.recv().await.expect("it listens") < 19 {}
    }
    owner.handle.revoke("thief").await.expect("the owner may");
    // The stream continues while its key changes.
    while plan_for(&owner, "base")
        .await
        .is_none_or(|plan| Some(plan) == before)
    {
        publisher
            .send(outgoing(b"meanwhile"))
            .await
            .expect("it goes");
        next.next();
    }
    let changed = next.start;
    for sequence in next.by_ref().take(20) {
        let sent = publisher.send(outgoing(b"for one")).await;
        assert_eq!(sent.expect("it goes").0, sequence);
    }
    publisher.finish().await;
    let (mut of_thief, thief) = collecting.pop().expect("two listen");
    let (mut of_base, base) = collecting.pop().expect("two listen");
    tokio::time::timeout(crate::fabric::PATIENCE, base)
        .await
        .expect("the end in time")
        .expect("no panic");
    thief.abort();
    let mut heard = vec![19];
    heard.extend(std::iter::from_fn(|| of_base.try_recv().ok()));
    assert_eq!(heard, (19..changed + 20).collect::<Vec<_>>());
    while let Ok(sequence) = of_thief.try_recv() {
        assert!(
            sequence < changed,
            "it hears {sequence}, and {changed} was after its time"
        );
    }
}

/// Subscribes, and forwards the number of each ADU that arrives.
async fn received_at(node: &Running, name: &str) -> (UnboundedReceiver<u64>, JoinHandle<()>) {
    let options = SubscribeOptions::new(name.parse().expect("a name"), true);
    let mut subscriber = node.handle.subscribe(options).await;
    let (heard, hearing) = unbounded_channel();
    let task = tokio::spawn(async move {
        while let Some(event) = subscriber.recv().await {
            if let SubscriberEvent::Adu(adu) = event {
                // The test may have received enough.
                let _ = heard.send(adu.header.sequence.0);
            }
        }
    });
    (hearing, task)
}

async fn sealed(node: &Running, name: &str) -> thalweg_node::Publisher {
    let publication = Publication {
        needs: Needs {
            confidential: true,
            deadline: Duration::from_secs(20),
            ..Needs::default()
        },
        ..publication(name)
    };
    node.handle.publish(publication).await.expect("it may")
}
