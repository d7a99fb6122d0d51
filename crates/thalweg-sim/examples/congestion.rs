//! Runs congestion controllers against each other through one bottleneck and prints the tables of
//! docs/concepts/congestion.md.
//!
//! ```text
//! congestion [alone|share|early|own|loss|step|short …] [thalweg|cubic|bbr|new-reno …]
//! congestion trace thalweg,cubic [Mbit/s] [RTT ms] [queue in BDP] [interval ms] [secs] [kbit/s after 10 s]
//! ```
//!
//! Each line of a table is a world and each column a controller; the table's head names the figures.
//! `tests/it/congestion.rs` asserts the bounds; this program only prints.
#![expect(
    clippy::disallowed_methods,
    reason = "this program may read the clock, because it prints its run time"
)]

use std::time::Instant as Wall;

use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize, Ratio};
use thalweg_link::congestion::Algorithm;
use thalweg_netem::Impairment;
use thalweg_sim::dumbbell::{Dumbbell, Flow, Load, Tally};

const SEED: u64 = 1;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let names_none = arguments
        .iter()
        .all(|word| word.parse::<Algorithm>().is_ok());
    let has = |word: &str| names_none || arguments.iter().any(|each| each == word);
    let only: Vec<Algorithm> = arguments
        .iter()
        .filter_map(|word| word.parse().ok())
        .collect();
    let algorithms: Vec<Algorithm> = if only.is_empty() {
        vec![Algorithm::Thalweg, Algorithm::Cubic, Algorithm::Bbr]
    } else {
        only
    };
    let started = Wall::now();
    if has("alone") {
        alone(&algorithms);
    }
    if has("share") {
        share(&algorithms);
    }
    if has("early") {
        early(&algorithms);
    }
    if has("own") {
        own(&algorithms);
    }
    if has("loss") {
        loss(&algorithms);
    }
    if has("step") {
        step(&algorithms);
    }
    if has("short") {
        short(&algorithms);
    }
    if arguments.first().is_some_and(|word| word == "trace") {
        trace(&arguments);
    }
    eprintln!("{:.1} s", started.elapsed().as_secs_f64());
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Seeds of the averaged runs. A little jitter keeps the flows from running in step.
const SEEDS: [u64; 2] = [1, 2];
const JITTER: Duration = Duration::from_micros(500);

fn bottleneck(mbps: u64, rtt: Duration, bdps: u64) -> Impairment {
    let rate = Bitrate::from_kbps(mbps * 1000);
    let bdp = (rate * rtt).as_bytes();
    Impairment {
        rate,
        queue: DataSize::from_bytes((bdp * bdps).max(3_000)),
        ..Impairment::default()
    }
}

fn utilisation(tally: &Tally, rate: Bitrate, time: Duration) -> f64 {
    tally.total().as_bytes() as f64 / (rate * time).as_bytes() as f64
}

fn alone(algorithms: &[Algorithm]) {
    println!(
        "| alone | {} |",
        algorithms
            .iter()
            .map(|a| format!("{a}: used, p50, p95 of the wait in ms, lost"))
            .collect::<Vec<_>>()
            .join(" | ")
    );
    for mbps in [1, 5, 10] {
        for rtt in [20, 50, 100] {
            for bdps in [1, 5] {
                print!("| {mbps} Mbit/s, {rtt} ms, {bdps} BDP |");
                for algorithm in algorithms {
                    let line = bottleneck(mbps, ms(rtt), bdps);
                    let flows = [Flow::bulk(*algorithm, ms(rtt))];
                    let mut dumbbell = Dumbbell::new(line, &flows, SEED);
                    dumbbell.run_for(secs(5));
                    let tally = dumbbell.run_for(secs(30));
                    print!(
                        " {:.3} {:.1} {:.1} {} |",
                        utilisation(&tally, line.rate, secs(30)),
                        tally.wait(0.5).as_millis_f64(),
                        tally.wait(0.95).as_millis_f64(),
                        tally.overflowed
                    );
                }
                println!();
            }
        }
    }
}

