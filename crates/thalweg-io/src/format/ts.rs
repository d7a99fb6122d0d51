//! `ts`: MPEG-TS as one of the formats, for users that need no more than messages.

use bytes::Bytes;
use thalweg_media::ts::{Publisher, Subscriber};

use super::{Cut, Cutter, Fault, Joiner};

/// Cuts a transport stream into its units.
#[derive(Debug, Default)]
pub struct Ts(Publisher);

/// Writes units as a transport stream.
#[derive(Debug, Default)]
pub struct Join(Subscriber);

impl Cutter for Ts {
    fn handle_bytes(&mut self, bytes: &Bytes) {
        self.0.push(bytes);
    }

    fn handle_end(&mut self) {
        self.0.finish();
    }

    fn poll_cut(&mut self) -> Option<Cut> {
        self.0.poll_adu().map(Ok)
    }
}

impl Joiner for Join {
    fn join(&mut self, message: &Bytes) -> Result<Bytes, Fault> {
        let packets = self.0.handle_payload(message);
        packets.map_err(|error| Fault::Unit(error.to_string()))
    }
}
