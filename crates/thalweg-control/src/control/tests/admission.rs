//! Proves that rights are enforced near and far, and that a revocation takes effect everywhere at once.
//!
//! *How.* The fabric is A's. Before anything else, A grants each linked node the rights that the
//! test names.

use alloc::string::ToString;
use alloc::vec::Vec;

use thalweg_base::wire::admission::Credential;
use thalweg_base::wire::control::{self as wire, Message};
use thalweg_planner::planner::Planner;

use super::{
    A, B, C, Controller, D, Duration, Fabric, FakeKeys, NodeId, Note, Notice, Settings, node,
    publication,
};
use crate::admission::{Rights, Roll, Unfit};
use crate::control::{AdmissionChange, NotIssued};

const HOUR: Duration = Duration::from_secs(3_600);

impl Fabric {
    /// Returns nodes of A's fabric, linked as given; each except A has the rights granted here.
    pub(super) fn owned(wires: &[[NodeId; 2]], granted: &[(NodeId, Rights)]) -> Self {
        let mut fabric = Self::default();
        fabric.enter(A);
        for (id, rights) in granted {
            fabric.enter(*id);
            let credential = fabric.grant(A, *id, *rights);
            fabric.take(*id, credential).expect("it holds");
        }
        for wire in wires {
            fabric.link(*wire);
        }
        fabric.settle();
        fabric
    }

    /// Starts a node of A's fabric that has no grant yet.
    fn enter(&mut self, id: NodeId) {
        let now = self.now;
        let mut entered = node(id, Duration::from_secs(1_000), now);
        let settings = Settings {
            id,
            name: id.short().parse().expect("digits are a name"),
            slots: 4,
            peers: Vec::new(),
            weights: thalweg_planner::model::Weights::default(),
            since_1970: Duration::from_secs(1_000),
        };
        let mut keys = FakeKeys { id, drawn: 0 };
        entered.controller = Controller::in_fabric(settings, Roll::of(A), now, &mut keys);
        self.nodes.insert(id, entered);
    }

    pub(super) fn grant(&mut self, by: NodeId, to: NodeId, rights: Rights) -> Credential {
        self.at(by, |c, now, keys| {
            let serial = c.membership().next_serial(to, now);
            c.grant(to, rights, HOUR, serial, now, keys)
        })
        .expect("it may")
    }

    fn take(&mut self, at: NodeId, credential: Credential) -> Result<(), Unfit> {
        self.at(at, |c, now, keys| {
            c.handle_credential(credential, now, keys)
        })
    }

    pub(super) fn revoke(&mut self, by: NodeId, node: NodeId) -> Result<(), NotIssued> {
        let revoked = self.at(by, |c, now, keys| c.revoke(node, now, keys));
        self.settle();
        revoked
    }

    fn knows(&self, at: NodeId, node: NodeId) -> bool {
        let directory = self.node(at).controller.directory();
        directory.record(node).is_some()
    }

    fn changes(&mut self, at: NodeId) -> Vec<AdmissionChange> {
        let node = self.nodes.get_mut(&at).expect("a node of the fabric");
        core::iter::from_fn(|| node.controller.poll_admission()).collect()
    }

    pub(super) fn notes(&mut self, at: NodeId) -> Vec<Note> {
        core::mem::take(&mut self.nodes.get_mut(&at).expect("a node of the fabric").notes)
    }
}

const MEMBER: Rights = Rights::MEMBER;

#[test]
fn grants_arrive_before_records() {
    let mut fabric = Fabric::owned(&[[A, B]], &[(B, MEMBER), (C, MEMBER)]);
    fabric.link([B, C]);
    fabric.settle();
    assert!(fabric.knows(A, C) && fabric.knows(C, A));
    for id in [A, B, C] {
        let roll = fabric.node(id).controller.roll();
        assert_eq!((roll.rights(B), roll.rights(C)), (MEMBER, MEMBER));
        let refused = |note: &Note| matches!(note, Note::RecordUngranted { .. });
        assert!(!fabric.node(id).notes.iter().any(refused));
    }
    assert!(fabric.changes(A).contains(&AdmissionChange::Enrolled(C)));
}

