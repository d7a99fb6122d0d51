//! Proves by which issuer, for which node and for which time a grant is valid, and what a
//! revocation reaches.
//!
//! *How.* A signature is a checksum with the signer's key in it. Properties generate chains of
//! grants and compare the roll with the rule written out.

use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;
use thalweg_base::id::NodeId;
use thalweg_base::limits::INVITATIONS_MAX;
use thalweg_base::time::Duration;
use thalweg_base::wire::admission::{Credential, Grant, Revocation, Sign, Signed, Warrant};

use super::{Invitation, Invitations, News, NotRedeemed, Rights, Roll, Unfit, UnixTime};

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
    let refused = enrol(&mut roll, credential).expect_err("it is invalid");
    assert_eq!(roll.members().count(), 0);
    refused
}

#[test]
fn open_fabric_grants_all_rights() {
    let roll = Roll::open();
    assert_eq!(roll.rights(STRANGER), Rights::ALL);
    assert!(roll.admits(STRANGER));
    let mut roll = roll;
    let granted = by_owner(grant(OWNER, NODE, Rights::ALL));
    assert_eq!(enrol(&mut roll, granted), Err(Unfit::NoOwner));
}

#[test]
fn owned_fabric_grants_only_given_rights() {
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
fn grant_is_valid_between_its_times() {
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
fn invalid_grant_is_refused_with_reason() {
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
fn chain_has_one_delegate() {
    let good = by_delegate(Rights::RELAY, Rights::RELAY.with(Rights::INVITE));
    assert!(enrol(&mut Roll::of(OWNER), good.clone()).is_ok());
    let by_non_issuer = by_delegate(Rights::RELAY, Rights::MEMBER);
    assert_eq!(
        refused(by_non_issuer),
        Unfit::NotIssuer { issuer: DELEGATE }
    );
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
fn delegated_grant_never_outlasts_issuer() {
    let mut long = by_delegate(Rights::RELAY, Rights::ALL);
    long.grant.content.expiry = UnixTime::from_seconds(2_001);
    long.grant = signed(DELEGATE, long.grant.content);
    assert_eq!(refused(long), Unfit::Outlasts { issuer: DELEGATE });
    // Otherwise a node that the delegate revoked under this grant would be valid again under the
    // next, as the warrant is gone.
    let mut renewed = by_delegate(Rights::RELAY, Rights::ALL);
    renewed.grant.content.expiry = UnixTime::NEVER;
    renewed.grant = signed(DELEGATE, renewed.grant.content);
    assert_eq!(refused(renewed), Unfit::Outlasts { issuer: DELEGATE });
}

#[test]
fn owner_and_later_grants_prevail() {
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
fn revocation_reaches_its_serial() {
    let mut roll = Roll::of(OWNER);
    let credential = by_owner(grant(OWNER, NODE, Rights::ALL));
    enrol(&mut roll, credential.clone()).expect("it is valid");
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
fn revoked_delegate_takes_its_grants() {
    let mut roll = Roll::of(OWNER);
    enrol(&mut roll, by_owner(grant(OWNER, NODE, Rights::ALL))).expect("it is valid");
    let by = revocation(DELEGATE, NODE, 10);
    let (_, gone) = roll.handle_warrant(by, AT, &verify).expect("it is valid");
    assert_eq!(gone, [], "the owner has granted it");
    let mut roll = Roll::of(OWNER);
    enrol(&mut roll, by_delegate(Rights::RELAY, Rights::ALL)).expect("it is valid");
    let end = revocation(OWNER, DELEGATE, 10);
    let (_, gone) = roll.handle_warrant(end, AT, &verify).expect("it is valid");
    assert_eq!(gone, [NODE], "its grants end with the delegate");
    let own = revocation(DELEGATE, NODE, 10);
    assert_eq!(
        roll.handle_warrant(own, AT, &verify),
        Err(Unfit::Revoked { node: DELEGATE })
    );
}

#[test]
fn forged_revocation_is_refused() {
    let mut roll = Roll::of(OWNER);
    enrol(&mut roll, by_owner(grant(OWNER, NODE, Rights::ALL))).expect("it is valid");
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
fn ticket_has_limited_uses_and_time() {
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
fn expired_tickets_make_room() {
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
fn rights_parse_as_printed() {
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
    /// The rule of the module, written out independently.
    #[test]
    fn chain_is_valid_exactly_by_the_rule(
        own in any_grant(DELEGATE, NODE),
        delegation in any_grant(OWNER, DELEGATE),
        revoked in prop::option::of((0_usize..3, 0_u64..4)),
    ) {
        let mut roll = Roll::of(OWNER);
        if let Some((which, serial)) = revoked {
            let (issuer, node) = [(OWNER, NODE), (OWNER, DELEGATE), (DELEGATE, NODE)][which];
            roll.handle_warrant(revocation(issuer, node, serial), AT, &verify).expect("it is valid");
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

    /// For any order of arrival, the roll is the same at the end.
    #[test]
    fn order_of_credentials_does_not_matter(
        grants in prop::collection::vec((any_grant(OWNER, NODE), prop::bool::ANY), 0..5),
        serial in 0_u64..4,
        place in 0_usize..5,
    ) {
        let credentials: Vec<Credential> = grants.into_iter().enumerate().map(|(place, (mut grant, is_open))| {
            // An issuer never reuses a serial.
            grant.serial = place as u64;
            if is_open {
                (grant.not_before, grant.expiry) = (UnixTime::ZERO, UnixTime::NEVER);
            }
            by_owner(grant)
        }).collect();
        let play = |order: &mut dyn Iterator<Item = &Credential>, at: usize| {
            let mut roll = Roll::of(OWNER);
            let revoke = |roll: &mut Roll| {
                roll.handle_warrant(revocation(OWNER, NODE, serial), AT, &verify).expect("it is valid");
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
