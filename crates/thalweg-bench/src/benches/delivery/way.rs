//! The two ends of any kind of path, and the message that measures it.
//!
//! Both ends are in one process, so the sender writes the time into the message and the receiver
//! subtracts: one clock, and no round trip to halve.
//!
//! ```text
//! message = time of sending (8) ‖ total of the batch, in its last message, else 0 (8) ‖ zeros
//! ```

use std::sync::OnceLock;
use std::time::Instant;

use bytes::Bytes;

/// Bytes of the two stamps; every message is longer.
const STAMPS_BYTES: usize = 16;

/// Nanoseconds since the first call: the clock of all ends.
pub(super) fn now_nanos() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let nanos = START.get_or_init(Instant::now).elapsed().as_nanos();
    u64::try_from(nanos).expect("a run is shorter than 584 years")
}

/// The stamps of a received message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    /// When it was sent, or when its batch began.
    pub(super) sent_nanos: u64,
    /// Number of messages in the batch, if this is its last.
    pub(super) total: Option<u64>,
}

/// The sending end.
pub(super) trait Sender: Send + 'static {
    /// Sends a message; waits while the path has no room.
    fn send(&mut self, message: Bytes) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// The receiving end.
pub(super) trait Receiver: Send + 'static {
    /// Returns the next message of this length, whole and in one piece of memory.
    fn recv(&mut self, length_bytes: usize)
    -> impl Future<Output = anyhow::Result<Message>> + Send;
}

/// Returns a buffer for a message, for [`stamp`] to complete: it is allocated before the clock is read.
pub(super) fn blank(length_bytes: usize) -> Vec<u8> {
    assert!(length_bytes >= STAMPS_BYTES, "the stamps fit");
    vec![0; length_bytes]
}

/// Completes a message.
pub(super) fn stamp(mut blank: Vec<u8>, sent_nanos: u64, total: Option<u64>) -> Bytes {
    blank[..8].copy_from_slice(&sent_nanos.to_be_bytes());
    blank[8..STAMPS_BYTES].copy_from_slice(&total.unwrap_or(0).to_be_bytes());
    blank.into()
}

/// Reads the stamps of a message.
///
/// Fails   a message of another length than was sent
pub(super) fn read(message: &[u8], length_bytes: usize) -> anyhow::Result<Message> {
    let received = message.len();
    anyhow::ensure!(
        received == length_bytes,
        "a message of {length_bytes} bytes arrived as {received}"
    );
    let number = |at: usize| {
        let bytes = message[at..at + 8]
            .try_into()
            .expect("eight bytes were read");
        u64::from_be_bytes(bytes)
    };
    Ok(Message {
        sent_nanos: number(0),
        total: Some(number(8)).filter(|total| *total > 0),
    })
}
