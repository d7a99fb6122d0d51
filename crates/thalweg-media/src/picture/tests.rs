//! Proves pictures: sizes are checked, PSNR matches its closed form, Y4M is read in any slicing and
//! any other bytes are an error.

use proptest::prelude::*;

use super::y4m::{Reader, Y4mError};
use super::*;

fn flat(value: u8) -> Yuv420 {
    Yuv420::new(4, 2, vec![value; 8], vec![value; 2], vec![value; 2]).expect("a legal size")
}

#[test]
fn sizes_must_be_even_and_bounded() {
    for (width, height) in [(0, 2), (3, 2), (2, 5), (4098, 2), (2, u32::MAX)] {
        assert!(matches!(
            Yuv420::grey(width, height),
            Err(PictureError::Size { .. })
        ));
    }
    assert!(Yuv420::grey(2, 4096).is_ok());
    assert!(matches!(
        Yuv420::new(2, 2, vec![0; 4], vec![0; 1], vec![0; 2]),
        Err(PictureError::Plane { plane: "Cr", .. })
    ));
}

#[test]
fn psnr_matches_its_closed_form() {
    let ratio = psnr(&flat(100), &flat(110)).expect("same size");
    let expected = 10.0 * (255.0_f64 * 255.0 / 100.0).log10();
    assert!((ratio.y_db - expected).abs() < 1e-12);
    assert!((ratio.cr_db - expected).abs() < 1e-12);
    let same = psnr(&flat(7), &flat(7)).expect("same size");
    assert!((same.y_db - PSNR_DB_MAX).abs() < f64::EPSILON);
    assert!(psnr(&flat(7), &Yuv420::grey(2, 2).expect("a legal size")).is_err());
}

#[test]
fn psnr_means_differ() {
    let mut mean = PsnrMean::default();
    assert!(mean.mean_of_db().is_none());
    mean.add(&flat(100), &flat(101)).expect("same size");
    mean.add(&flat(100), &flat(110)).expect("same size");
    let peak = 20.0 * 255.0_f64.log10();
    let of_db = mean.mean_of_db().expect("two frames").y_db;
    let of_mse = mean.of_mean_mse().expect("two frames").y_db;
    assert!((of_db - (peak - 10.0)).abs() < 1e-9);
    assert!((of_mse - (peak - 10.0 * 50.5_f64.log10())).abs() < 1e-9);
}

#[test]
fn rgba_knows_black_white_and_red() {
    let mut out = Vec::new();
    for (yuv, rgb) in [
        ((16, 128, 128), [0, 0, 0, 255]),
        ((235, 128, 128), [255, 255, 255, 255]),
        ((81, 90, 240), [255, 0, 0, 255]),
    ] {
        let (y, u, v) = yuv;
        let picture = Yuv420::new(2, 2, vec![y; 4], vec![u], vec![v]).expect("a legal size");
        picture.write_rgba(&mut out);
        assert_eq!(out.len(), 16);
        for (a, b) in out[..4].iter().zip(rgb) {
            assert!(a.abs_diff(b) <= 1, "{out:?} against {rgb:?}");
        }
    }
}

fn clip() -> Vec<u8> {
    let mut bytes = b"YUV4MPEG2 W4 H2 F30000:1001 Ip A1:1 C420jpeg XYSCSS=420JPEG\n".to_vec();
    for n in 0..3 {
        bytes.extend_from_slice(b"FRAME\n");
        bytes.extend_from_slice(&[n; 12]);
    }
    bytes
}

fn read(bytes: &[u8], slice: usize) -> Result<Vec<Yuv420>, Y4mError> {
    let mut reader = Reader::new();
    let mut pictures = Vec::new();
    for piece in bytes.chunks(slice) {
        reader.push(piece);
        while let Some(picture) = reader.poll_picture()? {
            pictures.push(picture);
        }
    }
    reader.finish()?;
    Ok(pictures)
}

#[test]
fn y4m_reads_the_same_in_any_slicing() {
    for slice in [1, 2, 5, 13, 1000] {
        assert_eq!(read(&clip(), slice), Ok(vec![flat(0), flat(1), flat(2)]));
    }
    let mut reader = Reader::new();
    reader.push(&clip());
    reader.poll_picture().expect("a picture");
    assert_eq!(reader.header().map(|h| h.rate), Some((30000, 1001)));
}

#[test]
fn y4m_error_names_the_fault() {
    let with = |header: &str| read(format!("YUV4MPEG2 {header}\n").as_bytes(), 64);
    assert!(matches!(read(b"RIFF....", 8), Err(Y4mError::Magic)));
    assert!(matches!(
        with("W4"),
        Err(Y4mError::Parameter { key: 'H', .. })
    ));
    assert!(matches!(with("W4 H2 C444"), Err(Y4mError::ColourSpace(_))));
    assert!(matches!(
        with("W4 H2 C420p10"),
        Err(Y4mError::ColourSpace(_))
    ));
    assert!(matches!(with("W4 H2 It"), Err(Y4mError::Interlaced(_))));
    assert!(matches!(with("W5 H2"), Err(Y4mError::Picture(_))));
    assert!(matches!(
        with("W4 H2 F1:0"),
        Err(Y4mError::Parameter { key: 'F', .. })
    ));
    let cut = &clip()[..clip().len() - 1];
    assert!(matches!(
        read(cut, 9),
        Err(Y4mError::Truncated { index: 2, .. })
    ));
    assert!(matches!(
        read(b"", 1),
        Err(Y4mError::Truncated { index: 0, .. })
    ));
}

proptest! {
    #[test]
    fn y4m_answers_any_bytes(tail in proptest::collection::vec(any::<u8>(), 0..200), slice in 1..40usize) {
        let mut bytes = clip()[..61].to_vec();
        bytes.extend_from_slice(&tail);
        let _ = read(&bytes, slice);
        let _ = read(&tail, slice);
    }
}
