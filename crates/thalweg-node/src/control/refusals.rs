//! Counts refused messages by kind, and keeps the last of each kind as a sentence that names the
//! sender.
//!
//! *The idea.* A misbehaving peer must not fill the log. Each refusal is a line at `debug` and a
//! counter; the status shows the last sentence of each kind.

use std::collections::BTreeMap;

use thalweg_base::limits::SINKS_PER_STREAM_MAX;
use thalweg_control::control::Note;
use tracing::debug;

use crate::status::RefusedStatus;

/// The counters by kind; the kinds below bound their number.
#[derive(Debug, Default)]
pub(super) struct Refusals(BTreeMap<&'static str, (u64, String)>);

impl Refusals {
    /// Counts a refusal and keeps its sentence.
    pub(super) fn count(&mut self, kind: &'static str, sentence: String) {
        debug!(kind, reason = %sentence, "refused");
        let row = self.0.entry(kind).or_default();
        *row = (row.0 + 1, sentence);
    }

    /// Counts a note if it is a refusal; returns whether it is.
    pub(super) fn count_note(&mut self, note: &Note) -> bool {
        let Some((kind, sentence)) = refusal(note) else {
            return false;
        };
        self.count(kind, sentence);
        true
    }

    pub(super) fn status(&self) -> Vec<RefusedStatus> {
        let status = |(kind, (count, last)): (&&'static str, &(u64, String))| RefusedStatus {
            kind,
            count: *count,
            last: last.clone(),
        };
        self.0.iter().map(status).collect()
    }
}

/// Returns the kind and the sentence of a refusal.
fn refusal(note: &Note) -> Option<(&'static str, String)> {
    of_record(note)
        .or_else(|| of_rights(note))
        .or_else(|| of_message(note))
}

fn of_record(note: &Note) -> Option<(&'static str, String)> {
    Some(match note {
        Note::RecordRefused { from, error } => {
            ("record", format!("a record from {}: {error}", from.short()))
        }
        Note::RecordForged { from, node } => {
            let (from, node) = (from.short(), node.short());
            let sentence = format!("{from} passed on a record that {node} has not signed");
            ("record-forged", sentence)
        }
        Note::DescriptionRefused { from, error } => {
            let sentence = format!("a stream's description from {}: {error}", from.short());
            ("description", sentence)
        }
        Note::DescriptionForged { from, node } => {
            let (from, node) = (from.short(), node.short());
            let sentence = format!("{from} passed on a description that {node} has not signed");
            ("description-forged", sentence)
        }
        Note::RecordBorrows { node, stream } => {
            let node = node.short();
            let sentence = format!("{node} announces `{stream}` under an id that is not its own");
            ("record-foreign-stream", sentence)
        }
        Note::RecordUngranted { from, node } => {
            let (from, node) = (from.short(), node.short());
            let sentence = format!("{from} passed on a record of {node}, which has no grant");
            ("record-no-grant", sentence)
        }
        Note::RecordExceeds { from, node } => {
            let (from, node) = (from.short(), node.short());
            let sentence = format!(
                "{from} passed on streams of {node}, whose grant does not include `publish`"
            );
            ("record-unauthorised", sentence)
        }
        _ => return None,
    })
}

fn of_rights(note: &Note) -> Option<(&'static str, String)> {
    Some(match note {
        Note::GrantRefused { from, node, error } => {
            let (from, node) = (from.short(), node.short());
            (
                "grant",
                format!("{from} passed on a grant of {node}: {error}"),
            )
        }
        Note::RevocationRefused { from, node, error } => {
            let (from, node) = (from.short(), node.short());
            let sentence = format!("{from} passed on a revocation of {node}: {error}");
            ("revocation", sentence)
        }
        Note::EnvelopeUngranted { from, sender } => {
            let (from, sender) = (from.short(), sender.short());
            let sentence = format!("{from} brought an envelope of {sender}, which has no grant");
            ("envelope-no-grant", sentence)
        }
        Note::SubscribeRefused { sink } => {
            let sink = sink.short();
            let sentence =
                format!("{sink} asked for a stream, and its grant does not include `subscribe`");
            ("subscribe", sentence)
        }
        Note::SinksFull { sink } => {
            let sink = sink.short();
            let sentence =
                format!("{sink} asked for a stream that has {SINKS_PER_STREAM_MAX} sinks already");
            ("too-many-sinks", sentence)
        }
        _ => return None,
    })
}

fn of_message(note: &Note) -> Option<(&'static str, String)> {
    Some(match note {
        Note::FrameRefused { from, error } => {
            let from = from.short();
            ("frame", format!("a control frame of {from}: {error}"))
        }
        Note::EnvelopeAstray { from } => {
            let from = from.short();
            (
                "envelope-misrouted",
                format!("{from} brought an envelope off its route"),
            )
        }
        Note::EnvelopeForged { sender } => {
            let sender = sender.short();
            (
                "envelope-forged",
                format!("an envelope that {sender} has not signed"),
            )
        }
        Note::EnvelopeRefused { sender, error } => {
            let sender = sender.short();
            ("envelope", format!("an envelope of {sender}: {error}"))
        }
        Note::TraceAstray { from } => {
            let sentence = format!(
                "{} reported a traced path that does not end there, or a trace that was not asked for",
                from.short()
            );
            ("trace-misrouted", sentence)
        }
        Note::AccountAstray { from } => {
            let from = from.short();
            let sentence = format!("{from} sent an account of a plan that does not continue there");
            ("account-misrouted", sentence)
        }
        Note::BranchAstray { from } => {
            let from = from.short();
            let sentence =
                format!("{from} reported on a plan that is not grafted on one through it");
            ("branch-misrouted", sentence)
        }
        Note::AccountDisbelieved { from, error } => {
            let from = from.short();
            ("account", format!("an account of {from}: {error}"))
        }
        _ => return None,
    })
}
