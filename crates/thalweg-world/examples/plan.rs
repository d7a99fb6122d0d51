//! Prints the plan of each stream of a world, as JSON and in words: `plan WORLD`.

#![expect(
    clippy::disallowed_methods,
    reason = "the example has a clock; the planner has none"
)]

use std::time::Instant;

use thalweg_planner::planner::report::Report;
use thalweg_planner::planner::{Policy, explain, plan};
use thalweg_world::{Format, load_str};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: plan WORLD")?;
    let world = load_str(
        &std::fs::read_to_string(&path)?,
        Format::of_file_name(&path),
        &path,
    )?;
    for stream in &world.streams {
        let snapshot = world
            .snapshot(&stream.name)
            .expect("the name is one of the world's");
        let start = Instant::now();
        let (found, shortfalls) = plan(&snapshot, &Policy::default());
        let report = Report::new(&found, &shortfalls, start.elapsed().into());
        println!("{}", serde_json::to_string_pretty(&report)?);
        println!("{}", explain(&snapshot, &found));
    }
    Ok(())
}
