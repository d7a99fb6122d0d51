//! Proves that plans take over, retire and return, and that nothing outlives its lease.

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use thalweg_base::id::Epoch;
use thalweg_base::time::Duration;
use thalweg_base::units::Bitrate;
use thalweg_planner::model::{Catalogue, Declaration, Layer, Snapshot};
use thalweg_planner::planner::{self, Planner, Policy};

use super::super::{Note, Notice, Output, PlanState, Publication, PublishError, Subscription};
use super::{A, B, C, D, Fabric, LINK, name, publication};
use crate::control::{Accounting, Parts};
use crate::planning::{Avoid, Map, Planning};
use crate::routing::UNREACHED_MAX;
use crate::session::{LEASE, Part, RENEW};

#[test]
fn stream_is_planned_and_stays_in_force() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C]]);
    fabric.subscribe(C);
    assert_eq!(fabric.node(C).notices, [Notice::Waiting]);
    let stream = fabric.publish(A, publication(Some(Planner::Exact), false));
    assert_eq!(fabric.node(C).found, [(name(), stream)]);
    let (epoch, path) = fabric.plan_path(A, stream);
    assert_eq!((epoch, path), (Epoch(1), vec![A, B, C]));
    let source = fabric.node(A).controller.source(stream).expect("published");
    let (sink, plan) = source.plans().next().expect("one sink");
    assert_eq!(
        (sink, plan.state, source.active()),
        (C, PlanState::Active, &fabric.node(A).given[&stream][..])
    );
    let words = plan.words.as_ref().expect("a planned stream");
    assert!(words.report.feasible && words.explanation.is_some());
    fabric.pass(LEASE + LEASE);
    assert_eq!(
        fabric.plan_path(A, stream).0,
        Epoch(1),
        "renewed and not replaced"
    );
    for id in [A, B, C] {
        let node = fabric.node(id);
        let mirrored: Vec<_> = node.installed.values().map(|(part, _)| part).collect();
        assert_eq!(
            node.parts(),
            mirrored,
            "the driver's table is the controller's"
        );
    }
}

#[test]
fn only_ends_get_stream_key() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C]]);
    fabric.subscribe(C);
    let stream = fabric.publish(A, publication(Some(Planner::Exact), true));
    let (epoch, _) = fabric.plan_path(A, stream);
    let key = |id| fabric.node(id).installed[&(stream, epoch)].1.key.clone();
    assert!(key(A).is_some() && key(A) == key(C) && key(B).is_none());
    assert!(!fabric.node(C).installed[&(stream, epoch)].0.plaintext);
    let shown = alloc::format!("{:?}", fabric.node(A).installed);
    assert!(shown.contains("secret"), "the key itself is not shown");
}

#[test]
fn lost_relay_is_replanned() {
    let mut fabric = Fabric::linked(&[[A, B], [B, D], [A, C], [C, D]]);
    fabric.subscribe(D);
    let stream = fabric.publish(A, publication(Some(Planner::Exact), false));
    let (first, path) = fabric.plan_path(A, stream);
    assert_eq!(path, [A, B, D]);
    fabric.cut([A, B]);
    let (second, path) = fabric.plan_path(A, stream);
    assert!(second > first && path == [A, C, D]);
    assert_eq!(
        fabric.node(D).parts().len(),
        2,
        "both plans while ADUs are under path"
    );
    fabric.pass(LEASE + LEASE);
    assert_eq!(fabric.node(D).parts().len(), 1);
    assert!(fabric.node(B).parts().is_empty() && fabric.node(B).installed.is_empty());
}

#[test]
fn renewal_restores_lost_part() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C]]);
    fabric.subscribe(C);
    let stream = fabric.publish(A, publication(None, false));
    let before = fabric.plan_path(A, stream);
    for id in [B, C] {
        let part = fabric.node(id).installed[&(stream, before.0)].0.clone();
        fabric.at(id, |c, _, _| {
            c.owners.parts = Parts::new(id);
            c.owners.accounting = Accounting::default();
        });
        fabric.pass(RENEW + Duration::from_secs(1));
        assert_eq!(fabric.node(id).parts().len(), 1, "of {}", id.short());
        assert_eq!(fabric.node(id).installed[&(stream, before.0)].0, part);
    }
    assert_eq!(fabric.plan_path(A, stream), before);
}

