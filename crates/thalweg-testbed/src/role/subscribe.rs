//! The subscriber at one sink of a stream: notes what it receives.

use thalweg_base::needs::Order;
use thalweg_node::local::{Client, LocalError, LocalSubscriber};
use thalweg_node::{SubscribeOptions, SubscriberEvent};
use tokio::io::AsyncReadExt as _;

use super::note::{Note, Notes};
use super::{OVER, Part, READY, RETRY_AFTER, fingerprint, print_line};
use crate::system::clock;

/// Runs a subscriber until the testbed closes its standard input.
///
/// Fails   the notes cannot be written
pub async fn subscribe(part: &Part) -> anyhow::Result<()> {
    let (_, stream) = part.load()?;
    let options = SubscribeOptions::new(stream.name.clone(), stream.needs.order == Order::Sequence);
    let mut notes = Notes::create(&part.notes)?;
    tokio::select! {
        failed = receive(part, &options, &mut notes) => failed,
        () = stop_requested() => Ok(()),
    }
}

/// Waits until the input ends.
async fn stop_requested() {
    let mut input = tokio::io::stdin();
    let mut ignored = [0; 64];
    // A subscriber ignores the world's beginning.
    while let Ok(1..) = input.read(&mut ignored).await {}
}

async fn receive(part: &Part, options: &SubscribeOptions, notes: &mut Notes) -> anyhow::Result<()> {
    let mut is_ready = false;
    loop {
        let subscribed = async {
            let client = Client::connect(&part.socket).await?;
            client.subscribe(options.clone()).await
        };
        let subscriber: Result<LocalSubscriber, LocalError> = subscribed.await;
        let Ok(mut subscriber) = subscriber else {
            tokio::time::sleep(RETRY_AFTER).await;
            continue;
        };
        if !is_ready {
            print_line(READY);
            is_ready = true;
        }
        let mut given = 0_u64;
        while let Ok(Some(event)) = subscriber.recv().await {
            let SubscriberEvent::Adu(adu) = event else {
                continue;
            };
            given += 1;
            notes.write(Note {
                at: clock::now().as_nanos(),
                due: 0,
                media_us: adu.header.media_time.as_micros(),
                layer: adu.header.layer,
                importance: adu.header.importance.0,
                bytes: adu.payload.len(),
                fingerprint: fingerprint(&adu.payload),
            })?;
        }
        // The stream or the node has ended, and another may come.
        if given > 0 {
            print_line(OVER);
        }
        tokio::time::sleep(RETRY_AFTER).await;
    }
}
