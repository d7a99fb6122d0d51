//! The drops of a stream, as its node reports them to a program.

use thalweg_base::id::StreamName;

use super::client::{Client, LocalError, unexpected};
use super::frame::{self, Frame, Message};
use crate::status::DropStatus;

/// Follows the drops of a stream on the node.
pub struct LocalDrops {
    /// Kept open, since the node stops to report when it closes.
    client: Client,
}

impl LocalDrops {
    /// Follows the drops of a stream from now on: in this program's mailboxes, in those of others unless
    /// `own`, and elsewhere on the node.
    pub async fn follow(
        mut client: Client,
        name: StreamName,
        own: bool,
    ) -> Result<Self, LocalError> {
        frame::write_message(&mut client.write, &Message::Drops { name, own }).await?;
        client.accepted().await?;
        Ok(Self { client })
    }

    /// Returns the next drops, the oldest first. Not cancel safe.
    pub async fn recv(&mut self) -> Result<Vec<DropStatus>, LocalError> {
        match self.client.answer().await? {
            Frame::Message(Message::Dropped { drops }) => Ok(drops),
            other => Err(unexpected(&other)),
        }
    }
}
