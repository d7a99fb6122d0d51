//! Keeps the newest run of each benchmark and renders it: `cargo xtask results [FILE…] [--note TEXT]`.
//!
//! *The idea.* `thalweg-bench ID --json` prints one figure a line. Each id in the given files replaces
//! `docs/results/ID.jsonl`, and its note (date, machine, commit) in `docs/results/notes.json`. Then
//! every stored id is rendered into `docs/reference/benchmarks.md`, between `<!-- results ID -->`
//! and `<!-- end -->`. Only the
//! newest run is kept: older ones are in git.
//!
//! *What it does not do.* It measures nothing and judges nothing. A block without a stored run
//! stays as it is.

mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::{Failure, place};

/// The page that holds the tables.
const PAGE: &str = "docs/reference/benchmarks.md";
/// The folder with one file per id, and the notes.
const STORE: &str = "docs/results";
const NOTES: &str = "docs/results/notes.json";
/// A stored run of at most so many bytes is rendered; a full run of the largest benchmark has some 200 kB.
const STORED_BYTES_MAX: u64 = 4 << 20;

/// What is stored: the lines of each id, and the notes.
#[derive(Debug, Default)]
pub struct Store {
    figures: BTreeMap<String, Vec<Value>>,
    notes: BTreeMap<String, String>,
}

/// Stores the runs in the given files, if any, and renders all stored runs.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let (files, note) = parse(arguments)?;
    let root = place::root();
    let mut store = Store::read(&root)?;
    for file in files {
        let text = fs::read_to_string(file)
            .map_err(|error| place::failed("cannot read", Path::new(file), &error))?;
        for id in store.replace(&text, note).map_err(Failure::Misuse)? {
            println!("results: {id} from {file}");
        }
    }
    store.write(&root)?;
    let path = root.join(PAGE);
    let page =
        fs::read_to_string(&path).map_err(|error| place::failed("cannot read", &path, &error))?;
    let rendered = store.render(&page).map_err(Failure::Broken)?;
    fs::write(&path, rendered).map_err(|error| place::failed("cannot write", &path, &error))
}

/// Returns what is wrong with the page's tables; `None` if they are what the stored runs give.
pub fn fault() -> Option<(&'static str, String)> {
    let root = place::root();
    let page = fs::read_to_string(root.join(PAGE)).ok()?;
    let rendered = Store::read(&root)
        .map_err(|failure| match failure {
            Failure::Misuse(sentence) | Failure::Broken(sentence) => sentence,
        })
        .and_then(|store| store.render(&page));
    match rendered {
        Ok(rendered) if rendered == page => None,
        Ok(_) => Some((
            PAGE,
            "differs from docs/results: run `cargo xtask results`".into(),
        )),
        Err(sentence) => Some((PAGE, sentence)),
    }
}

fn parse(arguments: &[String]) -> Result<(Vec<&str>, Option<&str>), Failure> {
    let (mut files, mut note) = (Vec::new(), None);
    let mut words = arguments.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            "--note" => {
                let missing = || Failure::Misuse("`--note` needs a text behind it".into());
                note = Some(words.next().ok_or_else(missing)?);
            }
            _ if word.starts_with('-') => {
                let sentence = format!("`results` takes files and `--note TEXT`, and got `{word}`");
                return Err(Failure::Misuse(sentence));
            }
            file => files.push(file),
        }
    }
    if note.is_some() && files.is_empty() {
        return Err(Failure::Misuse(
            "`--note` says what a file is: name the file too".into(),
        ));
    }
    Ok((files, note))
}

impl Store {
    fn read(root: &Path) -> Result<Store, Failure> {
        let mut store = Store::default();
        let Ok(entries) = fs::read_dir(root.join(STORE)) else {
            return Ok(store);
        };
        for path in entries.flatten().map(|entry| entry.path()) {
            let size = fs::metadata(&path).map_or(0, |meta| meta.len());
            if path.extension().is_none_or(|found| found != "jsonl") || size > STORED_BYTES_MAX {
                continue;
            }
            let text = fs::read_to_string(&path)
                .map_err(|error| place::failed("cannot read", &path, &error))?;
            store.replace(&text, None).map_err(Failure::Broken)?;
        }
        if let Ok(text) = fs::read_to_string(root.join(NOTES)) {
            store.notes = serde_json::from_str(&text)
                .map_err(|error| Failure::Broken(format!("{NOTES} is not JSON: {error}")))?;
        }
        Ok(store)
    }

    fn write(&self, root: &Path) -> Result<(), Failure> {
        if self.figures.is_empty() {
            return Ok(());
        }
        let folder = root.join(STORE);
        fs::create_dir_all(&folder)
            .map_err(|error| place::failed("cannot make", &folder, &error))?;
        for (id, figures) in &self.figures {
            let lines: Vec<String> = figures.iter().map(Value::to_string).collect();
            let path = folder.join(format!("{id}.jsonl"));
            fs::write(&path, lines.join("\n") + "\n")
                .map_err(|error| place::failed("cannot write", &path, &error))?;
        }
        let notes = serde_json::to_string_pretty(&self.notes).expect("strings are always JSON");
        let path = root.join(NOTES);
        fs::write(&path, notes + "\n").map_err(|error| place::failed("cannot write", &path, &error))
    }

    /// Takes the figures of a run in place of those stored for their ids, and returns the ids.
    fn replace(&mut self, lines: &str, note: Option<&str>) -> Result<Vec<String>, String> {
        let mut run: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for (at, line) in lines
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty())
        {
            let figure: Value = serde_json::from_str(line)
                .map_err(|error| format!("line {} is no figure of `--json`: {error}", at + 1))?;
            let (Some(id), Some(_)) = (figure["id"].as_str(), figure["metric"].as_str()) else {
                return Err(format!("line {} has no `id` and `metric`", at + 1));
            };
            if !id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
                return Err(format!("line {}: `{id}` is no id of a benchmark", at + 1));
            }
            run.entry(id.to_owned()).or_default().push(figure);
        }
        let ids: Vec<String> = run.keys().cloned().collect();
        for id in &ids {
            if let Some(note) = note {
                self.notes.insert(id.clone(), note.to_owned());
            }
        }
        self.figures.extend(run);
        Ok(ids)
    }

    /// Returns the page with the block of every stored id replaced by its tables.
    fn render(&self, page: &str) -> Result<String, String> {
        let mut page = page.to_owned();
        for (id, figures) in &self.figures {
            let open = format!("<!-- results {id} -->\n");
            let missing = || {
                format!(
                    "has no block for {id}: write `{}` and `<!-- end -->`",
                    open.trim()
                )
            };
            let start = page.find(&open).ok_or_else(missing)? + open.len();
            let length = page[start..].find("<!-- end -->").ok_or_else(missing)?;
            let tables = table::render(id, figures, self.notes.get(id).map(String::as_str));
            page.replace_range(start..start + length, &tables);
        }
        Ok(page)
    }
}
