//! Installs the relay that the test of nodes without a direct path uses.
//!
//! It is the program of iroh's own crate, built once into the cache folder, apart from the workspace,
//! which would otherwise link a second cryptography library. The folder's name contains the version;
//! once the program exists no network is needed. It is built without optimisation, which is faster. If
//! it is missing and cannot be built, the test fails; it is not skipped.

use std::path::PathBuf;

use crate::{Failure, place};

/// The environment variable that tells tests the program.
pub const VARIABLE: &str = "THALWEG_TEST_RELAY";

const CRATE: &str = "iroh-relay";
const VERSION: &str = "1.4.1";

/// Sets up the program and prints its path.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    if let Some(word) = arguments.first() {
        return Err(Failure::Misuse(format!(
            "`relay` takes no argument, but got `{word}`"
        )));
    }
    println!(
        "to run one test by hand: {VARIABLE}={}",
        program()?.display()
    );
    Ok(())
}

/// Returns the program; builds it if missing.
pub fn program() -> Result<PathBuf, Failure> {
    let root = place::cache()?.join(format!("{CRATE}-{VERSION}"));
    let program = root.join("bin").join(CRATE);
    if program.is_file() {
        println!("relay: {} (already there)", program.display());
        return Ok(program);
    }
    println!(
        "building {CRATE} {VERSION} (takes minutes), into {}",
        root.display()
    );
    let mut cargo = place::cargo();
    cargo.args(["install", "--quiet", "--locked", "--debug", CRATE]);
    cargo.args(["--version", VERSION, "--features", "server", "--root"]);
    place::output(cargo.arg(&root))?;
    Ok(program)
}
