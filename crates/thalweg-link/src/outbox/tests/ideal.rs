//! Compares the outbox with a scheduler that knows the future.
//!
//! ADUs of one packet each arrive in bursts at a path that carries fewer; each has a deadline and a
//! value, its importance. Which of them can all be sent in time is a matching of ADUs with packet
//! times. Sets that can be matched are a matroid, so the best set is found greedily, the most
//! valuable first, each tried with augmenting paths. The outbox sees an ADU only when it arrives,
//! so earlier choices may spoil a set; in the worst case half of the value is lost.
//!
//! *Sources.* Lawler, "Combinatorial optimization", §7; Hajek, "On the competitiveness of on-line
//! scheduling of unit-length packets with hard deadlines in slotted time", CISS 2001, for the half.

use alloc::vec::Vec;

use thalweg_base::random::SplitMix;
use thalweg_base::units::DataSize;

use super::{at, entry, with_flow};

/// Packet times of a run; one takes a millisecond.
const TIMES: usize = 300;

const PACKET_BYTES: usize = 1_200;

#[derive(Clone, Copy)]
struct Job {
    release: usize,
    /// The first packet time at which it is useless.
    deadline: usize,
    worth: u8,
}

/// Bursts with `load` times as many packets as the path carries.
fn jobs(seed: u64, load: f64) -> Vec<Job> {
    let mut random = SplitMix::new(seed);
    let mut jobs = Vec::new();
    for release in 0..TIMES {
        if random.next_unit() > 0.1 {
            continue;
        }
        let burst = random.next_below((20.0 * load) as u64 + 1);
        for _ in 0..burst {
            jobs.push(Job {
                release,
                deadline: (release + 1 + random.next_below(40) as usize).min(TIMES),
                worth: random.next_below(256) as u8,
            });
        }
    }
    jobs
}

/// Returns the largest value that can be delivered.
fn ideal(jobs: &[Job]) -> u64 {
    fn find(at: usize, jobs: &[Job], taken: &mut [Option<usize>], seen: &mut [bool]) -> bool {
        for time in jobs[at].release..jobs[at].deadline {
            if core::mem::replace(&mut seen[time], true) {
                continue;
            }
            if taken[time].is_none_or(|other| find(other, jobs, taken, seen)) {
                taken[time] = Some(at);
                return true;
            }
        }
        false
    }
    let mut by_worth: Vec<usize> = (0..jobs.len()).collect();
    by_worth.sort_by_key(|at| core::cmp::Reverse(jobs[*at].worth));
    let mut taken = alloc::vec![None; TIMES];
    by_worth
        .into_iter()
        .filter(|at| find(*at, jobs, &mut taken, &mut [false; TIMES]))
        .map(|at| u64::from(jobs[at].worth))
        .sum()
}

/// Returns the value that the outbox delivers.
fn ours(jobs: &[Job]) -> u64 {
    let (mut outbox, flow) = with_flow();
    let (mut worth, mut worths) = (0, alloc::vec![0; jobs.len()]);
    let mut rest = jobs.iter().enumerate().peekable();
    for time in 0..TIMES {
        let now = at(time as u64);
        while let Some((number, job)) = rest.next_if(|(_, job)| job.release == time) {
            let deadline = at(job.deadline as u64);
            let entry = entry(number as u64, job.worth, deadline, PACKET_BYTES);
            let ticket = outbox.push(now, flow, entry);
            let ticket = ticket.expect("it is of use and few wait");
            worths[ticket.index()] = job.worth;
        }
        if let Some(chunk) = outbox.poll_chunk(now, DataSize::from_bytes(PACKET_BYTES as u64)) {
            assert!(chunk.is_last, "a packet is a chunk");
            worth += u64::from(worths[chunk.ticket.index()]);
            assert!(outbox.finish(chunk.ticket), "it has just departed");
        }
        while outbox.poll_drop().is_some() {}
    }
    worth
}

/// Returns the least and the mean share of the ideal over 20 runs.
fn shares(load: f64) -> (f64, f64) {
    let shares: Vec<f64> = (0..20)
        .map(|seed| {
            let jobs = jobs(seed, load);
            let (ours, ideal) = (ours(&jobs), ideal(&jobs));
            assert!(ours <= ideal, "nothing does better than the ideal");
            ours as f64 / ideal as f64
        })
        .collect();
    let least = shares.iter().copied().fold(1.0, f64::min);
    (least, shares.iter().sum::<f64>() / shares.len() as f64)
}

#[test]
fn outbox_is_near_ideal_value() {
    for (load, least_due, mean_due) in [(1.0, 0.83, 0.87), (2.0, 0.83, 0.88), (4.0, 0.88, 0.92)] {
        let (least, mean) = shares(load);
        assert!(least >= least_due, "{least} of the ideal at load {load}");
        assert!(mean >= mean_due, "{mean} of the ideal at load {load}");
    }
}
