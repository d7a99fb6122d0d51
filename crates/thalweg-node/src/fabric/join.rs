//! Joining a fabric with a ticket, before the node runs.
//!
//! *The idea.* Everything that the ticket itself can prove is checked first, so that a bad one is refused without a word
//! to anybody. Then the inviter is called, by the key that the ticket names; what it grants is checked like any grant,
//! and kept in the node's file. Nothing is written before the grant is there and good.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use thalweg_core::admission::{Rights, Roll, Unfit, UnixTime};
use thalweg_core::id::NodeId;
use thalweg_core::time::{Duration, Rough};
use thalweg_core::wire::WireError;
use thalweg_core::wire::admission::{
    Answer, Credential, Knock, Ticket, decode_answer, encode_knock,
};
use thalweg_net::{Identity, NoRelay, Unreachable, door, identity};

use super::state::{Contact, State, StateError};
use crate::config::Owner;

/// What joining has brought.
#[derive(Clone, Debug)]
pub struct Joined {
    /// The fabric, named by its owner's key.
    pub fabric: NodeId,
    /// Who let this node in.
    pub inviter: NodeId,
    /// What this node may do.
    pub rights: Rights,
    /// Until when.
    pub expiry: UnixTime,
    /// When it joined, by this machine's clock.
    pub now: UnixTime,
}

/// A node does not join, and why.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The ticket's time is over.
    #[error("the ticket of {} expired {} ago by this machine's clock: ask for another", inviter.short(), Rough(*seconds))]
    Expired {
        /// Who gave it out.
        inviter: NodeId,
        /// How long ago.
        seconds: u64,
    },
    /// The node belongs to another fabric.
    #[error("the ticket of {} is for the fabric {}, and this node belongs to {}: a node belongs to one fabric", inviter.short(), theirs.short(), ours.short())]
    OtherFabric {
        /// Who gave it out.
        inviter: NodeId,
        /// Which fabric it is for.
        theirs: NodeId,
        /// This node's.
        ours: NodeId,
    },
    /// The configuration says another owner; the node would not start with the grant.
    #[error("the ticket of {} is for the fabric {}, and the configuration says `owner = \"{configured}\"`: take that line out of it, or ask for a ticket of that fabric", inviter.short(), theirs.short())]
    OtherOwner {
        /// Who gave it out.
        inviter: NodeId,
        /// Which fabric it is for.
        theirs: NodeId,
        /// Whose grants count by the configuration; this node's key where it says that it is the owner itself.
        configured: NodeId,
    },
    /// The node belongs to the fabric already.
    #[error("this node belongs to the fabric {} already, and may {rights}; if that was revoked, move its `state` file away first", fabric.short())]
    Member {
        /// Which.
        fabric: NodeId,
        /// What it may do.
        rights: Rights,
    },
    /// The ticket names what is no relay.
    #[error("the ticket names a relay that is none, ask for another: {0}")]
    NoRelay(#[from] NoRelay),
    /// The inviter cannot be reached.
    #[error("the inviter cannot be reached: {0}")]
    Unreachable(#[from] Unreachable),
    /// The inviter says no.
    #[error("{} does not let this node in: {reason}", inviter.short())]
    Refused {
        /// Who.
        inviter: NodeId,
        /// Why, as it says.
        reason: String,
    },
    /// The inviter's answer makes no sense.
    #[error("{} sent an invalid answer: {error}", inviter.short())]
    Malformed {
        /// Who.
        inviter: NodeId,
        /// What is wrong with it.
        error: WireError,
    },
    /// The inviter grants what does not hold.
    #[error("{} gave a grant that does not hold: {error}", inviter.short())]
    Unfit {
        /// Who.
        inviter: NodeId,
        /// What is wrong with it.
        error: Unfit,
    },
    /// The clocks of the two are apart.
    #[error("{} gave a grant that does not hold now: {error}; set this machine's clock, or the inviter's, and try again", inviter.short())]
    Clock {
        /// Who.
        inviter: NodeId,
        /// How far apart.
        error: Unfit,
    },
    /// The inviter gave no grant, or one of another node.
    #[error("{} gave no grant for this node", inviter.short())]
    NothingGranted {
        /// Who.
        inviter: NodeId,
    },
    /// The file cannot be read or written.
    #[error(transparent)]
    State(#[from] StateError),
}

impl JoinError {
    /// Returns whether the inviter may have given the ticket to this node's key, of which no other can have it then.
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

/// Redeems a ticket for a node and keeps what it is granted in its file; `owner` is what its configuration says.
///
/// Fails   with the reason as a sentence that names the inviter; nothing is written then
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
    let granted = granted(ticket, identity.id(), &answer)?;
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

/// Checks that the configuration leaves the node to the ticket's fabric, before the ticket is used for nothing.
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

/// Checks what needs nobody else.
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
    // A member whose grant has run out joins again.
    let (roll, _) = state.roll(own, now);
    let is_member = state.fabric.is_some() && roll.admits(own);
    if is_member || own == fabric {
        let rights = Roll::rights(&roll, own);
        return Err(JoinError::Member { fabric, rights });
    }
    Ok(())
}

fn granted(ticket: &Ticket, own: NodeId, answer: &[u8]) -> Result<Credential, JoinError> {
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
