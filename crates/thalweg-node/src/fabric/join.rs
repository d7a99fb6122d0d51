//! Joining a fabric with a ticket, before the node runs.
//!
//! *The idea.* Everything that the ticket itself can prove is checked first, so that a bad one is
//! refused without any network traffic. Then the inviter is dialled by the key that the ticket
//! names. Its grant is checked like any other and saved in the node's state file. Nothing is
//! written before a valid grant has arrived.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use thalweg_base::id::NodeId;
use thalweg_base::time::{Duration, Rough};
use thalweg_base::wire::WireError;
use thalweg_base::wire::admission::{
    Answer, Credential, Knock, Ticket, decode_answer, encode_knock,
};
use thalweg_control::admission::{Rights, Roll, Unfit, UnixTime};
use thalweg_net::{Identity, NoRelay, Unreachable, door, identity};

use super::state::{Contact, State, StateError};
use crate::config::Owner;

/// The result of joining.
#[derive(Clone, Debug)]
pub struct Joined {
    /// The fabric, named by its owner's key.
    pub fabric: NodeId,
    /// The node that granted admission.
    pub inviter: NodeId,
    /// This node's rights.
    pub rights: Rights,
    /// When they expire.
    pub expiry: UnixTime,
    /// When it joined, by this machine's clock.
    pub now: UnixTime,
}

