//! Splits a transport stream into ADU payloads and reassembles it:
//! `cargo run --release -p thalweg-media --example remux -- in.ts out.ts [drop]`
//!
//! With `drop`, non-reference pictures are left out, as a congested link would.

use std::{env, fs};

use thalweg_base::adu::Flags;
use thalweg_media::ts::{Publisher, Subscriber};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [input, output, options @ ..] = args.as_slice() else {
        return Err("usage: remux in.ts out.ts [drop]".into());
    };
    let drop = options.first().is_some_and(|option| option == "drop");
    let (mut publisher, mut subscriber) = (Publisher::new(), Subscriber::new());
    let mut out = Vec::new();
    let (mut sent, mut dropped) = (0u64, 0u64);
    let mut take = |publisher: &mut Publisher| -> Result<(), Box<dyn std::error::Error>> {
        while let Some((marks, payload)) = publisher.poll_adu() {
            if drop && marks.flags.contains(Flags::DISCARDABLE) {
                dropped += 1;
                continue;
            }
            sent += 1;
            out.extend_from_slice(&subscriber.handle_payload(&payload)?);
        }
        Ok(())
    };
    for slice in fs::read(input)?.chunks(1000) {
        publisher.push(slice);
        take(&mut publisher)?;
    }
    publisher.finish();
    take(&mut publisher)?;
    fs::write(output, out)?;
    eprintln!(
        "{sent} units sent, {dropped} dropped, {} withheld",
        subscriber.withheld().sum()
    );
    eprintln!("{:?}", publisher.counts());
    Ok(())
}
