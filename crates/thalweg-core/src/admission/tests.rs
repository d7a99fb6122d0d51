//! Proves what a grant is worth: by whom, for whom, from when and until when; and what a revocation reaches.
//!
//! *How.* A signature is a checksum with the signer's key in it. Properties make up chains of grants and compare what the
//! roll says with the rule written out.

use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::{Invitation, Invitations, News, NotRedeemed, Rights, Roll, Unfit, UnixTime};
use crate::id::NodeId;
use crate::limits::INVITATIONS_MAX;
use crate::time::Duration;
use crate::wire::admission::{Credential, Grant, Revocation, Sign, Signed, Warrant};

const OWNER: NodeId = NodeId([1; 32]);
const DELEGATE: NodeId = NodeId([2; 32]);
const NODE: NodeId = NodeId([3; 32]);
const STRANGER: NodeId = NodeId([4; 32]);

const AT: UnixTime = UnixTime::from_seconds(1_000);

pub(crate) fn signature(signer: NodeId, message: &[u8]) -> [u8; 64] {
    let sum = signer.0.iter().chain(message);
    let sum = sum.fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut signature = [0; 64];
    signature[..8].copy_from_slice(&sum.to_be_bytes());
    signature
}

fn verify(signer: NodeId, message: &[u8], given: &[u8; 64]) -> bool {
    signature(signer, message) == *given
}

fn signed<T: Sign>(signer: NodeId, content: T) -> Signed<T> {
    let signature = signature(signer, &content.signed_bytes());
    Signed { content, signature }
}

fn grant(issuer: NodeId, node: NodeId, rights: Rights) -> Grant {
    Grant {
        fabric: OWNER,
        issuer,
        node,
        rights,
        serial: 10,
        not_before: UnixTime::from_seconds(900),
        expiry: UnixTime::from_seconds(2_000),
    }
}

fn by_owner(grant: Grant) -> Credential {
    Credential {
        grant: signed(OWNER, grant),
        delegation: None,
    }
}

fn by_delegate(rights: Rights, delegated: Rights) -> Credential {
    Credential {
        grant: signed(DELEGATE, grant(DELEGATE, NODE, rights)),
        delegation: Some(signed(OWNER, grant(OWNER, DELEGATE, delegated))),
    }
}

fn revocation(issuer: NodeId, node: NodeId, serial: u64) -> Warrant {
    let content = Revocation {
        fabric: OWNER,
        issuer,
        node,
        serial,
    };
    let delegation = || signed(OWNER, grant(OWNER, DELEGATE, Rights::ALL));
    Warrant {
        revocation: signed(issuer, content),
        delegation: (issuer != OWNER).then(delegation),
    }
}

fn enrol(roll: &mut Roll, credential: Credential) -> Result<News, Unfit> {
    roll.handle_credential(credential, AT, &verify)
}

fn refused(credential: Credential) -> Unfit {
    let mut roll = Roll::of(OWNER);
    let refused = enrol(&mut roll, credential).expect_err("it does not hold");
    assert_eq!(roll.members().count(), 0);
    refused
}

#[test]
fn without_an_owner_everybody_may_everything() {
    let roll = Roll::open();
    assert_eq!(roll.rights(STRANGER), Rights::ALL);
    assert!(roll.admits(STRANGER));
    let mut roll = roll;
    let granted = by_owner(grant(OWNER, NODE, Rights::ALL));
    assert_eq!(enrol(&mut roll, granted), Err(Unfit::NoOwner));
}

#[test]
fn with_an_owner_only_the_granted_may_and_only_that() {
    let mut roll = Roll::of(OWNER);
    assert_eq!(roll.rights(OWNER), Rights::ALL);
    assert!(!roll.admits(NODE));
    let credential = by_owner(grant(OWNER, NODE, Rights::PUBLISH));
    assert_eq!(enrol(&mut roll, credential.clone()), Ok(News::Changed));
    assert_eq!(enrol(&mut roll, credential), Ok(News::Known));
    assert!(roll.admits(NODE) && roll.may(NODE, Rights::PUBLISH));
    assert!(!roll.may(NODE, Rights::RELAY));
    assert_eq!(roll.rights(STRANGER), Rights::NONE);
}

