//! Options of earlier versions, refused with the name that they have now.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Each option by its subcommand and its former name, and its present name.
const RENAMED: [(&str, &str, &str); 5] = [
    ("invite", "--lasts", "--rights-for"),
    ("invite", "--open-for", "--valid-for"),
    ("receive", "--no-modes", "--no-preserve"),
    ("send", "--block", "--block-size"),
    ("send", "--open-for", "--valid-for"),
];

/// Names the present option where a mistake is that a former one is unknown.
pub fn explain(mut mistake: clap::Error, subcommand: Option<&str>) -> clap::Error {
    let unknown = match mistake.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(unknown)) if mistake.kind() == ErrorKind::UnknownArgument => {
            unknown.clone()
        }
        _ => return mistake,
    };
    let is_former = |(command, former, _): &&(&str, &str, &str)| {
        subcommand == Some(*command) && unknown == *former
    };
    if let Some((_, former, now)) = RENAMED.iter().find(is_former) {
        let text = format!("'{former}' has another name now: use '{now}'");
        mistake.remove(ContextKind::SuggestedArg);
        mistake.remove(ContextKind::Suggested);
        mistake.insert(
            ContextKind::Suggested,
            ContextValue::StyledStrs(vec![text.into()]),
        );
    }
    mistake
}
