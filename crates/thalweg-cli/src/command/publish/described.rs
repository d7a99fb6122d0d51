//! What a published stream says of itself: `--encoding`, `--schema`, `--label`.

use clap::Args;
use thalweg_base::description::Description;

use crate::exit::{Code, Failure, fail};
use crate::selection;

/// The options of a stream's announcement.
#[derive(Clone, Debug, Args)]
pub struct Described {
    /// What a message is, for the subscribers: mpegts, json, text, nmea, bytes, protobuf, or another word
    /// [default: by the format].
    #[arg(long, value_name = "WORD")]
    encoding: Option<String>,

    /// The name of what is encoded, such as a message type.
    #[arg(long, value_name = "TEXT")]
    schema: Option<String>,

    /// A word by which the stream is found, such as kind=radar; may be repeated.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = selection::parse_label)]
    labels: Vec<(String, String)>,
}

impl Described {
    /// Returns what is announced; `encoding` unless the user says otherwise.
    pub fn description(&self, encoding: &str) -> Description {
        Description {
            encoding: self.encoding.clone().unwrap_or_else(|| encoding.into()),
            schema: self.schema.clone().unwrap_or_default(),
            labels: self.labels.iter().cloned().collect(),
        }
    }

    /// Refuses what cannot be announced.
    pub fn check(&self) -> Result<(), Failure> {
        match self.description("").fault() {
            Some((option, why)) => fail(Code::BadInput, format!("--{option}: {why}")),
            None => Ok(()),
        }
    }
}
