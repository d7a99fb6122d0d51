//! Proves that a ticket survives copying and detects damage, and that the state file reads back as
//! written.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use thalweg_base::id::NodeId;
use thalweg_base::limits::{TICKET_ADDRESSES_MAX, TICKET_RELAYS_MAX, TICKET_TCP_MAX};
use thalweg_base::time::Duration;
use thalweg_base::wire::admission::{Credential, Grant, Revocation, Sign, Signed, Ticket, Warrant};
use thalweg_control::admission::{Invitation, Rights, UnixTime};
use thalweg_net::Identity;

use super::secret_digest;
use super::state::{Contact, State, StateError};
use super::ticket::{TicketError, parse, to_text};

fn owner() -> Identity {
    Identity::from_seed([1; 32])
}

fn signed<T: Sign>(by: &Identity, content: T) -> Signed<T> {
    let signature = by.sign(&content.signed_bytes());
    Signed { content, signature }
}

fn contact() -> Contact {
    Contact {
        key: owner().id(),
        addresses: ticket().addresses,
        tcp_addresses: vec!["192.0.2.7:7401".parse().expect("an address")],
        relays: vec!["https://relay.example.org/".parse().expect("a relay")],
    }
}

fn ticket() -> Ticket {
    Ticket {
        fabric: owner().id(),
        inviter: owner().id(),
        addresses: vec!["192.0.2.7:7400".parse().expect("an address")],
        tcp_addresses: Vec::new(),
        relays: Vec::new(),
        secret: [9; 16],
        rights: Rights::MEMBER,
        expiry: UnixTime::from_seconds(2_000_000_000),
    }
}

#[test]
fn ticket_survives_copying() {
    let text = to_text(&signed(&owner(), ticket()));
    assert!(text.len() < 256, "{} characters to copy", text.len());
    assert!(
        text.bytes()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    );
    assert_eq!(parse(&text), Ok(ticket()));
    assert_eq!(parse(&text.to_uppercase()), Ok(ticket()));
    let (head, tail) = text.split_at(70);
    assert_eq!(parse(&format!("  {head}\r\n\t{tail} \n")), Ok(ticket()));
    // Quoted by two mail programs, one of which took the text for a link.
    let quoted = format!("> > <{head}\r\n> > {tail}>\r\n> >\r\n");
    assert_eq!(parse(&quoted), Ok(ticket()));
    let answered = parse(&format!("Ann wrote:\n> {text}\n")).expect_err("words are before it");
    assert!(
        answered.to_string().ends_with("give it alone"),
        "{answered}"
    );
    let signed = parse(&format!("{text}\n-- \nAnn")).expect_err("words are behind it");
    assert!(signed.to_string().contains("too many"), "{signed}");
}

#[test]
fn damaged_ticket_is_detected() {
    let text = to_text(&signed(&owner(), ticket()));
    for at in 0..text.len() {
        let mut wrong = text.clone().into_bytes();
        wrong[at] = if wrong[at] == b'q' { b'r' } else { b'q' };
        let wrong = String::from_utf8(wrong).expect("ASCII");
        let error = parse(&wrong).expect_err("one character is wrong");
        assert!(
            matches!(error, TicketError::Damaged | TicketError::NoTicket),
            "{at}: {error}"
        );
        assert!(parse(&text[..at]).is_err());
    }
    assert_eq!(parse("hello"), Err(TicketError::NoTicket));
    assert_eq!(parse(&"thalweg".repeat(4_000)), Err(TicketError::Damaged));
    assert!(parse("thalwegééé").is_err());
}

#[test]
fn forged_ticket_is_refused() {
    let mut forged = signed(&owner(), ticket());
    forged.content.rights = Rights::ALL;
    let inviter = owner().id();
    let error = parse(&to_text(&forged)).expect_err("it is forged");
    assert_eq!(error, TicketError::Forged { inviter });
    assert!(error.to_string().contains(&inviter.short()));
}

