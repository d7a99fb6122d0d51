//! What was seen of a stream, as panels over time.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use thalweg_base::id::StreamName;
use thalweg_chart::{Panel, PanelPlot, Point, Series, Timeline};
use thalweg_node::TracedAdu;
use thalweg_node::status::DropStatus;

use crate::progress::size;

/// Bars of a picture at most.
const BARS_MAX: f64 = 150.0;

/// Kinds of drops that have a colour of their own.
const KINDS_MAX: usize = 6;

/// An ADU that came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    /// When it came, from the start on.
    pub(super) second: f64,
    pub(super) sequence: u64,
    /// Its time, from the start of the stream on.
    pub(super) media_second: f64,
    pub(super) bytes: usize,
}

/// What was seen of a stream for a while.
pub(super) struct Recorded {
    /// When it began, in seconds since 1970.
    began: f64,
    /// How long it was looked at.
    pub(super) seconds: f64,
    pub(super) arrivals: Vec<Arrival>,
    pub(super) drops: Vec<DropStatus>,
    /// Seconds from publication to sink, by sequence, of traced ADUs.
    traced: HashMap<u64, f64>,
}

/// Travel times in milliseconds, and what they are relative to.
struct Travel {
    points: Vec<(f64, f64)>,
    is_whole: bool,
}

/// Returns the time of day, in seconds since 1970.
pub(super) fn unix_now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

impl Recorded {
    pub(super) fn new(began: f64) -> Self {
        Self {
            began,
            seconds: 0.0,
            arrivals: Vec::new(),
            drops: Vec::new(),
            traced: HashMap::new(),
        }
    }

    /// Handles a traced ADU. Of several sinks the last to report counts: they trace the same path but for
    /// its end.
    pub(super) fn handle_traced(&mut self, adu: &TracedAdu) {
        self.traced.insert(adu.sequence, adu.sum_us as f64 / 1e6);
    }

    /// Returns the panels.
    pub(super) fn timeline(&self, stream: &StreamName) -> Timeline {
        let travel = self.travel();
        let y_label = match &travel {
            Some(travel) if travel.is_whole => "travel time, ms",
            _ => "travel time above the fastest, ms",
        };
        let points = travel.map_or_else(Vec::new, |travel| travel.points);
        let panels = vec![
            self.rate(),
            Panel {
                y_label: "interval, ms".into(),
                plot: PanelPlot::Dots(vec![
                    series("between arrivals", &intervals(&self.arrived())),
                    series("between drops at a place", &self.drop_intervals()),
                ]),
            },
            Panel {
                y_label: y_label.into(),
                plot: PanelPlot::Dots(vec![series("from its time to its arrival", &points)]),
            },
            self.drop_rates(),
        ];
        Timeline {
            title: format!("{stream}: arrivals, travel times and drops"),
            x_label: "seconds".into(),
            seconds: self.seconds,
            panels,
            source: self.summary().lines().map(str::to_owned).collect(),
        }
    }

