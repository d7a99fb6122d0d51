//! Proves the score: late frames count with the previous picture, percentiles are by nearest rank,
//! and the JSON has the promised shape.

use super::*;

fn flat(luma: u8) -> Yuv420 {
    Yuv420::new(2, 2, vec![luma; 4], vec![128], vec![128]).expect("a legal size")
}

#[test]
fn late_frame_scores_the_old_picture() {
    let mut score = Score::default();
    let screen = flat(100);
    score.count(&flat(100), &screen, 3).expect("same size");
    score.count(&flat(110), &screen, 0).expect("same size");
    let metrics = score.metrics(BTreeMap::new(), true);
    assert_eq!((metrics.frames_shown, metrics.frames_late), (1, 1));
    let step = 10.0 * (255.0_f64 * 255.0 / 100.0).log10();
    let mean = metrics.psnr_y_mean_db.expect("two frames");
    assert!((mean - f64::midpoint(100.0, step)).abs() < 1e-9, "{mean}");
    assert_eq!(score.frozen_frames(), 1);
}

#[test]
fn percentiles_are_of_nearest_rank() {
    let mut score = Score::default();
    let none = score.metrics(BTreeMap::new(), false).latency_ms;
    assert_eq!(none, Percentiles::default());
    for millis in (1..=100).rev() {
        score.arrived(Duration::from_millis(millis));
    }
    let all = score.metrics(BTreeMap::new(), false).latency_ms;
    assert_eq!((all.p50, all.p99), (Some(50.0), Some(99.0)));
}

#[test]
fn json_has_the_promised_keys() {
    let bytes = BTreeMap::from([("a->b".to_string(), 7)]);
    let metrics = Score::default().metrics(bytes, true);
    let json = serde_json::to_value(metrics).expect("plain data");
    let keys: Vec<&str> = json
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect();
    let mut promised = [
        "frames_sent",
        "frames_shown",
        "frames_late",
        "psnr_y_mean_db",
        "psnr_cb_mean_db",
        "latency_ms",
        "link_bytes",
        "sealed_on_insecure",
    ];
    promised.sort_unstable();
    let mut keys = keys;
    keys.sort_unstable();
    assert_eq!(keys, promised);
    assert_eq!(json["link_bytes"]["a->b"], 7);
}
