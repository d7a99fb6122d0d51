//! Proves that grants, revocations, tickets and the messages at a door survive the wire, and that
//! no bytes do harm.

use alloc::string::ToString;
use alloc::vec;
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::limits::DOOR_BYTES_MAX;
use crate::wire::VARINT_MAX;

fn nodes() -> impl Strategy<Value = NodeId> {
    any::<[u8; 32]>().prop_map(NodeId)
}

fn times() -> impl Strategy<Value = UnixTime> {
    (0..=VARINT_MAX).prop_map(UnixTime::from_seconds)
}

fn any_rights() -> impl Strategy<Value = Rights> {
    (0..=Rights::ALL.bits())
        .prop_map(|bits| Rights::from_bits(bits).expect("each bit has a meaning"))
}

fn signatures() -> impl Strategy<Value = [u8; 64]> {
    vec(any::<u8>(), 64).prop_map(|bytes| bytes.try_into().expect("64 were made"))
}

prop_compose! {
    fn grants()(
        fabric in nodes(), issuer in nodes(), node in nodes(), rights in any_rights(),
        serial in 0..=VARINT_MAX, not_before in times(), expiry in times(), signature in signatures(),
    ) -> Signed<Grant> {
        let content = Grant { fabric, issuer, node, rights, serial, not_before, expiry };
        Signed { content, signature }
    }
}

prop_compose! {
    pub(in crate::wire) fn credentials()(grant in grants(), delegation in option::of(grants())) -> Credential {
        Credential { grant, delegation }
    }
}

prop_compose! {
    pub(in crate::wire) fn warrants()(
        fabric in nodes(), issuer in nodes(), node in nodes(), serial in 0..=VARINT_MAX,
        signature in signatures(), delegation in option::of(grants()),
    ) -> Warrant {
        let content = Revocation { fabric, issuer, node, serial };
        Warrant { revocation: Signed { content, signature }, delegation }
    }
}

fn addresses() -> impl Strategy<Value = SocketAddr> {
    let v4 =
        (any::<[u8; 4]>(), any::<u16>()).prop_map(|(ip, port)| (Ipv4Addr::from(ip), port).into());
    let v6 =
        (any::<[u8; 16]>(), any::<u16>()).prop_map(|(ip, port)| (Ipv6Addr::from(ip), port).into());
    prop_oneof![v4, v6]
}

prop_compose! {
    fn tickets()(
        fabric in nodes(), inviter in option::of(nodes()), addresses in vec(addresses(), 0..=TICKET_ADDRESSES_MAX),
        relays in vec("\\PC{0,32}", 0..=TICKET_RELAYS_MAX),
        tcp_addresses in vec(addresses(), 0..=TICKET_TCP_MAX),
        secret: [u8; SECRET_BYTES], rights in any_rights(), expiry in times(), signature in signatures(),
    ) -> Signed<Ticket> {
        let inviter = inviter.unwrap_or(fabric);
        Signed { content: Ticket { fabric, inviter, addresses, tcp_addresses, relays, secret, rights, expiry }, signature }
    }
}

fn knocks() -> impl Strategy<Value = Knock> {
    prop_oneof![
        (nodes(), option::of(credentials()))
            .prop_map(|(fabric, credential)| Knock::Present { fabric, credential }),
        (nodes(), any::<[u8; SECRET_BYTES]>())
            .prop_map(|(fabric, secret)| Knock::Redeem { fabric, secret }),
    ]
}

fn answers() -> impl Strategy<Value = Answer> {
    prop_oneof![
        "\\PC{0,60}".prop_map(|reason| Answer::Refused { reason }),
        (option::of(credentials()), option::of(credentials())).prop_map(|(credential, granted)| {
            Answer::Welcome {
                credential,
                granted,
            }
        }),
    ]
}

proptest! {
    #[test]
    fn credential_and_warrant_survive(credential in credentials(), warrant in warrants()) {
        let mut bytes = Vec::new();
        encode_credential(&credential, &mut bytes);
        prop_assert_eq!(decode_credential(&bytes), Ok(credential));
        bytes.clear();
        encode_warrant(&warrant, &mut bytes);
        prop_assert_eq!(decode_warrant(&bytes), Ok(warrant));
    }

    #[test]
    fn ticket_survives(ticket in tickets()) {
        prop_assert_eq!(decode_ticket(&encode_ticket(&ticket)), Ok(ticket));
    }

    #[test]
    fn door_messages_survive(knock in knocks(), answer in answers()) {
        prop_assert!(encode_knock(&knock).len() <= DOOR_BYTES_MAX);
        prop_assert!(encode_answer(&answer).len() <= DOOR_BYTES_MAX);
        prop_assert_eq!(decode_knock(&encode_knock(&knock)), Ok(knock));
        prop_assert_eq!(decode_answer(&encode_answer(&answer)), Ok(answer));
    }

    /// So a signature over the encoding is a signature over the value, and no second form of it is
    /// accepted.
    #[test]
    fn damage_is_error_or_other_value(
        ticket in tickets(), credential in credentials(), at: usize, with in 1_u8..,
    ) {
        let mut bytes = encode_ticket(&ticket);
        let place = at % bytes.len();
        bytes[place] ^= with;
        prop_assert_ne!(decode_ticket(&bytes), Ok(ticket));
        let mut bytes = Vec::new();
        encode_credential(&credential, &mut bytes);
        let place = at % bytes.len();
        bytes[place] ^= with;
        prop_assert_ne!(decode_credential(&bytes), Ok(credential));
        bytes.truncate(place);
        prop_assert!(decode_credential(&bytes).is_err());
    }

    #[test]
    fn any_bytes_decode_or_fail(bytes in vec(any::<u8>(), 0..400)) {
        let _ = (decode_credential(&bytes), decode_warrant(&bytes), decode_ticket(&bytes));
        let _ = (decode_knock(&bytes), decode_answer(&bytes));
    }
}

#[test]
fn signed_content_has_one_form() {
    let content = Revocation {
        fabric: NodeId([1; 32]),
        issuer: NodeId([1; 32]),
        node: NodeId([2; 32]),
        serial: 5,
    };
    let mut signed = Vec::new();
    content.encode(&mut signed);
    // The same serial in two bytes instead of one.
    signed.pop();
    signed.extend_from_slice(&[0x40, 5]);
    let mut bytes = vec![0];
    bytes.blob(&signed);
    bytes.extend_from_slice(&[0; 64]);
    let error = decode_warrant(&bytes).expect_err("not the shortest form");
    assert!(matches!(error, WireError::Malformed(_)), "{error}");
}

#[test]
fn lengths_are_checked_before_allocation() {
    let mut bytes = vec![0];
    bytes.varint(1 << 40);
    let error = decode_credential(&bytes).expect_err("longer than a grant");
    assert!(matches!(error, WireError::TooLarge { .. }), "{error}");
}

#[test]
fn later_ticket_version_is_named() {
    let mut bytes = vec![9];
    bytes.extend_from_slice(&[0; 128]);
    let error = decode_ticket(&bytes).expect_err("there is no such version");
    assert_eq!(
        error.to_string(),
        "the ticket has version 9, above the supported 3: update this program"
    );
}