    /// Returns what was seen, in some lines.
    pub(super) fn summary(&self) -> String {
        let bytes: usize = self.arrivals.iter().map(|one| one.bytes).sum();
        let mut text = format!(
            "{} ADUs, {} in {:.1} s",
            self.arrivals.len(),
            size(bytes as u64),
            self.seconds
        );
        if let Some(travel) = self.travel() {
            let mut times: Vec<f64> = travel.points.iter().map(|(_, ms)| *ms).collect();
            times.sort_by(f64::total_cmp);
            let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
            let what = if travel.is_whole {
                ""
            } else {
                " above the fastest"
            };
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "; travel time{what}: median {:.1} ms, 99 % within {:.1} ms, longest {:.1} ms",
                at(0.5),
                at(0.99),
                at(1.0)
            );
        }
        let sums = self.drop_sums();
        if sums.is_empty() {
            return text + "\nno drops on this node, and nothing missing";
        }
        for (kind, adus) in sums {
            let _ = write!(text, "\n{adus} {kind}");
        }
        text
    }

    /// Returns the seconds at which ADUs came.
    fn arrived(&self) -> Vec<f64> {
        self.arrivals.iter().map(|one| one.second).collect()
    }

    /// Returns the milliseconds from one record of drops to the next at the same place.
    fn drop_intervals(&self) -> Vec<(f64, f64)> {
        let mut places: BTreeMap<(&str, Option<&str>), Vec<f64>> = BTreeMap::new();
        for dropped in &self.drops {
            let place = (dropped.place.as_str(), dropped.at.as_deref());
            places.entry(place).or_default().push(self.second(dropped));
        }
        let of_place = |mut times: Vec<f64>| {
            times.sort_by(f64::total_cmp);
            intervals(&times)
        };
        places.into_values().flat_map(of_place).collect()
    }

    fn second(&self, dropped: &DropStatus) -> f64 {
        (dropped.time - self.began).clamp(0.0, self.seconds)
    }

    /// Returns travel times; `None` if the stream's ADUs bear no time.
    ///
    /// The clocks of source and sink are not compared. What a traced ADU took places all others; without
    /// one the fastest is zero.
    fn travel(&self) -> Option<Travel> {
        let late = |one: &Arrival| one.second - one.media_second;
        let times = self.arrivals.iter().map(|one| one.media_second);
        let first = times.clone().fold(f64::INFINITY, f64::min);
        let last = times.fold(f64::NEG_INFINITY, f64::max);
        if self.arrivals.len() < 2 || first >= last {
            return None;
        }
        let known = |one: &Arrival| Some(late(one) - self.traced.get(&one.sequence)?);
        let mut offsets: Vec<f64> = self.arrivals.iter().filter_map(known).collect();
        offsets.sort_by(f64::total_cmp);
        let is_whole = !offsets.is_empty();
        let offset = if is_whole {
            offsets[offsets.len() / 2]
        } else {
            self.arrivals.iter().map(late).fold(f64::INFINITY, f64::min)
        };
        let points = self.arrivals.iter();
        let points = points.map(|one| (one.second, ((late(one) - offset) * 1e3).max(0.0)));
        Some(Travel {
            points: points.collect(),
            is_whole,
        })
    }

    /// Returns the width of a bar in seconds: a round one.
    fn width(&self) -> f64 {
        let widths = [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0];
        let fits = |width: &f64| self.seconds / width <= BARS_MAX;
        widths.into_iter().find(fits).unwrap_or(60.0)
    }

    fn rate(&self) -> Panel {
        let arrived = self.arrived();
        let arrived = arrived.iter().map(|second| (*second, 1.0));
        Panel {
            y_label: "arrivals, ADUs/s".into(),
            plot: PanelPlot::Bars {
                width: self.width(),
                bars: vec![series("arrived", &rates(arrived, self.width()))],
            },
        }
    }

    /// Returns how many were dropped of each kind, most first.
    fn drop_sums(&self) -> Vec<(String, u64)> {
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for dropped in &self.drops {
            *sums.entry(kind(dropped)).or_default() += dropped.adus;
        }
        let mut sums: Vec<(String, u64)> = sums.into_iter().collect();
        sums.sort_by_key(|(_, adus)| std::cmp::Reverse(*adus));
        sums
    }

    fn drop_rates(&self) -> Panel {
        let width = self.width();
        let sums = self.drop_sums();
        let (own, rest) = sums.split_at(sums.len().min(KINDS_MAX));
        let of = |is_it: &dyn Fn(&str) -> bool| {
            let these = self.drops.iter().filter(|one| is_it(&kind(one)));
            rates(these.map(|one| (self.second(one), one.adus as f64)), width)
        };
        let mut bars: Vec<Series> = own
            .iter()
            .map(|(kind, _)| series(kind, &of(&|other| other == kind)))
            .collect();
        if !rest.is_empty() {
            let is_rest = |other: &str| rest.iter().any(|(kind, _)| kind == other);
            bars.push(series("other", &of(&is_rest)));
        }
        Panel {
            y_label: "drops, ADUs/s".into(),
            plot: PanelPlot::Bars { width, bars },
        }
    }
}

/// Returns what was dropped and where, such as `overflow in the mailbox of pid 4711`.
fn kind(dropped: &DropStatus) -> String {
    let at = dropped.at.as_deref().unwrap_or("");
    let cause = &dropped.cause;
    match dropped.place.as_str() {
        "mailbox" => format!("{cause} in the mailbox of {at}"),
        "link" => format!(
            "{cause} on the link to {}",
            at.chars().take(10).collect::<String>()
        ),
        "way" => format!("{cause}: never came"),
        "arrival" => format!("{cause} on arrival"),
        place => format!("{cause} at the {place}"),
    }
}

