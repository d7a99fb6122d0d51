//! Proves the demo's result: its shape, consistent counts, and no plaintext on the insecure link.
//!
//! Picture quality depends on the machine's load and is not asserted.

use serde_json::Value;
use tempfile::tempdir;

use crate::program::run;

/// The demo's frame rate, in frames per second.
const FPS: u64 = 12;

fn count(side: &Value, key: &str) -> u64 {
    side[key]
        .as_u64()
        .unwrap_or_else(|| panic!("{key} is no count in {side}"))
}

#[test]
fn result_adds_up_and_is_sealed() {
    let folder = tempdir().expect("a directory");
    let arguments = ["demo", "--headless", "--seconds", "4", "--json"];
    let run = run(folder.path(), &arguments).exits(0);
    assert_eq!(run.err(), "");
    let result: Value = serde_json::from_str(&run.out()).expect("one JSON object");
    assert_eq!(result.as_object().map(serde_json::Map::len), Some(3));
    for side in ["planned", "unplanned"] {
        let side = &result[side];
        assert_eq!(count(side, "frames_sent"), 4 * FPS);
        assert_eq!(
            count(side, "frames_shown") + count(side, "frames_late"),
            4 * FPS
        );
        assert!(side["psnr_y_mean_db"].is_number() && side["psnr_cb_mean_db"].is_number());
        assert!(side["latency_ms"]["p50"].is_number() && side["latency_ms"]["p99"].is_number());
        for link in [
            "camera->relay",
            "relay->base",
            "base->viewer",
            "viewer->base",
        ] {
            assert!(count(&side["link_bytes"], link) > 0, "{link}: {side}");
        }
    }
    assert_eq!(result["planned"]["sealed_on_insecure"], true);
    assert_eq!(result["unplanned"]["sealed_on_insecure"], false);
    assert_eq!(result["plan"]["feasible"], true);
    // The stream went through the shapers: unplanned with all layers, planned with two of eight.
    let first = |side: &str| count(&result[side]["link_bytes"], "camera->relay");
    assert!(first("unplanned") > 3 * first("planned"), "{result}");
}
