//! The driver's side of admission: tickets, grants, and which keys the network admits.
//!
//! *The idea.* The controller decides which nodes belong to the fabric, and this module applies it:
//! the network's set of admitted keys follows the membership; state that must survive a restart is
//! on disk before any other node learns of it; admission requests from other nodes are answered
//! here.

use std::path::PathBuf;

use bytes::Bytes;
use thalweg_base::id::NodeId;
use thalweg_base::limits::{TICKET_ADDRESSES_MAX, TICKET_RELAYS_MAX, TICKET_TCP_MAX};
use thalweg_base::wire::admission::{
    Answer, Credential, Knock, SECRET_BYTES, Sign as _, Signed, Ticket, decode_answer,
    decode_knock, encode_answer, encode_knock,
};
use thalweg_control::admission::{Invitation, Invitations, Unfit};
use thalweg_control::control::{AdmissionChange, NotIssued};
use thalweg_net::{Admission, AtDoor, Endpoint};
use tracing::{debug, info, warn};

use super::mind::Mind;
use super::refusals::Refusals;
use crate::fabric::state::{Contact, State};
use crate::fabric::{StateError, secret_digest, ticket};
use crate::input::{AdmissionError, InviteRequest};

/// Which keys the network admits, and the part of the saved state that the controller does not hold.
pub(super) struct Membership {
    admission: Admission,
    endpoint: Endpoint,
    /// The node's state file.
    file: Option<PathBuf>,
    invitations: Invitations,
    contacts: Vec<Contact>,
}

impl Membership {
    pub(super) fn new(endpoint: Endpoint, file: Option<PathBuf>, state: State) -> Self {
        Self {
            admission: endpoint.admission().clone(),
            endpoint,
            file,
            invitations: state.invitations,
            contacts: state.contacts,
        }
    }

    /// Returns how many dials were refused for lack of room.
    pub(super) fn refused_dials(&self) -> u64 {
        self.admission.refused_dials()
    }

    /// Returns how many connections the network has refused.
    pub(super) fn refusals(&self) -> u64 {
        self.admission.refusals()
    }

    /// Applies the controller's membership changes to the network's admitted keys, and saves the
    /// state if needed.
    pub(super) fn drain(&mut self, mind: &mut Mind) {
        let mut keep = false;
        while let Some(change) = mind.poll_admission() {
            match change {
                AdmissionChange::Enrolled(node) if node != mind.controller().id() => {
                    self.admission.admit(node);
                }
                AdmissionChange::Expelled(node) if node != mind.controller().id() => {
                    self.admission.revoke(node);
                }
                AdmissionChange::Expelled(_) => {
                    warn!(
                        "this node's own grant has expired or was revoked; other nodes close their links to it"
                    );
                }
                AdmissionChange::Keep => keep = true,
                _ => {}
            }
        }
        if keep && let Err(error) = self.save(mind) {
            warn!(%error, "state not saved; it is lost at a restart");
        }
    }

    /// Handles one step of an admission exchange, as the answering or as the asking side.
    pub(super) fn handle_door(&mut self, event: AtDoor, mind: &mut Mind, refusals: &mut Refusals) {
        // The other end of a reply channel may be gone; then the reply is not needed.
        match event {
            AtDoor::Asked {
                caller,
                knock,
                answer,
            } => {
                let reply = self.answer_request(caller, &knock, mind, refusals);
                // Admit the key before the answer leaves, since a welcomed node dials at once.
                self.drain(mind);
                let _ = answer.send(encode_answer(&reply).into());
            }
            AtDoor::Introduce { knock } => {
                let _ = knock.send(introduction(mind));
            }
            AtDoor::Answered {
                keeper,
                answer,
                heeded,
            } => {
                let result = handle_answer(keeper, &answer, mind);
                self.drain(mind);
                let _ = heeded.send(result);
            }
        }
    }

