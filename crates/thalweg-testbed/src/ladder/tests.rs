//! Proves that the table has both values, and marks disagreements.

use thalweg_base::event::DropCause;
use thalweg_base::time::Duration;
use thalweg_sim::report::{Player, Report, Tally};

use super::{Rung, table};

fn report(by: Player, delivered: u64, latency_ms: u64) -> Report {
    let mut tally = Tally::default();
    for number in 0..10 {
        tally.handle_sent(200, 100);
        if number < delivered {
            tally.handle_delivered(200, 100, Duration::from_millis(latency_ms), true);
        } else {
            tally.handle_dropped(DropCause::Expired, "a", 1);
        }
    }
    Report {
        world: "geo.toml".into(),
        by,
        seed: 1,
        seconds: 1.0,
        trace_hash: None,
        streams: vec![tally.report("s", "b")],
        links: Vec::new(),
        violations: Vec::new(),
    }
}

#[test]
fn large_differences_are_bold() {
    let rung = Rung {
        testbed: vec![report(Player::Testbed, 9, 105)],
        simulator: [(5, 100), (2, 300), (6, 90)]
            .map(|(delivered, latency_ms)| report(Player::Simulator, delivered, latency_ms))
            .to_vec(),
    };
    let text = table(&[rung]);
    let line = "| geo | s | 10 | 50.0 % | 90.0 % | **+80.0 %** | 100.0 ms | 105.0 ms | +5.0 % |";
    assert_eq!(text.lines().nth(2), Some(line));
}

#[test]
fn missing_simulator_leaves_columns_empty() {
    let rung = Rung {
        testbed: vec![report(Player::Testbed, 10, 20)],
        simulator: Vec::new(),
    };
    let line = "| geo | s | 10 | – | 100.0 % | – | – | 20.0 ms | – |";
    assert_eq!(table(&[rung]).lines().nth(2), Some(line));
}
