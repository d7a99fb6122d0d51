//! The streams of a generated world: every combination of needs.

use thalweg_base::needs::{Needs, Order, Reliability};
use thalweg_base::random::SplitMix;
use thalweg_base::time::Duration;
use thalweg_base::units::{Bitrate, Ratio};
use thalweg_planner::model::{Layer, NodeName, Stream, Traffic};
use thalweg_planner::planner::Planner;

/// Returns one to three streams.
pub(super) fn streams(names: &[NodeName], length: Duration, dice: &mut SplitMix) -> Vec<Stream> {
    let count = 1 + dice.next_below(3);
    (1..=count)
        .map(|number| stream(number, names, length, dice))
        .collect()
}

fn stream(number: u64, names: &[NodeName], length: Duration, dice: &mut SplitMix) -> Stream {
    let from = dice.next_below(names.len() as u64) as usize;
    let mut others: Vec<&NodeName> = names.iter().filter(|name| **name != names[from]).collect();
    let sinks = 1 + usize::from(dice.next_below(4) == 0 && others.len() > 1);
    let to = (0..sinks).map(|_| {
        others
            .swap_remove(dice.next_below(others.len() as u64) as usize)
            .clone()
    });
    let to = to.collect();
    let count = 1 + dice.next_below(4) as usize;
    Stream {
        name: format!("s{number}").parse().expect("a letter and a digit"),
        from: names[from].clone(),
        to,
        layers: layers(count, dice),
        needs: needs(count, dice),
        importance: Stream::IMPORTANCE_DEFAULT,
        // Payloads pack as this says, so that the planner packs now and then.
        pack_ratio: Some(if dice.next_below(3) == 0 { 0.8 } else { 1.0 }),
        seal_overhead: None,
        traffic: traffic(length, dice),
    }
}

fn layers(count: usize, dice: &mut SplitMix) -> Vec<Layer> {
    let base = 8 + dice.next_below(60);
    let layer = |at: usize| Layer {
        rate: Bitrate::from_kbps(base << at),
        utility: 1.0 / count as f64,
    };
    (0..count).map(layer).collect()
}

fn needs(layers: usize, dice: &mut SplitMix) -> Needs {
    let deadline = match dice.next_below(3) {
        0 => Duration::NEVER,
        1 => Duration::from_millis(100 + dice.next_below(200)),
        _ => Duration::from_millis(300 + dice.next_below(1_200)),
    };
    let mut needs = Needs {
        confidential: dice.next_below(3) == 0,
        deadline,
        least_layers: 1 + dice.next_below(layers as u64) as u8 / 2,
        reliability: [
            Reliability::None,
            Reliability::UntilDeadline,
            Reliability::Full,
        ][dice.next_below(3) as usize],
        order: [Order::Importance, Order::Sequence][dice.next_below(2) as usize],
        ..Needs::default()
    };
    // By dice of its own, so that all else in the worlds of known seeds stays as it was.
    let mut apart = SplitMix::new(dice.clone().next_u64());
    if needs.reliability == Reliability::Full && apart.next_below(3) == 0 {
        needs.reliability = Reliability::Repaired;
    }
    needs
}

fn traffic(length: Duration, dice: &mut SplitMix) -> Traffic {
    let stop = length.as_millis() / 2 + dice.next_below(length.as_millis() / 2);
    Traffic {
        frames: [5.0, 12.0, 25.0, 50.0][dice.next_below(4) as usize],
        key_every: [1, 1, 10, 25][dice.next_below(4) as usize],
        spread: Ratio::new(dice.next_below(80) as f64 / 100.0).expect("below one"),
        video: false,
        start: Duration::from_millis(dice.next_below(800)),
        stop: (dice.next_below(3) == 0).then(|| Duration::from_millis(stop)),
        planner: Planner::Exact,
        ..Traffic::default()
    }
}