#[test]
fn parts_of_dead_source_expire() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C]]);
    fabric.subscribe(C);
    let stream = fabric.publish(A, publication(None, false));
    assert_eq!(fabric.plan_path(A, stream).1, [A, B, C]);
    fabric.nodes.remove(&A);
    fabric.pass(LEASE + Duration::from_secs(1));
    for id in [B, C] {
        assert!(fabric.node(id).parts().is_empty() && fabric.node(id).installed.is_empty());
        let expired = |note: &&Note| matches!(note, Note::PartExpired { .. });
        assert_eq!(fabric.node(id).notes.iter().filter(expired).count(), 1);
    }
    fabric.cut([A, B]);
    fabric.pass(UNREACHED_MAX + Duration::from_secs(1));
    assert_eq!(fabric.node(C).notices, [Notice::Waiting, Notice::Gone]);
    assert_eq!(
        fabric.node(C).controller.subscription(&name()),
        Some(Subscription::Waiting)
    );
}

#[test]
fn superseded_planning_is_ignored() {
    let mut fabric = Fabric::linked(&[[A, B]]);
    let stream = fabric.publish(A, publication(Some(Planner::Exact), false));
    let mut plannings = Vec::new();
    fabric.at(B, |c, now, keys| c.subscribe(name(), now, keys));
    let asked = fabric.at(B, |c, _, _| {
        core::iter::from_fn(|| c.poll_output()).find_map(|output| match output {
            Output::Send { frame, .. } => Some(frame),
            _ => None,
        })
    });
    let asked = asked.expect("a subscription");
    fabric.at(A, |c, now, keys| {
        c.handle_frame(B, &asked, now, keys);
        // The map changes while the first is being computed.
        c.handle_link_down(B, now, keys);
        c.handle_link_up(B, LINK, now, keys);
        while let Some(output) = c.poll_output() {
            if let Output::Plan(planning) = output {
                plannings.push(planning);
            }
        }
        let (last, stale) = plannings.split_last().expect("at least one planning");
        assert!(!stale.is_empty());
        for planning in stale {
            c.handle_solved(planning.clone().solve(), now, keys);
            assert!(c.poll_output().is_none(), "a stale plan is not deployed");
        }
        c.handle_solved(last.clone().solve(), now, keys);
        let mut outputs = core::iter::from_fn(|| c.poll_output());
        assert!(outputs.any(|output| matches!(output, Output::Install { .. })));
        assert_eq!(
            c.source(stream).map(|source| source.active().len()),
            Some(0)
        );
    });
}

#[test]
fn either_end_ends_stream() {
    let mut fabric = Fabric::linked(&[[A, B]]);
    fabric.subscribe(B);
    let stream = fabric.publish(A, publication(None, false));
    fabric.at(B, |c, now, keys| c.unsubscribe(&name(), now, keys));
    fabric.settle();
    assert_eq!(fabric.node(A).active[&stream], []);
    fabric.subscribe(B);
    assert_eq!(fabric.plan_path(A, stream).1, [A, B]);
    fabric.at(A, |c, now, keys| c.unpublish(stream, now, keys));
    fabric.settle();
    assert_eq!(fabric.node(A).active[&stream], []);
    assert_eq!(fabric.node(B).notices.last(), Some(&Notice::Gone));
    fabric.pass(LEASE);
    assert_eq!(fabric.node(A).controller.sources().count(), 0);
    assert!(fabric.node(B).installed.is_empty());
}

#[test]
fn node_subscribes_to_itself() {
    let mut fabric = Fabric::default();
    fabric.start(A, Duration::ZERO);
    fabric.subscribe(A);
    let stream = fabric.publish(A, publication(Some(Planner::Exact), true));
    assert_eq!(fabric.plan_path(A, stream).1, [A]);
    assert!(matches!(
        fabric.node(A).controller.subscription(&name()),
        Some(Subscription::Found {
            is_served: true,
            ..
        })
    ));
}