/// Prints the mean throughput of the first flows as a multiple of the fair share.
fn share(algorithms: &[Algorithm]) {
    println!(
        "| against | {} |",
        algorithms
            .iter()
            .map(|a| format!("{a}: share over fair, Jain, used, p50 wait"))
            .collect::<Vec<_>>()
            .join(" | ")
    );
    for rival in [Algorithm::Cubic, Algorithm::NewReno] {
        for (mbps, rtt) in [(10, 20), (10, 50), (10, 100), (2, 50)] {
            for bdps in [1, 5] {
                for (ours, theirs) in [(1, 1), (1, 4), (4, 1), (4, 4)] {
                    if rival == Algorithm::NewReno && ours != theirs {
                        continue;
                    }
                    if mbps != 10 && (ours, theirs) != (1, 1) {
                        continue;
                    }
                    print!(
                        "| {ours} against {theirs} {rival}, {mbps} Mbit/s, {rtt} ms, {bdps} BDP |"
                    );
                    for algorithm in algorithms {
                        let line = Impairment {
                            jitter: JITTER,
                            ..bottleneck(mbps, ms(rtt), bdps)
                        };
                        let mut flows = vec![Flow::bulk(*algorithm, ms(rtt)); ours];
                        flows.extend(vec![Flow::bulk(rival, ms(rtt)); theirs]);
                        for (at, flow) in flows.iter_mut().enumerate() {
                            // Interleave the starts, so that neither side always comes first.
                            flow.starts = Instant::ZERO + ms(500 + 700 * (at as u64 * 3 % 8));
                        }
                        let tallies = SEEDS.map(|seed| {
                            let mut dumbbell = Dumbbell::new(line, &flows, seed);
                            dumbbell.run_for(secs(20));
                            dumbbell.run_for(secs(60))
                        });
                        print_share(&tallies, ours, line.rate, secs(60));
                    }
                    println!();
                }
            }
        }
    }
}

/// Prints the same for flows that start together, over 3 to 10 s and 10 to 30 s after the start.
fn early(algorithms: &[Algorithm]) {
    println!(
        "| all begin at once | share over fair, Jain, used, p50 wait: 3 to 10 s; 10 to 30 s |"
    );
    for bdps in [1, 5] {
        for (ours, theirs) in [(1, 1), (1, 8), (8, 1), (8, 8)] {
            for algorithm in algorithms {
                print!(
                    "| {ours} {algorithm} against {theirs} cubic, 10 Mbit/s, 50 ms, {bdps} BDP |"
                );
                let line = Impairment {
                    jitter: JITTER,
                    ..bottleneck(10, ms(50), bdps)
                };
                let mut flows = vec![Flow::bulk(*algorithm, ms(50)); ours];
                flows.extend(vec![Flow::bulk(Algorithm::Cubic, ms(50)); theirs]);
                let tallies = SEEDS.map(|seed| {
                    let mut dumbbell = Dumbbell::new(line, &flows, seed);
                    dumbbell.run_for(secs(3));
                    (dumbbell.run_for(secs(7)), dumbbell.run_for(secs(20)))
                });
                let [first, second] = tallies;
                print_share(&[first.0, second.0], ours, line.rate, secs(7));
                print_share(&[first.1, second.1], ours, line.rate, secs(20));
                println!();
            }
        }
    }
}

/// Prints the throughput of the first flows over their fair share (mean, minimum and maximum over the
/// runs), then the mean Jain index, utilisation and median queueing delay.
fn print_share(tallies: &[Tally], ours: usize, rate: Bitrate, time: Duration) {
    let runs = tallies.len() as f64;
    let shares: Vec<f64> = tallies.iter().map(|tally| share_of(tally, ours)).collect();
    let mean = |of: &dyn Fn(&Tally) -> f64| tallies.iter().map(of).sum::<f64>() / runs;
    print!(
        " {:.2} ({:.2}–{:.2}) {:.3} {:.3} {:.0} |",
        shares.iter().sum::<f64>() / runs,
        shares.iter().copied().fold(f64::MAX, f64::min),
        shares.iter().copied().fold(0.0, f64::max),
        mean(&jain),
        mean(&|tally| utilisation(tally, rate, time)),
        mean(&|tally| tally.wait(0.5).as_millis_f64())
    );
}

