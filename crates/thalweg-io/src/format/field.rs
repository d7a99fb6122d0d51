//! Fields of a JSON message that set its marks: importance, time, and whether a receiver may begin with it.
//!
//! *The idea.* A [`Field`] is a path such as `.status.severity`. Fields that are missing or of another type
//! leave the stream's own value, are counted, and told once.
//!
//! *What it does not do.* It changes no message.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde_json::Value;
use thalweg_base::adu::{Flags, Importance, MediaTime};
use thalweg_media::Marks;

/// Names in the path of a field: messages that are nested deeper are rare.
const NAMES_MAX: usize = 16;

/// Where a value stands in a JSON message: `.severity`, `.position.0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field(Vec<String>);

/// The text names no field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` names no field: write a dot before each name, as in `.severity` or `.status.severity`"
)]
pub struct BadField(String);

/// The fields that messages are read for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// The importance, 0 to 255.
    pub importance: Option<Field>,
    /// The time, in seconds.
    pub time: Option<Field>,
    /// Whether a receiver may begin with the message: true, or a number that is not 0.
    pub key: Option<Field>,
}

/// Reads fields of messages, and counts what is wrong with them.
#[derive(Clone, Debug)]
pub struct FieldReader {
    fields: Fields,
    last_time: MediaTime,
    wrong: BTreeMap<String, u64>,
}

impl Field {
    /// Returns the value at this place.
    fn of<'a>(&self, message: &'a Value) -> Option<&'a Value> {
        self.0.iter().try_fold(message, |value, name| match value {
            Value::Object(map) => map.get(name),
            Value::Array(list) => list.get(name.parse::<usize>().ok()?),
            _ => None,
        })
    }
}

impl FromStr for Field {
    type Err = BadField;

    fn from_str(text: &str) -> Result<Self, BadField> {
        let bad = || BadField(text.chars().take(super::SHOWN_MAX).collect());
        let names = text.strip_prefix('.').ok_or_else(bad)?;
        let names: Vec<String> = names.split('.').map(str::to_owned).collect();
        if names.len() > NAMES_MAX || names.iter().any(String::is_empty) {
            return Err(bad());
        }
        Ok(Self(names))
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|name| write!(f, ".{name}"))
    }
}

impl Fields {
    /// Returns whether any field is read.
    pub const fn is_empty(&self) -> bool {
        self.importance.is_none() && self.time.is_none() && self.key.is_none()
    }
}

impl FieldReader {
    /// Returns a reader of these fields.
    pub const fn new(fields: Fields) -> Self {
        Self {
            fields,
            last_time: MediaTime::from_micros(0),
            wrong: BTreeMap::new(),
        }
    }

    /// Sets the marks that the message's fields say; returns sentences about what is wrong, each once.
    ///
    /// Cost    O(bytes) with allocations; none if no field is read
    pub fn apply(&mut self, message: &[u8], marks: &mut Marks) -> Vec<String> {
        if self.fields.is_empty() {
            return Vec::new();
        }
        let Self {
            fields,
            last_time,
            wrong,
        } = self;
        let Ok(value) = serde_json::from_slice::<Value>(message) else {
            let told = count(
                wrong,
                "a message is not JSON, so no field of it can be read".into(),
            );
            return told.into_iter().collect();
        };
        let mut told = Vec::new();
        if let Some(field) = &fields.importance {
            match read(field, &value, "a number from 0 to 255", importance) {
                Ok(importance) => marks.importance = importance,
                Err(what) => told.extend(count(wrong, what)),
            }
        }
        if let Some(field) = &fields.key {
            match read(field, &value, "true, false or a number", key) {
                Ok(true) => marks.flags = marks.flags.with(Flags::KEY),
                Ok(false) => {}
                Err(what) => told.extend(count(wrong, what)),
            }
        }
        if let Some(field) = &fields.time {
            match read(field, &value, "a number of seconds", time) {
                Ok(time) => {
                    if time < *last_time {
                        told.extend(count(wrong, format!("the time in {field} goes back")));
                    }
                    *last_time = time;
                    (marks.media_time, marks.decode_time) = (time, time);
                }
                Err(what) => told.extend(count(wrong, what)),
            }
        }
        told
    }

    /// Returns what was wrong, each with its count.
    pub fn wrong(&self) -> impl Iterator<Item = (&str, u64)> {
        self.wrong
            .iter()
            .map(|(what, count)| (what.as_str(), *count))
    }
}

/// Counts what is wrong; returns it if it is new. Kinds are bounded by the three fields.
fn count(counts: &mut BTreeMap<String, u64>, what: String) -> Option<String> {
    if let Some(count) = counts.get_mut(&what) {
        *count += 1;
        return None;
    }
    counts.insert(what.clone(), 1);
    Some(what)
}

fn read<T>(
    field: &Field,
    message: &Value,
    wanted: &str,
    read: fn(&Value) -> Option<T>,
) -> Result<T, String> {
    let value = field.of(message);
    let value = value.ok_or_else(|| format!("a message has no field {field}"))?;
    read(value).ok_or_else(|| format!("the field {field} of a message is not {wanted}"))
}

fn importance(value: &Value) -> Option<Importance> {
    let number = value.as_f64()?;
    (0.0..=255.0)
        .contains(&number)
        .then_some(Importance(number as u8))
}

fn time(value: &Value) -> Option<MediaTime> {
    let seconds = value.as_f64()?;
    let micros = seconds * 1e6;
    (0.0..=MediaTime::MAX.as_micros() as f64)
        .contains(&micros)
        .then(|| MediaTime::from_micros(micros.round() as u64))
}

fn key(value: &Value) -> Option<bool> {
    value.as_bool().or_else(|| Some(value.as_f64()? != 0.0))
}