/// Returns how many a second, for each bar with any.
fn rates(all: impl Iterator<Item = (f64, f64)>, width: f64) -> Vec<(f64, f64)> {
    let mut bars: BTreeMap<i64, f64> = BTreeMap::new();
    for (second, adus) in all {
        *bars.entry((second / width).floor() as i64).or_default() += adus;
    }
    let bar = |(at, adus): (i64, f64)| (at as f64 * width, adus / width);
    bars.into_iter().map(bar).collect()
}

/// Returns the milliseconds since the one before, at each time but the first.
fn intervals(times: &[f64]) -> Vec<(f64, f64)> {
    let pairs = times.windows(2);
    pairs
        .map(|pair| (pair[1], (pair[1] - pair[0]) * 1e3))
        .collect()
}

fn series(name: &str, points: &[(f64, f64)]) -> Series {
    let point = |(x, y): &(f64, f64)| Point {
        x: *x,
        y: *y,
        spread: 0.0,
    };
    Series {
        name: name.into(),
        points: points.iter().map(point).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(sequence: u64, second: f64, media_second: f64) -> Arrival {
        Arrival {
            second,
            sequence,
            media_second,
            bytes: 100,
        }
    }

    fn dropped(place: &str, time: f64, adus: u64) -> DropStatus {
        DropStatus {
            stream: "radar".parse().expect("a name"),
            id: "1".into(),
            number: 1,
            time,
            seconds: 0.0,
            place: place.into(),
            at: (place == "mailbox").then(|| "pid 7".into()),
            cause: "overflow".into(),
            adus,
            sequences: [0, adus],
            importance: None,
        }
    }

    /// Every ADU is a millisecond late, and the fifth one is nine milliseconds late.
    fn recorded() -> Recorded {
        let mut recorded = Recorded::new(1_000.0);
        recorded.seconds = 2.0;
        for at in 0..10 {
            let media = at as f64 * 0.1;
            let late = if at == 5 { 0.009 } else { 0.001 };
            recorded
                .arrivals
                .push(arrival(at, 0.5 + media + late, media));
        }
        recorded
    }

    fn longest(recorded: &Recorded) -> f64 {
        let travel = recorded.travel().expect("ADUs bear times");
        travel.points.iter().map(|(_, ms)| *ms).fold(0.0, f64::max)
    }

    #[test]
    fn travel_time_is_relative_until_traced() {
        let mut recorded = recorded();
        assert!((longest(&recorded) - 8.0).abs() < 1e-6);
        recorded.traced.insert(3, 0.020);
        assert!((longest(&recorded) - 28.0).abs() < 1e-6);
        assert!(
            recorded.summary().contains("median 20.0 ms"),
            "{}",
            recorded.summary()
        );
    }

    #[test]
    fn adus_without_time_have_no_travel_time() {
        let mut recorded = recorded();
        for arrival in &mut recorded.arrivals {
            arrival.media_second = 0.0;
        }
        assert!(recorded.travel().is_none());
        let svg = recorded.timeline(&"radar".parse().expect("a name")).svg();
        assert!(!svg.contains("NaN"));
    }

    #[test]
    fn drops_are_stacked_by_kind() {
        let mut recorded = recorded();
        recorded.drops = vec![
            dropped("mailbox", 1_000.5, 30),
            dropped("way", 1_000.5, 2),
            dropped("mailbox", 1_001.5, 10),
        ];
        let sums = recorded.drop_sums();
        assert_eq!(sums[0], ("overflow in the mailbox of pid 7".into(), 40));
        let PanelPlot::Bars { width, bars } = recorded.drop_rates().plot else {
            panic!("drops are bars");
        };
        assert_eq!((bars.len(), bars[0].points.len()), (2, 2));
        assert!((bars[0].points[0].y * width - 30.0).abs() < 1e-9);
        assert!(
            recorded
                .summary()
                .contains("40 overflow in the mailbox of pid 7")
        );
    }
}
