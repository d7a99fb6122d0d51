//! A ticket for a program of this machine.
//!
//! *The idea.* The program says in words and seconds what the ticket is to grant; the node is asked in its own types.
//!
//! *What it does not do.* It grants nothing: the control task does.

use thalweg_core::admission::Rights;
use thalweg_core::time::Duration;

use super::frame::TicketRequest;
use crate::control::InviteRequest;
use crate::handle::Handle;

/// Returns a ticket as text.
///
/// Fails   with a sentence for the program: unknown rights, or the node may not grant them
pub(super) async fn invite(handle: &Handle, request: TicketRequest) -> Result<String, String> {
    let rights = request.rights.parse::<Rights>();
    let seconds = request.lasts_seconds;
    let request = InviteRequest {
        rights: rights.map_err(|error| error.to_string())?,
        uses: request.uses,
        open_for: Duration::from_secs(request.open_for_seconds),
        lasts: seconds.map_or(Duration::NEVER, Duration::from_secs),
        addresses: request.addresses,
        tcp_addresses: request.tcp_addresses,
    };
    let ticket = handle.invite(request).await;
    ticket.map_err(|error| error.to_string())
}
