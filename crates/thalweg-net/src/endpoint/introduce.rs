//! Dials a peer that may not know this node yet.

use thalweg_base::id::NodeId;
use tokio::sync::oneshot;

use super::{Endpoint, dial};
use crate::address::Addresses;
use crate::door::Caller;
use crate::doorkeeper::{AtDoor, Door};
use crate::error::Unreachable;
use crate::link::{Link, Transport};

/// Dials once; if one end does not admit the other yet, introduces this node at the peer's door and
/// dials again.
pub(super) async fn dial_introduced(
    endpoint: &Endpoint,
    peer: NodeId,
    addresses: &Addresses,
    first: Transport,
) -> Result<Link, Unreachable> {
    let refused = match dial::once(endpoint, peer, addresses, first).await {
        Err(refused @ (Unreachable::NotAdmitted { .. } | Unreachable::NotAdmittedHere(_))) => {
            refused
        }
        dialled => return dialled,
    };
    let Some(door) = &endpoint.0.door else {
        return Err(refused);
    };
    if introduce(endpoint, peer, addresses, door).await? {
        dial::once(endpoint, peer, addresses, first).await
    } else {
        Err(refused)
    }
}

/// Introduces this node at the door of a kept peer; returns true if it was let in, false if there
/// was nothing to send.
async fn introduce(
    endpoint: &Endpoint,
    peer: NodeId,
    addresses: &Addresses,
    door: &Door,
) -> Result<bool, Unreachable> {
    let keeper = &door.keeper;
    let shutting_down = || Unreachable::ShuttingDown;
    let (request, response) = oneshot::channel();
    let introduce = AtDoor::Introduce { knock: request };
    keeper.send(introduce).await.map_err(|_| shutting_down())?;
    let Some(request) = response.await.map_err(|_| shutting_down())? else {
        return Ok(false);
    };
    let caller = Caller {
        identity: &endpoint.tcp().session.identity,
        iroh: endpoint
            .may_try_quic(addresses)
            .then(|| (endpoint.iroh(), endpoint.udp())),
        congestion: endpoint.tcp().session.congestion.as_deref(),
        head_start: endpoint.tcp().head_start,
    };
    let answer = Box::pin(caller.call(peer, addresses, &request)).await?;
    let (result_tx, result) = oneshot::channel();
    let answered = AtDoor::Answered {
        keeper: peer,
        answer,
        heeded: result_tx,
    };
    keeper.send(answered).await.map_err(|_| shutting_down())?;
    let result = result.await.map_err(|_| shutting_down())?;
    result
        .map(|()| true)
        .map_err(|reason| Unreachable::NotAdmitted { peer, reason })
}
