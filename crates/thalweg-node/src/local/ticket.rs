//! Issues a ticket for a program on this machine.
//!
//! *The idea.* The program gives the terms in words and seconds; this translates them to the node's
//! own types.
//!
//! *What it does not do.* It grants nothing; the control task does.

use thalweg_base::time::Duration;
use thalweg_control::admission::Rights;

use super::frame::TicketRequest;
use crate::handle::Handle;
use crate::input::InviteRequest;

/// Returns the ticket as text.
///
/// Fails   with a sentence for the program: unknown rights, or rights that the node may not grant
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
