//! Simulates generated worlds: a fixed set in every check, and as many as time allows in a soak.
//!
//! The fixed set is 1,000 worlds of seconds and 60 of a minute. Both run the example `soak` of
//! `thalweg-sim` as a release build that links neither sockets nor the node. It stops at the first
//! violation and prints the command that replays the world.

use crate::{Failure, place};

/// The default first seed of a soak: after the seeds of the fixed set.
const FIRST: u64 = 1_000;

/// The seeds of the fixed set.
const CHECKED: &str = "0..1000";

/// The seeds of the minute-long worlds, which take a hundred times as long.
const CHECKED_LONG: &str = "0..60";

/// The parsed command line.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    minutes: u64,
    first: u64,
    is_long: bool,
}

/// Simulates worlds for the requested minutes.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let Options {
        minutes,
        first,
        is_long,
    } = parse(arguments)?;
    let (seeds, minutes) = (format!("{first}.."), minutes.to_string());
    let mut words = vec!["--seeds", &seeds, "--minutes", &minutes];
    if is_long {
        words.push("--long");
    }
    soak(&words)
}

/// Simulates the fixed set.
pub fn check() -> Result<(), Failure> {
    soak(&["--seeds", CHECKED])?;
    soak(&["--long", "--seeds", CHECKED_LONG])
}

fn parse(arguments: &[String]) -> Result<Options, Failure> {
    let mut options = Options {
        minutes: 0,
        first: FIRST,
        is_long: false,
    };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let misuse = |sentence: &str| Failure::Misuse(format!("`{word}` {sentence}"));
        let slot = match word.as_str() {
            "--minutes" => &mut options.minutes,
            "--from" => &mut options.first,
            "--long" => {
                options.is_long = true;
                continue;
            }
            _ => {
                return Err(misuse(
                    "is not an option of soak, which has --minutes, --from and --long",
                ));
            }
        };
        let number = words.next().and_then(|number| number.parse().ok());
        *slot = number.ok_or_else(|| misuse("needs a whole number"))?;
    }
    if options.minutes == 0 {
        return Err(Failure::Misuse(
            "soak needs `--minutes N`, with N above 0".into(),
        ));
    }
    Ok(options)
}

fn soak(arguments: &[&str]) -> Result<(), Failure> {
    let mut command = place::cargo();
    command.args([
        "run",
        "--release",
        "--locked",
        "--package",
        "thalweg-sim",
        "--example",
        "soak",
        "--",
    ]);
    command.args(arguments);
    let shown = place::show(&command);
    println!("$ {shown}");
    let status = command
        .status()
        .map_err(|error| Failure::Broken(format!("`{shown}` did not start: {error}")))?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::Broken(format!(
            "violation, see above: `{shown}` ({status})"
        )))
    }
}

#[cfg(test)]
mod tests {
    //! Tests the parsing of the command line.

    use super::{FIRST, Options, parse};

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn command_line_is_parsed() {
        let options = |minutes, first| Options {
            minutes,
            first,
            is_long: false,
        };
        assert_eq!(
            parse(&words("--minutes 5")).expect("enough"),
            options(5, FIRST)
        );
        assert_eq!(
            parse(&words("--from 9 --minutes 1")).expect("enough"),
            options(1, 9)
        );
        let long = Options {
            is_long: true,
            ..options(2, FIRST)
        };
        assert_eq!(parse(&words("--long --minutes 2")).expect("enough"), long);
        for bad in [
            "",
            "--long",
            "--minutes",
            "--minutes 0",
            "--minutes x",
            "--seeds 0..9",
        ] {
            assert!(parse(&words(bad)).is_err(), "{bad}");
        }
    }
}
