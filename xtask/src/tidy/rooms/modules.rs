//! The modules of a crate, and which of them the paths in its code lead to.
//!
//! *The idea.* A path is followed from module to module as far as there are files. What comes then
//! is an item: of that module, or of another that it re-exports from.

use std::collections::{BTreeMap, BTreeSet};

use super::File;
use crate::scan::{self, NamedPath};

/// How often a `pub use` is followed by another.
const HOPS_MAX: usize = 4;

/// One module that is a file.
pub struct Module {
    /// Its path from the root of the repository.
    pub file: String,
    paths: Vec<NamedPath>,
    /// What it re-exports: by name, the path as written.
    exports: BTreeMap<String, Vec<String>>,
}

/// The modules of one crate, by their path in it.
pub struct Modules(BTreeMap<Vec<String>, Module>);

/// Returns the crate in whose `src` a file lies.
pub fn crate_of(path: &str) -> Option<&str> {
    let (folder, _) = path.split_once("/src/")?;
    let name = folder.strip_prefix("crates/").unwrap_or(folder);
    (!name.contains('/')).then_some(name)
}

/// Returns a file's module, from the root of its crate.
fn module_path(path: &str) -> Option<Vec<String>> {
    let (_, inner) = path.split_once("/src/")?;
    let mut segments: Vec<String> = inner
        .strip_suffix(".rs")?
        .split('/')
        .map(str::to_owned)
        .collect();
    let last = segments.last()?.as_str();
    if last == "mod" || segments.len() == 1 && ["lib", "main"].contains(&last) {
        segments.pop();
    }
    Some(segments)
}

impl Modules {
    /// Reads the sources of one crate.
    pub fn new(files: &[&File]) -> Self {
        let mut modules = BTreeMap::new();
        for file in files {
            let Some(path) = module_path(&file.path) else {
                continue;
            };
            let code = file.code();
            let module = Module {
                file: file.path.clone(),
                paths: scan::paths(code),
                exports: exports(code),
            };
            modules.insert(path, module);
        }
        Self(modules)
    }

    pub fn all(&self) -> impl Iterator<Item = (&[String], &Module)> {
        self.0.iter().map(|(path, module)| (&path[..], module))
    }

    /// Returns the file of a module that there is.
    pub fn file(&self, path: &[String]) -> &str {
        &self.0[path].file
    }

    /// Returns the modules of the crate to which a module's paths lead, each with the line of one of them.
    pub fn imports(&self, from: &[String]) -> Vec<(Vec<String>, usize)> {
        let mut seen = BTreeSet::new();
        let mut found = Vec::new();
        for path in &self.0[from].paths {
            let target = self.resolve(from, &path.segments, HOPS_MAX);
            if let Some(target) = target.filter(|target| target != from)
                && seen.insert(target.clone())
            {
                found.push((target, path.line));
            }
        }
        found
    }

    fn resolve(&self, from: &[String], segments: &[String], hops: usize) -> Option<Vec<String>> {
        let mut at = from.to_vec();
        let mut rest = segments;
        match rest.first()?.as_str() {
            "crate" => at.clear(),
            "self" => {}
            "super" => {
                at.pop()?;
            }
            // A child by its name; any other word is a local, or another crate.
            name if rest.len() > 1 && self.has(&at, name) => at.push(name.to_owned()),
            _ => return None,
        }
        rest = &rest[1..];
        while let Some(segment) = rest.first() {
            match segment.as_str() {
                "super" => {
                    at.pop()?;
                }
                "self" => {}
                name if self.has(&at, name) => at.push(name.to_owned()),
                name => {
                    let export = self.0.get(&at)?.exports.get(name);
                    let through = export.filter(|_| hops > 0);
                    let through = through.and_then(|path| self.resolve(&at, path, hops - 1));
                    return Some(through.unwrap_or(at));
                }
            }
            rest = &rest[1..];
        }
        self.0.contains_key(&at).then_some(at)
    }

    fn has(&self, parent: &[String], name: &str) -> bool {
        let mut path = parent.to_vec();
        path.push(name.to_owned());
        self.0.contains_key(&path)
    }
}

/// Returns what `pub use` gives out, by name.
fn exports(code: &str) -> BTreeMap<String, Vec<String>> {
    let mut exports = BTreeMap::new();
    for at in scan::words(code, "use") {
        let line = &code[code[..at].rfind(['\n', ';', '}']).map_or(0, |end| end + 1)..at];
        let end = code[at..].find(';').map_or(code.len(), |end| at + end + 1);
        if line.trim_start().starts_with("pub") {
            for path in scan::paths(&code[at..end]) {
                if let Some(name) = path.segments.last() {
                    exports.insert(name.clone(), path.segments.clone());
                }
            }
        }
    }
    exports
}
