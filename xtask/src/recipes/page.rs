//! A recipe as it is written: what people read, and in HTML comments what only the test needs.
//!
//! ````text
//! ```sh boat                     runs at the node `boat`, in its folder, to the end of the test
//! ```toml boat                   is added to the node's configuration before it starts
//! <!-- try                       once a page, a word and its values a line:
//! nodes boat mast base           the nodes, each linked with the next; `star` links all with the first
//! needs gst-launch-1.0=gstreamer1.0-tools     programs, with their Debian packages
//! like robot-1 robot-2 robot-3   these have the configuration of the first, with their own names
//! replace /dev/ttyUSB0 tty       in all blocks
//! -->
//! <!-- feed … -->                a shell script that plays the outside world; `prepare` runs before
//! <!-- expect … -->              a shell script that succeeds once the recipe has worked
//! ````

use std::collections::BTreeMap;

/// A recipe.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Recipe {
    /// The nodes in order.
    pub nodes: Vec<String>,
    /// Whether all nodes are linked with the first, and not each with the next.
    pub is_star: bool,
    /// Programs that it needs, each with its Debian package.
    pub needs: Vec<(String, String)>,
    /// Scripts that run at a node, in the order of the page.
    pub scripts: Vec<(String, String)>,
    /// What is added to the configuration of a node.
    pub configurations: BTreeMap<String, String>,
    /// What must be there before the nodes start.
    pub prepare: String,
    /// The outside world.
    pub feed: String,
    /// The check.
    pub expect: String,
}

/// What is changed in the blocks of a page.
#[derive(Debug, Default)]
struct Edits {
    replaced: Vec<(String, String)>,
    /// Of each, a node and those that are configured as it is.
    like: Vec<Vec<String>>,
}

/// Reads a page; `None` if it has nothing to try.
///
/// Fails   with a sentence that names the line
pub fn read(text: &str) -> Result<Option<Recipe>, String> {
    let mut recipe = Recipe::default();
    let mut edits = Edits::default();
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let until = |end: &str, lines: &mut dyn Iterator<Item = (usize, &str)>| {
            let mut body = String::new();
            for (_, line) in lines {
                if line == end {
                    return Ok(body);
                }
                body += line;
                body.push('\n');
            }
            Err(format!("line {}: nothing ends this with `{end}`", at + 1))
        };
        if let Some(info) = line.strip_prefix("```") {
            let body = until("```", &mut lines)?;
            match info.split_once(' ') {
                Some(("sh", node)) => recipe.scripts.push((node.to_owned(), body)),
                Some(("toml", node)) => {
                    *recipe.configurations.entry(node.to_owned()).or_default() += &body;
                }
                _ => {}
            }
        } else if let Some(kind) = line.strip_prefix("<!-- ") {
            match kind {
                "try" => recipe.set_up(&until("-->", &mut lines)?, &mut edits)?,
                "prepare" => recipe.prepare = until("-->", &mut lines)?,
                "feed" => recipe.feed = until("-->", &mut lines)?,
                "expect" => recipe.expect = until("-->", &mut lines)?,
                _ => {}
            }
        }
    }
    if recipe.nodes.is_empty() {
        return Ok(None);
    }
    recipe.edit(&edits);
    recipe.check()?;
    Ok(Some(recipe))
}

impl Recipe {
    fn set_up(&mut self, body: &str, edits: &mut Edits) -> Result<(), String> {
        for line in body.lines() {
            let mut words = line.split_whitespace().map(str::to_owned);
            let (word, values) = (words.next().unwrap_or_default(), words.collect::<Vec<_>>());
            match (word.as_str(), &values[..]) {
                ("nodes", _) => self.nodes = values,
                ("star", _) => (self.nodes, self.is_star) = (values, true),
                ("needs", _) => {
                    let pair = |value: &String| {
                        let (program, package) = value.split_once('=').unwrap_or((value, value));
                        (program.to_owned(), package.to_owned())
                    };
                    self.needs.extend(values.iter().map(pair));
                }
                ("like", [_, _, ..]) => edits.like.push(values),
                ("replace", [from, to @ ..]) if !to.is_empty() => {
                    edits.replaced.push((from.clone(), to.join(" ")));
                }
                _ => return Err(format!("`{line}` is no line of a `try`")),
            }
        }
        Ok(())
    }

    fn edit(&mut self, edits: &Edits) {
        for like in &edits.like {
            let [first, others @ ..] = &like[..] else {
                continue;
            };
            let text = self.configurations.get(first).cloned().unwrap_or_default();
            for other in others {
                let own = text.replace(first.as_str(), other);
                self.configurations.insert(other.clone(), own);
            }
        }
        let scripts = self.scripts.iter_mut().map(|(_, script)| script);
        for text in scripts.chain(self.configurations.values_mut()) {
            for (from, to) in &edits.replaced {
                *text = text.replace(from, to);
            }
        }
    }

    fn check(&self) -> Result<(), String> {
        let named = self.scripts.iter().map(|(node, _)| node);
        for node in named.chain(self.configurations.keys()) {
            if !self.nodes.contains(node) {
                return Err(format!(
                    "a block is for `{node}`, which is none of its nodes"
                ));
            }
        }
        if self.expect.is_empty() {
            return Err("it has no `expect`, so nothing would be checked".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! Tests that a page's blocks and comments become what runs.

    use super::*;

    const PAGE: &str = "# T\n```sh base\na /dev/x\n```\n```toml boat\nb = \"/dev/x\"\n```\n\
                        ```sh\nnot run\n```\n<!-- try\nnodes boat base\nneeds gst=gstreamer socat\n\
                        replace /dev/x tty\n-->\n<!-- feed\nc\n-->\n<!-- expect\nd\n-->\n";

    #[test]
    fn page_becomes_recipe() {
        let recipe = read(PAGE).expect("whole").expect("something to try");
        assert_eq!(recipe.nodes, ["boat", "base"]);
        assert_eq!(recipe.scripts, [("base".into(), "a tty\n".into())]);
        assert_eq!(recipe.configurations["boat"], "b = \"tty\"\n");
        let needs = [("gst", "gstreamer"), ("socat", "socat")];
        assert_eq!(recipe.needs, needs.map(|(a, b)| (a.into(), b.into())));
        assert_eq!(
            (recipe.feed.as_str(), recipe.expect.as_str()),
            ("c\n", "d\n")
        );
    }

    #[test]
    fn mistakes_are_named() {
        let wrong = |from: &str, to: &str, part: &str| {
            let why = read(&PAGE.replace(from, to)).expect_err("it is wrong");
            assert!(why.contains(part), "{why}");
        };
        wrong("sh base", "sh mast", "`mast`");
        wrong("<!-- expect", "<!-- expects", "no `expect`");
        wrong("replace /dev/x tty", "replace /dev/x", "no line of a `try`");
        wrong("d\n-->", "d\n", "line 19");
        assert_eq!(read("# Nothing to try\n"), Ok(None));
    }
}