    /// Issues a ticket.
    pub(super) fn invite(
        &mut self,
        request: InviteRequest,
        mind: &mut Mind,
    ) -> Result<String, AdmissionError> {
        use thalweg_control::control::Keys as _;
        mind.controller()
            .membership()
            .check_grantable(request.rights)?;
        let fabric = mind
            .controller()
            .roll()
            .fabric()
            .ok_or(NotIssued::NoOwner)?;
        let mut addresses = request.addresses;
        let mut tcp_addresses = request.tcp_addresses;
        if addresses.is_empty() && tcp_addresses.is_empty() {
            addresses = self.endpoint.addresses();
            tcp_addresses = self.endpoint.tcp_addresses();
        }
        addresses.truncate(TICKET_ADDRESSES_MAX);
        tcp_addresses.truncate(TICKET_TCP_MAX);
        let relays = self.endpoint.relays();
        if addresses.is_empty() && tcp_addresses.is_empty() && relays.is_empty() {
            return Err(AdmissionError::NoAddress);
        }
        let now = mind.controller().membership().unix_time(mind.now());
        let mut secret = [0; SECRET_BYTES];
        mind.drive(|_, _, keys| keys.random(&mut secret))?;
        let expiry = now.after(request.open_for);
        let invitation = Invitation {
            rights: request.rights,
            expiry,
            uses: request.uses,
            lasts: request.lasts,
            taken: Vec::new(),
        };
        let digest = secret_digest(&secret);
        self.invitations.insert(digest, invitation, now)?;
        self.save(mind)?;
        let relays = relays.iter().take(TICKET_RELAYS_MAX);
        let content = Ticket {
            fabric,
            inviter: mind.controller().id(),
            addresses,
            tcp_addresses,
            relays: relays.map(ToString::to_string).collect(),
            secret,
            rights: request.rights,
            expiry,
        };
        let signed = content.signed_bytes();
        let signature = mind.drive(|_, _, keys| keys.sign(&signed));
        info!(rights = %request.rights, uses = request.uses, "ticket issued");
        Ok(ticket::to_text(&Signed { content, signature }))
    }

    /// Revokes all grants of a node, given by name or key; returns a sentence for the operator.
    pub(super) fn revoke(&mut self, node: &str, mind: &mut Mind) -> Result<String, AdmissionError> {
        let key = mind.find(node)?;
        let name = mind.name_of(key);
        let is_known = mind.controller().roll().credential(key).is_some();
        mind.drive(|controller, now, keys| controller.revoke(key, now, keys))?;
        self.drain(mind);
        self.save(mind)?;
        if is_known {
            return Ok(format!(
                "{name} ({}) no longer belongs to the fabric: its links are closed as the revocation spreads",
                key.short()
            ));
        }
        // A serial is the time of day, so the revocation of a grant never seen covers grants up to
        // this clock's time only.
        Ok(format!(
            "this node knows of no grant to {name} ({}): grants to it up to now, by this node's clock, become void as the revocation \
             spreads; if `thalweg ls` shows it later, this node's clock is behind: set the clock, restart the node, and revoke again",
            key.short()
        ))
    }

    fn answer_request(
        &mut self,
        caller: NodeId,
        knock: &[u8],
        mind: &mut Mind,
        refusals: &mut Refusals,
    ) -> Answer {
        let granted = match decode_knock(knock) {
            Ok(Knock::Present { fabric, credential }) => {
                admit(caller, fabric, credential, mind).map(|()| None)
            }
            Ok(Knock::Redeem { fabric, secret }) => {
                self.redeem(caller, fabric, &secret, mind).map(Some)
            }
            Err(error) => Err(error.to_string()),
        };
        match granted {
            Ok(granted) => {
                debug!(caller = %caller.short(), "admitted");
                Answer::Welcome {
                    credential: own_credential(mind),
                    granted,
                }
            }
            Err(why) => {
                let own = mind.controller().id();
                let reason = format!(
                    "{} ({}) does not let {} in: {why}",
                    mind.name_of(own),
                    own.short(),
                    caller.short()
                );
                refusals.count("admission", reason.clone());
                Answer::Refused { reason }
            }
        }
    }