/// Why a node has not joined.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The ticket has expired.
    #[error("the ticket of {} expired {} ago by this machine's clock: ask for another", inviter.short(), Rough(*seconds))]
    Expired {
        /// The node that issued it.
        inviter: NodeId,
        /// Seconds since its expiry.
        seconds: u64,
    },
    /// The node belongs to another fabric.
    #[error("the ticket of {} is for the fabric {}, and this node belongs to {}: a node belongs to one fabric", inviter.short(), theirs.short(), ours.short())]
    OtherFabric {
        /// The node that issued it.
        inviter: NodeId,
        /// The ticket's fabric.
        theirs: NodeId,
        /// This node's.
        ours: NodeId,
    },
    /// The configuration names another owner, so the node would not start with the grant.
    #[error("the ticket of {} is for the fabric {}, and the configuration says `owner = \"{configured}\"`: take that line out of it, or ask for a ticket of that fabric", inviter.short(), theirs.short())]
    OtherOwner {
        /// The node that issued it.
        inviter: NodeId,
        /// The ticket's fabric.
        theirs: NodeId,
        /// The owner by the configuration: this node's own key if it says `self`.
        configured: NodeId,
    },
    /// The node belongs to the fabric already.
    #[error("this node belongs to the fabric {} already, and may {rights}; if that was revoked, move its `state_file` away first", fabric.short())]
    Member {
        /// The fabric.
        fabric: NodeId,
        /// This node's rights.
        rights: Rights,
    },
    /// The ticket names an invalid relay.
    #[error("the ticket names an invalid relay: {0}; ask for another ticket")]
    NoRelay(#[from] NoRelay),
    /// The inviter cannot be reached.
    #[error("the inviter cannot be reached: {0}")]
    Unreachable(#[from] Unreachable),
    /// The inviter refuses.
    #[error("{} does not let this node in: {reason}", inviter.short())]
    Refused {
        /// The inviter.
        inviter: NodeId,
        /// Its reason.
        reason: String,
    },
    /// The inviter's answer is malformed.
    #[error("{} sent an invalid answer: {error}", inviter.short())]
    Malformed {
        /// The inviter.
        inviter: NodeId,
        /// The mistake.
        error: WireError,
    },
    /// The inviter's grant is invalid.
    #[error("{} issued an invalid grant: {error}", inviter.short())]
    Unfit {
        /// The inviter.
        inviter: NodeId,
        /// The mistake.
        error: Unfit,
    },
    /// The two nodes' clocks differ.
    #[error("{} gave a grant that does not hold now: {error}; set this machine's clock, or the inviter's, and try again", inviter.short())]
    Clock {
        /// The inviter.
        inviter: NodeId,
        /// The difference.
        error: Unfit,
    },
    /// The inviter sent no grant, or one for another node.
    #[error("{} issued no grant for this node", inviter.short())]
    NothingGranted {
        /// The inviter.
        inviter: NodeId,
    },
    /// The state file cannot be read or written.
    #[error(transparent)]
    State(#[from] StateError),
}

impl JoinError {
    /// Returns whether the inviter may have spent the ticket on this node's key, so that no other
    /// node can redeem it.
    pub const fn is_after_knock(&self) -> bool {
        matches!(
            self,
            Self::Unreachable(_)
                | Self::Malformed { .. }
                | Self::Unfit { .. }
                | Self::Clock { .. }
                | Self::NothingGranted { .. }
                | Self::State(_)
        )
    }
}

/// Redeems a ticket for a node and saves the grant in its state file; `owner` is the configured
/// owner.
///
/// Fails   with a sentence that names the inviter; nothing is written then
pub async fn join(
    ticket: &Ticket,
    identity: &Identity,
    owner: Owner,
    file: &Path,
) -> Result<Joined, JoinError> {
    let now = unix_time();
    let mut state = State::load(file)?;
    state.check(Some(identity.id()), file)?;
    check_owner(ticket, identity.id(), owner)?;
    check(ticket, identity.id(), &state, now)?;
    let Ticket {
        fabric, inviter, ..
    } = *ticket;
    let knock = Knock::Redeem {
        fabric,
        secret: ticket.secret,
    };
    let relays = ticket.relays.iter().map(|relay| relay.parse());
    let contact = Contact {
        key: inviter,
        addresses: ticket.addresses.clone(),
        tcp_addresses: ticket.tcp_addresses.clone(),
        relays: relays.collect::<Result<_, _>>()?,
    };
    let answer = door::call(identity, inviter, contact.reach(), &encode_knock(&knock)).await?;
    let granted = granted_credential(ticket, identity.id(), &answer)?;
    let mut roll = Roll::of(fabric);
    roll.handle_credential(granted.clone(), now, &identity::verify)
        .map_err(|error| match error {
            Unfit::Early { .. } | Unfit::Late { .. } => JoinError::Clock { inviter, error },
            error => JoinError::Unfit { inviter, error },
        })?;
    let (rights, expiry) = (granted.grant.content.rights, granted.grant.content.expiry);
    state.fabric = Some(fabric);
    state.credential = Some(granted);
    state.contacts.retain(|contact| contact.key != inviter);
    state.contacts.push(contact);
    state.save(file)?;
    Ok(Joined {
        fabric,
        inviter,
        rights,
        expiry,
        now,
    })
}

/// Checks that the configuration allows the ticket's fabric, before the ticket is spent in vain.
fn check_owner(ticket: &Ticket, own: NodeId, owner: Owner) -> Result<(), JoinError> {
    let configured = match owner {
        Owner::Kept => return Ok(()),
        Owner::Own => own,
        Owner::Key(key) => key,
    };
    let (inviter, theirs) = (ticket.inviter, ticket.fabric);
    if configured == theirs {
        return Ok(());
    }
    Err(JoinError::OtherOwner {
        inviter,
        theirs,
        configured,
    })
}

/// Runs the checks that need no other node.
fn check(ticket: &Ticket, own: NodeId, state: &State, now: UnixTime) -> Result<(), JoinError> {
    let (inviter, fabric) = (ticket.inviter, ticket.fabric);
    if let Some(ours) = state.fabric.filter(|ours| *ours != fabric) {
        return Err(JoinError::OtherFabric {
            inviter,
            theirs: fabric,
            ours,
        });
    }
    if now >= ticket.expiry {
        let seconds = now.seconds() - ticket.expiry.seconds();
        return Err(JoinError::Expired { inviter, seconds });
    }
    // A member with an expired grant joins again.
    let (roll, _) = state.roll(own, now);
    let is_member = state.fabric.is_some() && roll.admits(own);
    if is_member || own == fabric {
        let rights = Roll::rights(&roll, own);
        return Err(JoinError::Member { fabric, rights });
    }
    Ok(())
}

fn granted_credential(
    ticket: &Ticket,
    own: NodeId,
    answer: &[u8],
) -> Result<Credential, JoinError> {
    let inviter = ticket.inviter;
    let answer = decode_answer(answer);
    let answer = answer.map_err(|error| JoinError::Malformed { inviter, error })?;
    let granted = match answer {
        Answer::Refused { reason } => return Err(JoinError::Refused { inviter, reason }),
        Answer::Welcome { granted, .. } => granted,
    };
    granted
        .filter(|credential| credential.grant.content.node == own)
        .ok_or(JoinError::NothingGranted { inviter })
}

fn unix_time() -> UnixTime {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    UnixTime::since_1970(Duration::from(since_1970.unwrap_or_default()))
}
