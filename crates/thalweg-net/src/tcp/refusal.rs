//! Refuses a peer on a fresh connection, with the reason.

use thalweg_base::time::Duration;
use thalweg_link::hop::CloseCode;
use thalweg_link::tcp_mux::Frame;
use tokio::time::timeout;

use super::line::{Line, LineError};

/// How long a refused peer or a caller at the door may take to read its answer.
pub(super) const CLOSE_WAIT: Duration = Duration::from_secs(1);

/// Sends the reason of a refusal and closes the connection.
pub(super) async fn refuse(
    mut line: Line,
    code: CloseCode,
    reason: String,
) -> Result<(), LineError> {
    line.send_frame(&Frame::Close {
        code,
        reason: reason.clone(),
    })
    .await?;
    line.end();
    // Drains what the peer still sends, so that the reason is not lost to a reset; a slow peer is
    // cut off.
    let _ = timeout(CLOSE_WAIT.into(), line.drain()).await;
    Err(LineError::Closed(code, reason))
}