#[test]
fn ungranted_node_is_not_on_map() {
    let mut fabric = Fabric::owned(&[[A, B]], &[(B, MEMBER)]);
    fabric.enter(D);
    fabric.link([B, D]);
    fabric.settle();
    assert!(!fabric.knows(B, D) && !fabric.knows(A, D));
    let notes = fabric.notes(B);
    let note = Note::RecordUngranted { from: D, node: D };
    assert!(notes.contains(&note), "{notes:?}");
}

#[test]
fn publish_needs_right_everywhere() {
    let right = MEMBER.without(Rights::PUBLISH);
    let mut fabric = Fabric::owned(&[[A, B], [B, C]], &[(B, MEMBER), (C, right)]);
    let refused = fabric.at(C, |c, now, keys| {
        c.publish(publication(None, false), None, now, keys)
    });
    let refused = refused.expect_err("it may not").to_string();
    assert!(refused.contains("does not include `publish`"), "{refused}");
    // A node that announces all the same: it believes to be in a fabric without an owner.
    fabric.start_liar(C);
    fabric.link([B, C]);
    fabric.settle();
    for id in [A, B] {
        let directory = fabric.node(id).controller.directory();
        let record = directory.record(C).expect("from before it lied");
        assert!(record.streams.is_empty(), "{id:?}");
    }
    let note = Note::RecordExceeds { from: C, node: C };
    assert!(fabric.notes(B).contains(&note));
}

impl Fabric {
    /// Replaces a node with one that ignores rights and publishes a stream.
    fn start_liar(&mut self, id: NodeId) {
        let wires = core::mem::take(&mut self.wires);
        for wire in wires {
            if wire.contains(&id) {
                let other = if wire[0] == id { wire[1] } else { wire[0] };
                self.at(other, |c, now, keys| c.handle_link_down(id, now, keys));
            } else {
                self.wires.push(wire);
            }
        }
        self.nodes
            .insert(id, node(id, Duration::from_secs(2_000), self.now));
        self.publish(id, publication(None, false));
    }
}

#[test]
fn subscribe_without_right_is_refused() {
    let right = MEMBER.without(Rights::SUBSCRIBE);
    let mut fabric = Fabric::owned(&[[A, B], [B, C]], &[(B, MEMBER), (C, right)]);
    let stream = fabric.publish(A, publication(None, false));
    fabric.subscribe(C);
    let notice = fabric.node(C).notices.last().expect("a notice");
    assert!(
        matches!(notice, Notice::Refused { reason, .. } if reason.contains("does not include `subscribe`")),
        "{notice:?}"
    );
    assert!(
        fabric
            .notes(A)
            .contains(&Note::SubscribeRefused { sink: C })
    );
    // It keeps asking, and is answered each time, but notified only once.
    fabric.pass(Duration::from_secs(10));
    let refusals = |notice: &&Notice| matches!(notice, Notice::Refused { .. });
    let notices = fabric.node(C).notices.iter().filter(refusals);
    assert_eq!(notices.count(), 1);
    fabric.subscribe(B);
    assert_eq!(fabric.plan_path(A, stream).1, [A, B]);
}

#[test]
fn plans_avoid_nodes_without_relay_right() {
    let right = MEMBER.without(Rights::RELAY);
    for planner in [None, Some(Planner::Exact)] {
        let granted = [(B, right), (C, MEMBER), (D, MEMBER)];
        let mut fabric = Fabric::owned(&[[A, B], [B, C]], &granted);
        let stream = fabric.publish(A, publication(planner, false));
        fabric.subscribe(C);
        assert!(fabric.node(A).active.get(&stream).is_none_or(Vec::is_empty));
        fabric.link([A, D]);
        fabric.link([C, D]);
        fabric.settle();
        fabric.pass(Duration::from_secs(5));
        assert_eq!(fabric.plan_path(A, stream).1, [A, D, C], "{planner:?}");
    }
}

