//! Samples, their median and their spread.
//!
//! Disturbances on the machine make some samples slower and none faster: a few of them hardly move the
//! median and the quartiles, unlike a mean and a deviation.

use std::time::Instant;

/// The summary of a number of samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    /// The median.
    pub(crate) median: f64,
    /// Interquartile range.
    pub(crate) spread: f64,
    /// Number of samples.
    pub(crate) n: usize,
}

impl Summary {
    /// Returns the median and spread of some samples; NaN if there are none.
    pub(crate) fn of(mut samples: Vec<f64>) -> Self {
        samples.sort_by(f64::total_cmp);
        Self {
            median: of_sorted(&samples, 0.5),
            spread: of_sorted(&samples, 0.75) - of_sorted(&samples, 0.25),
            n: samples.len(),
        }
    }

    /// Returns an exact count: one sample that is reproducible.
    pub(crate) const fn exact(value: f64) -> Self {
        Self {
            median: value,
            spread: 0.0,
            n: 1,
        }
    }
}

/// Returns a quantile of the samples; NaN if there are none.
pub(crate) fn quantile(samples: &[f64], share: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    of_sorted(&sorted, share)
}

fn of_sorted(samples: &[f64], share: f64) -> f64 {
    let place = share * (samples.len().max(1) - 1) as f64;
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    match (samples.get(low), samples.get(high)) {
        (Some(low), Some(high)) => low + (high - low) * place.fract(),
        _ => f64::NAN,
    }
}

/// Returns the nanoseconds per round of `rounds` rounds of `work`.
pub(crate) fn nanos_each(rounds: u64, work: impl FnOnce(u64)) -> f64 {
    let start = Instant::now();
    work(rounds);
    start.elapsed().as_nanos() as f64 / rounds as f64
}

/// Samples two sides in alternating order; the first round warms up and is not counted.
///
/// The first side finds the other's caches, and the machine's load varies from round to round:
/// alternating exposes both sides to both. Every ratio is measured by this, or by a loop that does the
/// same.
pub(crate) fn alternate(
    samples: usize,
    mut ours: impl FnMut() -> anyhow::Result<f64>,
    mut theirs: impl FnMut() -> anyhow::Result<f64>,
) -> anyhow::Result<(Vec<f64>, Vec<f64>)> {
    let (mut our_samples, mut their_samples) = (Vec::new(), Vec::new());
    for round in 0..=samples {
        let (our, their) = if round % 2 == 0 {
            let our = ours()?;
            (our, theirs()?)
        } else {
            let their = theirs()?;
            (ours()?, their)
        };
        if round > 0 {
            our_samples.push(our);
            their_samples.push(their);
        }
    }
    Ok((our_samples, their_samples))
}

/// Returns intercept and slope of a line through the points that is robust against a few outliers.
///
/// ```text
/// slope = median of the slopes of all pairs          intercept = median of y − slope · x
/// ```
///
/// Fails   NaN for fewer than two different x
/// Source  the Theil–Sen estimator
pub(crate) fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let pairs = points
        .iter()
        .enumerate()
        .flat_map(|(at, first)| points[..at].iter().map(move |second| (first, second)))
        .filter(|(first, second)| first.0.total_cmp(&second.0).is_ne());
    let slopes = pairs.map(|(first, second)| (first.1 - second.1) / (first.0 - second.0));
    let slope = Summary::of(slopes.collect()).median;
    let rests = points.iter().map(|point| point.1 - slope * point.0);
    (Summary::of(rests.collect()).median, slope)
}

#[cfg(test)]
mod tests {
    //! Checks the arithmetic by hand-made examples.

    use std::cell::RefCell;

    use super::{Summary, alternate, line};

    #[test]
    fn sides_alternate_after_warm_up() {
        let order = RefCell::new(String::new());
        let side = |name: char| {
            let order = &order;
            move || {
                order.borrow_mut().push(name);
                Ok(order.borrow().len() as f64)
            }
        };
        let (ours, theirs) = alternate(2, side('a'), side('b')).expect("neither fails");
        assert_eq!(order.borrow().as_str(), "abbaab");
        assert_eq!((ours, theirs), (vec![4.0, 5.0], vec![3.0, 6.0]));
    }

    #[test]
    fn median_is_in_the_middle() {
        let summary = Summary::of(vec![9.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!((summary.median, summary.spread, summary.n), (3.0, 2.0, 5));
        assert!(Summary::of(vec![]).median.is_nan());
    }

    #[test]
    fn line_ignores_one_outlier() {
        let mut points: Vec<_> = (0..9u8)
            .map(|x| (f64::from(x), 9.0 + 0.5 * f64::from(x)))
            .collect();
        assert_eq!(line(&points), (9.0, 0.5));
        points[4].1 = 1e6;
        assert_eq!(line(&points), (9.0, 0.5));
    }
}