fn share_of(tally: &Tally, ours: usize) -> f64 {
    let mine: DataSize = tally.carried[..ours].iter().copied().sum();
    let fair = tally.total().as_bytes() as f64 / tally.carried.len() as f64;
    mine.as_bytes() as f64 / ours as f64 / fair
}

fn jain(tally: &Tally) -> f64 {
    let squares: f64 = tally
        .carried
        .iter()
        .map(|size| (size.as_bytes() as f64).powi(2))
        .sum();
    (tally.total().as_bytes() as f64).powi(2) / squares / tally.carried.len() as f64
}

fn own(algorithms: &[Algorithm]) {
    println!(
        "| among themselves | {} |",
        algorithms
            .iter()
            .map(|a| format!("{a}: shares, used, p50, p95 wait"))
            .collect::<Vec<_>>()
            .join(" | ")
    );
    for (mbps, bdps) in [(10, 1), (10, 5), (5, 5), (50, 1)] {
        for rtts in [
            &[50, 50][..],
            &[20, 100],
            &[50; 4],
            &[20, 50, 50, 100],
            &[20; 8],
        ] {
            print!("| {rtts:?} ms, {mbps} Mbit/s, {bdps} BDP |");
            for algorithm in algorithms {
                let line = bottleneck(mbps, ms(50), bdps);
                let mut flows: Vec<Flow> = rtts
                    .iter()
                    .map(|rtt| Flow::bulk(*algorithm, ms(*rtt)))
                    .collect();
                for (at, flow) in flows.iter_mut().enumerate() {
                    flow.starts = Instant::ZERO + ms(500 + 3_000 * at as u64);
                }
                let mut dumbbell = Dumbbell::new(line, &flows, SEED);
                dumbbell.run_for(secs(40));
                let tally = dumbbell.run_for(secs(60));
                let fair = tally.total().as_bytes() as f64 / rtts.len() as f64;
                for size in &tally.carried {
                    print!(" {:.2}", size.as_bytes() as f64 / fair);
                }
                print!(
                    "; {:.3} {:.1} {:.1} |",
                    utilisation(&tally, line.rate, secs(60)),
                    tally.wait(0.5).as_millis_f64(),
                    tally.wait(0.95).as_millis_f64()
                );
            }
            println!();
        }
    }
}

fn loss(algorithms: &[Algorithm]) {
    println!(
        "| loss | {} |",
        algorithms
            .iter()
            .map(|a| format!("{a}: used, p95 wait"))
            .collect::<Vec<_>>()
            .join(" | ")
    );
    for share in [0.001, 0.01, 0.03, 0.1] {
        for rtt in [20, 100] {
            print!("| {} % of 10 Mbit/s, {rtt} ms, 1 BDP |", share * 100.0);
            for algorithm in algorithms {
                let line = Impairment {
                    loss: Ratio::new(share).expect("a share"),
                    ..bottleneck(10, ms(rtt), 1)
                };
                let mut dumbbell = Dumbbell::new(line, &[Flow::bulk(*algorithm, ms(rtt))], SEED);
                dumbbell.run_for(secs(5));
                let tally = dumbbell.run_for(secs(30));
                print!(
                    " {:.3} {:.1} |",
                    utilisation(&tally, line.rate, secs(30)) / (1.0 - share),
                    tally.wait(0.95).as_millis_f64()
                );
            }
            println!();
        }
    }
}

/// Steps the rate 10 → 2 → 10 Mbit/s.
fn step(algorithms: &[Algorithm]) {
    println!(
        "| step, 50 ms, 5 BDP of 10 Mbit/s | {} |",
        algorithms
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(" | ")
    );
    for rtt in [20, 50, 100] {
        print!(
            "| {rtt} ms: down: used, p95 wait of the first 2 s, of the next 8; up: used in 2 s, in the next 8 |"
        );
        for algorithm in algorithms {
            let fast = bottleneck(10, ms(rtt), 5);
            let slow = Impairment {
                rate: Bitrate::from_kbps(2_000),
                ..fast
            };
            let mut dumbbell = Dumbbell::new(fast, &[Flow::bulk(*algorithm, ms(rtt))], SEED);
            dumbbell.run_for(secs(10));
            dumbbell.change(slow);
            let one = dumbbell.run_for(secs(2));
            let two = dumbbell.run_for(secs(8));
            dumbbell.change(fast);
            let three = dumbbell.run_for(secs(2));
            let four = dumbbell.run_for(secs(8));
            print!(
                " {:.3} {:.0} {:.0}; {:.3} {:.3} |",
                utilisation(&two, slow.rate, secs(8)),
                one.wait(0.95).as_millis_f64(),
                two.wait(0.95).as_millis_f64(),
                utilisation(&three, fast.rate, secs(2)),
                utilisation(&four, fast.rate, secs(8))
            );
        }
        println!();
    }
}

