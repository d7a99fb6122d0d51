//! The file of committed counts, and the comparison with new ones.

use std::collections::BTreeMap;

/// The relative growth that is allowed.
const TOLERANCE: f64 = 0.02;

/// The same for cache lines, which depend on addresses too.
const TOLERANCE_OF_LINES: f64 = 0.1;

/// The file's header.
const HEAD: &str = "\
# Instructions of one round of each hot path of thalweg-bench (an ADU, a record, a plan), modules at 1,000 B.
# [lines]: cache lines of one round that a first cache of 32 KiB does not have.
# `cargo xtask instructions` refuses a count that is more than 2 % above, 10 % for lines; `--write` rewrites
# this file.
# Counts depend on these tools. With another rustc or libc nothing is compared; with another cc or valgrind
# only [rust].
";

/// Counts by name.
pub type Counts = BTreeMap<String, (Kind, f64)>;

/// The languages of a path's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only Rust.
    Rust,
    /// C or assembly in part.
    WithC,
    /// Cache lines, not instructions.
    Lines,
}

/// Tool versions that counts depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tools {
    pub rustc: String,
    pub libc: String,
    pub cc: String,
    pub valgrind: String,
}

/// The contents of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ratchet {
    pub tools: Tools,
    pub counts: Counts,
}

/// The result of a comparison.
#[derive(Debug, Default)]
pub struct Verdict {
    /// For information.
    pub notes: Vec<String>,
    /// To be fixed.
    pub faults: Vec<String>,
}

impl Ratchet {
    /// Parses the file. Unknown lines are ignored; a count that is then missing is a fault.
    pub fn read(text: &str) -> Self {
        let mut ratchet = Self::default();
        let mut kind = None;
        for line in text.lines() {
            kind = match line.trim() {
                "[rust]" => Some(Kind::Rust),
                "[with_c]" => Some(Kind::WithC),
                "[lines]" => Some(Kind::Lines),
                _ => kind,
            };
            let Some((key, value)) = line.split_once('=') else {
                continue;
            };
            let (key, value) = (key.trim(), value.trim());
            match (kind, value.parse::<f64>()) {
                (Some(kind), Ok(count)) => {
                    ratchet.counts.insert(key.to_owned(), (kind, count));
                }
                (None, _) => ratchet.tools.set(key, value.trim_matches('"')),
                (Some(_), Err(_)) => {}
            }
        }
        ratchet
    }

    /// Returns the file's text.
    pub fn text(&self) -> String {
        let mut text = HEAD.to_owned();
        for (name, version) in self.tools.named() {
            text += &[name, " = \"", &version.replace('"', "'"), "\"\n"].concat();
        }
        let sections = [
            ("rust", Kind::Rust),
            ("with_c", Kind::WithC),
            ("lines", Kind::Lines),
        ];
        for (section, kind) in sections {
            text += &["\n[", section, "]\n"].concat();
            for (name, (_, count)) in self.counts.iter().filter(|(_, entry)| entry.0 == kind) {
                text += &[name, " = ", &format!("{count:.1}"), "\n"].concat();
            }
        }
        text
    }
}

impl Tools {
    fn named(&self) -> [(&'static str, &str); 4] {
        [
            ("rustc", &self.rustc),
            ("libc", &self.libc),
            ("cc", &self.cc),
            ("valgrind", &self.valgrind),
        ]
    }

    fn set(&mut self, name: &str, version: &str) {
        let place = match name {
            "rustc" => &mut self.rustc,
            "libc" => &mut self.libc,
            "cc" => &mut self.cc,
            "valgrind" => &mut self.valgrind,
            _ => return,
        };
        version.clone_into(place);
    }

    /// Returns the name of each tool whose version differs from the file's, with a message.
    fn other_than(&self, written: &Self) -> Vec<(&'static str, String)> {
        let pairs = self.named().into_iter().zip(written.named());
        pairs
            .filter(|((_, now), (_, then))| now.replace('"', "'") != *then)
            .map(|((name, now), (_, then))| (name, format!("{name} is `{now}`, and was `{then}`")))
            .collect()
    }
}

/// Compares counts with the committed ones.
pub fn compare(written: &Ratchet, now: &Ratchet) -> Verdict {
    let mut verdict = Verdict::default();
    let others = now.tools.other_than(&written.tools);
    let is_all = |name: &str| ["rustc", "libc"].contains(&name);
    if others.iter().any(|(name, _)| is_all(name)) {
        let sentences: Vec<&str> = others.iter().map(|(_, text)| text.as_str()).collect();
        verdict.notes.push(format!(
            "instructions: nothing is compared, because the counts were made with other tools: {}; run `cargo xtask instructions --write` on a trusted commit",
            sentences.join("; ")
        ));
        return verdict;
    }
    let mut compared = 0;
    for (name, (kind, count)) in &now.counts {
        match written.counts.get(name) {
            None => verdict.faults.push(format!(
                "{name}: {count:.1} instructions, but no count is committed"
            )),
            Some(_) if *kind != Kind::Rust && !others.is_empty() => {
                let (_, sentence) = &others[0];
                verdict
                    .notes
                    .push(format!("{name}: not compared, because {sentence}"));
            }
            Some((_, before)) => {
                compared += 1;
                verdict.compare_count(name, *kind, *before, *count);
            }
        }
    }
    for name in written
        .counts
        .keys()
        .filter(|name| !now.counts.contains_key(*name))
    {
        verdict.faults.push(format!(
            "{name}: a count is committed, but there is no such hot path"
        ));
    }
    let sum = format!(
        "instructions: {compared} counts compared, {} faults",
        verdict.faults.len()
    );
    verdict.notes.push(sum);
    verdict
}

impl Verdict {
    fn compare_count(&mut self, name: &str, kind: Kind, before: f64, now: f64) {
        let (what, tolerance) = match kind {
            Kind::Rust | Kind::WithC => ("instructions", TOLERANCE),
            Kind::Lines => ("cache lines", TOLERANCE_OF_LINES),
        };
        let change = 100.0 * (now / before - 1.0);
        let line = format!("{name}: {now:.1} {what}, {before:.1} committed ({change:+.1} %)");
        if now > before * (1.0 + tolerance) {
            let percent = 100.0 * tolerance;
            self.faults
                .push(format!("{line}: more than {percent} % worse"));
        } else if now < before * (1.0 - tolerance) {
            self.notes
                .push(line + ": better; `cargo xtask instructions --write` commits it");
        }
    }
}