#[test]
fn a_grant_holds_between_its_two_times() {
    let mut early = grant(OWNER, NODE, Rights::ALL);
    early.not_before = UnixTime::from_seconds(1_001);
    assert_eq!(
        refused(by_owner(early.clone())),
        Unfit::Early { seconds: 1 }
    );
    early.not_before = AT;
    assert!(enrol(&mut Roll::of(OWNER), by_owner(early)).is_ok());
    let mut late = grant(OWNER, NODE, Rights::ALL);
    late.expiry = AT;
    assert_eq!(refused(by_owner(late.clone())), Unfit::Late { seconds: 0 });
    late.expiry = UnixTime::from_seconds(1_001);
    let mut roll = Roll::of(OWNER);
    assert!(enrol(&mut roll, by_owner(late)).is_ok());
    assert_eq!(roll.poll_timeout(), UnixTime::from_seconds(1_001));
    assert_eq!(roll.handle_timeout(AT), []);
    assert_eq!(roll.handle_timeout(UnixTime::from_seconds(1_001)), [NODE]);
    assert!(!roll.admits(NODE));
}

#[test]
fn a_forged_stale_or_foreign_grant_is_refused_with_who_is_to_blame() {
    let mut forged = by_owner(grant(OWNER, NODE, Rights::RELAY));
    forged.grant.content.rights = Rights::ALL;
    assert_eq!(refused(forged), Unfit::Forged { issuer: OWNER });
    let own = Credential {
        grant: signed(STRANGER, grant(STRANGER, NODE, Rights::ALL)),
        delegation: None,
    };
    assert_eq!(refused(own), Unfit::NotIssuer { issuer: STRANGER });
    let mut foreign = grant(OWNER, NODE, Rights::ALL);
    foreign.fabric = STRANGER;
    assert_eq!(
        refused(by_owner(foreign)),
        Unfit::OtherFabric {
            theirs: STRANGER,
            ours: OWNER
        }
    );
    assert_eq!(
        refused(by_owner(grant(OWNER, OWNER, Rights::NONE))),
        Unfit::OfOwner
    );
}

#[test]
fn a_chain_is_one_delegate_long() {
    let good = by_delegate(Rights::RELAY, Rights::RELAY.with(Rights::INVITE));
    assert!(enrol(&mut Roll::of(OWNER), good.clone()).is_ok());
    let powerless = by_delegate(Rights::RELAY, Rights::MEMBER);
    assert_eq!(refused(powerless), Unfit::NotIssuer { issuer: DELEGATE });
    let passed_on = by_delegate(Rights::INVITE, Rights::ALL);
    let excess = Rights::INVITE;
    assert_eq!(
        refused(passed_on),
        Unfit::Beyond {
            issuer: DELEGATE,
            excess
        }
    );
    let mut of_delegate = good.clone();
    let by_stranger = grant(STRANGER, DELEGATE, Rights::ALL);
    of_delegate.delegation = Some(signed(STRANGER, by_stranger));
    assert_eq!(refused(of_delegate), Unfit::NotIssuer { issuer: DELEGATE });
    let mut late = good;
    let mut delegation = grant(OWNER, DELEGATE, Rights::ALL);
    delegation.expiry = AT;
    late.delegation = Some(signed(OWNER, delegation));
    late.grant.content.expiry = AT;
    late.grant = signed(DELEGATE, late.grant.content);
    assert_eq!(refused(late), Unfit::Late { seconds: 0 });
}

#[test]
fn what_a_delegate_grants_ends_with_its_own_grant_at_the_latest() {
    let mut long = by_delegate(Rights::RELAY, Rights::ALL);
    long.grant.content.expiry = UnixTime::from_seconds(2_001);
    long.grant = signed(DELEGATE, long.grant.content);
    assert_eq!(refused(long), Unfit::Outlasts { issuer: DELEGATE });
    // Or else whom the delegate revoked under this grant, and its warrant went with, would hold again under the next.
    let mut renewed = by_delegate(Rights::RELAY, Rights::ALL);
    renewed.grant.content.expiry = UnixTime::NEVER;
    renewed.grant = signed(DELEGATE, renewed.grant.content);
    assert_eq!(refused(renewed), Unfit::Outlasts { issuer: DELEGATE });
}

#[test]
fn the_owners_grant_stands_above_a_delegates_and_a_later_above_an_earlier() {
    let mut roll = Roll::of(OWNER);
    let mut newer = by_delegate(Rights::RELAY, Rights::ALL);
    newer.grant.content.serial = 99;
    newer.grant = signed(DELEGATE, newer.grant.content);
    assert_eq!(enrol(&mut roll, newer.clone()), Ok(News::Changed));
    let owners = by_owner(grant(OWNER, NODE, Rights::PUBLISH));
    assert_eq!(enrol(&mut roll, owners), Ok(News::Changed));
    assert_eq!(enrol(&mut roll, newer), Ok(News::Known));
    assert_eq!(roll.rights(NODE), Rights::PUBLISH);
    let mut later = grant(OWNER, NODE, Rights::SUBSCRIBE);
    later.serial = 11;
    assert_eq!(enrol(&mut roll, by_owner(later)), Ok(News::Changed));
    assert_eq!(roll.rights(NODE), Rights::SUBSCRIBE);
}