#[test]
fn failed_install_reports_reason() {
    let mut fabric = Fabric::linked(&[[A, B]]);
    fabric
        .nodes
        .get_mut(&B)
        .expect("linked")
        .unknown
        .push("fold");
    fabric.subscribe(B);
    let part = |node, adapter: &str| Part {
        node,
        adapters: vec![adapter.to_string()],
        plaintext: true,
    };
    let given = vec![part(A, "null"), part(B, "fold")];
    let publication = publication(None, false);
    fabric
        .at(A, |c, now, keys| {
            c.publish(publication, Some(given), now, keys)
        })
        .expect("a given plan");
    fabric.settle();
    let source = fabric.node(A).controller.sources().next().expect("one");
    let (_, plan) = source.plans().next().expect("one sink");
    assert_eq!(plan.state, PlanState::Failed);
    assert!(
        plan.reason
            .as_ref()
            .is_some_and(|why| why.contains("no module has this name"))
    );
    let notice = fabric.node(B).notices.last();
    assert!(
        matches!(
            notice,
            Some(Notice::Refused {
                is_served: false,
                ..
            })
        ),
        "{notice:?}"
    );
}

#[test]
fn sink_subscribes_once_path_exists() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C]]);
    let stream = fabric.publish(A, publication(Some(Planner::Exact), false));
    fabric.cut([A, B]);
    fabric.subscribe(C);
    assert_eq!(
        fabric.node(C).found,
        [(name(), stream)],
        "its record is known"
    );
    fabric.link([A, B]);
    fabric.settle();
    assert_eq!(
        fabric.plan_path(A, stream).1,
        [A, B, C],
        "no time has passed"
    );
}

#[test]
fn sink_of_gone_producer_stays_quiet() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C], [B, D]]);
    let stream = fabric.publish(A, publication(Some(Planner::Exact), false));
    fabric.cut([A, B]);
    fabric.subscribe(C);
    fabric.pass(UNREACHED_MAX + Duration::from_secs(1));
    let subscription = fabric.node(C).controller.subscription(&name());
    assert_eq!(subscription, Some(Subscription::Waiting));
    // The map changes, so it looks again; it must not ask to be called again at once, for ever.
    fabric.cut([B, D]);
    fabric.pass(Duration::from_secs(1));
    fabric.link([A, B]);
    fabric.pass(Duration::from_secs(1));
    assert_eq!(fabric.plan_path(A, stream).1, [A, B, C]);
}

#[test]
fn restarted_relay_gets_part_at_once() {
    for wires in [[[A, B], [B, C]], [[B, C], [A, B]]] {
        let mut fabric = Fabric::linked(&wires);
        fabric.subscribe(C);
        let stream = fabric.publish(A, publication(Some(Planner::Exact), true));
        let before = fabric.plan_path(A, stream);
        fabric.nodes.remove(&B);
        fabric.wires.clear();
        fabric.pass(Duration::from_millis(500));
        // Its neighbours notice the restart before its absence: the new link replaces the old one.
        fabric.start(B, Duration::from_secs(2_000));
        for wire in wires {
            fabric.link(wire);
            fabric.settle();
        }
        let after = (Epoch(before.0.0 + 1), before.1);
        assert_eq!(fabric.plan_path(A, stream), after, "no time has passed");
        let source = fabric.node(A).controller.source(stream).expect("published");
        let (_, plan) = source.plans().next().expect("one sink");
        assert_eq!((plan.state, &plan.reason), (PlanState::Active, &None));
    }
}

#[test]
fn restarted_node_outruns_old_record() {
    let mut fabric = Fabric::linked(&[[A, B]]);
    let before = |fabric: &Fabric| {
        let record = fabric.node(B).controller.directory().record(A);
        record.expect("known").sequence
    };
    let old = before(&fabric);
    fabric.nodes.remove(&A);
    fabric.cut([A, B]);
    // Its clock was set back by a thousand seconds, so its new record has a smaller number than the
    // one that B has.
    fabric.start(A, Duration::ZERO);
    fabric.link([A, B]);
    fabric.settle();
    assert!(before(&fabric) > old);
    let stream = fabric.publish(A, publication(None, false));
    fabric.subscribe(B);
    assert_eq!(fabric.plan_path(A, stream).1, [A, B]);
}

