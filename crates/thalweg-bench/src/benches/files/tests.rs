//! Proves the arithmetic of the bound, the parsing of the programs' output, and the shape of a chain.

use super::chain::{self, Transfer, goodput_bps};
use super::{bound_s, over_bound_in_rtt};

#[test]
fn bound_matches_original() {
    assert!((bound_s(10 << 20, 2e6) - 41.943).abs() < 1e-3);
}

#[test]
fn excess_is_in_rtts_of_all_hops() {
    let over = over_bound_in_rtt(0.529_6, 0.409_6, 3);
    assert!((over - 2.0).abs() < 1e-9, "{over}");
}

#[test]
fn times_come_from_both_programs() {
    let sent = r#"{"began_unix": 100.5, "ended_unix": 143.0, "bytes": 1000, "bytes_sent": 1100}"#;
    let received = r#"{"began_unix": 100.6, "ended_unix": 142.5}"#;
    let read = Transfer::read(sent, received, 100.0).expect("they are complete");
    assert!((read.seconds - 42.0).abs() < 1e-9 && (read.set_up_seconds - 0.5).abs() < 1e-9);
    assert!((read.resent_share() - 0.1).abs() < 1e-9);
    assert!(Transfer::read("{}", received, 0.0).is_err());
}

#[test]
fn tcp_edges_do_not_count() {
    let second = |bytes: u32| format!(r#"{{"sum": {{"bytes": {bytes}, "seconds": 1.0}}}}"#);
    let all: Vec<String> = [9, 9, 250_000, 250_000, 9, 9].map(second).into();
    let said = format!(r#"{{"intervals": [{}]}}"#, all.join(","));
    assert!((goodput_bps(&said).expect("it is complete") - 2e6).abs() < 1.0);
    assert!(goodput_bps(r#"{"intervals": []}"#).is_err());
}

#[test]
fn chain_links_neighbours() {
    let names = chain::names(3);
    let world = chain::world(&names, chain::SLOW);
    assert_eq!((world.nodes.len(), world.links.len()), (4, 3));
    assert!(world.faults().is_empty());
    for (link, ends) in world.links.iter().zip(names.windows(2)) {
        assert!(link.joins(&[ends[0].clone(), ends[1].clone()]));
    }
}
