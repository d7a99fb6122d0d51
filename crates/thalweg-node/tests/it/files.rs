//! Proves that all senders of the same files get the receipt: one that sends what another has
//! delivered, one that listens only when the receiver has left, and one that slept until the map
//! had forgotten the receiver.
//!
//! ```text
//! a: sends ─► r: an inbox ◄─ b: announces the same files, and listens once a has its receipt
//! ```
//!
//! A receiver that disappears without ending its receipts is reported like one that has not arrived
//! yet.
//!
//! The late listener does by hand what a command does: a command's first receipt waits for a plan,
//! which is made at once here.

use std::path::{Path, PathBuf};
use std::sync::mpsc as threads;

use serde_json::Value;
use thalweg_base::id::StreamName;
use thalweg_base::needs::{Needs, Order, Reliability};
use thalweg_base::units::Bitrate;
use thalweg_node::local::{Client, LocalPublisher, LocalSubscriber};
use thalweg_node::transfer::{self, Event, Inbox, ReceiveOptions, SendOptions};
use thalweg_node::{Publication, SubscribeOptions, SubscriberEvent};
use thalweg_transfer::manifest::Mode;
use thalweg_transfer::message::State;
use thalweg_transfer::tree::whole_hash;
use thalweg_transfer::{File, FileName, Manifest, Parcel, Receipt, TransferId};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::fabric::{self, PATIENCE, Running, identity, outgoing, trusted};

const BYTES: &[u8] = &[7; 1_000];

/// Senders and a receiver that they dial, each with a local socket.
struct Ends {
    folder: tempfile::TempDir,
    nodes: Vec<Running>,
}

