//! The position of each key in a text.
//!
//! *The idea.* Both parsers can borrow slices of the text: TOML with spans, JSON as raw values,
//! where the position is the distance of the first byte from the start of the text. The tree is
//! flattened into a list of (path, key, value).

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use toml::de::{DeTable, DeValue};

use super::Format;

/// Keys nested deeper than this are not mapped: no file of ours has them.
const DEPTH_MAX: usize = 16;

/// The keys of a text.
#[derive(Default)]
pub(super) struct Map {
    entries: Vec<Entry>,
}

struct Entry {
    path: String,
    depth: usize,
    key: Range<usize>,
    value: Range<usize>,
}

impl Map {
    /// Returns the keys of a text; none if it cannot be parsed.
    pub(super) fn of(text: &str, format: Format) -> Self {
        let mut map = Self::default();
        match format {
            // The parsed part of a broken text still names the key next to the mistake.
            Format::Toml => map.add_table(DeTable::parse_recoverable(text).0.get_ref(), "", 0),
            Format::Json => map.add_json(text, text, "", 0),
        }
        map
    }

    /// Returns the offset of a key, or of the nearest enclosing key.
    pub(super) fn offset_of(&self, path: &str) -> Option<usize> {
        let mut path = path;
        loop {
            if let Some(entry) = self.entries.iter().find(|entry| entry.path == path) {
                return Some(entry.key.start);
            }
            path = &path[..path.rfind(['.', '['])?];
        }
    }

    /// Returns the key with its name at an offset, or else the innermost key with its value there.
    pub(super) fn path_at(&self, offset: usize) -> Option<String> {
        let named = self
            .entries
            .iter()
            .filter(|entry| entry.key.contains(&offset));
        let around = self
            .entries
            .iter()
            .filter(|entry| entry.value.contains(&offset));
        let innermost = named
            .max_by_key(|entry| entry.depth)
            .or_else(|| around.max_by_key(|entry| entry.depth))?;
        Some(innermost.path.clone())
    }

    fn add(&mut self, path: &str, depth: usize, key: Range<usize>, value: Range<usize>) {
        self.entries.push(Entry {
            path: path.to_owned(),
            depth,
            key,
            value,
        });
    }

    fn add_table(&mut self, table: &DeTable<'_>, path: &str, depth: usize) {
        if depth > DEPTH_MAX {
            return;
        }
        for (key, value) in table {
            let path = join(path, key.get_ref());
            self.add(&path, depth, key.span(), value.span());
            self.add_toml(value.get_ref(), &path, depth + 1);
        }
    }

    fn add_toml(&mut self, value: &DeValue<'_>, path: &str, depth: usize) {
        match value {
            DeValue::Table(table) => self.add_table(table, path, depth),
            DeValue::Array(items) if depth <= DEPTH_MAX => {
                for (at, item) in items.iter().enumerate() {
                    let path = format!("{path}[{at}]");
                    self.add(&path, depth, nameless(item.span()), item.span());
                    self.add_toml(item.get_ref(), &path, depth + 1);
                }
            }
            _ => {}
        }
    }

    fn add_json(&mut self, text: &str, value: &str, path: &str, depth: usize) {
        if depth > DEPTH_MAX {
            return;
        }
        if let Ok(Object(members)) = serde_json::from_str::<Object<'_>>(value) {
            for (key, value) in members {
                let path = join(path, &key);
                let place = place(text, value.get());
                let named = match &key {
                    Cow::Borrowed(key) => quoted(self::place(text, key)),
                    Cow::Owned(_) => nameless(place.clone()),
                };
                self.add(&path, depth, named, place);
                self.add_json(text, value.get(), &path, depth + 1);
            }
        } else if let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(value) {
            for (at, item) in items.into_iter().enumerate() {
                let path = format!("{path}[{at}]");
                let place = place(text, item.get());
                self.add(&path, depth, nameless(place.clone()), place);
                self.add_json(text, item.get(), &path, depth + 1);
            }
        }
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

/// Returns the range of a slice in the text.
fn place(text: &str, slice: &str) -> Range<usize> {
    let start = (slice.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    start..start + slice.len()
}

/// Returns the empty range of an array item's name, at the item's start.
fn nameless(item: Range<usize>) -> Range<usize> {
    item.start..item.start
}

/// Returns the range of a string with its quotes: the parser stops after them when it rejects a
/// key.
fn quoted(inside: Range<usize>) -> Range<usize> {
    inside.start.saturating_sub(1)..inside.end + 1
}

/// The members of a JSON object in their order, duplicate keys included.
struct Object<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((Key(key), value)) = map.next_entry::<Key<'de>, &'de RawValue>()? {
                    members.push((key, value));
                }
                Ok(members)
            }
        }

        from.deserialize_map(Members).map(Object)
    }
}

/// A key, borrowed from the text where it has no escapes.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);
