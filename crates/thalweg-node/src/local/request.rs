//! Requests of a program that have one answer: status, tickets, paths, revocations, inputs and outputs.
//!
//! *What it does not do.* It reads and writes no frame.

use std::io;

use super::frame::Message;
use super::ticket::invite;
use crate::handle::Handle;
use crate::input::RouteError;

/// The refusal once the node's control task is gone.
pub(super) const STOPPED: &str = "the node has stopped";

/// Returns the answer to a request.
pub(super) async fn answer(request: Message, handle: &Handle) -> io::Result<Message> {
    Ok(match request {
        Message::Status => match handle.status().await {
            Some(status) => Message::Report {
                status: serde_json::to_value(status)?,
            },
            None => refusal(false, STOPPED.into()),
        },
        Message::Invite(request) => match invite(handle, request).await {
            Ok(ticket) => Message::Ticket { ticket },
            Err(reason) => Message::Refused { reason },
        },
        Message::Route { from, to, stream } => match handle.route(&from, &to, stream).await {
            Ok(paths) => Message::Paths {
                paths: serde_json::to_value(paths)?,
            },
            Err(error) => {
                let is_unknown = matches!(&error, RouteError::Name(error) if error.is_unknown());
                refusal(is_unknown, error.to_string())
            }
        },
        Message::Revoke { node } => match handle.revoke(&node).await {
            Ok(text) => Message::Notice { text },
            Err(error) => refusal(error.is_unknown(), error.to_string()),
        },
        Message::Switch { kind, name, runs } => match handle.set_end(kind, name, runs).await {
            Ok(text) => Message::Notice { text },
            Err(reason) => Message::Unknown { reason },
        },
        _ => {
            let reason = "the first frame is neither publish, subscribe, status, invite, revoke, route, \
                          trace, watch, drops nor switch";
            refusal(false, reason.into())
        }
    })
}

/// Returns a refusal.
pub(super) const fn refusal(is_unknown: bool, reason: String) -> Message {
    if is_unknown {
        Message::Unknown { reason }
    } else {
        Message::Refused { reason }
    }
}
