//! Writes frames of the built-in scene as YUV4MPEG2 to standard output:
//! `cargo run --release -p thalweg-media --example scene -- 352 288 120 > scene.y4m`

use std::io::{self, Write};

use thalweg_media::scene::{RATE, Scene};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut numbers = std::env::args().skip(1).map(|a| a.parse::<u32>());
    let mut next = |default| numbers.next().unwrap_or(Ok(default));
    let (width, height, frames) = (next(352)?, next(288)?, next(120)?);
    let scene = Scene::new(width, height)?;
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "YUV4MPEG2 W{width} H{height} F{RATE}:1 Ip A1:1 C420jpeg"
    )?;
    for index in 0..u64::from(frames) {
        let picture = scene.frame(index);
        out.write_all(b"FRAME\n")?;
        for plane in picture.planes() {
            out.write_all(plane.samples)?;
        }
    }
    Ok(())
}