#[test]
fn state_reads_back_without_secrets() {
    let root = tempfile::tempdir().expect("a directory for the test");
    let path = root.path().join("fabric.json");
    assert_eq!(State::load(&path).expect("none yet").fabric, None);
    let (fabric, node) = (owner().id(), NodeId([3; 32]));
    let grant = Grant {
        fabric,
        issuer: fabric,
        node,
        rights: Rights::MEMBER,
        serial: 7,
        not_before: UnixTime::ZERO,
        expiry: UnixTime::NEVER,
    };
    let revocation = Revocation {
        fabric,
        issuer: fabric,
        node: NodeId([4; 32]),
        serial: 9,
    };
    let mut state = State {
        fabric: Some(fabric),
        credential: Some(Credential {
            grant: signed(&owner(), grant),
            delegation: None,
        }),
        contacts: vec![contact()],
        warrants: vec![Warrant {
            revocation: signed(&owner(), revocation),
            delegation: None,
        }],
        ..State::default()
    };
    let invitation = Invitation {
        rights: Rights::RELAY,
        expiry: UnixTime::from_seconds(5),
        uses: 2,
        lasts: Duration::from_secs(60),
        taken: vec![(node, 7)],
    };
    let digest = secret_digest(&[9; 16]);
    let kept = state
        .invitations
        .insert(digest, invitation.clone(), UnixTime::ZERO);
    kept.expect("room");
    state.save(&path).expect("written");
    let mode = fs::metadata(&path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let text = fs::read_to_string(&path).expect("text");
    assert!(!text.contains(&"09".repeat(16)), "the secret is not in it");
    let read = State::load(&path).expect("its own");
    assert_eq!(read.credential, state.credential);
    assert_eq!(
        (read.contacts, read.warrants),
        (state.contacts, state.warrants)
    );
    assert_eq!(
        read.invitations.iter().collect::<Vec<_>>(),
        [(&digest, &invitation)]
    );
    let (roll, faults) = State::load(&path)
        .expect("its own")
        .roll(node, UnixTime::ZERO);
    assert!(
        roll.may(node, Rights::MEMBER) && faults.is_empty(),
        "{faults:?}"
    );
    assert_eq!(fs::read_dir(root.path()).expect("readable").count(), 1);
}

#[test]
fn foreign_file_is_refused() {
    let root = tempfile::tempdir().expect("a directory for the test");
    let path = root.path().join("fabric.json");
    let key = owner().id();
    let grant = format!(
        "{{\"fabric\":\"{key}\",\"grant\":\"00ff\",\"contacts\":[],\"revocations\":[],\"tickets\":[]}}"
    );
    for text in ["", "{}", "[]", "{\"fabric\":1}", &grant] {
        fs::write(&path, text).expect("ours");
        let error = State::load(&path).expect_err("something else");
        assert!(matches!(error, StateError::Garbage { .. }), "{text}");
        assert!(error.to_string().contains("fabric.json"), "{error}");
    }
}

fn delegate() -> Identity {
    Identity::from_seed([2; 32])
}

/// Returns the state of a node that a delegate has admitted; its grant has expired, which is no
/// damage.
fn kept(node: NodeId) -> State {
    let fabric = owner().id();
    let grant = |issuer: &Identity, node: NodeId| Grant {
        fabric,
        issuer: issuer.id(),
        node,
        rights: Rights::MEMBER,
        serial: 7,
        not_before: UnixTime::ZERO,
        expiry: UnixTime::from_seconds(1),
    };
    let delegation = Some(signed(&owner(), grant(&owner(), delegate().id())));
    let revocation = Revocation {
        fabric,
        issuer: delegate().id(),
        node: NodeId([4; 32]),
        serial: 9,
    };
    State {
        fabric: Some(fabric),
        credential: Some(Credential {
            grant: signed(&delegate(), grant(&delegate(), node)),
            delegation: delegation.clone(),
        }),
        warrants: vec![Warrant {
            revocation: signed(&delegate(), revocation),
            delegation,
        }],
        ..State::default()
    }
}

/// Returns the error of a file with this state; empty if it is valid.
fn error_of(state: &State, own: Option<NodeId>) -> String {
    let checked = state.check(own, Path::new("fabric.json"));
    checked.map_or_else(|error| error.to_string(), |()| String::new())
}

#[test]
fn failed_save_leaves_no_file() {
    let root = tempfile::tempdir().expect("a directory for the test");
    // A file cannot replace a folder, which shows only once the file is written.
    let path = root.path().join("fabric.json");
    fs::create_dir(&path).expect("room");
    let error = State::default().save(&path).expect_err("it is a folder");
    assert!(
        matches!(
            error,
            StateError::Io {
                action: "write",
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(fs::read_dir(root.path()).expect("readable").count(), 1);
}

#[test]
fn other_nodes_state_is_refused() {
    let node = Identity::from_seed([3; 32]).id();
    assert_eq!(error_of(&kept(node), Some(node)), "");
    assert_eq!(error_of(&State::default(), None), "");
    for (own, part) in [(Some(owner().id()), "this node is"), (None, "no key yet")] {
        let error = error_of(&kept(node), own);
        assert!(
            error.starts_with("fabric.json holds the grant of"),
            "{error}"
        );
        assert!(error.contains(part) && error.contains("`state_file` under [fabric]"));
    }
}

#[test]
fn forged_state_is_refused() {
    type Harm = fn(&mut Credential, &mut Warrant);
    let other_fabric: Harm = |credential, _| {
        credential.grant.content.fabric = delegate().id();
    };
    let harms: [(&str, Harm); 5] = [
        ("own grant: it is for the fabric", other_fabric),
        ("own grant: it is not signed", |credential, _| {
            credential.grant.signature[5] ^= 1;
        }),
        ("issuer's grant: it is not signed", |credential, _| {
            credential.delegation.as_mut().expect("there").signature[5] ^= 1;
        }),
        ("a revocation: it is not signed", |_, warrant| {
            warrant.revocation.content.serial = 8;
        }),
        ("behind a revocation: it is not signed", |_, warrant| {
            let delegation = warrant.delegation.as_mut().expect("there");
            delegation.content.expiry = UnixTime::NEVER;
        }),
    ];
    let node = Identity::from_seed([3; 32]).id();
    for (what, harm) in harms {
        let mut state = kept(node);
        let credential = state.credential.as_mut().expect("it is there");
        harm(credential, &mut state.warrants[0]);
        let error = error_of(&state, Some(node));
        assert!(error.contains(what), "{what}: {error}");
        assert!(error.contains("move it away and join again"), "{error}");
    }
}

#[test]
fn longest_ticket_reads_back() {
    let relay = format!("https://{}/", "r".repeat(119));
    let address = "[2001:db8::ffff:ffff]:65535".parse().expect("an address");
    let ticket = Ticket {
        inviter: Identity::from_seed([5; 32]).id(),
        addresses: vec![address; TICKET_ADDRESSES_MAX],
        tcp_addresses: vec![address; TICKET_TCP_MAX],
        relays: vec![relay; TICKET_RELAYS_MAX],
        ..ticket()
    };
    let text = to_text(&signed(&Identity::from_seed([5; 32]), ticket.clone()));
    assert_eq!(parse(&text), Ok(ticket));
}
