//! Which streams a command is about: a name, or a pattern, and labels.

use std::collections::BTreeMap;

use serde_json::Value;
use thalweg_base::id::StreamPattern;
use thalweg_node::Selection;

/// Reads `kind=radar`.
pub fn parse_label(text: &str) -> Result<(String, String), String> {
    let label = text.split_once('=');
    let (key, value) = label.ok_or("write KEY=VALUE, such as kind=radar")?;
    Ok((key.into(), value.into()))
}

/// The parts of a status that have a row for a stream, and the key of its name.
const NAMED: [(&str, &str); 5] = [
    ("streams", "name"),
    ("subscribers", "stream"),
    ("ended", "name"),
    ("plans", "stream"),
    ("routes", "stream"),
];

/// Returns a selection by its options.
pub fn of(pattern: &StreamPattern, labels: &[(String, String)]) -> Selection {
    Selection {
        pattern: pattern.clone(),
        labels: labels.iter().cloned().collect(),
    }
}

/// Leaves in a status only the rows of selected streams. Only announced streams have labels.
pub fn narrow(status: &mut Value, selection: &Selection) {
    let labelled: Vec<Value> = status["streams"].as_array().cloned().unwrap_or_default();
    let is_labelled = |name: &str| {
        let streams = labelled.iter().filter(|stream| stream["name"] == name);
        selection.labels.is_empty()
            || streams
                .into_iter()
                .any(|stream| bears(stream, &selection.labels))
    };
    for (part, key) in NAMED {
        let Some(rows) = status[part].as_array_mut() else {
            continue;
        };
        rows.retain(|row| {
            let name = row[key].as_str().unwrap_or_default();
            let is_matching = name
                .parse()
                .is_ok_and(|name| selection.pattern.matches(&name));
            is_matching && is_labelled(name)
        });
    }
}

fn bears(stream: &Value, labels: &BTreeMap<String, String>) -> bool {
    let stated = &stream["labels"];
    labels.iter().all(|(key, value)| stated[key] == **value)
}