    fn redeem(
        &mut self,
        caller: NodeId,
        fabric: NodeId,
        secret: &[u8; SECRET_BYTES],
        mind: &mut Mind,
    ) -> Result<Credential, String> {
        same_fabric(fabric, mind)?;
        let now = mind.now();
        let (at, serial) = (
            mind.controller().membership().unix_time(now),
            mind.controller().membership().next_serial(caller, now),
        );
        let digest = secret_digest(secret);
        let redeemed = self.invitations.redeem(&digest, caller, serial, at);
        let redeemed = redeemed.map_err(|error| error.to_string())?;
        // On disk before the grant exists: a crash in between must not let the ticket be redeemed
        // once more.
        self.save(mind).map_err(|error| error.to_string())?;
        let granted = mind.drive(|controller, _, keys| {
            let (rights, lasts) = (redeemed.rights, redeemed.lasts);
            controller.grant(caller, rights, lasts, redeemed.serial, now, keys)
        });
        granted.map_err(|error| error.to_string())
    }

    fn save(&self, mind: &Mind) -> Result<(), StateError> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let roll = mind.controller().roll();
        let state = State {
            fabric: roll.fabric(),
            credential: own_credential(mind),
            contacts: self.contacts.clone(),
            warrants: roll.warrants().cloned().collect(),
            invitations: self.invitations.clone(),
        };
        state.save(file)
    }
}

/// Accepts a node of a fabric, by the credential that it shows.
fn admit(
    caller: NodeId,
    fabric: NodeId,
    credential: Option<Credential>,
    mind: &mut Mind,
) -> Result<(), String> {
    same_fabric(fabric, mind)?;
    if fabric == caller {
        return Ok(());
    }
    let credential = credential.ok_or("it shows no grant")?;
    accept_credential(caller, credential, mind)
}

/// Accepts the credential that a node shows as its own.
fn accept_credential(
    shown_by: NodeId,
    credential: Credential,
    mind: &mut Mind,
) -> Result<(), String> {
    let granted = credential.grant.content.node;
    if granted != shown_by {
        return Err(Unfit::OtherNode { granted, shown_by }.to_string());
    }
    let accepted =
        mind.drive(|controller, now, keys| controller.handle_credential(credential, now, keys));
    accepted.map_err(|error| error.to_string())
}

fn same_fabric(theirs: NodeId, mind: &Mind) -> Result<(), String> {
    match mind.controller().roll().fabric() {
        None => Err("its fabric has no owner, so grants and tickets do not apply".into()),
        Some(ours) if ours != theirs => Err(Unfit::OtherFabric { theirs, ours }.to_string()),
        Some(_) => Ok(()),
    }
}

/// Returns how this node introduces itself to another, if it may.
fn introduction(mind: &Mind) -> Option<Bytes> {
    let fabric = mind.controller().roll().fabric()?;
    let credential = own_credential(mind);
    if credential.is_none() && fabric != mind.controller().id() {
        return None;
    }
    Some(encode_knock(&Knock::Present { fabric, credential }).into())
}

fn handle_answer(keeper: NodeId, answer: &[u8], mind: &mut Mind) -> Result<(), String> {
    match decode_answer(answer) {
        Ok(Answer::Refused { reason }) => Err(reason),
        Ok(Answer::Welcome { credential, .. }) => match credential {
            Some(credential) => accept_credential(keeper, credential, mind),
            None if mind.controller().roll().fabric() == Some(keeper) => Ok(()),
            None => Err(format!("{} shows no grant", keeper.short())),
        },
        Err(error) => Err(format!(
            "{} sent an invalid answer: {error}",
            keeper.short()
        )),
    }
}

fn own_credential(mind: &Mind) -> Option<Credential> {
    let roll = mind.controller().roll();
    roll.credential(mind.controller().id()).cloned()
}