/// Sends 1 Mbit/s of frames on a 10 Mbit/s line, then bulk.
fn short(algorithms: &[Algorithm]) {
    println!(
        "| 1 Mbit/s of frames on 10 Mbit/s for 20 s, then bulk | {} |",
        algorithms
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(" | ")
    );
    for rtt in [20, 50, 100] {
        print!(
            "| {rtt} ms: wait p95; window at 2 s, at 20 s; used in the first second of bulk, p95 wait; in the next 4 |"
        );
        for algorithm in algorithms {
            let line = bottleneck(10, ms(rtt), 5);
            let frames = Flow {
                load: Load::Frames(Bitrate::from_kbps(1_000)),
                ..Flow::bulk(*algorithm, ms(rtt))
            };
            let mut dumbbell = Dumbbell::new(line, &[frames], SEED);
            dumbbell.run_for(secs(2));
            let early = dumbbell.sender(0).stats().congestion_window;
            let one = dumbbell.run_for(secs(18));
            let late = dumbbell.sender(0).stats().congestion_window;
            dumbbell.load(0, Load::Bulk);
            let two = dumbbell.run_for(secs(1));
            let three = dumbbell.run_for(secs(4));
            print!(
                " {:.1}; {early} {late}; {:.3} {:.1}; {:.3} |",
                one.wait(0.95).as_millis_f64(),
                utilisation(&two, line.rate, secs(1)),
                two.wait(0.95).as_millis_f64(),
                utilisation(&three, line.rate, secs(4))
            );
        }
        println!();
    }
}

/// `trace thalweg,cubic 10 50 1 [interval ms] [secs]`: prints the flows' state line by line.
fn trace(arguments: &[String]) {
    let number = |at: usize, or: u64| {
        arguments
            .get(at)
            .and_then(|word| word.parse().ok())
            .unwrap_or(or)
    };
    let (mbps, rtt, bdps) = (number(2, 10), number(3, 50), number(4, 1));
    let flows: Vec<Flow> = arguments[1]
        .split(',')
        .map(|name| Flow::bulk(name.parse().expect("an algorithm"), ms(rtt)))
        .collect();
    let line = bottleneck(mbps, ms(rtt), bdps);
    let mut dumbbell = Dumbbell::new(line, &flows, SEED);
    let interval = ms(number(5, 200));
    while dumbbell.now() < Instant::ZERO + secs(number(6, 30)) {
        if number(7, 0) > 0 && dumbbell.now() == Instant::ZERO + secs(10) {
            dumbbell.change(Impairment {
                rate: Bitrate::from_kbps(number(7, 0)),
                ..line
            });
        }
        let tally = dumbbell.run_for(interval);
        print!(
            "{:8.3} wait {:6.1} lost {:3}",
            dumbbell.now().as_nanos() as f64 / 1e9,
            tally.wait(0.5).as_millis_f64(),
            tally.overflowed
        );
        for at in 0..flows.len() {
            let window = dumbbell.sender(at).stats().congestion_window.as_bytes() as f64 / 1200.0;
            print!(
                " | {:5.2} Mbit/s w {window:5.1}",
                (tally.carried[at] / interval).as_mbps_f64()
            );
            if let Some(own) = dumbbell.sender(at).congestion() {
                print!(
                    " {:?} q {:.1} send {}",
                    own.mode(),
                    own.queueing().as_millis_f64(),
                    own.sendable()
                );
            }
        }
        println!();
    }
}