#[test]
fn a_revocation_reaches_up_to_its_serial_and_not_beyond() {
    let mut roll = Roll::of(OWNER);
    let credential = by_owner(grant(OWNER, NODE, Rights::ALL));
    enrol(&mut roll, credential.clone()).expect("it holds");
    let revoke = |roll: &mut Roll, warrant| roll.handle_warrant(warrant, AT, &verify);
    let below = revocation(OWNER, NODE, 9);
    assert_eq!(revoke(&mut roll, below), Ok((News::Changed, vec![])));
    let at = revocation(OWNER, NODE, 10);
    assert_eq!(
        revoke(&mut roll, at.clone()),
        Ok((News::Changed, vec![NODE]))
    );
    assert_eq!(revoke(&mut roll, at), Ok((News::Known, vec![])));
    assert_eq!(
        enrol(&mut roll, credential),
        Err(Unfit::Revoked { node: NODE })
    );
    let mut again = grant(OWNER, NODE, Rights::RELAY);
    again.serial = 11;
    assert_eq!(enrol(&mut roll, by_owner(again)), Ok(News::Changed));
    assert_eq!(roll.revoked_serial(NODE), Some(10));
}

#[test]
fn a_delegate_revokes_its_own_grants_only_and_takes_them_along() {
    let mut roll = Roll::of(OWNER);
    enrol(&mut roll, by_owner(grant(OWNER, NODE, Rights::ALL))).expect("it holds");
    let by = revocation(DELEGATE, NODE, 10);
    let (_, gone) = roll.handle_warrant(by, AT, &verify).expect("it is sound");
    assert_eq!(gone, [], "the owner has granted it");
    let mut roll = Roll::of(OWNER);
    enrol(&mut roll, by_delegate(Rights::RELAY, Rights::ALL)).expect("it holds");
    let end = revocation(OWNER, DELEGATE, 10);
    let (_, gone) = roll.handle_warrant(end, AT, &verify).expect("it is sound");
    assert_eq!(gone, [NODE], "who was let in by the delegate goes with it");
    let own = revocation(DELEGATE, NODE, 10);
    assert_eq!(
        roll.handle_warrant(own, AT, &verify),
        Err(Unfit::Revoked { node: DELEGATE })
    );
}

#[test]
fn a_forged_revocation_takes_nobody_off() {
    let mut roll = Roll::of(OWNER);
    enrol(&mut roll, by_owner(grant(OWNER, NODE, Rights::ALL))).expect("it holds");
    let mut forged = revocation(OWNER, NODE, 10);
    forged.revocation.signature[0] ^= 1;
    assert_eq!(
        roll.handle_warrant(forged, AT, &verify),
        Err(Unfit::Forged { issuer: OWNER })
    );
    let mut stranger = revocation(STRANGER, NODE, 10);
    stranger.delegation = None;
    assert_eq!(
        roll.handle_warrant(stranger, AT, &verify),
        Err(Unfit::NotIssuer { issuer: STRANGER })
    );
    assert_eq!(
        roll.handle_warrant(revocation(OWNER, OWNER, 10), AT, &verify),
        Err(Unfit::OfOwner)
    );
    assert!(roll.admits(NODE));
}

fn invitation(uses: usize) -> Invitation {
    Invitation {
        rights: Rights::MEMBER,
        expiry: UnixTime::from_seconds(1_100),
        uses,
        lasts: Duration::NEVER,
        taken: Vec::new(),
    }
}

#[test]
fn a_ticket_is_good_for_as_many_nodes_as_it_says_and_until_its_time() {
    let mut invitations = Invitations::default();
    let (digest, other) = ([7; 32], [8; 32]);
    invitations.insert(digest, invitation(1), AT).expect("room");
    assert_eq!(
        invitations.redeem(&other, NODE, 5, AT),
        Err(NotRedeemed::Unknown)
    );
    let last = UnixTime::from_seconds(1_099);
    let first = invitations.redeem(&digest, NODE, 5, last).expect("good");
    let again = invitations
        .redeem(&digest, NODE, 6, last)
        .expect("the same");
    assert_eq!(
        (first.serial, again.serial),
        (5, 5),
        "asking again is no new grant"
    );
    assert_eq!(
        invitations.redeem(&digest, STRANGER, 7, last),
        Err(NotRedeemed::Used { uses: 1 })
    );
    assert_eq!(
        invitations.redeem(&digest, NODE, 7, UnixTime::from_seconds(1_100)),
        Err(NotRedeemed::Late { seconds: 0 })
    );
}

