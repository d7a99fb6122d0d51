//! `[[ingest]]` and `[[egress]]`: what enters and leaves the fabric here.
//!
//! *The idea.* An entry has a name, a stream and a URL as text. What URLs and formats mean is known
//! to the program that registers inputs and outputs (`ends`), not here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thalweg_base::description::Description;
use thalweg_base::id::StreamName;
use thalweg_base::limits::STREAMS_PER_NODE_MAX;
use thalweg_base::mailbox::{Depth, MailboxOptions, PRIORITY_USUAL, Policy};
use thalweg_base::needs::Needs;
use thalweg_base::units::Bitrate;

/// An input: a stream of this node, and where its messages come from.
#[derive(Clone, Debug, PartialEq)]
pub struct Ingest {
    /// The name by which it is started and stopped; unless configured, that of its stream.
    pub name: StreamName,
    /// The stream.
    pub stream: StreamName,
    /// Where it comes from: a URL or a path, read by the input that is registered for it.
    pub from: String,
    /// How bytes are cut into messages.
    pub format: Option<String>,
    /// What the stream says of itself; without an encoding, the input says it.
    pub description: Description,
    /// The importance of its messages, unless they have their own.
    pub importance: Option<u8>,
    /// The field of a message with its importance.
    pub importance_from: Option<String>,
    /// The field of a message with its time.
    pub time_from: Option<String>,
    /// The field of a message with which a subscriber may begin.
    pub key_from: Option<String>,
    /// Whether data of a transport stream becomes streams of its own, beside its picture.
    pub split_data: bool,
    /// The stream's requirements.
    pub needs: Needs,
    /// The rate that it needs of a link; `None` if it is measured.
    pub bitrate: Option<Bitrate>,
    /// Whether it takes the shortest path, without a plan.
    pub unplanned: bool,
    /// Whether it starts with the node.
    pub enabled: bool,
    /// The folder to which a path in `from` is relative.
    pub folder: PathBuf,
}

/// An output: a stream, and where its messages go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Egress {
    /// The name by which it is started and stopped; unless configured, that of its stream.
    pub name: StreamName,
    /// The stream.
    pub stream: StreamName,
    /// Where it goes: a URL or a path, read by the output that is registered for it.
    pub to: String,
    /// How messages are written; `None` if the stream's encoding decides.
    pub format: Option<String>,
    /// What it asks of its mailbox.
    pub mailbox: MailboxOptions,
    /// Whether it starts with the node.
    pub enabled: bool,
    /// The folder to which a path in `to` is relative.
    pub folder: PathBuf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawIngest {
    name: Option<StreamName>,
    stream: StreamName,
    from: String,
    format: Option<String>,
    encoding: Option<String>,
    schema: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    importance: Option<u8>,
    importance_from: Option<String>,
    time_from: Option<String>,
    key_from: Option<String>,
    split_data: Option<bool>,
    #[serde(default)]
    needs: Needs,
    bitrate: Option<Bitrate>,
    unplanned: Option<bool>,
    enabled: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawEgress {
    name: Option<StreamName>,
    stream: StreamName,
    to: String,
    format: Option<String>,
    policy: Option<Policy>,
    depth: Option<Depth>,
    pull: Option<bool>,
    priority: Option<u8>,
    enabled: Option<bool>,
}

impl RawIngest {
    pub(super) fn resolve(self, folder: &Path) -> Ingest {
        Ingest {
            name: self.name.unwrap_or_else(|| self.stream.clone()),
            stream: self.stream,
            from: self.from,
            format: self.format,
            description: Description {
                encoding: self.encoding.unwrap_or_default(),
                schema: self.schema.unwrap_or_default(),
                labels: self.labels,
            },
            importance: self.importance,
            importance_from: self.importance_from,
            time_from: self.time_from,
            key_from: self.key_from,
            split_data: self.split_data.unwrap_or(false),
            needs: self.needs,
            bitrate: self.bitrate,
            unplanned: self.unplanned.unwrap_or(false),
            enabled: self.enabled.unwrap_or(true),
            folder: folder.to_owned(),
        }
    }

    /// Returns the first wrong key, and why.
    fn fault(&self) -> Option<(String, String)> {
        if let Some((key, why)) = self.needs.fault() {
            return Some((format!("needs.{key}"), why));
        }
        if self.bitrate == Some(Bitrate::ZERO) {
            let why = "a stream's rate must be above zero; leave the key out to have it measured";
            return Some(("bitrate".into(), why.into()));
        }
        let description = Description {
            encoding: self.encoding.clone().unwrap_or_default(),
            schema: self.schema.clone().unwrap_or_default(),
            labels: self.labels.clone(),
        };
        let (key, why) = description.fault()?;
        let key = if key == "label" { "labels" } else { key };
        Some((key.into(), why))
    }
}

impl RawEgress {
    pub(super) fn resolve(self, folder: &Path) -> Egress {
        Egress {
            mailbox: self.mailbox(),
            name: self.name.unwrap_or_else(|| self.stream.clone()),
            stream: self.stream,
            to: self.to,
            format: self.format,
            enabled: self.enabled.unwrap_or(true),
            folder: folder.to_owned(),
        }
    }

    fn mailbox(&self) -> MailboxOptions {
        MailboxOptions {
            policy: self.policy,
            depth: self.depth,
            pull: self.pull.unwrap_or(false),
            priority: self.priority.unwrap_or(PRIORITY_USUAL),
        }
    }
}

/// Returns the key path and the message of the first mistake.
pub(super) fn first_fault(ingest: &[RawIngest], egress: &[RawEgress]) -> Option<(String, String)> {
    let inputs = ingest.iter().map(|one| (&one.name, &one.stream));
    let outputs = egress.iter().map(|one| (&one.name, &one.stream));
    let fault = fault_of_names("ingest", inputs).or_else(|| fault_of_names("egress", outputs));
    fault.or_else(|| {
        let mut inputs = ingest.iter().enumerate();
        let fault = inputs.find_map(|(place, one)| {
            let (key, why) = one.fault()?;
            Some((format!("ingest[{place}].{key}"), why))
        });
        let mut outputs = egress.iter().enumerate();
        fault.or_else(|| {
            outputs.find_map(|(place, one)| {
                let (key, why) = one.mailbox().fault()?;
                Some((format!("egress[{place}].{key}"), why))
            })
        })
    })
}

fn fault_of_names<'a>(
    kind: &str,
    named: impl ExactSizeIterator<Item = (&'a Option<StreamName>, &'a StreamName)>,
) -> Option<(String, String)> {
    if named.len() > STREAMS_PER_NODE_MAX {
        let message = format!("at most {STREAMS_PER_NODE_MAX} of them run on a node");
        return Some((format!("{kind}[{STREAMS_PER_NODE_MAX}]"), message));
    }
    let mut names = BTreeSet::new();
    for (place, (name, stream)) in named.enumerate() {
        let key = if name.is_some() { "name" } else { "stream" };
        let name = name.as_ref().unwrap_or(stream);
        if !names.insert(name) {
            let message =
                format!("another [[{kind}]] is called `{name}`: give this one a `name` of its own");
            return Some((format!("{kind}[{place}].{key}"), message));
        }
    }
    None
}
