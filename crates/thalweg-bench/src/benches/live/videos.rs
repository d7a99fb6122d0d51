//! Eight layered videos, and their quality for a viewer with a given patience.
//!
//! Each video has 4 Mbit/s and 30 frames per second; a frame is eight ADUs, a base and seven
//! refinements, with the importance that the temporal bias gives them. The pictures are the simulator's
//! film, encoded before the run by the project's layered codec. Each frame is decoded with the layers
//! that came in time and compared with the original, so no quality is assumed. Cameras are not in step:
//! each video starts an eighth of a frame after the previous one.
//!
//! ```text
//! shown(frame, θ)  = its base was there within θ
//! layers(frame, θ) = the unbroken run of layers, base first, that were there within θ
//! ```
//!
//! A frame that is not shown leaves the previous one on the screen, and is compared with that.
//!
//! *Sources.* spec B2.1, PL-18 to PL-20.

use thalweg_base::adu::AdaptationPolicy;
use thalweg_base::needs::Needs;
use thalweg_base::time::Duration;
use thalweg_base::units::Bitrate;
use thalweg_planner::model::{Layer, Stream, Traffic};
use thalweg_sim::film::{Film, Shown};
use thalweg_sim::traffic::Producer;

use super::recording::Recording;
use super::schedule::{Due, Schedule};

/// Number of videos that share the line.
pub(super) const VIDEOS: u32 = 8;

/// Frame rate of each: full temporal quality.
pub(super) const FRAMES_PER_SECOND: f64 = 30.0;

/// The layers of a video, base first: 4 Mbit/s together, headers included.
///
/// All eight bases are a fifth of the line; the bases and the first three refinements of all fill it.
const LAYERS_KBPS: [u64; 8] = [240, 240, 300, 380, 480, 600, 760, 1_000];

/// Time until the queues have filled, which is sent but not judged.
pub(super) const WARM_UP: Duration = Duration::from_secs(1);

/// Time at the end that is not judged: the overload ends and lets through what would have had to wait.
const COOL_DOWN: Duration = Duration::from_millis(500);

/// The videos.
pub(super) struct Videos {
    film: Film,
    schedule: Schedule,
    length: Duration,
}

/// The videos' quality.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Look {
    /// Shown frames per second, the mean over the videos.
    pub(super) fps: f64,
    /// Luma PSNR in dB, the mean over all frames.
    pub(super) psnr_y_db: f64,
}

impl Videos {
    /// Films the videos; `length` of each is judged.
    ///
    /// Cost    half a second in a release build
    pub(super) fn new(length: Duration) -> anyhow::Result<Self> {
        let whole = WARM_UP + length + COOL_DOWN;
        let video = video(whole);
        let film = Film::new(&video)?;
        let apart = 1.0 / (FRAMES_PER_SECOND * f64::from(VIDEOS));
        let dues = (0..VIDEOS).flat_map(|stream| {
            let late = Duration::from_secs_f64(f64::from(stream) * apart);
            let film = &film;
            Producer::new(&video, whole, 0).map(move |due| Due {
                at: due.at + late,
                stream,
                frame: due.frame as u32,
                layer: due.layer,
                layers: LAYERS_KBPS.len() as u8,
                importance: due.importance.0,
                bytes: film.payload(due.frame, due.layer).len(),
            })
        });
        let schedule = Schedule::new(dues.collect());
        Ok(Self {
            film,
            schedule,
            length,
        })
    }

    /// Returns the schedule of all ADUs.
    pub(super) const fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Returns the judged ADUs with their numbers.
    pub(super) fn judged(&self) -> impl Iterator<Item = (usize, &Due)> {
        let dues = self.schedule.dues().iter().enumerate();
        let window = WARM_UP..WARM_UP + self.length;
        dues.filter(move |(_, due)| window.contains(&due.at))
    }

    /// Returns the rate of the payload that arrived while the judged ADUs were due, in bit/s.
    pub(super) fn delivered_bps(&self, recording: &Recording) -> f64 {
        let window = WARM_UP..WARM_UP + self.length;
        let dues = self.schedule.dues().iter().enumerate();
        let came = dues.filter(|(number, due)| {
            let latency = recording.latency(*number);
            latency.is_some_and(|latency| window.contains(&(due.at + latency)))
        });
        let bytes: usize = came.map(|(_, due)| due.bytes).sum();
        bytes as f64 * 8.0 / self.length.as_secs_f64()
    }

    /// Returns the quality for a viewer with this patience.
    ///
    /// Fails   pictures of one film differ in size, which is our bug
    pub(super) fn look(&self, recording: &Recording, threshold: Duration) -> anyhow::Result<Look> {
        let mut prefixes = vec![Vec::new(); VIDEOS as usize];
        for (number, due) in self.judged() {
            let frames: &mut Vec<(u64, u8)> = &mut prefixes[due.stream as usize];
            if due.layer == 0 {
                frames.push((u64::from(due.frame), 0));
            }
            let came = recording.latency(number);
            if let Some((_, layers)) = frames.last_mut()
                && *layers == due.layer
                && came.is_some_and(|latency| latency <= threshold)
            {
                *layers += 1;
            }
        }
        let (mut shown, mut frames, mut sum_db) = (0_u32, 0_u32, 0.0);
        for video in &prefixes {
            let mut screen = Shown::Grey;
            for (frame, layers) in video {
                let picture = Film::picture(*frame);
                if *layers > 0 {
                    screen = Shown::Picture(picture, usize::from(*layers));
                    shown += 1;
                }
                frames += 1;
                sum_db += self.film.compare(picture, screen)?.y_db;
            }
        }
        let seconds = self.length.as_secs_f64();
        Ok(Look {
            fps: f64::from(shown) / f64::from(VIDEOS) / seconds,
            psnr_y_db: sum_db / f64::from(frames.max(1)),
        })
    }
}

/// Returns one of the videos as a stream of a world.
fn video(length: Duration) -> Stream {
    let layer = |kbps: u64| Layer {
        rate: Bitrate::from_kbps(kbps),
        utility: 1.0 / LAYERS_KBPS.len() as f64,
    };
    Stream {
        name: "video".parse().expect("a valid name"),
        from: super::condition::sender(),
        to: vec![super::condition::receiver()],
        layers: LAYERS_KBPS.map(layer).to_vec(),
        needs: Needs::default(),
        importance: Stream::IMPORTANCE_DEFAULT,
        pack_ratio: None,
        seal_overhead: None,
        traffic: Traffic {
            frames: FRAMES_PER_SECOND,
            video: true,
            adaptation: AdaptationPolicy::Temporal,
            stop: Some(length),
            ..Traffic::default()
        },
    }
}