#[test]
fn untrusted_relay_gets_sealed_adus() {
    let see = MEMBER.with(Rights::SEE_PLAINTEXT);
    let mut fabric = Fabric::owned(&[[A, B], [B, C]], &[(B, MEMBER), (C, see)]);
    let stream = fabric.publish(A, publication(Some(Planner::Exact), true));
    fabric.subscribe(C);
    let (epoch, path) = fabric.plan_path(A, stream);
    assert_eq!(path, [A, B, C]);
    let (part, _) = &fabric.node(B).installed[&(stream, epoch)];
    assert!(!part.plaintext, "B sees nothing");
    let (part, secrets) = &fabric.node(C).installed[&(stream, epoch)];
    assert!(secrets.key.is_some() && part.adapters == ["open"]);
    fabric.grant(A, B, see);
    fabric.settle();
    assert!(
        fabric
            .node(C)
            .controller
            .roll()
            .may(B, Rights::SEE_PLAINTEXT)
    );
    fabric.pass(Duration::from_secs(5));
    let (epoch, _) = fabric.plan_path(A, stream);
    let (part, _) = &fabric.node(B).installed[&(stream, epoch)];
    assert!(part.plaintext, "a new grant is a new plan");
}

#[test]
fn revocation_purges_node_everywhere() {
    let granted = [(B, MEMBER), (C, MEMBER), (D, MEMBER)];
    let mut fabric = Fabric::owned(&[[A, B], [B, C], [C, D]], &granted);
    let stream = fabric.publish(C, publication(None, false));
    fabric.subscribe(A);
    assert_eq!(fabric.plan_path(C, stream).1, [C, B, A]);
    for id in [A, B, C, D] {
        fabric.changes(id);
    }
    fabric.revoke(A, C).expect("the owner may");
    for id in [A, B, D] {
        assert!(!fabric.knows(id, C), "{id:?}");
        let changes = fabric.changes(id);
        assert!(changes.contains(&AdmissionChange::Expelled(C)), "{id:?}");
        assert!(changes.contains(&AdmissionChange::Keep), "{id:?}");
        assert!(fabric.node(id).parts().is_empty(), "{id:?}");
    }
    assert_eq!(fabric.node(A).notices.last(), Some(&Notice::Gone));
    // Neither its old grant nor its own messages bring it back.
    fabric.link([B, C]);
    fabric.settle();
    fabric.pass(Duration::from_secs(20));
    assert!(!fabric.knows(B, C) && !fabric.knows(A, C));
}

#[test]
fn new_grant_readmits_revoked_sink() {
    let mut fabric = Fabric::owned(&[[A, B], [B, C]], &[(B, MEMBER), (C, MEMBER)]);
    let stream = fabric.publish(A, publication(None, false));
    fabric.subscribe(C);
    assert_eq!(fabric.plan_path(A, stream).1, [A, B, C]);
    fabric.revoke(A, C).expect("the owner may");
    assert_eq!(fabric.node(A).active[&stream], []);
    let credential = fabric.grant(A, C, MEMBER);
    fabric
        .take(C, credential)
        .expect("its serial is above the revoked");
    fabric.cut([B, C]);
    fabric.link([B, C]);
    fabric.settle();
    fabric.pass(Duration::from_secs(5));
    assert_eq!(fabric.plan_path(A, stream).1, [A, B, C]);
}

#[test]
fn lost_publish_right_ends_announcements() {
    let mut fabric = Fabric::owned(&[[A, B]], &[(B, MEMBER)]);
    fabric.publish(B, publication(None, false));
    assert!(
        fabric
            .node(A)
            .controller
            .directory()
            .publisher(&super::name())
            .is_some()
    );
    fabric.grant(A, B, MEMBER.without(Rights::PUBLISH));
    fabric.settle();
    fabric.pass(Duration::from_secs(1));
    assert!(fabric.knows(A, B));
    assert!(
        fabric
            .node(A)
            .controller
            .directory()
            .publisher(&super::name())
            .is_none()
    );
}

