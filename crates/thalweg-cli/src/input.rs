//! Reads worlds from files and values from the command line; every error is one sentence.

use std::ffi::OsStr;
use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::Context as _;
use clap::builder::{PossibleValue, TypedValueParser};
use thalweg_base::time::Duration;
use thalweg_base::units::{Bitrate, ParseUnitError, parse_duration};
use thalweg_planner::model::World;
use thalweg_world::Format;

use crate::exit::{Code, Failure, OrCode as _};

/// Reads a text file, up to the size limit of a world or configuration.
pub fn read_text(file: &Path) -> Result<String, Failure> {
    let name = file.display();
    let read = || -> anyhow::Result<String> {
        let bytes = thalweg_net::file::read(file)?;
        String::from_utf8(bytes).context("the file is not UTF-8 text")
    };
    read()
        .with_context(|| format!("cannot read {name}"))
        .or_code(Code::BadInput)
}

/// Parses a rate from the command line. Zero is refused: it would let nothing through, for ever.
pub fn parse_rate(text: &str) -> Result<Bitrate, String> {
    let rate: Bitrate = text
        .parse()
        .map_err(|error: ParseUnitError| error.to_string())?;
    if rate == Bitrate::ZERO {
        return Err("a rate must be above 0".into());
    }
    Ok(rate)
}

/// Parses a time from the command line. Zero is refused.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text).map_err(|error| error.to_string())?;
    if time == Duration::ZERO {
        return Err("a time must be above 0".into());
    }
    Ok(time)
}

/// Returns a parser for whole numbers within `bounds`; its error states the bounds.
pub fn whole<T: TryFrom<u64>>(
    bounds: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| bounds.contains(number));
        let number = number.and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| match (bounds.start(), bounds.end()) {
            (0, &u64::MAX) => "not a whole number".into(),
            (first, last) => format!("not a whole number from {first} to {last}"),
        })
    }
}

/// A value parser with words that a shell's completion offers.
#[derive(Clone)]
pub struct Offering<P> {
    parser: P,
    words: Vec<&'static str>,
}

impl<P> Offering<P> {
    /// Wraps `parser` and offers `words` for completion.
    pub fn new(parser: P, words: impl Iterator<Item = &'static str>) -> Self {
        Self {
            parser,
            words: words.collect(),
        }
    }
}

impl<P: TypedValueParser> TypedValueParser for Offering<P> {
    type Value = P::Value;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<P::Value, clap::Error> {
        self.parser.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let words = self.words.iter().copied();
        Some(Box::new(words.map(PossibleValue::new)))
    }
}

/// Reads a world from a file.
pub fn load_world(file: &Path) -> Result<World, Failure> {
    parse_world(&read_text(file)?, file)
}

/// Reads a world from the text of a file.
pub fn parse_world(text: &str, file: &Path) -> Result<World, Failure> {
    let name = file.display().to_string();
    thalweg_world::load_str(text, Format::of_file_name(&name), &name).or_code(Code::BadInput)
}