#[test]
fn refused_publication_names_reason() {
    let mut fabric = Fabric::default();
    fabric.start(A, Duration::ZERO);
    let mut publish = |publication, given| {
        let result = fabric.at(A, |c, now, keys| c.publish(publication, given, now, keys));
        result.map(drop)
    };
    let good = publication(Some(Planner::Exact), true);
    let invalid = |result| matches!(result, Err(PublishError::Invalid { .. }));
    assert!(invalid(publish(
        Publication {
            layers: vec![],
            ..good.clone()
        },
        None
    )));
    assert!(invalid(publish(
        Publication {
            planner: None,
            ..good.clone()
        },
        None
    )));
    assert!(invalid(publish(good.clone(), Some(vec![]))));
    let long = Part {
        node: A,
        adapters: vec!["null".to_string(); thalweg_base::limits::ADAPTERS_PER_NODE_MAX + 1],
        plaintext: true,
    };
    assert!(invalid(publish(publication(None, false), Some(vec![long]))));
    assert_eq!(publish(good.clone(), None), Ok(()));
    assert_eq!(publish(good, None), Err(PublishError::Taken(name())));
}

#[test]
fn malformed_publication_is_refused() {
    let mut fabric = Fabric::default();
    fabric.start(A, Duration::ZERO);
    let good = || publication(None, false);
    let layer = |rate, utility| Layer {
        rate: Bitrate::from_bps(rate),
        utility,
    };
    let layers = |layers: &[Layer]| Publication {
        layers: layers.to_vec(),
        ..good()
    };
    let packed = |ratio| Publication {
        pack_ratio: Some(ratio),
        ..good()
    };
    let mut late = good();
    late.needs.deadline = Duration::ZERO;
    let wrong = [
        (layers(&[layer(0, 1.0)]), "layer 0"),
        (layers(&[layer(1, 2.0), layer(1, -1.0)]), "layer 1"),
        (layers(&[layer(1, f64::NAN)]), "layer 0"),
        (layers(&[layer(1, f64::INFINITY)]), "sum to"),
        (layers(&[layer(1, 0.5)]), "sum to 0.5"),
        (packed(-1.0), "pack ratio is -1"),
        (packed(0.0), "pack ratio"),
        (packed(f64::NAN), "pack ratio"),
        (packed(f64::INFINITY), "pack ratio"),
        (late, "deadline"),
    ];
    for (publication, word) in wrong {
        let result = fabric.at(A, |c, now, keys| c.publish(publication, None, now, keys));
        let refused = result.expect_err(word).to_string();
        assert!(refused.contains(word), "{word}: {refused}");
    }
    let fine = Publication {
        pack_ratio: Some(1.2),
        ..layers(&[layer(1, 1.0), layer(1, 0.0)])
    };
    let result = fabric.at(A, |c, now, keys| c.publish(fine, None, now, keys));
    assert!(result.is_ok(), "{result:?}");
}

#[test]
fn declared_adapter_is_never_deployed() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C]]);
    fabric.subscribe(C);
    let publication = publication(Some(Planner::Exact), false);
    let stream = fabric.publish(A, publication.clone());
    let facts = fabric.node(A).controller.ground.facts();
    let mut map = Map::between(&facts, &publication, [A, C], |_| true, |_| false)
        .expect("all nodes are on the map");
    let shrink = Declaration {
        rate_factor: Some(0.1),
        ..Declaration::default()
    };
    let declared = [("shrink".parse().expect("a name"), shrink)].into();
    let Snapshot {
        weights,
        stream: of,
        ..
    } = &map.snapshot;
    map.snapshot.catalogue = Catalogue::declared(weights, of, &declared);
    let (wanted, _) = planner::plan(&map.snapshot, &Policy::default());
    assert_eq!(wanted.adapters_at(&wanted.path[0]).len(), 1, "{wanted:?}");
    let refused = map.parts(&wanted).expect_err("no node can run it");
    assert_eq!(
        refused,
        "the plan wants `shrink`, which is declared for planning and which no node can run"
    );
    let planning = Planning {
        stream,
        sink: C,
        number: 1,
        map: map.into(),
        policy: Policy::default(),
        avoid: Avoid::Nothing,
        may_stretch: false,
    };
    let (parts, _) = planning.solve().into_parts().expect("planned around");
    assert!(parts.iter().all(|part| part.adapters.is_empty()));
}
