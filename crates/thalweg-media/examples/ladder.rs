//! Prints what each layer of the layered video costs and gains on the built-in scene, and how long
//! coding takes: `cargo run --release -p thalweg-media --example ladder -- 352 288 1000 1000 1500
//! 2000 3000 5000 9000 16000`

#![expect(
    clippy::disallowed_methods,
    reason = "the example measures; the library that it measures takes no time"
)]

use std::time::{Duration, Instant};

use bytes::Bytes;
use thalweg_media::layered::{Encoder, decode};
use thalweg_media::picture::{PsnrMean, psnr};
use thalweg_media::scene::Scene;

const FRAMES: u64 = 24;
const BUDGETS: [usize; 8] = [1000, 1000, 1500, 2000, 3000, 5000, 9000, 16000];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let numbers = std::env::args().skip(1).map(|a| a.parse::<usize>());
    let numbers = numbers.collect::<Result<Vec<_>, _>>()?;
    let (width, height, budgets) = match numbers.as_slice() {
        [] => (352, 288, BUDGETS.to_vec()),
        [width, height] => (*width, *height, BUDGETS.to_vec()),
        [width, height, budgets @ ..] => (*width, *height, budgets.to_vec()),
        [_] => return Err("usage: ladder [width height [layer bytes …]]".into()),
    };
    let scene = Scene::new(width as u32, height as u32)?;
    let encoder = Encoder::new(width as u32, height as u32, &budgets)?;
    let mut rows = vec![(PsnrMean::default(), 0usize, usize::MAX, Duration::ZERO); budgets.len()];
    let (mut drawing, mut encoding) = (Duration::ZERO, Duration::ZERO);
    let mut frozen = 0.0;
    for index in 0..FRAMES {
        let start = Instant::now();
        let picture = scene.frame(index * 7);
        drawing += start.elapsed();
        frozen += psnr(&picture, &scene.frame(index * 7 + 12))?.y_db / FRAMES as f64;
        let start = Instant::now();
        let layers = encoder.encode(&picture)?;
        encoding += start.elapsed();
        for (last, (mean, most, least, decoding)) in rows.iter_mut().enumerate() {
            let bytes = layers[..=last].iter().map(Bytes::len).sum::<usize>();
            (*most, *least) = ((*most).max(bytes), (*least).min(bytes));
            let start = Instant::now();
            let decoded = decode(&layers[..=last])?;
            *decoding += start.elapsed();
            mean.add(&picture, &decoded)?;
        }
    }
    let ms = |d: Duration| d.as_secs_f64() * 1e3 / FRAMES as f64;
    println!(
        "{width}x{height}, {FRAMES} frames: draw {:.1} ms, encode {:.1} ms; a second frozen: {frozen:.1} dB",
        ms(drawing),
        ms(encoding)
    );
    println!("layers  budget    least     most      Y      Cb      Cr dB  decode ms");
    let mut budget = 0;
    for (last, (mean, most, least, decoding)) in rows.iter().enumerate() {
        budget += budgets[last];
        let db = mean.mean_of_db().ok_or("no frames")?;
        println!(
            "{:6} {budget:7} {least:8} {most:8} {:7.2} {:7.2} {:7.2} {:9.1}",
            last + 1,
            db.y_db,
            db.cb_db,
            db.cr_db,
            ms(*decoding)
        );
    }
    Ok(())
}