#[test]
fn tickets_are_bounded_and_expired_ones_make_room() {
    let mut invitations = Invitations::default();
    let digest = |number: usize| {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&number.to_be_bytes());
        digest
    };
    for number in 0..INVITATIONS_MAX {
        let kept = invitations.insert(digest(number), invitation(1), AT);
        assert_eq!(kept, Ok(()));
    }
    let more = digest(INVITATIONS_MAX);
    assert_eq!(
        invitations.insert(more, invitation(1), AT),
        Err(NotRedeemed::TooMany)
    );
    let later = UnixTime::from_seconds(1_100);
    assert_eq!(invitations.insert(more, invitation(1), later), Ok(()));
    assert_eq!(invitations.iter().count(), 1);
}

#[test]
fn rights_read_back_as_they_print() {
    for bits in 1..=Rights::ALL.bits() {
        let rights = Rights::from_bits(bits).expect("each bit means something");
        assert_eq!(alloc::format!("{rights}").parse(), Ok(rights));
    }
    assert_eq!(Rights::from_bits(32), None);
    assert!("publish, relay".parse::<Rights>().is_ok());
    for bad in ["", "all", "publish,", "Publish"] {
        assert!(bad.parse::<Rights>().is_err(), "{bad}");
    }
}

prop_compose! {
    fn any_grant(issuer: NodeId, node: NodeId)(
        bits in 0_u8..=31,
        serial in 0_u64..4,
        not_before in 998_u64..1_002,
        expiry in 999_u64..1_003,
    ) -> Grant {
        Grant {
            fabric: OWNER,
            issuer,
            node,
            rights: Rights::from_bits(bits).expect("each bit means something"),
            serial,
            not_before: UnixTime::from_seconds(not_before),
            expiry: UnixTime::from_seconds(expiry),
        }
    }
}

proptest! {
    /// The rule of the whole module, written out once more.
    #[test]
    fn a_chain_holds_if_and_only_if_the_rule_says_so(
        own in any_grant(DELEGATE, NODE),
        delegation in any_grant(OWNER, DELEGATE),
        revoked in prop::option::of((0_usize..3, 0_u64..4)),
    ) {
        let mut roll = Roll::of(OWNER);
        if let Some((which, serial)) = revoked {
            let (issuer, node) = [(OWNER, NODE), (OWNER, DELEGATE), (DELEGATE, NODE)][which];
            roll.handle_warrant(revocation(issuer, node, serial), AT, &verify).expect("it is sound");
        }
        let reaches = |node, serial| revoked.is_some_and(|(which, up_to)| {
            [NODE, DELEGATE, NODE][which] == node && serial <= up_to
        });
        let in_time = |grant: &Grant| grant.not_before <= AT && AT < grant.expiry;
        let holds = in_time(&own)
            && in_time(&delegation)
            && own.expiry <= delegation.expiry
            && delegation.rights.contains(Rights::INVITE)
            && delegation.rights.without(Rights::INVITE).contains(own.rights)
            && !reaches(NODE, own.serial)
            && !reaches(DELEGATE, delegation.serial);
        let rights = own.rights;
        let credential = Credential {
            grant: signed(DELEGATE, own),
            delegation: Some(signed(OWNER, delegation)),
        };
        let taken = enrol(&mut roll, credential);
        prop_assert_eq!(taken.is_ok(), holds, "{:?}", taken);
        prop_assert_eq!(roll.rights(NODE), if holds { rights } else { Rights::NONE });
    }

    /// Whatever comes in whatever order, the roll is the same at the end.
    #[test]
    fn the_order_of_grants_and_revocations_does_not_matter(
        grants in prop::collection::vec((any_grant(OWNER, NODE), prop::bool::ANY), 0..5),
        serial in 0_u64..4,
        place in 0_usize..5,
    ) {
        let credentials: Vec<Credential> = grants.into_iter().enumerate().map(|(place, (mut grant, is_open))| {
            // Serials are an issuer's to keep apart.
            grant.serial = place as u64;
            if is_open {
                (grant.not_before, grant.expiry) = (UnixTime::ZERO, UnixTime::NEVER);
            }
            by_owner(grant)
        }).collect();
        let play = |order: &mut dyn Iterator<Item = &Credential>, at: usize| {
            let mut roll = Roll::of(OWNER);
            let revoke = |roll: &mut Roll| {
                roll.handle_warrant(revocation(OWNER, NODE, serial), AT, &verify).expect("it is sound");
            };
            for (number, credential) in order.enumerate() {
                if number == at {
                    revoke(&mut roll);
                }
                let _ = enrol(&mut roll, credential.clone());
            }
            revoke(&mut roll);
            roll.rights(NODE)
        };
        let forwards = play(&mut credentials.iter(), place);
        let backwards = play(&mut credentials.iter().rev(), place);
        prop_assert_eq!(forwards, backwards);
    }
}
