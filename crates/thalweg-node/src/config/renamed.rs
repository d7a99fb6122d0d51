//! Keys of earlier versions, refused with the name that they have now.

use thalweg_world::text::TextError;

/// Each key by its former path, and its present name.
const RENAMED: [(&str, &str); 3] = [
    ("tcp.pace", "send_credit"),
    ("tcp.plain", "cleartext_peers"),
    ("fabric.state", "state_file"),
];

/// Names the present key where a mistake is that a former one is unknown.
pub(super) fn explain(mut mistake: TextError) -> TextError {
    let former = RENAMED.iter().find(|(former, _)| *former == mistake.path);
    if let Some((former, now)) = former.filter(|_| mistake.message.starts_with("unknown field")) {
        let name = former.rsplit('.').next().unwrap_or(former);
        mistake.message = format!("`{name}` has another name now: write `{now}`");
    }
    mistake
}
