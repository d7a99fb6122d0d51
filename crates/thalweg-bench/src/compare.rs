//! Compares an earlier run with this one, metric by metric: the changes beyond the samples' scatter.
//!
//! A change counts if it is larger than both runs' spreads; then it is better, worse or, where the unit
//! has no good direction, just different.
//!
//! ```text
//! beyond both spreads   ⇔   |new − old| > max(spread old, spread new)
//! ```
//!
//! The machine of the earlier run and its load are unknown: runs of different machines differ beyond
//! their spreads, which means nothing.

use std::collections::BTreeMap;

use crate::report::{Figure, short};

/// The result for a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Within one of the spreads.
    Within,
    Better,
    Worse,
    /// Beyond both spreads, in a unit without a good direction.
    Other,
    /// Only in the earlier run.
    Gone,
    /// Only in this one.
    New,
}

/// One metric of both runs.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    id: String,
    metric: String,
    baseline: Option<String>,
    unit: String,
    old: Option<f64>,
    new: Option<f64>,
    pub(crate) verdict: Verdict,
}

type Key = (String, String, Option<String>);

/// Compares two runs, in the order of ids and metrics; of the earlier run, only benchmarks that ran again.
pub(crate) fn compare(old: &[Figure], new: &[Figure]) -> Vec<Change> {
    let ran = |figure: &&Figure| new.iter().any(|other| other.id == figure.id);
    let mut pairs: BTreeMap<Key, (Option<&Figure>, Option<&Figure>)> = BTreeMap::new();
    for figure in old.iter().filter(ran) {
        pairs.entry(key(figure)).or_default().0 = Some(figure);
    }
    for figure in new {
        pairs.entry(key(figure)).or_default().1 = Some(figure);
    }
    let change = |(key, (old, new)): (Key, (Option<&Figure>, Option<&Figure>))| {
        let (id, metric, baseline) = key;
        Change {
            id,
            metric,
            baseline,
            unit: new.or(old).map_or_else(String::new, |f| f.unit.to_string()),
            old: old.map(|figure| figure.value),
            new: new.map(|figure| figure.value),
            verdict: verdict(old, new),
        }
    };
    pairs.into_iter().map(change).collect()
}

fn key(figure: &Figure) -> Key {
    let baseline = figure.baseline.as_ref().map(ToString::to_string);
    (figure.id.to_string(), figure.metric.clone(), baseline)
}

fn verdict(old: Option<&Figure>, new: Option<&Figure>) -> Verdict {
    let (old, new) = match (old, new) {
        (Some(old), Some(new)) => (old, new),
        (None, _) => return Verdict::New,
        (_, None) => return Verdict::Gone,
    };
    let change = new.value - old.value;
    // Also for a missing value: no comparison with NaN holds.
    if !matches!(
        change.abs().partial_cmp(&old.spread.max(new.spread)),
        Some(std::cmp::Ordering::Greater)
    ) {
        return Verdict::Within;
    }
    match is_less_better(&new.unit) {
        Some(less) if less == (change < 0.0) => Verdict::Better,
        Some(_) => Verdict::Worse,
        None => Verdict::Other,
    }
}

/// Returns whether a smaller value is better; `None` if the unit has no good direction.
fn is_less_better(unit: &str) -> Option<bool> {
    match unit {
        "ns" | "us" | "ms" | "s" | "ns/B" | "us/Mbit" | "ms/Mbit" | "instructions" | "share" => {
            Some(true)
        }
        "Mbit/s" | "MB/s" | "ADU/s" | "dB" => Some(false),
        _ => None,
    }
}

/// Returns the comparison as a table for people, with a summary in the last line.
pub(crate) fn text(changes: &[Change]) -> String {
    let mut text = format!(
        "{:<7} {:<48} {:<13} {:>10} {:>10} {:>9}  beyond both spreads?\n",
        "id", "metric", "unit", "old", "new", "change"
    );
    text.extend(changes.iter().map(row));
    let count = |verdict| changes.iter().filter(|c| c.verdict == verdict).count();
    let sum = format!(
        "{} metrics: {} better, {} worse, {} other, {} within the spreads, {} new, {} gone\n",
        changes.len(),
        count(Verdict::Better),
        count(Verdict::Worse),
        count(Verdict::Other),
        count(Verdict::Within),
        count(Verdict::New),
        count(Verdict::Gone),
    );
    text + &sum
}

fn row(change: &Change) -> String {
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), short);
    let share = match (change.old, change.new) {
        (Some(old), Some(new)) if old != 0.0 => format!("{:+.1} %", 100.0 * (new / old - 1.0)),
        _ => "-".to_owned(),
    };
    let beside = change
        .baseline
        .as_ref()
        .map_or_else(String::new, |name| format!(" (beside {name})"));
    format!(
        "{:<7} {:<48} {:<13} {:>10} {:>10} {:>9}  {}{beside}\n",
        change.id,
        change.metric,
        change.unit,
        number(change.old),
        number(change.new),
        share,
        change.verdict.word(),
    )
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Within => "no",
            Self::Better => "yes, better",
            Self::Worse => "yes, WORSE",
            Self::Other => "yes",
            Self::Gone => "gone",
            Self::New => "new",
        }
    }
}

#[cfg(test)]
mod tests {
    //! Checks the verdicts by hand, from both sides of the spread.

    use super::{Verdict, compare, text};
    use crate::report::Figure;
    use crate::sample::Summary;

    fn figure(metric: &str, unit: &'static str, median: f64, spread: f64) -> Figure {
        let summary = Summary {
            median,
            spread,
            n: 9,
        };
        Figure::new("BM-D1", metric, unit, summary)
    }

    fn verdict(old: Figure, new: Figure) -> Verdict {
        compare(&[old], &[new])[0].verdict
    }

    #[test]
    fn change_must_exceed_larger_spread() {
        let old = || figure("a", "ns", 100.0, 5.0);
        assert_eq!(
            verdict(old(), figure("a", "ns", 110.0, 10.0)),
            Verdict::Within
        );
        assert_eq!(
            verdict(old(), figure("a", "ns", 110.1, 10.0)),
            Verdict::Worse
        );
        assert_eq!(
            verdict(old(), figure("a", "ns", 94.9, 1.0)),
            Verdict::Better
        );
        assert_eq!(
            verdict(old(), figure("a", "ns", f64::NAN, 1.0)),
            Verdict::Within
        );
    }

    #[test]
    fn unit_gives_good_direction() {
        let change = |unit| verdict(figure("a", unit, 1.0, 0.0), figure("a", unit, 2.0, 0.0));
        assert_eq!(change("Mbit/s"), Verdict::Better);
        assert_eq!(change("instructions"), Verdict::Worse);
        assert_eq!(change("cores"), Verdict::Other);
    }

    #[test]
    fn lacking_metrics_are_shown() {
        let old = [figure("a", "ns", 1.0, 0.0), figure("b", "ns", 1.0, 0.0)];
        let mut other = figure("c", "ns", 1.0, 0.0);
        other.id = "BM-P3".into();
        let old = [old[0].clone(), old[1].clone(), other];
        let new = [figure("b", "ns", 1.0, 0.0), figure("d", "ns", 1.0, 0.0)];
        let changes = compare(&old, &new);
        let verdicts: Vec<_> = changes.iter().map(|change| change.verdict).collect();
        assert_eq!(verdicts, [Verdict::Gone, Verdict::Within, Verdict::New]);
        assert!(text(&changes).ends_with(
            "3 metrics: 0 better, 0 worse, 0 other, 1 within the spreads, 1 new, 1 gone\n"
        ));
    }
}
