//! Proves the camera's arithmetic and its errors for unreadable videos.

use std::path::Path;

use super::video::VideoError;
use super::*;

#[test]
fn budgets_add_up_to_the_rate() {
    let rates = [56, 64, 80, 120].map(Bitrate::from_kbps);
    let budgets = budgets(&rates).expect("room for each");
    assert_eq!(budgets[0], 583 - WIRE_BYTES);
    assert_eq!(budgets.iter().sum::<usize>(), 320_000 / 96 - 4 * WIRE_BYTES);
    assert!(super::budgets(&[Bitrate::from_bps(100)]).is_err());
}

#[test]
fn frames_are_evenly_spaced() {
    assert_eq!(at(0), Duration::ZERO);
    assert_eq!(at(FPS as usize), Duration::from_secs(1));
}

#[test]
fn unreadable_video_is_one_sentence() {
    let missing = Video::open(Path::new("/nowhere/clip.y4m")).map(drop);
    assert!(
        matches!(missing, Err(VideoError::Open { .. })),
        "{missing:?}"
    );
}

#[test]
fn y4m_file_loops_at_its_own_rate() {
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("clip.y4m");
    let mut bytes = b"YUV4MPEG2 W32 H32 F24:1 C420jpeg\n".to_vec();
    for n in 0..4u8 {
        bytes.extend_from_slice(b"FRAME\n");
        bytes.extend_from_slice(&[n; 32 * 32 * 3 / 2]);
    }
    std::fs::write(&file, bytes).expect("room");
    let mut video = Video::open(&file).expect("a video");
    assert_eq!(video.size(), (32, 32));
    let seen: Vec<u8> = (0..4)
        .map(|_| video.next().expect("a picture").y()[0])
        .collect();
    // Every second frame of 24 per second, then from the start again.
    assert_eq!(seen, [0, 2, 0, 2]);
}