#[test]
fn grant_expires() {
    let mut fabric = Fabric::owned(&[[A, B], [B, C]], &[(B, MEMBER), (C, MEMBER)]);
    fabric.changes(A);
    fabric.subscribe(C);
    fabric.pass(HOUR);
    assert!(!fabric.knows(A, B) && !fabric.knows(A, C));
    let notices = &fabric.node(C).notices;
    assert!(notices.contains(&Notice::Expelled), "{notices:?}");
    let changes = fabric.changes(A);
    assert!(
        changes.contains(&AdmissionChange::Expelled(B)),
        "{changes:?}"
    );
}

#[test]
fn late_node_learns_revocations() {
    let mut fabric = Fabric::owned(&[[A, B]], &[(B, MEMBER), (C, MEMBER), (D, MEMBER)]);
    let kept = fabric.node(C).controller.roll().credential(C).cloned();
    fabric.revoke(A, C).expect("the owner may");
    fabric.link([B, D]);
    fabric.settle();
    let refused = fabric.take(D, kept.expect("C was granted"));
    assert_eq!(refused, Err(Unfit::Revoked { node: C }));
}

#[test]
fn delegate_revokes_only_own_grants() {
    let delegate = MEMBER.with(Rights::INVITE);
    let mut fabric = Fabric::owned(&[[A, B]], &[(B, delegate), (D, MEMBER)]);
    fabric.enter(C);
    let credential = fabric.at(B, |c, now, keys| {
        c.grant(C, MEMBER, Duration::NEVER, 1, now, keys)
    });
    let credential = credential.expect("it may");
    let own = fabric.node(B).controller.roll().credential(B).cloned();
    let own = own.expect("the owner has granted it").grant.content;
    assert_eq!(
        credential.grant.content.expiry, own.expiry,
        "no longer than its own"
    );
    fabric.settle();
    assert!(fabric.node(A).controller.roll().admits(C));
    fabric.take(C, credential).expect("it holds");
    let more = fabric.at(B, |c, now, keys| {
        c.grant(C, Rights::SEE_PLAINTEXT, HOUR, 1, now, keys)
    });
    let excess = Rights::SEE_PLAINTEXT;
    assert_eq!(more, Err(NotIssued::Beyond { excess }));
    assert!(matches!(
        fabric.revoke(B, D),
        Err(NotIssued::Nothing { .. })
    ));
    assert_eq!(fabric.revoke(C, B), Err(NotIssued::NotIssuer));
    assert_eq!(fabric.revoke(B, C), Ok(()));
    assert!(!fabric.node(A).controller.roll().admits(C));
}

#[test]
fn forged_grants_are_not_forwarded() {
    let mut fabric = Fabric::owned(&[[A, B], [B, C]], &[(B, MEMBER), (C, MEMBER)]);
    let credential = fabric.node(C).controller.roll().credential(C).cloned();
    let mut credential = credential.expect("C was granted");
    let mut say = |credential: &Credential| {
        let frame = wire::encode(&Message::Grant(credential.clone()));
        fabric.at(B, |c, now, keys| c.handle_frame(C, &frame, now, keys));
        let b = fabric.nodes.get_mut(&B).expect("linked");
        core::iter::from_fn(|| b.controller.poll_output()).collect::<Vec<_>>()
    };
    assert!(
        say(&credential).is_empty(),
        "known already: nothing is forwarded"
    );
    credential.grant.content.rights = Rights::ALL;
    credential.grant.content.serial += 1;
    let outputs = say(&credential);
    let error = Unfit::Forged { issuer: A };
    let note = Note::GrantRefused {
        from: C,
        node: C,
        error,
    };
    assert!(
        matches!(&outputs[..], [super::Output::Note(only)] if *only == note),
        "{outputs:?}"
    );
    assert_eq!(fabric.node(B).controller.roll().rights(C), MEMBER);
}
