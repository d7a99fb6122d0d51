//! What others said that was not taken: counted by kind, and the last of it as a sentence that names who.
//!
//! *The idea.* A peer that lies is no reason to fill a log: each refusal is a line at `debug`, a counter, and for the
//! person who looks the last sentence of each kind.

use std::collections::BTreeMap;

use thalweg_core::control::Note;
use tracing::debug;

use crate::status::RefusedStatus;

/// The counters; their number is that of the kinds below.
#[derive(Debug, Default)]
pub(super) struct Refusals(BTreeMap<&'static str, (u64, String)>);

impl Refusals {
    /// Counts a refusal of a kind.
    pub(super) fn count(&mut self, kind: &'static str, sentence: String) {
        debug!(kind, reason = %sentence, "refused");
        let row = self.0.entry(kind).or_default();
        *row = (row.0 + 1, sentence);
    }

    /// Counts a note, if it is about something that was refused.
    pub(super) fn count_note(&mut self, note: &Note) -> bool {
        let Some((kind, sentence)) = refusal(note) else {
            return false;
        };
        self.count(kind, sentence);
        true
    }

    pub(super) fn status(&self) -> Vec<RefusedStatus> {
        let status = |(what, (count, last)): (&&'static str, &(u64, String))| RefusedStatus {
            what,
            count: *count,
            last: last.clone(),
        };
        self.0.iter().map(status).collect()
    }
}

/// Returns the kind and the sentence of what a peer got wrong.
fn refusal(note: &Note) -> Option<(&'static str, String)> {
    Some(match note {
        Note::FrameRefused { from, error } => (
            "frame",
            format!("a control frame of {}: {error}", from.short()),
        ),
        Note::RecordRefused { from, error } => {
            ("record", format!("a record from {}: {error}", from.short()))
        }
        Note::RecordForged { from, node } => (
            "record-forged",
            format!(
                "{} passed on a record that {} has not signed",
                from.short(),
                node.short()
            ),
        ),
        Note::RecordBorrows { node, stream } => (
            "record-borrows",
            format!(
                "{} announces `{stream}` under an id that is not its own",
                node.short()
            ),
        ),
        Note::RecordUngranted { from, node } => (
            "record-ungranted",
            format!(
                "{} passed on a record of {}, which has no grant",
                from.short(),
                node.short()
            ),
        ),
        Note::RecordExceeds { from, node } => (
            "record-exceeds",
            format!(
                "{} passed on streams of {}, whose grant does not include `publish`",
                from.short(),
                node.short()
            ),
        ),
        Note::GrantRefused { from, node, error } => (
            "grant",
            format!(
                "{} passed on a grant of {}: {error}",
                from.short(),
                node.short()
            ),
        ),
        Note::RevocationRefused { from, node, error } => (
            "revocation",
            format!(
                "{} passed on a revocation of {}: {error}",
                from.short(),
                node.short()
            ),
        ),
        Note::EnvelopeAstray { from } => (
            "envelope-astray",
            format!("{} brought an envelope off its route", from.short()),
        ),
        Note::EnvelopeForged { sender } => (
            "envelope-forged",
            format!("an envelope that {} has not signed", sender.short()),
        ),
        Note::EnvelopeRefused { sender, error } => (
            "envelope",
            format!("an envelope of {}: {error}", sender.short()),
        ),
        Note::EnvelopeUngranted { from, sender } => (
            "envelope-ungranted",
            format!(
                "{} brought an envelope of {}, which has no grant",
                from.short(),
                sender.short()
            ),
        ),
        Note::SubscribeRefused { sink } => (
            "subscribe",
            format!(
                "{} asked for a stream, and its grant does not include `subscribe`",
                sink.short()
            ),
        ),
        Note::AccountAstray { from } => (
            "account-astray",
            format!(
                "{} sent an account of a plan that does not go on there",
                from.short()
            ),
        ),
        Note::AccountDisbelieved { from, error } => (
            "account",
            format!("an account of {}: {error}", from.short()),
        ),
        _ => return None,
    })
}
