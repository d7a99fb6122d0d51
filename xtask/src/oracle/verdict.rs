//! The oracle's verdict on one world, and the sum of all verdicts.

use std::fmt;

use serde_json::Value;

/// The oracle's verdict on one world.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    seed: u64,
    nodes: u64,
    has_plan: bool,
    /// How the planner and the integer program differ.
    differs: Option<String>,
    /// Why there is no proof in whole numbers that no plan is cheaper.
    unproved: Option<String>,
    ilp_ms: f64,
    exact_us: f64,
}

impl Verdict {
    /// Parses a line of the oracle; `None` if it is not a verdict.
    pub fn read(line: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(line).ok()?;
        let text = |key: &str| value[key].as_str().map(str::to_owned);
        Some(Self {
            seed: value["seed"].as_u64()?,
            nodes: value["nodes"].as_u64()?,
            has_plan: value["feasible"].as_bool()?,
            differs: text("differs"),
            unproved: text("unproved"),
            ilp_ms: value["ilp_ms"].as_f64()?,
            exact_us: value["elapsed_us"].as_f64()?,
        })
    }

    /// Returns the message for the user, if any, with the command that replays the world.
    pub fn sentence(&self) -> Option<String> {
        let Self { seed, nodes, .. } = self;
        let replay = format!("to replay: cargo xtask oracle --worlds 1 --seed {seed}");
        if let Some(differs) = &self.differs {
            return Some(format!("seed {seed}, {nodes} nodes: {differs}\n{replay}"));
        }
        let why = self.unproved.as_ref()?;
        Some(format!(
            "seed {seed}, {nodes} nodes: equal, but not proved best: {why}\n{replay}"
        ))
    }
}

/// All verdicts so far.
#[derive(Debug, Default)]
pub struct Tally {
    verdicts: Vec<Verdict>,
}

impl Tally {
    /// Adds a verdict.
    pub fn add(&mut self, verdict: Verdict) {
        self.verdicts.push(verdict);
    }

    /// Returns the number of worlds checked.
    pub fn worlds(&self) -> u64 {
        self.verdicts.len() as u64
    }

    /// Returns the number of worlds where the planner and the integer program differ.
    pub fn differing(&self) -> usize {
        self.count(|verdict| verdict.differs.is_some())
    }

    fn count(&self, is_meant: impl Fn(&Verdict) -> bool) -> usize {
        self.verdicts
            .iter()
            .filter(|verdict| is_meant(verdict))
            .count()
    }

    fn median(&self, number: impl Fn(&Verdict) -> f64) -> f64 {
        let mut numbers: Vec<f64> = self.verdicts.iter().map(number).collect();
        numbers.sort_by(f64::total_cmp);
        numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let planned = self.count(|verdict| verdict.has_plan);
        let unproved = self.count(|verdict| verdict.unproved.is_some());
        write!(
            f,
            "{} worlds: {planned} with a plan, {} without, {} differ, ILP median {:.0} ms, exact median {:.0} µs",
            self.worlds(),
            self.worlds() as usize - planned,
            self.differing(),
            self.median(|verdict| verdict.ilp_ms),
            self.median(|verdict| verdict.exact_us),
        )?;
        if unproved > 0 {
            write!(f, "; {unproved} equal to 10⁻⁹ but not proved best")?;
        }
        Ok(())
    }
}
