//! Brings the relay that the test of nodes without a way to one another speaks to.
//!
//! *The idea.* It is the program of iroh's own crate, built once into the cache folder, apart from the workspace: linked into
//! that it would bring a second cryptography with it. The folder's name holds the version, and with the program in it no network
//! is needed. It is built without optimisation, for that is sooner done.
//!
//! *What it does not do.* It never leaves the test out: without the program and without a way to make it, it fails.

use std::path::PathBuf;

use crate::{Failure, place};

/// The environment variable through which tests learn the program.
pub const VARIABLE: &str = "THALWEG_TEST_RELAY";

const CRATE: &str = "iroh-relay";
const VERSION: &str = "1.4.1";

/// Sets up the program and says where it is.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    if let Some(word) = arguments.first() {
        return Err(Failure::Misuse(format!(
            "`relay` takes no argument, and got `{word}`"
        )));
    }
    println!(
        "to run one test by hand: {VARIABLE}={}",
        program()?.display()
    );
    Ok(())
}

/// Returns the program, built now if it is not there yet.
pub fn program() -> Result<PathBuf, Failure> {
    let root = place::cache()?.join(format!("{CRATE}-{VERSION}"));
    let program = root.join("bin").join(CRATE);
    if program.is_file() {
        println!("relay: {} (already there)", program.display());
        return Ok(program);
    }
    println!(
        "building {CRATE} {VERSION} (some minutes), into {}",
        root.display()
    );
    let mut cargo = place::cargo();
    cargo.args(["install", "--quiet", "--locked", "--debug", CRATE]);
    cargo.args(["--version", VERSION, "--features", "server", "--root"]);
    place::output(cargo.arg(&root))?;
    Ok(program)
}