impl Ends {
    async fn start(senders: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = |name: &str| Some(folder.path().join(name));
        let known: Vec<_> = senders.iter().map(|name| trusted(name, None)).collect();
        let receiver = fabric::start_with("r", &known, |config| config.socket = socket("r")).await;
        let known = [trusted("r", Some(receiver.address))];
        let mut nodes = vec![receiver];
        for name in senders {
            nodes.push(
                fabric::start_with(name, &known, |config| config.socket = socket(name)).await,
            );
        }
        let ends = Self { folder, nodes };
        for name in senders {
            fabric::until("it knows of all", || async {
                let status = status(&ends.socket(name)).await;
                status["nodes"].as_array().map(Vec::len) == Some(ends.nodes.len())
            })
            .await;
        }
        ends
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn inbox(&self) -> Inbox {
        let folder = self.folder.path().join("in");
        std::fs::create_dir(&folder).expect("room");
        Inbox::new(ReceiveOptions {
            socket: self.socket("r"),
            folder,
            from: None,
            phrase: None,
            force: false,
            keeps_modes: true,
        })
    }

    /// Writes the file, and returns the options to send it to the receiver.
    fn survey(&self, from: &str) -> SendOptions {
        let file = self.folder.path().join("survey");
        std::fs::write(&file, BYTES).expect("room");
        SendOptions {
            socket: self.socket(from),
            files: vec![file],
            targets: vec!["r".into()],
            limit: None,
            confidential: false,
            block_bytes: Some(1_024),
        }
    }

    /// Publishes the stream that brings the files to the receiver.
    async fn offer(&self, from: &str, id: TransferId) -> LocalPublisher {
        let name = id.files_stream(&[identity("r").id()]);
        let publication = publication(name.expect("it is for one"));
        let client = Client::connect(&self.socket(from)).await;
        let publisher = client.expect("it listens").publish(publication).await;
        publisher.expect("accepted")
    }

    /// Waits until the receiver knows this number of file streams.
    async fn wait_offered(&self, count: usize) {
        fabric::until("it is offered", || async {
            let status = status(&self.socket("r")).await;
            let streams = status["streams"].as_array().expect("a list").iter();
            let names = streams.map(|stream| stream["name"].as_str().expect("text"));
            names.filter(|name| name.starts_with("files/")).count() == count
        })
        .await;
    }

    /// Waits until a node gets the receipt for everything.
    async fn wait_whole(&self, at: &str, id: TransferId) {
        let client = Client::connect(&self.socket(at)).await.expect("it listens");
        let options = SubscribeOptions::new(id.receipts_stream(&identity("r").id()), false);
        let mut receipts = client.subscribe(options).await.expect("accepted");
        let heard = timeout(PATIENCE, is_whole(&mut receipts)).await;
        heard.expect("it is told in time");
    }

    async fn stop(self) {
        for node in self.nodes {
            node.stop().await;
        }
    }
}

/// Returns the publication of a transfer's stream.
fn publication(name: StreamName) -> Publication {
    Publication {
        needs: Needs {
            reliability: Reliability::Full,
            order: Order::Sequence,
            ..Needs::default()
        },
        pack_ratio: None,
        planner: None,
        ..Publication::new(name, Bitrate::from_kbps(8))
    }
}

async fn status(socket: &Path) -> Value {
    let client = Client::connect(socket).await.expect("it listens");
    client.status().await.expect("it answers")
}

async fn is_whole(receipts: &mut LocalSubscriber) {
    loop {
        if let Some(SubscriberEvent::Adu(adu)) = receipts.recv().await.expect("the node runs") {
            let receipt = Receipt::decode(&adu.payload).expect("it is one");
            if receipt.state == State::Whole {
                return;
            }
        }
    }
}

/// Returns the manifest of one file in one block.
fn manifest() -> Manifest {
    let file = File {
        name: FileName::new(b"survey").expect("a name"),
        size: BYTES.len() as u64,
        mode: Mode::of(0o644),
        changed: 0,
        hash: whole_hash(BYTES),
    };
    Manifest::new(vec![file], 1_024, Vec::new()).expect("it fits together")
}

/// Sends everything again and again to any receiver, and reads no receipts.
async fn send_blindly(mut publisher: LocalPublisher) {
    let manifest = manifest();
    let mut encoded = Vec::new();
    manifest.encode(&mut encoded);
    let parcels = [
        Parcel::Offer {
            block_shift: 10,
            manifest_bytes: encoded.len() as u64,
            bytes: BYTES.len() as u64,
            targets: vec![identity("r").id()],
        },
        Parcel::Manifest {
            offset: 0,
            bytes: encoded.into(),
        },
        Parcel::Block {
            block: 0,
            bytes: BYTES.into(),
        },
    ];
    loop {
        publisher.wanted().await.expect("the node runs");
        for parcel in &parcels {
            let mut next = outgoing(b"");
            next.payload = parcel.encode().into();
            publisher.send(next).await.expect("the node runs");
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

/// Returns the senders by key: of two streams of one name, a node chooses the one of the smaller
/// key, the first's.
fn by_key() -> [&'static str; 2] {
    let mut senders = ["a", "b"];
    senders.sort_by_key(|name| identity(name).id());
    senders
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_sender_gets_receipt() {
    let [first, last] = by_key();
    let ends = Ends::start(&[first, last]).await;
    let (tell, heard) = oneshot::channel();
    let mut tell = Some(tell);
    let sending = tokio::spawn(transfer::send(ends.survey(first), move |event| {
        if matches!(event, Event::Sent(_))
            && let Some(tell) = tell.take()
        {
            // The notice that it waits.
            let _ = tell.send(());
        }
    }));
    ends.wait_offered(1).await;
    let id = manifest().id();
    let publisher = ends.offer(last, id).await;
    ends.wait_offered(2).await;
    let mut inbox = ends.inbox();
    let receiving = tokio::spawn(async move { inbox.receive(|_| {}).await });
    let heard = timeout(PATIENCE, heard).await;
    heard.expect("in time").expect("it is said");
    ends.wait_whole(last, id).await;
    let received = receiving.await.expect("no panic").expect("it came");
    assert_eq!(received.bytes, BYTES.len() as u64);
    let sent = sending.await.expect("no panic").expect("it was sent");
    assert_eq!(sent.complete, ["r"]);
    drop(publisher);
    ends.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sleeping_sender_gets_receipt() {
    let [first, last] = by_key();
    // The stream of the first sender is chosen, so the second's program may sleep.
    let ends = Ends::start(&[first, last]).await;
    let (sleeps, mut asleep) = mpsc::unbounded_channel();
    let (wake, woken) = threads::channel::<()>();
    let survey = ends.survey(last);
    // A program of its own, suspended as a whole: it listens to receipts, and there are none yet.
    let sleeper = std::thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().expect("a runtime");
        let send = transfer::send(survey, move |event| {
            if matches!(event, Event::Notice(_)) {
                // The notice that it waits.
                let _ = sleeps.send(());
                // The receiver of the signal may have gone.
                let _ = woken.recv();
            }
        });
        runtime.block_on(send)
    });
    let asleep = timeout(PATIENCE, asleep.recv()).await;
    asleep.expect("in time").expect("it is told to wait");
    ends.wait_offered(1).await;
    let sending = tokio::spawn(transfer::send(ends.survey(first), |_| {}));
    ends.wait_offered(2).await;
    let received = ends.inbox().receive(|_| {}).await.expect("it came");
    assert_eq!(received.bytes, BYTES.len() as u64);
    let sent = sending.await.expect("no panic").expect("it was sent");
    assert_eq!(sent.complete, ["r"]);
    fabric::until("the receipts are off the map", || async {
        let status = status(&ends.socket(last)).await;
        let mut streams = status["streams"].as_array().expect("a list").iter();
        let name = |stream: &Value| stream["name"].as_str().expect("text").to_string();
        !streams.any(|stream| name(stream).starts_with("receipts/"))
    })
    .await;
    drop(wake);
    let sent = timeout(PATIENCE, tokio::task::spawn_blocking(|| sleeper.join())).await;
    let sent = sent.expect("in time").expect("it waits").expect("no panic");
    let sent = sent.expect("it hears of it");
    assert_eq!(sent.complete, ["r"]);
    ends.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inbox_repeats_its_receipt() {
    let ends = Ends::start(&["a"]).await;
    let id = manifest().id();
    let sending = tokio::spawn(send_blindly(ends.offer("a", id).await));
    let mut inbox = ends.inbox();
    let received = inbox.receive(|_| {}).await.expect("it came");
    assert_eq!(received.bytes_before, 0);
    let receiving = tokio::spawn(async move { inbox.receive(|_| {}).await });
    ends.wait_whole("a", id).await;
    let again = receiving.await.expect("no panic").expect("it is there");
    assert_eq!(again.bytes_before, BYTES.len() as u64);
    sending.abort();
    ends.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sender_reports_lost_receiver() {
    let ends = Ends::start(&["a"]).await;
    let name = manifest().id().receipts_stream(&identity("r").id());
    let receipts = ends.nodes[0].handle.publish(publication(name)).await;
    let mut receipts = receipts.expect("accepted");
    fabric::until("the sender's node knows of it", || async {
        let status = status(&ends.socket("a")).await;
        status["streams"].as_array().map(Vec::len) == Some(1)
    })
    .await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let sending = tokio::spawn(transfer::send(ends.survey("a"), move |event| {
        if let Event::Notice(text) = event {
            // The notice that it waits.
            let _ = tell.send(text);
        }
    }));
    receipts.wanted().await.expect("the node runs");
    drop(receipts);
    let text = timeout(PATIENCE, told.recv()).await.expect("in time");
    assert_eq!(text.as_deref(), Some("waiting for `thalweg receive` at r"));
    sending.abort();
    ends.stop().await;
}
